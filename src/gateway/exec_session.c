#include "gateway/exec.h"

#include "apiserver/api_error.h"
#include "apiserver/request_info.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "wire/guest_client.h"

#include <event2/event.h>
#include <signal.h>
#include <strings.h>

#define OUTPUT_HIGH_BYTES (1u << 20) /* above it the process waits */
/* What a client leaves behind gets SIGHUP, and this much later SIGKILL. */
#define HANGUP_GRACE_S 2
/* For the guest's first word. It has nothing to do but answer; one that is stuck must not keep clients for ever. */
#define ANSWER_S 30

struct exec_session {
    const struct gateway *gateway;
    struct json *pod;
    char **argv;            /* of exec */
    char *process;          /* of attach; NULL: the main one */
    struct exec_link *link; /* NULL before the client is there, and once it has gone */
    struct guest_client *guest;
    struct event *hangup; /* armed when the client went away from a process it started */
    struct event *answer; /* armed until the guest has said something */
    bool attach, tty, with_stdin, with_stdout, with_stderr;
    bool started, guest_paused, link_paused;
};

static void session_free(struct exec_session *s)
{
    guest_client_free(s->guest);
    event_free(s->hangup);
    event_free(s->answer);
    json_unref(s->pod);
    strv_free(s->argv);
    free(s->process);
    free(s);
}

/* To the client. */

static void send_output(struct exec_session *s, enum exec_channel channel, const void *data, size_t len)
{
    if (!s->link)
        return;
    s->link->ops->send(s->link, channel, data, len);
    if (s->link->ops->pending(s->link) > OUTPUT_HIGH_BYTES && !s->guest_paused) {
        s->guest_paused = true;
        guest_client_pause(s->guest);
    }
}

static void send_text(struct exec_session *s, const char *text)
{
    send_output(s, s->with_stderr ? EXEC_STDERR : EXEC_STDOUT, text, strlen(text));
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

/* The guest has said its last; the status, taken, is the client's last word. Whoever ends last frees the session. */
static void end(struct exec_session *s, struct json *status)
{
    guest_client_free(s->guest);
    s->guest = NULL;
    (void)evtimer_del(s->answer);
    if (s->link)
        s->link->ops->finish(s->link, status);
    else
        session_free(s);
    json_unref(status);
}

/* From the guest. */

static void on_started(void *arg, const char *id UNUSED, uint32_t pid UNUSED)
{
    struct exec_session *s = arg;

    s->started = true;
    (void)evtimer_del(s->answer);
}

static void on_output(void *arg, enum guest_stream stream, uint64_t offset UNUSED, const void *data, size_t len)
{
    struct exec_session *s = arg;

    if (stream == GUEST_STREAM_STDOUT ? s->with_stdout : s->with_stderr)
        send_output(s, stream == GUEST_STREAM_STDOUT ? EXEC_STDOUT : EXEC_STDERR, data, len);
}

static void on_dropped(void *arg, enum guest_stream stream UNUSED, uint64_t bytes)
{
    _cleanup_free_ char *text = xasprintf("\n[%llu bytes of output were dropped]\n", (unsigned long long)bytes);

    send_text(arg, text);
}

static void on_exited(void *arg, const struct guest_exit *e)
{
    end(arg, exit_status(e->code));
}

/*
 * A command that cannot be started reads like a shell's: a line on stderr and 126 or 127, so that scripts can tell it
 * from a broken connection.
 */
static void on_failed(void *arg, const struct error *err)
{
    struct exec_session *s = arg;

    if (!s->started && !s->attach && err->code != ECONNRESET && err->code != EPROTO) {
        _cleanup_free_ char *text = xasprintf("holt: %s\n", error_text(err));
        send_text(s, text);
        end(s, exit_status(err->code == ENOENT ? 127 : 126));
    } else {
        end(s, err->code == ESRCH ? status_failure(404, "NotFound", error_text(err), NULL)
                                  : status_internal("%s", error_text(err)));
    }
}

static void on_no_answer(evutil_socket_t fd UNUSED, short what UNUSED, void *arg)
{
    end(arg, status_internal("the sandbox has not answered for %d seconds", ANSWER_S));
}

static void on_input_drained(void *arg)
{
    struct exec_session *s = arg;

    if (s->link && s->link_paused) {
        s->link_paused = false;
        s->link->ops->pause(s->link, false);
    }
}

/* From the client. */

void exec_session_resize(struct exec_session *s, const char *text, size_t len)
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
    if (s->guest && rows > 0 && rows <= UINT16_MAX && cols > 0 && cols <= UINT16_MAX)
        guest_client_resize(s->guest, (uint16_t)rows, (uint16_t)cols);
}

void exec_session_stdin(struct exec_session *s, const void *data, size_t len)
{
    if (!s->guest || !s->with_stdin || len == 0)
        return;
    guest_client_stdin(s->guest, data, len);
    if (guest_client_pending(s->guest) > EXEC_INPUT_HIGH_BYTES && !s->link_paused) {
        s->link_paused = true;
        s->link->ops->pause(s->link, true);
    }
}

void exec_session_stdin_eof(struct exec_session *s)
{
    if (s->guest && s->with_stdin)
        guest_client_stdin_eof(s->guest);
}

