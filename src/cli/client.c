#include "cli/client.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"
#include "wire/tls.h"
#include "wire/websocket.h"

#include <event2/event.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>

#define DEFAULT_KUBECONFIG "/var/lib/holt/admin.kubeconfig"
#define POD_NAME_ANNOTATION "agents.x-k8s.io/pod-name"
#define MESSAGE_MAX_BYTES (16u << 20)
#define INPUT_CHUNK 32768
/* Input waiting for the network; reading stops above it. */
#define INPUT_HIGH_BYTES (1u << 20)

int client_open(struct client *c, const char *kubeconfig, const char *ns, struct error *err)
{
    const char *from_env = getenv("KUBECONFIG");
    const char *path = kubeconfig ? kubeconfig : from_env && *from_env ? from_env : DEFAULT_KUBECONFIG;

    *c = (struct client){0};
    if (kubeconfig_load(path, &c->config, err) < 0)
        return error_wrap(err, "cannot find holt (is it running? name its kubeconfig with --kubeconfig)");
    c->ns = ns ? ns : c->config.ns;
    c->base = event_base_new();
    if (!c->base)
        return error_set(err, ENOMEM, "cannot make the event loop");
    (void)signal(SIGPIPE, SIG_IGN);
    c->kube = kube_http_new(c->base, &c->config, "holt", err);
    if (!c->kube)
        return -err->code;
    c->http = kube_http_client_new(c->base, &c->config, "holt", &c->tls, err);
    return c->http ? 0 : -err->code;
}

void client_close(struct client *c)
{
    http_client_free(c->http);
    kube_free(c->kube);
    tls_context_free(c->tls);
    if (c->base)
        event_base_free(c->base);
    kubeconfig_free(&c->config);
}

int client_find_pod(struct client *c, const char *name, char **ret_pod, struct error *err)
{
    _cleanup_json_ struct json *sandbox = NULL, *pod = NULL;
    struct kube_request q = {.verb = KUBE_GET, .resource = &KUBE_SANDBOXES, .ns = c->ns, .name = name};
    int status = kube_call_wait(c->base, c->kube, &q, &sandbox, err);

    if (status < 0)
        return status;
    const char *pod_name = status == 200 ? object_annotation(sandbox, POD_NAME_ANNOTATION) : NULL;
    error_clear(err);
    q.resource = &KUBE_PODS;
    q.name = pod_name ? pod_name : name;
    status = kube_call_wait(c->base, c->kube, &q, &pod, err);
    if (status < 0)
        return status;
    if (status != 200) {
        const struct json *ready = condition_find(json_at(sandbox, "status", "conditions", NULL), "Ready");
        const char *why = json_str(json_get(ready, "message"));
        return why ? error_set(err, ENOENT, "sandbox %s/%s is not running: %s", c->ns, name, why)
                   : error_set(err, ENOENT, "there is no sandbox %s/%s", c->ns, name);
    }
    error_clear(err);
    *ret_pod = xstrdup(q.name);
    return 0;
}

/* Streams. */

struct stream {
    struct client *client;
    const struct stream_request *request;
    struct websocket *ws;
    struct http_headers handshake;
    struct event *input, *winch;
    struct error error;
    int code; /* -1 = not told yet */
    bool input_paused;
};

static void stop(struct stream *s)
{
    (void)event_base_loopbreak(s->client->base);
}

static void send_size(struct stream *s)
{
    struct winsize size;

    if (!s->request->tty || !s->ws || ioctl(s->request->output, TIOCGWINSZ, &size) < 0 || !size.ws_row)
        return;
    _cleanup_free_ char *text = xasprintf("\x04{\"Width\":%u,\"Height\":%u}", size.ws_col, size.ws_row);
    websocket_send(s->ws, true, text, strlen(text));
}

static void on_winch(evutil_socket_t fd UNUSED, short what UNUSED, void *arg)
{
    send_size(arg);
}

static void on_input(evutil_socket_t fd, short what UNUSED, void *arg)
{
    struct stream *s = arg;
    char buf[INPUT_CHUNK + 1];
    ssize_t n = read(fd, buf + 1, INPUT_CHUNK);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        static const char end[] = {(char)255, 0};
        (void)event_del(s->input);
        websocket_send(s->ws, true, end, sizeof(end));
        return;
    }
    buf[0] = 0;
    websocket_send(s->ws, true, buf, (size_t)n + 1);
    if (websocket_pending(s->ws) > INPUT_HIGH_BYTES) {
        s->input_paused = true;
        (void)event_del(s->input);
    }
}

/* A regular file is always readable and epoll does not know it: it is read as fast as the network takes it. */
static void read_input(struct stream *s)
{
    if (!s->input || !s->ws)
        return;
    if (event_add(s->input, NULL) < 0)
        event_active(s->input, EV_READ, 0);
}

static void on_drained(void *arg, struct websocket *ws UNUSED)
{
    struct stream *s = arg;

    if (s->input_paused || (s->input && !event_pending(s->input, EV_READ, NULL))) {
        s->input_paused = false;
        read_input(s);
    }
}

