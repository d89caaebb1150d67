/*
 * exec and attach: the channel protocol of Kubernetes over WebSocket (v5 and v4) on one side, the guest protocol on
 * the other. Both sides may be slow: each is paused while the other is behind, so that nothing is dropped and nothing
 * piles up.
 */
#include "gateway/internal.h"

#include "apiserver/api_error.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"
#include "sandbox/paths.h"
#include "wire/guest_client.h"
#include "wire/websocket.h"

#include <event2/event.h>
#include <signal.h>
#include <strings.h>

#define MESSAGE_MAX_BYTES (4u << 20)
/* Above these the faster side waits. */
#define OUTPUT_HIGH_BYTES (1u << 20)
#define INPUT_HIGH_BYTES (256u << 10)
/* What a client leaves behind gets SIGHUP, and this much later SIGKILL. */
#define HANGUP_GRACE_S 2
/* For the guest's first word. It has nothing to do but answer; one that is stuck must not keep clients for ever. */
#define ANSWER_S 30

enum channel { CHANNEL_STDIN, CHANNEL_STDOUT, CHANNEL_STDERR, CHANNEL_ERROR, CHANNEL_RESIZE, CHANNEL_CLOSE = 255 };

struct session {
    struct websocket *ws; /* NULL once the client has gone */
    struct guest_client *guest;
    struct event *hangup; /* armed when the client went away from a process it started */
    struct event *answer; /* armed until the guest has said something */
    bool attach, v5, with_stdin, with_stdout, with_stderr;
    bool started, guest_paused, ws_paused;
};

static void session_free(struct session *s)
{
    guest_client_free(s->guest);
    if (s->hangup)
        event_free(s->hangup);
    if (s->answer)
        event_free(s->answer);
    free(s);
}

static bool flag(const struct http_request *req, const char *name)
{
    const char *v = http_query(req, name);

    return v && !streq(v, "0") && strcasecmp(v, "false") != 0;
}

/* To the client. */

static void send_channel(struct session *s, uint8_t channel, const void *data, size_t len)
{
    if (!s->ws)
        return;
    websocket_send2(s->ws, true, &channel, 1, data, len);
    if (websocket_pending(s->ws) > OUTPUT_HIGH_BYTES && !s->guest_paused) {
        s->guest_paused = true;
        guest_client_pause(s->guest);
    }
}

/* The Status on the error channel, then the end. */
static void send_status(struct session *s, struct json *status)
{
    _cleanup_free_ char *text = json_text(status);

    send_channel(s, CHANNEL_ERROR, text, strlen(text));
    json_unref(status);
    if (s->ws)
        websocket_close(s->ws, 1000, NULL);
}

static struct json *exit_status(int code)
{
    if (code == 0)
        return json_build("{s:{}, s:s}", "metadata", "status", "Success");
    _cleanup_free_ char *number = xasprintf("%d", code);
    _cleanup_free_ char *message = xasprintf("command terminated with exit code %d", code);

    return json_build("{s:{}, s:s, s:s, s:s, s:{s:[{s:s, s:s}]}}", "metadata", "status", "Failure", "message", message,
                      "reason", "NonZeroExitCode", "details", "causes", "reason", "ExitCode", "message", number);
}

/* From the guest. */

static void on_started(void *arg, const char *id UNUSED, uint32_t pid UNUSED)
{
    struct session *s = arg;

    s->started = true;
    (void)evtimer_del(s->answer);
}

static void on_output(void *arg, enum guest_stream stream, uint64_t offset UNUSED, const void *data, size_t len)
{
    struct session *s = arg;

    if (stream == GUEST_STREAM_STDOUT ? s->with_stdout : s->with_stderr)
        send_channel(s, stream == GUEST_STREAM_STDOUT ? CHANNEL_STDOUT : CHANNEL_STDERR, data, len);
}

