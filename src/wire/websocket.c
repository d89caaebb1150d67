#include "wire/websocket.h"

#include "base/memory.h"
#include "base/random.h"
#include "base/strbuf.h"
#include "base/strutil.h"
#include "wire/http.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <linux/sockios.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <wslay/wslay.h>

#define WEBSOCKET_GUID "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
#define KEY_BYTES 16
#define CLOSE_TIMEOUT_S 5
#define CLOSE_ABNORMAL 1006
/* Input taken from the socket ahead of wslay. */
#define INPUT_MAX_BYTES (256u << 10)
/* Pongs that wait for a peer which pings and does not read; beyond it we stop reading, too. */
#define PONGS_MAX_BYTES (64u << 10)
/* Frames of one message: each costs far more memory than the byte it may hold. */
#define FRAGMENTS_MAX 16384
#define CLOSE_REASON_MAX 123
#define CLOSE_NORMAL 1000
#define CLOSE_PROTOCOL 1002
#define CLOSE_NONE 1005 /* a close frame without a code */
#define CLOSE_POLICY 1008

struct websocket {
    struct bufferevent *bev;
    wslay_event_context_ptr ctx;
    const struct websocket_callbacks *cb;
    void *arg;
    struct event *turn;  /* the end is told from the loop, never from within a call */
    struct event *timer; /* while closing */
    int close_code;      /* what closed() will be told */
    size_t pending;      /* output when the timer was set: while it shrinks there is more time */
    size_t pongs;        /* bytes of pongs since the output was last empty */
    size_t fragments;    /* frames of the message that is being received */
    bool lingering;      /* refused: what still comes is dropped until the peer has read why */
    bool client;         /* frames we send are masked */
    bool closing, lost, paused, entered;
};

bool websocket_requested(const struct http_request *req)
{
    return http_headers_has_token(http_request_headers(req), "Connection", "upgrade") &&
           http_headers_has_token(http_request_headers(req), "Upgrade", "websocket");
}

char *websocket_offered(const struct http_request *req, size_t index)
{
    const struct http_headers *h = http_request_headers(req);

    for (size_t i = 0; i < h->count; i++) {
        if (strcasecmp(h->items[i].name, "Sec-WebSocket-Protocol") != 0)
            continue;
        for (const char *p = h->items[i].value; *p;) {
            p += strspn(p, " \t,");
            size_t n = strcspn(p, ","), len = n;
            while (len && (p[len - 1] == ' ' || p[len - 1] == '\t'))
                len--;
            if (len && index-- == 0)
                return xstrndup(p, len);
            p += n;
        }
    }
    return NULL;
}

/* RFC 6455 section 4.2.2. NULL: the key is not 16 bytes of base64. */
static char *accept_key(const char *key)
{
    unsigned char decoded[KEY_BYTES + 3], digest[SHA_DIGEST_LENGTH];

    if (!key || strlen(key) != 24 || !streq(key + 22, "==") ||
        EVP_DecodeBlock(decoded, (const unsigned char *)key, 24) != KEY_BYTES + 2)
        return NULL;
    _cleanup_free_ char *text = xasprintf("%s%s", key, WEBSOCKET_GUID);
    char *out = xmalloc(4 * ((SHA_DIGEST_LENGTH + 2) / 3) + 1);

    (void)SHA1((const unsigned char *)text, strlen(text), digest);
    (void)EVP_EncodeBlock((unsigned char *)out, digest, sizeof(digest));
    return out;
}

static void finish(struct websocket *ws)
{
    ws->cb->closed(ws->arg, ws, ws->close_code);
    wslay_event_context_free(ws->ctx);
    bufferevent_free(ws->bev);
    event_free(ws->turn);
    event_free(ws->timer);
    free(ws);
}

/* Ends the connection: closed() runs in the next turn. */
static void lose(struct websocket *ws, int code)
{
    if (ws->lost)
        return;
    ws->lost = true;
    ws->close_code = code;
    (void)bufferevent_disable(ws->bev, EV_READ | EV_WRITE);
    event_active(ws->turn, EV_TIMEOUT, 0);
}