/* Output goes to whoever reads ours; it may be slow or non-blocking. */
static int write_out(int fd, const char *data, size_t len)
{
    while (len) {
        ssize_t n = write(fd, data, len);
        if (n < 0 && errno == EAGAIN) {
            struct pollfd p = {.fd = fd, .events = POLLOUT};
            (void)poll(&p, 1, -1);
            continue;
        }
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

static void on_status(struct stream *s, const char *text, size_t len)
{
    _cleanup_json_ struct json *status = json_parse(text, len, NULL);
    const struct json *cause = json_item(json_at(status, "details", "causes", NULL), 0);
    int64_t code = 0;

    if (streq(json_str_or(json_get(status, "status"), ""), "Success"))
        s->code = 0;
    else if (streq(json_str_or(json_get(status, "reason"), ""), "NonZeroExitCode") &&
             parse_i64(json_str_or(json_get(cause, "message"), ""), &code))
        s->code = (int)code;
    else
        (void)error_set(&s->error, EIO, "%s", json_str_or(json_get(status, "message"), "the stream broke"));
}

static void on_message(void *arg, struct websocket *ws, bool binary UNUSED, const char *data, size_t len)
{
    struct stream *s = arg;
    int r = 0;

    if (len < 1)
        return;
    if (data[0] == 1)
        r = write_out(s->request->output, data + 1, len - 1);
    else if (data[0] == 2)
        r = write_out(s->request->errors, data + 1, len - 1);
    else if (data[0] == 3)
        on_status(s, data + 1, len - 1);
    if (r < 0) { /* nobody reads us any more */
        (void)error_set_errno(&s->error, -r, "write output");
        websocket_close(ws, 1001, NULL); /* going away */
    }
}

static void on_closed(void *arg, struct websocket *ws UNUSED, int code UNUSED)
{
    struct stream *s = arg;

    s->ws = NULL;
    stop(s);
}

static void on_answer(void *arg, int status, const struct http_headers *headers UNUSED, const char *body, size_t len)
{
    struct stream *s = arg;
    _cleanup_json_ struct json *object = json_parse(body, len, NULL);

    (void)error_set(&s->error, EIO, "%s (HTTP %d)", json_str_or(json_get(object, "message"), "refused"), status);
    stop(s);
}

static void on_failed(void *arg, const struct error *err)
{
    struct stream *s = arg;

    (void)error_set(&s->error, err->code, "%s", error_text(err));
    stop(s);
}

static void on_upgraded(void *arg, struct bufferevent *bev, const struct http_headers *answer)
{
    static const struct websocket_callbacks callbacks = {
        .message = on_message, .closed = on_closed, .drained = on_drained};
    struct stream *s = arg;

    s->ws = websocket_connected(s->client->base, bev, &s->handshake, answer, MESSAGE_MAX_BYTES, &callbacks, s);
    if (!s->ws) {
        (void)error_set(&s->error, EPROTO, "the server's WebSocket handshake is not valid");
        stop(s);
        return;
    }
    send_size(s);
    read_input(s);
}

static char *stream_target(const struct client *c, const struct stream_request *q)
{
    struct strbuf b = {0};

    strbuf_addf(&b, "/api/v1/namespaces/%s/pods/%s/%s?stdout=true&stderr=%s", c->ns, q->pod,
                q->argv ? "exec" : "attach", q->tty ? "false" : "true");
    if (q->input >= 0)
        strbuf_adds(&b, "&stdin=true");
    if (q->tty)
        strbuf_adds(&b, "&tty=true");
    if (q->process) {
        _cleanup_free_ char *encoded = url_encode(q->process);
        strbuf_addf(&b, "&process=%s", encoded);
    }
    for (size_t i = 0; q->argv && q->argv[i]; i++) {
        _cleanup_free_ char *encoded = url_encode(q->argv[i]);
        strbuf_addf(&b, "&command=%s", encoded);
    }
    return strbuf_detach(&b);
}

/* The local terminal hands over every key; restored when the stream ends. */
static bool make_raw(int fd, struct termios *saved)
{
    struct termios raw;

    if (tcgetattr(fd, saved) < 0)
        return false;
    raw = *saved;
    cfmakeraw(&raw);
    return tcsetattr(fd, TCSANOW, &raw) == 0;
}

int client_stream(struct client *c, const struct stream_request *q, struct error *err)
{
    static const struct http_call_callbacks callbacks = {.done = on_answer, .failed = on_failed};
    struct stream s = {.client = c, .request = q, .code = -1};
    _cleanup_free_ char *target = stream_target(c, q);
    struct termios saved;
    bool raw = q->tty && q->input >= 0 && make_raw(q->input, &saved);

    if (q->input >= 0)
        s.input = event_new(c->base, q->input, EV_READ | EV_PERSIST, on_input, &s);
    s.winch = evsignal_new(c->base, SIGWINCH, on_winch, &s);
    if ((q->input >= 0 && !s.input) || !s.winch || evsignal_add(s.winch, NULL) < 0)
        abort();
    websocket_handshake(&s.handshake, "v5.channel.k8s.io");
    (void)http_call_upgrade(c->http, "GET", target, &s.handshake, &callbacks, on_upgraded, &s);
    (void)event_base_dispatch(c->base);

    if (raw)
        (void)tcsetattr(q->input, TCSANOW, &saved);
    if (s.input)
        event_free(s.input);
    event_free(s.winch);
    http_headers_free(&s.handshake);
    if (s.error.code)
        return error_move(err, &s.error);
    return s.code >= 0
               ? s.code
               : error_set(err, ECONNRESET, "the connection was cut; the process may still run (holt ps %s)", q->pod);
}
