/*
 * proxy: a request passed on to a port inside a sandbox, over a connection of its own that the guest makes, and the
 * answer back, or both directions once the two have agreed on an upgrade. What comes from inside is not trusted: it is
 * HTTP by the strict codec, or it is refused. Whoever reads slowly slows down the other.
 */
#include "gateway/internal.h"

#include "apiserver/api_error.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "base/strutil.h"
#include "kube/object.h"
#include "wire/guest_connect.h"
#include "wire/http_parse.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <strings.h>

#define HEAD_MAX_BYTES (256u << 10)
#define OUTPUT_HIGH_BYTES (1u << 20) /* above it the other side waits */

struct proxy {
    struct http_request *req; /* NULL once the connection was taken over */
    char *prefix;
    struct strbuf request;
    struct guest_connect *connecting;
    struct bufferevent *inside, *client; /* client: after an upgrade */
    size_t scanned;
    struct http_head head; /* of the answer */
    struct http_body_reader reader;
    bool upgrade, head_done, paused, inside_over, client_gone;
};

static void proxy_free(struct proxy *p)
{
    guest_connect_free(p->connecting);
    if (p->inside)
        bufferevent_free(p->inside);
    if (p->client)
        bufferevent_free(p->client);
    http_head_free(&p->head);
    if (p->request.data)
        explicit_bzero(p->request.data, p->request.capacity); /* cookies */
    strbuf_free(&p->request);
    free(p->prefix);
    free(p);
}

/* No whole answer. */
static void fail(struct proxy *p, const char *text)
{
    _cleanup_free_ char *message = xasprintf("error trying to reach service: %s", text);

    if (p->head_done)
        http_abort(p->req);
    else
        gateway_refuse(p->req, status_failure(503, "ServiceUnavailable", message, NULL));
    proxy_free(p);
}

/* Fields of one connection, which end here: the known ones, and those that Connection names. */
static bool of_connection(const struct http_headers *h, const char *name)
{
    static const char *const names[] = {"Connection",
                                        "Keep-Alive",
                                        "Proxy-Authenticate",
                                        "Proxy-Authorization",
                                        "Proxy-Connection",
                                        "TE",
                                        "Trailer",
                                        "Transfer-Encoding",
                                        "Upgrade"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcasecmp(name, names[i]) == 0)
            return true;
    return http_headers_has_token(h, "Connection", name);
}

static bool is_one_of(const char *name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcasecmp(name, names[i]) == 0)
            return true;
    return false;
}

/* The request. */

/* What shows who the client is stays outside: a sandbox could be the client with it. */
static bool stays_outside(const char *name)
{
    static const char *const names[] = {"Authorization",     "Host",
                                        "Content-Length",    "Expect",
                                        "X-Forwarded-For",   "X-Forwarded-Host",
                                        "X-Forwarded-Proto", "X-Forwarded-Prefix"};

    return is_one_of(name, names, ARRAY_LEN(names)) || strncasecmp(name, "Impersonate-", 12) == 0;
}

/* A browser's WebSocket carries its token as a subprotocol. */
static char *without_token(const char *protocols)
{
    struct strbuf out = {0};

    for (const char *s = protocols; *s;) {
        s += strspn(s, ", \t");
        size_t len = strcspn(s, ", \t");
        if (len && strncmp(s, "base64url.bearer.authorization.k8s.io.", 38) != 0)
            strbuf_addf(&out, "%s%.*s", out.len ? ", " : "", (int)len, s);
        s += len;
    }
    return strbuf_detach(&out);
}

static void add_header(struct strbuf *b, const struct http_header *h)
{
    _cleanup_free_ char *protocols =
        strcasecmp(h->name, "Sec-WebSocket-Protocol") == 0 ? without_token(h->value) : NULL;

    if (!protocols || *protocols)
        strbuf_addf(b, "%s: %s\r\n", h->name, protocols ? protocols : h->value);
}

static void build_request(struct proxy *p, const struct proxy_target *t)
{
    const struct http_headers *headers = http_request_headers(p->req);
    const char *method = http_method(p->req), *upgrade = http_headers_get(headers, "Upgrade");
    const char *host = http_headers_get(headers, "Host");
    struct strbuf *b = &p->request;
    size_t len;
    const char *body = http_body(p->req, &len);

    p->upgrade = upgrade && http_headers_has_token(headers, "Connection", "Upgrade");
    strbuf_addf(b, "%s %s HTTP/1.1\r\nHost: localhost:%u\r\n", method, t->target, t->port);
    for (size_t i = 0; i < headers->count; i++)
        if (!of_connection(headers, headers->items[i].name) && !stays_outside(headers->items[i].name))
            add_header(b, &headers->items[i]);
    if (host)
        strbuf_addf(b, "X-Forwarded-Host: %s\r\n", host);
    strbuf_addf(b, "X-Forwarded-Proto: %s\r\nX-Forwarded-Prefix: %s\r\n", http_tls(p->req) ? "https" : "http",
                p->prefix);
    if (p->upgrade)
        strbuf_addf(b, "Connection: Upgrade\r\nUpgrade: %s\r\n", upgrade);
    else
        strbuf_adds(b, "Connection: close\r\n");
    if (len || streq(method, "POST") || streq(method, "PUT") || streq(method, "PATCH"))
        strbuf_addf(b, "Content-Length: %zu\r\n", len);
    strbuf_adds(b, "\r\n");
    strbuf_add(b, body, len);
}