static void on_turn(evutil_socket_t fd UNUSED, short what UNUSED, void *arg)
{
    finish(arg);
}

/* What the peer has not taken: ours, and the kernel's, which would be lost with the connection. */
static size_t not_taken(const struct websocket *ws)
{
    int kernels = 0;

    if (ioctl(bufferevent_getfd(ws->bev), SIOCOUTQ, &kernels) < 0)
        kernels = 0; /* not a socket of that kind: ours is all there is */
    return evbuffer_get_length(bufferevent_get_output(ws->bev)) + (size_t)kernels;
}

static void start_timer(struct websocket *ws)
{
    struct timeval tv = {.tv_sec = CLOSE_TIMEOUT_S};

    ws->pending = not_taken(ws);
    (void)evtimer_add(ws->timer, &tv);
}

static void on_close_timeout(evutil_socket_t fd UNUSED, short what UNUSED, void *arg)
{
    struct websocket *ws = arg;

    size_t left = not_taken(ws);

    /* A peer may read as late as it likes what it was told before a good end; else it must at least go on reading. */
    if (left < ws->pending || (left > 0 && ws->close_code == CLOSE_NORMAL))
        start_timer(ws);
    else
        lose(ws, ws->lingering ? ws->close_code : CLOSE_ABNORMAL);
}

/*
 * After a close frame that ends the conversation from our side alone. Closing now, with bytes of the peer unread, would
 * reset the connection and take the close frame away from it.
 */
static void linger(struct websocket *ws)
{
    ws->lingering = true;
    (void)shutdown(bufferevent_getfd(ws->bev), SHUT_WR);
    (void)bufferevent_enable(ws->bev, EV_READ);
    start_timer(ws);
}

static ssize_t recv_cb(wslay_event_context_ptr ctx, uint8_t *buf, size_t len, int flags UNUSED, void *arg)
{
    struct websocket *ws = arg;
    struct evbuffer *in = bufferevent_get_input(ws->bev);

    if (evbuffer_get_length(in) == 0 || ws->paused || ws->pongs > PONGS_MAX_BYTES) {
        wslay_event_set_error(ctx, WSLAY_ERR_WOULDBLOCK);
        return -1;
    }
    return evbuffer_remove(in, buf, len);
}

/* Counts the frames of a message; wslay allows any number. */
static void frame_cb(wslay_event_context_ptr ctx, const struct wslay_event_on_frame_recv_start_arg *frame, void *arg)
{
    static const char reason[] = "too many fragments";
    struct websocket *ws = arg;

    if (wslay_is_ctrl_frame(frame->opcode))
        return;
    ws->fragments = frame->fin ? 0 : ws->fragments + 1;
    if (ws->fragments > FRAGMENTS_MAX) {
        (void)wslay_event_queue_close(ctx, CLOSE_POLICY, (const uint8_t *)reason, sizeof(reason) - 1);
        wslay_event_shutdown_read(ctx);
    }
}

/*
 * Every frame is a piece of its own, and so a TLS record of its own: clients that wait for the socket to be readable
 * (the Python client of Kubernetes) do not see a frame that their TLS library has read along with the one before it.
 */
static void send_piece(struct websocket *ws, const void *const parts[], const size_t lens[], size_t count)
{
    struct evbuffer *piece = evbuffer_new();

    if (!piece)
        abort();
    for (size_t i = 0; i < count; i++)
        (void)evbuffer_add(piece, parts[i], lens[i]);
    (void)bufferevent_write_buffer(ws->bev, piece);
    evbuffer_free(piece);
}

static ssize_t send_cb(wslay_event_context_ptr ctx UNUSED, const uint8_t *data, size_t len, int flags UNUSED, void *arg)
{
    send_piece(arg, (const void *[]){data}, &len, 1);
    return (ssize_t)len;
}