static void on_dropped(void *arg, enum guest_stream stream UNUSED, uint64_t bytes)
{
    struct session *s = arg;
    _cleanup_free_ char *text = xasprintf("\n[%llu bytes of output were dropped]\n", (unsigned long long)bytes);

    send_channel(s, s->with_stderr ? CHANNEL_STDERR : CHANNEL_STDOUT, text, strlen(text));
}

/* Both ends report their end; whoever is last frees the session. */
static void guest_ended(struct session *s)
{
    guest_client_free(s->guest);
    s->guest = NULL;
    if (!s->ws)
        session_free(s);
}

static void on_exited(void *arg, const struct guest_exit *e)
{
    struct session *s = arg;

    send_status(s, exit_status(e->code));
    guest_ended(s);
}

/*
 * A command that cannot be started reads like a shell's: a line on stderr and 126 or 127, so that scripts can tell it
 * from a broken connection.
 */
static void on_failed(void *arg, const struct error *err)
{
    struct session *s = arg;

    if (!s->started && !s->attach && err->code != ECONNRESET && err->code != EPROTO) {
        _cleanup_free_ char *text = xasprintf("holt: %s\n", error_text(err));
        send_channel(s, s->with_stderr ? CHANNEL_STDERR : CHANNEL_STDOUT, text, strlen(text));
        send_status(s, exit_status(err->code == ENOENT ? 127 : 126));
    } else {
        send_status(s, err->code == ESRCH ? status_failure(404, "NotFound", error_text(err), NULL)
                                          : status_internal("%s", error_text(err)));
    }
    guest_ended(s);
}

static void on_no_answer(evutil_socket_t fd UNUSED, short what UNUSED, void *arg)
{
    struct session *s = arg;

    send_status(s, status_internal("the sandbox has not answered for %d seconds", ANSWER_S));
    guest_ended(s);
}

static void on_input_drained(void *arg)
{
    struct session *s = arg;

    if (s->ws && s->ws_paused) {
        s->ws_paused = false;
        websocket_pause(s->ws, false);
    }
}

/* From the client. */

static void resize(struct session *s, const char *text, size_t len)
{
    _cleanup_json_ struct json *size = json_parse(text, len, NULL);
    int64_t rows = 0, cols = 0;

    /* Names differ in case between clients. */
    for (struct json_iter it = {0}; json_each(size, &it);) {
        if (strcasecmp(it.key, "height") == 0)
            rows = json_int_or(it.value, 0);
        else if (strcasecmp(it.key, "width") == 0)
            cols = json_int_or(it.value, 0);
    }
    if (rows > 0 && rows <= UINT16_MAX && cols > 0 && cols <= UINT16_MAX)
        guest_client_resize(s->guest, (uint16_t)rows, (uint16_t)cols);
}

static void on_message(void *arg, struct websocket *ws, bool binary UNUSED, const char *data, size_t len)
{
    struct session *s = arg;

    if (len == 0 || !s->guest)
        return;
    switch ((uint8_t)data[0]) {
    case CHANNEL_STDIN:
        if (!s->with_stdin || len == 1)
            return;
        guest_client_stdin(s->guest, data + 1, len - 1);
        if (guest_client_pending(s->guest) > INPUT_HIGH_BYTES && !s->ws_paused) {
            s->ws_paused = true;
            websocket_pause(ws, true);
        }
        return;
    case CHANNEL_RESIZE:
        resize(s, data + 1, len - 1);
        return;
    case CHANNEL_CLOSE:
        if (s->v5 && len == 2 && data[1] == CHANNEL_STDIN && s->with_stdin)
            guest_client_stdin_eof(s->guest);
        return;
    default:
        return; /* channels nobody listens to */
    }
}

static void on_output_drained(void *arg, struct websocket *ws UNUSED)
{
    struct session *s = arg;

    if (s->guest && s->guest_paused) {
        s->guest_paused = false;
        guest_client_resume(s->guest);
    }
}