/* After an upgrade. */

static void relay(struct proxy *p, struct bufferevent *from, struct bufferevent *to)
{
    (void)bufferevent_write_buffer(to, bufferevent_get_input(from));
    if (evbuffer_get_length(bufferevent_get_output(to)) > OUTPUT_HIGH_BYTES)
        (void)bufferevent_disable(from, EV_READ);
    if ((p->inside_over || p->client_gone) && evbuffer_get_length(bufferevent_get_output(to)) == 0)
        proxy_free(p);
}

static struct bufferevent *other(const struct proxy *p, const struct bufferevent *bev)
{
    return bev == p->inside ? p->client : p->inside;
}

static void on_relay_read(struct bufferevent *bev, void *arg)
{
    struct proxy *p = arg;

    relay(p, bev, other(p, bev));
}

static void on_relay_written(struct bufferevent *bev, void *arg)
{
    struct proxy *p = arg;

    if (bev == p->client ? p->inside_over : p->client_gone)
        proxy_free(p);
    else
        (void)bufferevent_enable(other(p, bev), EV_READ);
}

static void on_relay_event(struct bufferevent *bev, short what, void *arg)
{
    struct proxy *p = arg;

    if (!(what & (BEV_EVENT_EOF | BEV_EVENT_ERROR)))
        return;
    if ((what & BEV_EVENT_ERROR) || p->inside_over || p->client_gone) {
        proxy_free(p);
        return;
    }
    *(bev == p->inside ? &p->inside_over : &p->client_gone) = true;
    relay(p, bev, other(p, bev));
}

static void begin_relay(struct proxy *p)
{
    p->client = http_take_over(take_ptr(p->req), 101);
    if (!p->client) {
        proxy_free(p);
        return;
    }
    struct bufferevent *both[] = {p->inside, p->client};
    for (size_t i = 0; i < ARRAY_LEN(both); i++) {
        bufferevent_setcb(both[i], on_relay_read, on_relay_written, on_relay_event, p);
        bufferevent_setwatermark(both[i], EV_READ, 0, OUTPUT_HIGH_BYTES);
        (void)bufferevent_enable(both[i], EV_READ | EV_WRITE);
        bufferevent_trigger(both[i], EV_READ, BEV_TRIG_DEFER_CALLBACKS); /* what came with the heads */
    }
}

/* The answer. */

/* A place on the same server is one behind the prefix. */
static void add_location(struct proxy *p, const char *value)
{
    bool local = value[0] == '/' && value[1] != '/';
    _cleanup_free_ char *location = xasprintf("%s%s", local ? p->prefix : "", value);

    http_add_header(p->req, "Location", location);
}

static void pass_head(struct proxy *p)
{
    static const char *const ours[] = {"Content-Type", "Content-Length"};
    const struct http_headers *h = &p->head.headers;
    const char *length_text = http_headers_get(h, "Content-Length");
    int64_t length = -1;

    for (size_t i = 0; i < h->count; i++) {
        const char *name = h->items[i].name;
        if (strcasecmp(name, "Location") == 0)
            add_location(p, h->items[i].value);
        else if (!of_connection(h, name) && !is_one_of(name, ours, ARRAY_LEN(ours)))
            http_add_header(p->req, name, h->items[i].value);
    }
    if (p->head.status == 101)
        return;
    if (length_text && !parse_i64(length_text, &length))
        length = -1;
    http_start_sized(p->req, p->head.status, http_headers_get(h, "Content-Type"), length);
}