static void message_cb(wslay_event_context_ptr ctx UNUSED, const struct wslay_event_on_msg_recv_arg *msg, void *arg)
{
    struct websocket *ws = arg;

    if (msg->opcode == WSLAY_CONNECTION_CLOSE) {
        if (!ws->closing)
            ws->close_code = msg->status_code ? msg->status_code : CLOSE_NONE;
        return;
    }
    if (msg->opcode == WSLAY_PING) /* wslay answers */
        ws->pongs += 2 + msg->msg_length;
    if (wslay_is_ctrl_frame(msg->opcode) || ws->closing || ws->lost)
        return;
    ws->cb->message(ws->arg, ws, msg->opcode == WSLAY_BINARY_FRAME, msg->msg ? (const char *)msg->msg : "",
                    msg->msg_length);
}

/* Lets wslay write what it has queued (pongs, close frames, our messages) and looks whether the conversation is over.
 */
static void flush(struct websocket *ws)
{
    if (ws->lost)
        return;
    if (wslay_event_send(ws->ctx) < 0) {
        lose(ws, CLOSE_ABNORMAL);
        return;
    }
    bool over = wslay_event_get_close_received(ws->ctx) && wslay_event_get_close_sent(ws->ctx);
    if (over && evbuffer_get_length(bufferevent_get_output(ws->bev)) == 0)
        lose(ws, ws->close_code);
}

/* We have said that it is over, for a fault of the peer, and listen no more. */
static bool is_refused(const struct websocket *ws)
{
    return !wslay_event_get_read_enabled(ws->ctx) && !wslay_event_get_close_received(ws->ctx);
}

static void on_read(struct bufferevent *bev, void *arg)
{
    struct websocket *ws = arg;
    struct evbuffer *in = bufferevent_get_input(bev);

    if (ws->lost)
        return;
    if (ws->lingering || is_refused(ws)) {
        (void)evbuffer_drain(in, evbuffer_get_length(in));
        return;
    }
    ws->entered = true;
    int r = wslay_event_recv(ws->ctx); /* < 0: not even a frame; wslay has queued a close frame without a code */
    ws->entered = false;
    flush(ws);
    if (!ws->lost && ws->pongs > PONGS_MAX_BYTES)
        (void)bufferevent_disable(bev, EV_READ);
    if (!ws->lost && is_refused(ws)) {
        ws->close_code = r < 0 ? CLOSE_PROTOCOL : wslay_event_get_status_code_sent(ws->ctx);
        ws->closing = true;
        if (evbuffer_get_length(bufferevent_get_output(bev)) == 0)
            linger(ws);
        else
            start_timer(ws);
    } else if (r < 0) {
        lose(ws, CLOSE_ABNORMAL);
    }
}

static void on_written(struct bufferevent *bev, void *arg)
{
    struct websocket *ws = arg;
    bool held = ws->pongs > PONGS_MAX_BYTES;

    if (ws->lost || ws->lingering)
        return;
    ws->pongs = 0;
    if (wslay_event_get_close_sent(ws->ctx)) {
        if (wslay_event_get_close_received(ws->ctx))
            lose(ws, ws->close_code);
        else if (is_refused(ws))
            linger(ws);
        else
            start_timer(ws);
        return;
    }
    if (held && !ws->paused) {
        (void)bufferevent_enable(bev, EV_READ);
        bufferevent_trigger(bev, EV_READ, BEV_TRIG_DEFER_CALLBACKS);
    }
    if (ws->cb->drained && !ws->closing)
        ws->cb->drained(ws->arg, ws);
}

static void on_event(struct bufferevent *bev UNUSED, short what, void *arg)
{
    struct websocket *ws = arg;

    if (!(what & (BEV_EVENT_EOF | BEV_EVENT_ERROR | BEV_EVENT_TIMEOUT)) || ws->lost)
        return;
    bool orderly = wslay_event_get_close_sent(ws->ctx) || wslay_event_get_close_received(ws->ctx);
    lose(ws, orderly ? ws->close_code : CLOSE_ABNORMAL);
}

static int genmask_cb(wslay_event_context_ptr ctx UNUSED, uint8_t *buf, size_t len, void *arg UNUSED)
{
    random_bytes(buf, len);
    return 0;
}