static void on_hangup_timeout(evutil_socket_t fd UNUSED, short what UNUSED, void *arg)
{
    struct session *s = arg;

    guest_client_signal(s->guest, SIGKILL, GUEST_SCOPE_GROUP);
}

/*
 * The client has gone. What it attached to goes on; what it started is hung up on. This is done here and not by the
 * guest, so that the end of this process is not taken for the end of the client.
 */
static void on_closed(void *arg, struct websocket *ws UNUSED, int code UNUSED)
{
    struct session *s = arg;
    struct timeval tv = {.tv_sec = HANGUP_GRACE_S};

    s->ws = NULL;
    if (!s->guest || s->attach) {
        session_free(s);
        return;
    }
    guest_client_resume(s->guest);
    if (s->with_stdin)
        guest_client_stdin_eof(s->guest);
    guest_client_signal(s->guest, SIGHUP, GUEST_SCOPE_GROUP);
    (void)evtimer_add(s->hangup, &tv);
}

static const struct guest_callbacks guest_callbacks = {.started = on_started,
                                                       .output = on_output,
                                                       .dropped = on_dropped,
                                                       .drained = on_input_drained,
                                                       .exited = on_exited,
                                                       .failed = on_failed};
static const struct websocket_callbacks ws_callbacks = {
    .message = on_message, .closed = on_closed, .drained = on_output_drained};

/* The first offered protocol we speak; NULL: none. */
static const char *choose_protocol(const struct http_request *req)
{
    static const char *const spoken[] = {"v5.channel.k8s.io", "v4.channel.k8s.io"};

    for (size_t i = 0;; i++) {
        _cleanup_free_ char *offered = websocket_offered(req, i);
        if (!offered)
            return NULL;
        for (size_t k = 0; k < ARRAY_LEN(spoken); k++)
            if (streq(offered, spoken[k]))
                return spoken[k];
    }
}

static char **command_of(const struct http_request *req)
{
    char **argv = NULL;
    const char *arg;

    for (size_t i = 0; (arg = http_query_n(req, "command", i)); i++)
        argv = strv_append(argv, xstrdup(arg));
    return argv;
}

static struct guest_client *begin(struct session *s, const struct gateway *g, const struct http_request *req, int fd,
                                  struct error *err)
{
    bool tty = flag(req, "tty");
    uint32_t flags = GUEST_FLAG_LOSSLESS | (s->with_stdin ? GUEST_FLAG_STDIN : 0);

    if (s->attach) {
        const char *process = http_query(req, "process");
        return guest_attach(g->base, fd, process ? process : GUEST_MAIN_ID, process ? 0 : GUEST_OFFSET_END, 0, flags,
                            &guest_callbacks, s, err);
    }
    _cleanup_strv_ char **argv = command_of(req);
    struct guest_start_request start = {.argv = (const char *const *)argv,
                                        .flags = flags | GUEST_FLAG_INHERIT | (tty ? GUEST_FLAG_TTY : 0)};

    if (!argv) {
        (void)close(fd);
        (void)error_set_field(err, EINVAL, "command", "you must specify a command");
        return NULL;
    }
    return guest_start(g->base, fd, &start, &guest_callbacks, s, err);
}