/* 1: there is a whole head now, and it is passed on; 0: more is needed, or p is gone with what there was. */
static int read_head(struct proxy *p)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    struct evbuffer *in = bufferevent_get_input(p->inside);
    size_t len = MIN(evbuffer_get_length(in), (size_t)HEAD_MAX_BYTES + 1);
    ssize_t n = len ? http_parse_response_head((const char *)evbuffer_pullup(in, (ssize_t)len), len, HEAD_MAX_BYTES,
                                               &p->scanned, &p->head, &err)
                    : 0;

    if (n > 0 && http_body_of_response(&p->head, streq(http_method(p->req), "HEAD"), &p->reader, &err) < 0)
        n = -EBADMSG;
    if (n == 0 && p->inside_over)
        fail(p, "the connection was closed before there was an answer");
    else if (n < 0)
        fail(p, error_text(&err));
    if (n <= 0)
        return 0;
    (void)evbuffer_drain(in, (size_t)n);
    if (p->head.status == 101 && p->upgrade) {
        const char *upgrade = http_headers_get(&p->head.headers, "Upgrade");
        http_add_header(p->req, "Connection", "Upgrade");
        http_add_header(p->req, "Upgrade", upgrade ? upgrade : "");
        pass_head(p);
        begin_relay(p);
        return 0;
    }
    if (p->head.status == 101) {
        fail(p, "it switched protocols without being asked to");
        return 0;
    }
    if (p->head.status < 200) { /* 100 Continue and the like: the answer follows */
        http_head_free(&p->head);
        p->scanned = 0;
        return read_head(p);
    }
    p->head_done = true;
    pass_head(p);
    return 1;
}

static void sink(void *arg, const char *data, size_t len)
{
    struct proxy *p = arg;

    p->client_gone = p->client_gone || !http_write(p->req, data, len);
}

/* Takes what has come from inside as far as the client lets it. p may be gone afterwards. */
static void advance(struct proxy *p)
{
    struct evbuffer *in = bufferevent_get_input(p->inside);

    if (!p->head_done && read_head(p) == 0)
        return;
    while (!p->reader.done && !p->client_gone && !p->paused && evbuffer_get_length(in) > 0) {
        size_t len = evbuffer_get_contiguous_space(in);
        ssize_t n = http_body_feed(&p->reader, (const char *)evbuffer_pullup(in, (ssize_t)len), len, sink, p);
        if (n < 0) {
            fail(p, "malformed answer");
            return;
        }
        (void)evbuffer_drain(in, (size_t)n);
        p->paused = http_output_pending(p->req) > OUTPUT_HIGH_BYTES;
    }
    if (p->reader.done || p->client_gone || (p->inside_over && !p->paused && p->reader.kind == HTTP_BODY_UNTIL_CLOSE)) {
        http_end(p->req);
        proxy_free(p);
    } else if (p->inside_over && !p->paused) {
        fail(p, "the connection was closed within the answer");
    } else if (p->paused) {
        (void)bufferevent_disable(p->inside, EV_READ);
    }
}

static void on_client_drained(void *arg, struct http_request *req UNUSED)
{
    struct proxy *p = arg;

    if (!p->paused)
        return;
    p->paused = false;
    if (!p->inside_over)
        (void)bufferevent_enable(p->inside, EV_READ);
    advance(p);
}

static void on_client_closed(void *arg, struct http_request *req)
{
    proxy_free(arg);
    http_end(req);
}

static void on_inside_read(struct bufferevent *bev UNUSED, void *arg)
{
    advance(arg);
}

static void on_inside_event(struct bufferevent *bev UNUSED, short what, void *arg)
{
    struct proxy *p = arg;

    if (!(what & (BEV_EVENT_EOF | BEV_EVENT_ERROR)))
        return;
    p->inside_over = true;
    advance(p);
}

static void on_connected(void *arg, struct bufferevent *bev)
{
    struct proxy *p = arg;

    p->connecting = NULL;
    p->inside = bev;
    bufferevent_setcb(bev, on_inside_read, NULL, on_inside_event, p);
    bufferevent_setwatermark(bev, EV_READ, 0, OUTPUT_HIGH_BYTES);
    (void)bufferevent_enable(bev, EV_READ | EV_WRITE);
    (void)bufferevent_write(bev, p->request.data, p->request.len);
}

static void on_connect_failed(void *arg, const struct error *err)
{
    struct proxy *p = arg;

    p->connecting = NULL;
    fail(p, error_text(err));
}

void gateway_proxy(void *arg, const struct proxy_target *target, struct http_request *req)
{
    static const struct guest_connect_callbacks callbacks = {.connected = on_connected, .failed = on_connect_failed};
    _cleanup_error_ struct error err = ERROR_INIT;
    const struct gateway *g = arg;
    int fd = gateway_connect_guest(g, target->pod, &err);
    struct proxy *p = xcalloc(1, sizeof(*p));

    p->req = req;
    p->prefix = xstrdup(target->prefix);
    build_request(p, target);
    if (fd >= 0)
        p->connecting = guest_connect(g->base, fd, target->port, &callbacks, p, &err);
    if (!p->connecting) {
        fail(p, error_text(&err));
        return;
    }
    http_on_close(req, on_client_closed, p);
    http_on_drain(req, on_client_drained, p);
}