static struct websocket *new_websocket(struct event_base *base, struct bufferevent *bev, bool client,
                                       size_t max_message_bytes, const struct websocket_callbacks *cb, void *arg)
{
    static const struct wslay_event_callbacks callbacks = {.recv_callback = recv_cb,
                                                           .send_callback = send_cb,
                                                           .genmask_callback = genmask_cb,
                                                           .on_frame_recv_start_callback = frame_cb,
                                                           .on_msg_recv_callback = message_cb};
    struct websocket *ws = xcalloc(1, sizeof(*ws));

    ws->bev = bev;
    ws->cb = cb;
    ws->arg = arg;
    ws->client = client;
    ws->close_code = CLOSE_ABNORMAL;
    ws->turn = event_new(base, -1, 0, on_turn, ws);
    ws->timer = evtimer_new(base, on_close_timeout, ws);
    int r = client ? wslay_event_context_client_init(&ws->ctx, &callbacks, ws)
                   : wslay_event_context_server_init(&ws->ctx, &callbacks, ws);
    if (!ws->turn || !ws->timer || r != 0)
        abort();
    wslay_event_config_set_max_recv_msg_length(ws->ctx, max_message_bytes);
    bufferevent_setcb(bev, on_read, on_written, on_event, ws);
    bufferevent_setwatermark(bev, EV_READ, 0, INPUT_MAX_BYTES);
    (void)bufferevent_enable(bev, EV_READ | EV_WRITE);
    if (evbuffer_get_length(bufferevent_get_input(bev)))
        bufferevent_trigger(bev, EV_READ, BEV_TRIG_DEFER_CALLBACKS); /* it came with the head */
    return ws;
}

struct websocket *websocket_accept(struct http_request *req, const char *protocol, size_t max_message_bytes,
                                   const struct websocket_callbacks *cb, void *arg)
{
    static const char bad[] = "malformed WebSocket handshake\n";
    const char *version = http_header(req, "Sec-WebSocket-Version");
    _cleanup_free_ char *key = accept_key(http_header(req, "Sec-WebSocket-Key"));

    if (!streq(http_method(req), "GET") || !key || !version || !streq(version, "13")) {
        http_add_header(req, "Sec-WebSocket-Version", "13");
        http_respond(req, 400, "text/plain", bad, sizeof(bad) - 1);
        return NULL;
    }
    http_add_header(req, "Upgrade", "websocket");
    http_add_header(req, "Connection", "Upgrade");
    http_add_header(req, "Sec-WebSocket-Accept", key);
    if (protocol)
        http_add_header(req, "Sec-WebSocket-Protocol", protocol);
    struct event_base *base = http_event_base(req);
    struct bufferevent *bev = http_take_over(req, 101);
    if (!bev)
        return NULL;

    return new_websocket(base, bev, false, max_message_bytes, cb, arg);
}

void websocket_handshake(struct http_headers *headers, const char *protocols)
{
    unsigned char nonce[KEY_BYTES];
    char key[4 * ((KEY_BYTES + 2) / 3) + 1];

    random_bytes(nonce, sizeof(nonce));
    (void)EVP_EncodeBlock((unsigned char *)key, nonce, sizeof(nonce));
    http_headers_add(headers, "Connection", "Upgrade");
    http_headers_add(headers, "Upgrade", "websocket");
    http_headers_add(headers, "Sec-WebSocket-Version", "13");
    http_headers_add(headers, "Sec-WebSocket-Key", key);
    if (protocols)
        http_headers_add(headers, "Sec-WebSocket-Protocol", protocols);
}

struct websocket *websocket_connected(struct event_base *base, struct bufferevent *bev,
                                      const struct http_headers *request, const struct http_headers *answer,
                                      size_t max_message_bytes, const struct websocket_callbacks *cb, void *arg)
{
    _cleanup_free_ char *expected = accept_key(http_headers_get(request, "Sec-WebSocket-Key"));
    const char *key = http_headers_get(answer, "Sec-WebSocket-Accept");

    if (!expected || !key || !streq(expected, key) || !http_headers_has_token(answer, "Upgrade", "websocket")) {
        bufferevent_free(bev);
        return NULL;
    }
    return new_websocket(base, bev, true, max_message_bytes, cb, arg);
}