void exec_session_drained(struct exec_session *s)
{
    if (s->guest && s->guest_paused) {
        s->guest_paused = false;
        guest_client_resume(s->guest);
    }
}

void exec_session_fail(struct exec_session *s, const struct error *err)
{
    end(s, status_internal("%s", error_text(err)));
}

static void on_hangup_timeout(evutil_socket_t fd UNUSED, short what UNUSED, void *arg)
{
    struct exec_session *s = arg;

    guest_client_signal(s->guest, SIGKILL, GUEST_SCOPE_GROUP);
}

/*
 * What the client attached to goes on; what it started is hung up on. This is done here and not by the guest, so that
 * the end of this process is not taken for the end of the client.
 */
void exec_session_gone(struct exec_session *s)
{
    struct timeval tv = {.tv_sec = HANGUP_GRACE_S};

    s->link = NULL;
    if (!s->guest || s->attach) {
        session_free(s);
        return;
    }
    guest_client_resume(s->guest);
    exec_session_stdin_eof(s);
    guest_client_signal(s->guest, SIGHUP, GUEST_SCOPE_GROUP);
    (void)evtimer_add(s->hangup, &tv);
}

/* The beginning. */

static const struct guest_callbacks guest_callbacks = {.started = on_started,
                                                       .output = on_output,
                                                       .dropped = on_dropped,
                                                       .drained = on_input_drained,
                                                       .exited = on_exited,
                                                       .failed = on_failed};

static char **command_of(const struct http_request *req)
{
    char **argv = NULL;
    const char *arg;

    for (size_t i = 0; (arg = http_query_n(req, "command", i)); i++)
        argv = strv_append(argv, xstrdup(arg));
    return argv;
}

struct exec_session *exec_session_new(const struct gateway *g, const struct stream_target *target,
                                      const struct http_request *req, bool attach, struct error *err)
{
    struct exec_session *s = xcalloc(1, sizeof(*s));
    const char *process = http_query(req, "process");

    s->gateway = g;
    s->pod = json_ref(target->pod);
    s->attach = attach;
    s->tty = query_bool(http_query(req, "tty"));
    s->with_stdin = query_bool(http_query(req, "stdin"));
    s->with_stdout = query_bool(http_query(req, "stdout"));
    s->with_stderr = query_bool(http_query(req, "stderr")) && !s->tty;
    s->argv = attach ? NULL : command_of(req);
    s->process = attach && process ? xstrdup(process) : NULL;
    s->hangup = evtimer_new(g->base, on_hangup_timeout, s);
    s->answer = evtimer_new(g->base, on_no_answer, s);
    if (!s->hangup || !s->answer)
        abort();
    if (!s->with_stdin && !s->with_stdout && !s->with_stderr)
        (void)error_set(err, EINVAL, "you must specify at least 1 of stdin, stdout, stderr");
    else if (!attach && !s->argv)
        (void)error_set(err, EINVAL, "you must specify at least 1 command for the container");
    else
        return s;
    session_free(s);
    return NULL;
}

bool exec_session_wants(const struct exec_session *s, enum exec_channel channel)
{
    switch (channel) {
    case EXEC_STDIN:
        return s->with_stdin;
    case EXEC_STDOUT:
        return s->with_stdout;
    case EXEC_STDERR:
        return s->with_stderr;
    case EXEC_ERROR:
        return true;
    case EXEC_RESIZE:
    default:
        return s->tty;
    }
}

int exec_session_begin(struct exec_session *s, struct error *err)
{
    struct event_base *base = s->gateway->base;
    struct timeval patience = {.tv_sec = ANSWER_S};
    uint32_t flags = GUEST_FLAG_LOSSLESS | (s->with_stdin ? GUEST_FLAG_STDIN : 0);
    struct guest_start_request start = {.argv = (const char *const *)s->argv,
                                        .flags = flags | GUEST_FLAG_INHERIT | (s->tty ? GUEST_FLAG_TTY : 0)};
    int fd = gateway_connect_guest(s->gateway, s->pod, err);

    if (fd < 0)
        return fd;
    s->guest = s->attach ? guest_attach(base, fd, s->process ? s->process : GUEST_MAIN_ID,
                                        s->process ? 0 : GUEST_OFFSET_END, 0, flags, &guest_callbacks, s, err)
                         : guest_start(base, fd, &start, &guest_callbacks, s, err);
    if (!s->guest)
        return -err->code;
    (void)evtimer_add(s->answer, &patience);
    return 0;
}

void exec_session_bind(struct exec_session *s, struct exec_link *l)
{
    s->link = l;
    l->session = s;
}

/* What the links have in common. */

int exec_protocol_version(const char *name)
{
    if (streq(name, "channel.k8s.io"))
        return 1;
    return name[0] == 'v' && name[1] >= '2' && name[1] <= '5' && streq(name + 2, ".channel.k8s.io") ? name[1] - '0' : 0;
}

char *exec_last_words(const struct json *status, int version)
{
    const char *message = json_str(json_get(status, "message"));

    if (version >= 4)
        return json_text(status);
    return message ? xstrdup(message) : NULL;
}
