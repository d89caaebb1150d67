/* exec and attach over WebSocket: the first byte of every message is its channel. */
#include "gateway/exec.h"

#include "apiserver/api_error.h"
#include "base/base64.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "wire/websocket.h"

#define MESSAGE_MAX_BYTES (4u << 20)
/* From version 5 on: the second byte is a channel that has ended. */
#define CHANNEL_CLOSE 255

struct channels {
    struct exec_link link;
    struct websocket *ws;
    int version;
    bool base64; /* text: a digit, then base64 */
};

static void send_channel(struct exec_link *l, enum exec_channel channel, const void *data, size_t len)
{
    struct channels *c = container_of(l, struct channels, link);
    uint8_t number = (uint8_t)channel;

    if (!c->base64) {
        websocket_send2(c->ws, true, &number, 1, data, len);
        return;
    }
    _cleanup_free_ char *text = base64_encode(data, len);
    number = (uint8_t)('0' + number);
    websocket_send2(c->ws, false, &number, 1, text, strlen(text));
}

static size_t pending(const struct exec_link *l)
{
    return websocket_pending(container_of(l, const struct channels, link)->ws);
}

static void pause_client(struct exec_link *l, bool pause)
{
    websocket_pause(container_of(l, struct channels, link)->ws, pause);
}

static void finish(struct exec_link *l, const struct json *status)
{
    struct channels *c = container_of(l, struct channels, link);
    _cleanup_free_ char *text = exec_last_words(status, c->version);

    if (text)
        send_channel(l, EXEC_ERROR, text, strlen(text));
    websocket_close(c->ws, 1000, NULL);
}

static const struct exec_link_ops ops = {
    .send = send_channel, .pending = pending, .pause = pause_client, .finish = finish};

static void receive(struct channels *c, uint8_t channel, const char *data, size_t len)
{
    struct exec_session *s = c->link.session;

    if (channel == EXEC_STDIN)
        exec_session_stdin(s, data, len);
    else if (channel == EXEC_RESIZE)
        exec_session_resize(s, data, len);
    else if (channel == CHANNEL_CLOSE && c->version >= 5 && len == 1 && data[0] == EXEC_STDIN)
        exec_session_stdin_eof(s);
}

static void on_message(void *arg, struct websocket *ws, bool binary UNUSED, const char *data, size_t len)
{
    struct channels *c = arg;

    if (len == 0)
        return;
    if (!c->base64) {
        receive(c, (uint8_t)data[0], data + 1, len - 1);
        return;
    }
    size_t decoded_len;
    _cleanup_free_ char *decoded = base64_decode(data + 1, len - 1, &decoded_len);
    if (decoded)
        receive(c, (uint8_t)(data[0] - '0'), decoded, decoded_len);
    else
        websocket_close(ws, 1007, "a message is a digit and base64");
}

static void on_closed(void *arg, struct websocket *ws UNUSED, int code UNUSED)
{
    struct channels *c = arg;

    exec_session_gone(c->link.session);
    free(c);
}

static void on_drained(void *arg, struct websocket *ws UNUSED)
{
    struct channels *c = arg;

    exec_session_drained(c->link.session);
}

static const struct websocket_callbacks callbacks = {.message = on_message, .closed = on_closed, .drained = on_drained};

static const char *const spoken[] = {"v5.channel.k8s.io",    "v4.channel.k8s.io", "v3.channel.k8s.io",
                                     "v2.channel.k8s.io",    "channel.k8s.io",    "v4.base64.channel.k8s.io",
                                     "base64.channel.k8s.io"};

const char *exec_choose_channels(const struct http_request *req)
{
    for (size_t i = 0;; i++) {
        _cleanup_free_ char *offered = websocket_offered(req, i);
        if (!offered)
            return NULL;
        for (size_t k = 0; k < ARRAY_LEN(spoken); k++)
            if (streq(offered, spoken[k]))
                return spoken[k];
    }
}

void exec_accept_channels(struct exec_session *s, struct http_request *req, const char *protocol)
{
    _cleanup_error_ struct error err = ERROR_INIT;

    if (exec_session_begin(s, &err) < 0) {
        exec_session_gone(s);
        gateway_refuse_error(req, &err);
        return;
    }
    struct channels *c = xcalloc(1, sizeof(*c));
    c->link.ops = &ops;
    c->base64 = strstr(protocol, "base64");
    c->version = !c->base64 ? exec_protocol_version(protocol) : protocol[0] == 'v' ? 4 : 1;
    exec_session_bind(s, &c->link);
    c->ws = websocket_accept(req, protocol, MESSAGE_MAX_BYTES, &callbacks, c);
    if (!c->ws) { /* answered already */
        exec_session_gone(s);
        free(c);
    }
}