/* A client's frames are masked, which wslay does. */
static void send_masked(struct websocket *ws, bool binary, const void *head, size_t head_len, const void *data,
                        size_t len)
{
    _cleanup_(strbuf_free) struct strbuf whole = {0};

    strbuf_add(&whole, head, head_len);
    strbuf_add(&whole, data, len);
    struct wslay_event_msg msg = {.opcode = binary ? WSLAY_BINARY_FRAME : WSLAY_TEXT_FRAME,
                                  .msg = (const uint8_t *)strbuf_str(&whole),
                                  .msg_length = whole.len};
    (void)wslay_event_queue_msg(ws->ctx, &msg);
    flush(ws);
}

void websocket_send2(struct websocket *ws, bool binary, const void *head, size_t head_len, const void *data, size_t len)
{
    if (ws->closing || ws->lost || wslay_event_get_close_received(ws->ctx))
        return;
    if (ws->client) {
        send_masked(ws, binary, head, head_len, data, len);
        return;
    }
    /* The frame header is written here: going through wslay's queue would copy every message once more. */
    uint8_t header[10];
    size_t total = head_len + len, n = 2;

    header[0] = (uint8_t)(0x80 | (binary ? WSLAY_BINARY_FRAME : WSLAY_TEXT_FRAME));
    if (total < 126) {
        header[1] = (uint8_t)total;
    } else if (total < 65536) {
        header[1] = 126;
        header[2] = (uint8_t)(total >> 8);
        header[3] = (uint8_t)total;
        n = 4;
    } else {
        header[1] = 127;
        for (int i = 0; i < 8; i++)
            header[2 + i] = (uint8_t)((uint64_t)total >> (56 - 8 * i));
        n = 10;
    }
    send_piece(ws, (const void *[]){header, head, data}, (const size_t[]){n, head_len, len}, 3);
}

void websocket_send(struct websocket *ws, bool binary, const void *data, size_t len)
{
    websocket_send2(ws, binary, NULL, 0, data, len);
}

size_t websocket_pending(const struct websocket *ws)
{
    return evbuffer_get_length(bufferevent_get_output(ws->bev));
}

void websocket_pause(struct websocket *ws, bool pause)
{
    if (ws->paused == pause || ws->lost)
        return;
    ws->paused = pause;
    if (pause) {
        (void)bufferevent_disable(ws->bev, EV_READ);
        return;
    }
    (void)bufferevent_enable(ws->bev, EV_READ);
    if (!ws->entered)
        bufferevent_trigger(ws->bev, EV_READ, BEV_TRIG_DEFER_CALLBACKS);
}

/* At most CLOSE_REASON_MAX bytes of a reason, without cutting a character in two. */
static size_t reason_len(const char *reason)
{
    size_t len = reason ? strlen(reason) : 0;

    if (len <= CLOSE_REASON_MAX)
        return len;
    for (len = CLOSE_REASON_MAX; len && ((unsigned char)reason[len] & 0xc0) == 0x80;)
        len--;
    return len;
}

void websocket_close(struct websocket *ws, int code, const char *reason)
{
    if (ws->closing || ws->lost || wslay_event_get_close_received(ws->ctx))
        return;
    ws->closing = true;
    ws->close_code = code;
    ws->paused = false;
    (void)bufferevent_enable(ws->bev, EV_READ);
    if (wslay_event_queue_close(ws->ctx, (uint16_t)code, (const uint8_t *)reason, reason_len(reason)) != 0) {
        lose(ws, CLOSE_ABNORMAL);
        return;
    }
    flush(ws);
    if (ws->lost)
        return;
    if (code != CLOSE_NORMAL || evbuffer_get_length(bufferevent_get_output(ws->bev)) == 0)
        start_timer(ws);
    if (!ws->entered && evbuffer_get_length(bufferevent_get_input(ws->bev)))
        bufferevent_trigger(ws->bev, EV_READ, BEV_TRIG_DEFER_CALLBACKS); /* it had been paused */
}