static void stream(struct gateway *g, const struct stream_target *target, struct http_request *req, bool attach)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    const char *protocol = choose_protocol(req);
    int fd = gateway_connect_guest(g, target->pod, &err);

    if (fd < 0) {
        gateway_refuse_error(req, &err);
        return;
    }
    if (!websocket_requested(req) || !protocol) {
        (void)close(fd);
        gateway_refuse(req,
                       status_bad_request("%s is served over WebSocket with v5.channel.k8s.io or v4.channel.k8s.io",
                                          attach ? "attach" : "exec"));
        return;
    }
    struct session *s = xcalloc(1, sizeof(*s));
    s->attach = attach;
    s->v5 = protocol[1] == '5';
    s->with_stdin = flag(req, "stdin");
    s->with_stdout = flag(req, "stdout");
    s->with_stderr = flag(req, "stderr") && !flag(req, "tty");
    if (!s->with_stdin && !s->with_stdout && !s->with_stderr) {
        (void)close(fd);
        free(s);
        gateway_refuse(req, status_bad_request("you must specify at least 1 of stdin, stdout, stderr"));
        return;
    }
    s->hangup = evtimer_new(g->base, on_hangup_timeout, s);
    s->answer = evtimer_new(g->base, on_no_answer, s);
    if (!s->hangup || !s->answer)
        abort();
    s->guest = begin(s, g, req, fd, &err);
    if (!s->guest) {
        session_free(s);
        gateway_refuse_error(req, &err);
        return;
    }
    struct timeval patience = {.tv_sec = ANSWER_S};
    (void)evtimer_add(s->answer, &patience);
    s->ws = websocket_accept(req, protocol, MESSAGE_MAX_BYTES, &ws_callbacks, s);
    if (!s->ws) { /* answered already */
        if (!attach)
            guest_client_signal(s->guest, SIGKILL, GUEST_SCOPE_GROUP);
        session_free(s);
    }
}

void gateway_exec(void *arg, const struct stream_target *target, struct http_request *req)
{
    stream(arg, target, req, false);
}

/* `attach?processes=true`: what runs in the sandbox, to find what a cut client left behind. */
struct listing {
    struct http_request *req;
    struct guest_client *guest;
    struct json *items;
};

static void on_process(void *arg, const struct guest_process_info *info)
{
    struct listing *l = arg;
    struct json *argv = json_array_make();
    bool exited = info->flags & GUEST_FLAG_EXITED;

    for (size_t i = 0; info->argv && info->argv[i]; i++)
        json_push(argv, json_string(info->argv[i]));
    struct json *item = json_build("{s:s, s:i, s:o, s:b, s:b, s:b}", "id", info->id, "pid", (int64_t)info->pid, "argv",
                                   argv, "main", (info->flags & GUEST_FLAG_MAIN) != 0, "tty",
                                   (info->flags & GUEST_FLAG_TTY) != 0, "running", !exited);
    if (exited)
        json_set_int(item, "exitCode", info->exit.code);
    json_push(l->items, item);
}

static void listing_end(struct listing *l, const struct error *err)
{
    if (err) {
        gateway_refuse(l->req, status_internal("%s", error_text(err)));
    } else {
        _cleanup_json_ struct json *body = json_build("{s:s, s:O}", "kind", "ProcessList", "items", l->items);
        _cleanup_free_ char *text = json_text(body);
        http_respond(l->req, 200, "application/json", text, strlen(text));
    }
    guest_client_free(l->guest);
    json_unref(l->items);
    free(l);
}

static void on_list_done(void *arg)
{
    listing_end(arg, NULL);
}

static void on_list_failed(void *arg, const struct error *err)
{
    listing_end(arg, err);
}

static void list_processes(struct gateway *g, const struct stream_target *target, struct http_request *req)
{
    static const struct guest_callbacks callbacks = {
        .process = on_process, .done = on_list_done, .failed = on_list_failed};
    _cleanup_error_ struct error err = ERROR_INIT;
    int fd = gateway_connect_guest(g, target->pod, &err);
    struct listing *l = xcalloc(1, sizeof(*l));

    l->req = req;
    l->items = json_array_make();
    l->guest = fd >= 0 ? guest_list(g->base, fd, &callbacks, l, &err) : NULL;
    if (!l->guest) {
        gateway_refuse_error(req, &err);
        json_unref(l->items);
        free(l);
    }
}

void gateway_attach(void *arg, const struct stream_target *target, struct http_request *req)
{
    if (flag(req, "processes"))
        list_processes(arg, target, req);
    else
        stream(arg, target, req, true);
}
