#include "wire/http.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "base/timeutil.h"
#include "wire/dial.h"
#include "wire/http_parse.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/dns.h>
#include <event2/event.h>

#define HEAD_MAX_BYTES (256u << 10)
#define COLLECT_MAX_BYTES (512u << 20)
#define READ_MAX_BYTES (1u << 20)
#define IDLE_MAX_NS (60 * NSEC_PER_SEC)

struct client_conn {
    struct http_client *client;
    struct client_conn *next;
    struct bufferevent *bev;
    struct http_call *call; /* NULL = idle */
    struct event *timer;    /* until connected, TLS included */
    int64_t idle_since_ns;
    bool connected, reused;
};

struct http_client {
    struct event_base *base;
    struct dial_target target; /* owned strings */
    char *bearer, *user_agent, *host_header;
    int connect_timeout_ms;
    size_t max_connections, count;
    struct client_conn *conns;
    struct http_call *waiting, **waiting_tail;
    struct http_call *failed; /* to be reported from the loop */
    struct event *pump;
    struct evdns_base *dns; /* made when a host is given by name */
    unsigned refs;          /* the owner's and those of callbacks on the stack */
};

struct http_call {
    struct http_client *client;
    struct http_call *next;
    struct client_conn *conn;
    char *method;
    struct strbuf request;
    const struct http_call_callbacks *cb;
    void (*upgraded)(void *arg, struct bufferevent *bev, const struct http_headers *headers);
    void *arg;
    struct event *timer;
    size_t scanned;
    bool head_done;
    struct http_head head;
    struct http_body_reader reader;
    struct strbuf body;
    struct error error;
    bool cancelled, entered, too_long;
};

static void pump(struct http_client *c);

static void call_free(struct http_call *call)
{
    if (call->timer)
        event_free(call->timer);
    http_head_free(&call->head);
    strbuf_free(&call->body);
    if (call->request.data)
        explicit_bzero(call->request.data, call->request.capacity); /* holds the token */
    strbuf_free(&call->request);
    error_clear(&call->error);
    free(call->method);
    free(call);
}

static void wake(struct http_client *c)
{
    event_active(c->pump, EV_TIMEOUT, 0);
}

static void conn_free(struct client_conn *conn)
{
    struct http_client *c = conn->client;

    for (struct client_conn **p = &c->conns; *p; p = &(*p)->next) {
        if (*p == conn) {
            *p = conn->next;
            break;
        }
    }
    c->count--;
    if (conn->timer)
        event_free(conn->timer);
    if (conn->bev)
        bufferevent_free(conn->bev);
    free(conn);
}

static void push_failed(struct http_call *call)
{
    call->next = call->client->failed;
    call->client->failed = call;
    wake(call->client);
}

/* Ends a call without a whole answer. A safe request on a connection that had been idle is tried once more. */
static void call_broken(struct http_call *call, int code, const char *why)
{
    struct client_conn *conn = call->conn;
    struct http_client *c = call->client;
    bool again =
        conn && conn->reused && !call->head_done && !streq(call->method, "POST") && !streq(call->method, "PATCH");

    call->conn = NULL;
    if (conn) {
        conn->call = NULL;
        conn_free(conn);
    }
    if (again) {
        call->scanned = 0;
        call->next = c->waiting;
        c->waiting = call;
        if (!call->next)
            c->waiting_tail = &call->next;
        wake(c);
        return;
    }
    (void)error_set(&call->error, code, "%s %s: %s", call->method,
                    c->target.unix_path ? c->target.unix_path : c->host_header, why);
    push_failed(call);
}

static void call_done(struct http_call *call)
{
    struct client_conn *conn = call->conn;
    struct http_client *c = call->client;
    bool keep = http_keep_alive(&call->head) && call->reader.kind != HTTP_BODY_UNTIL_CLOSE;

    conn->call = NULL;
    call->conn = NULL;
    if (keep && evbuffer_get_length(bufferevent_get_input(conn->bev)) == 0)
        conn->idle_since_ns = time_monotonic_ns();
    else
        conn_free(conn);
    wake(c);
    if (call->cb->done)
        call->cb->done(call->arg, call->head.status, &call->head.headers, strbuf_str(&call->body), call->body.len);
    call_free(call);
}

static void sink(void *arg, const char *data, size_t len)
{
    struct http_call *call = arg;

    if (call->cancelled)
        return;
    if (call->cb->data)
        call->cb->data(call->arg, data, len);
    else if (call->body.len + len > COLLECT_MAX_BYTES)
        call->too_long = true;
    else
        strbuf_add(&call->body, data, len);
}

static void call_upgraded(struct http_call *call)
{
    struct client_conn *conn = call->conn;
    struct bufferevent *bev = conn->bev;

    conn->bev = NULL;
    conn->call = NULL;
    conn_free(conn);
    wake(call->client);
    bufferevent_setcb(bev, NULL, NULL, NULL, NULL);
    bufferevent_setwatermark(bev, EV_READ, 0, 0);
    call->upgraded(call->arg, bev, &call->head.headers);
    call_free(call);
}

static void client_unref(struct http_client *c)
{
    if (--c->refs)
        return;
    event_free(c->pump);
    if (c->dns)
        evdns_base_free(c->dns, 1);
    free(c->target.host);
    free(c->target.unix_path);
    if (c->bearer)
        explicit_bzero(c->bearer, strlen(c->bearer));
    free(c->bearer);
    free(c->user_agent);
    free(c->host_header);
    free(c);
}

enum progress { PROGRESS_MORE, PROGRESS_ENDED, PROGRESS_BROKEN };

static enum progress read_head(struct http_call *call, struct evbuffer *in, struct error *err)
{
    size_t len = MIN(evbuffer_get_length(in), HEAD_MAX_BYTES + 1);
    ssize_t n = len ? http_parse_response_head((const char *)evbuffer_pullup(in, (ssize_t)len), len, HEAD_MAX_BYTES,
                                               &call->scanned, &call->head, err)
                    : 0;

    if (n < 0 || (n > 0 && http_body_of_response(&call->head, streq(call->method, "HEAD"), &call->reader, err) < 0))
        return PROGRESS_BROKEN;
    if (n == 0)
        return PROGRESS_MORE;
    (void)evbuffer_drain(in, (size_t)n);
    if (call->head.status == 101 && call->upgraded) {
        call_upgraded(call);
        return PROGRESS_ENDED;
    }
    if (call->head.status < 200) { /* 100 Continue and the like: the answer follows */
        http_head_free(&call->head);
        call->scanned = 0;
        return read_head(call, in, err);
    }
    call->head_done = true;
    if (call->cb->headers)
        call->cb->headers(call->arg, call->head.status, &call->head.headers);
    return PROGRESS_MORE;
}

static enum progress read_body(struct http_call *call, struct evbuffer *in, struct error *err)
{
    for (size_t len; !call->cancelled && !call->reader.done && (len = evbuffer_get_contiguous_space(in)) > 0;) {
        ssize_t n = http_body_feed(&call->reader, (const char *)evbuffer_pullup(in, (ssize_t)len), len, sink, call);
        if (call->cancelled)
            break;
        if (n < 0 || call->too_long) {
            (void)error_set(err, EBADMSG, n < 0 ? "malformed body" : "answer too large");
            return PROGRESS_BROKEN;
        }
        (void)evbuffer_drain(in, (size_t)n);
    }
    if (!call->cancelled && call->reader.done) {
        call_done(call);
        return PROGRESS_ENDED;
    }
    return PROGRESS_MORE;
}

/* Takes what has arrived as far as it goes. The call may be gone afterwards. */
static void call_read(struct client_conn *conn, struct http_call *call)
{
    struct http_client *c = conn->client;
    struct evbuffer *in = bufferevent_get_input(conn->bev);
    _cleanup_error_ struct error err = ERROR_INIT;

    call->entered = true;
    enum progress p = call->head_done ? PROGRESS_MORE : read_head(call, in, &err);
    if (p == PROGRESS_MORE && call->head_done && !call->cancelled)
        p = read_body(call, in, &err);
    if (p == PROGRESS_ENDED)
        return;
    call->entered = false;
    if (call->cancelled) {
        conn->call = NULL;
        conn_free(conn);
        call_free(call);
        wake(c);
    } else if (p == PROGRESS_BROKEN) {
        call_broken(call, EBADMSG, error_text(&err));
    }
}

static void on_read(struct bufferevent *bev UNUSED, void *arg)
{
    struct client_conn *conn = arg;
    struct http_client *c = conn->client;

    if (!conn->call) { /* an idle connection that speaks is of no use */
        conn_free(conn);
        return;
    }
    c->refs++;
    call_read(conn, conn->call);
    client_unref(c);
}

static void send_request(struct client_conn *conn)
{
    struct http_call *call = conn->call;

    (void)bufferevent_write(conn->bev, call->request.data, call->request.len);
}

/* The connection's end, seen by the call that uses it. */
static void call_lost(struct client_conn *conn, short what, int code)
{
    struct http_call *call = conn->call;
    int dns = bufferevent_socket_get_dns_error(conn->bev);
    _cleanup_free_ char *tls = conn->client->target.tls ? dial_tls_failure(conn->bev) : NULL;

    if (call->head_done && call->reader.kind == HTTP_BODY_UNTIL_CLOSE && (what & BEV_EVENT_EOF)) {
        call->reader.done = true;
        call_done(call);
    } else if (dns) {
        call_broken(call, EHOSTUNREACH, evutil_gai_strerror(dns));
    } else if (tls) {
        call_broken(call, EPROTO, tls);
    } else if (what & BEV_EVENT_EOF) {
        call_broken(call, ECONNRESET, "connection closed before the answer was complete");
    } else {
        call_broken(call, code ? code : EIO, strerror(code ? code : EIO));
    }
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
    struct client_conn *conn = arg;
    struct http_client *c = conn->client;
    int code = EVUTIL_SOCKET_ERROR();

    if (what & BEV_EVENT_CONNECTED) {
        conn->connected = true;
        (void)evtimer_del(conn->timer);
        dial_connected(bev);
        if (conn->call)
            send_request(conn);
        return;
    }
    c->refs++;
    if (conn->call) {
        call_lost(conn, what, code);
    } else {
        conn_free(conn);
        wake(c);
    }
    client_unref(c);
}

static void on_connect_timeout(evutil_socket_t fd UNUSED, short what UNUSED, void *arg)
{
    struct client_conn *conn = arg;

    call_broken(conn->call, ETIMEDOUT, "timed out while connecting");
}

static struct client_conn *conn_open(struct http_client *c)
{
    struct client_conn *conn = xcalloc(1, sizeof(*conn));
    struct timeval timeout = {.tv_sec = c->connect_timeout_ms / 1000, .tv_usec = c->connect_timeout_ms % 1000 * 1000};

    conn->client = c;
    conn->bev = dial_new(c->base, &c->target);
    conn->timer = evtimer_new(c->base, on_connect_timeout, conn);
    if (!conn->timer || evtimer_add(conn->timer, &timeout) < 0)
        abort();
    conn->next = c->conns;
    c->conns = conn;
    c->count++;
    if (conn->bev) {
        bufferevent_setcb(conn->bev, on_read, NULL, on_event, conn);
        bufferevent_setwatermark(conn->bev, EV_READ, 0, READ_MAX_BYTES);
        (void)bufferevent_enable(conn->bev, EV_READ | EV_WRITE);
    }
    return conn;
}

static struct client_conn *idle_conn(struct http_client *c)
{
    int64_t now = time_monotonic_ns();

    for (struct client_conn *conn = c->conns, *next; conn; conn = next) {
        next = conn->next;
        if (conn->call)
            continue;
        if (conn->connected && now - conn->idle_since_ns < IDLE_MAX_NS)
            return conn;
        conn_free(conn);
    }
    return NULL;
}

/* Hands waiting calls to connections and reports the failed ones. */
static void pump(struct http_client *c)
{
    c->refs++;
    while (c->waiting) {
        struct client_conn *conn = idle_conn(c);
        struct http_call *call = c->waiting;

        if (!conn && c->count >= c->max_connections)
            break;
        c->waiting = call->next;
        if (!c->waiting)
            c->waiting_tail = &c->waiting;
        call->next = NULL;
        if (conn) {
            conn->reused = true;
            conn->call = call;
            call->conn = conn;
            send_request(conn);
            continue;
        }
        conn = conn_open(c);
        conn->call = call;
        call->conn = conn;
        if (!conn->bev)
            call_broken(call, EINVAL, "not a name that TLS can verify");
        else if (dial(c->base, conn->bev, &c->target, &c->dns) < 0 && call->conn == conn)
            call_broken(call, errno ? errno : EIO, strerror(errno ? errno : EIO));
    }
    while (c->failed) {
        struct http_call *call = c->failed;

        c->failed = call->next;
        if (!call->cancelled && call->cb->failed)
            call->cb->failed(call->arg, &call->error);
        call_free(call);
    }
    client_unref(c);
}

static void on_pump(evutil_socket_t fd UNUSED, short what UNUSED, void *arg)
{
    pump(arg);
}

struct http_client *http_client_new(struct event_base *base, const struct http_client_options *o)
{
    struct http_client *c = xcalloc(1, sizeof(*c));

    c->base = base;
    c->refs = 1;
    c->target = (struct dial_target){.host = o->host ? xstrdup(o->host) : NULL,
                                     .port = o->port,
                                     .unix_path = o->unix_path ? xstrdup(o->unix_path) : NULL,
                                     .tls = o->tls};
    c->bearer = o->bearer_token ? xstrdup(o->bearer_token) : NULL;
    c->user_agent = xstrdup(o->user_agent ? o->user_agent : "holt");
    c->host_header =
        !o->host ? xstrdup("localhost") : xasprintf(strchr(o->host, ':') ? "[%s]:%u" : "%s:%u", o->host, o->port);
    c->connect_timeout_ms = o->connect_timeout_ms ? o->connect_timeout_ms : 10000;
    c->max_connections = o->max_connections ? o->max_connections : 64;
    c->waiting_tail = &c->waiting;
    c->pump = event_new(base, -1, 0, on_pump, c);
    if (!c->pump)
        abort();
    return c;
}

static void free_calls(struct http_call **list)
{
    while (*list) {
        struct http_call *call = *list;

        *list = call->next;
        call_free(call);
    }
}

void http_client_free(struct http_client *c)
{
    if (!c)
        return;
    for (struct client_conn *conn = c->conns, *next; conn; conn = next) {
        next = conn->next;
        if (conn->call && conn->call->entered) { /* its callback called us: call_read() cleans up */
            conn->call->cancelled = true;
            continue;
        }
        if (conn->call)
            call_free(conn->call);
        conn_free(conn);
    }
    free_calls(&c->waiting);
    free_calls(&c->failed);
    c->waiting_tail = &c->waiting;
    client_unref(c);
}

static void on_call_timeout(evutil_socket_t fd UNUSED, short what UNUSED, void *arg)
{
    struct http_call *call = arg;
    struct http_client *c = call->client;

    if (call->conn) {
        call->conn->reused = false; /* no second try: the time is over */
        call_broken(call, ETIMEDOUT, "timed out");
        return;
    }
    for (struct http_call **p = &c->waiting; *p; p = &(*p)->next) {
        if (*p != call)
            continue;
        *p = call->next;
        if (!*p)
            c->waiting_tail = p;
        (void)error_set(&call->error, ETIMEDOUT, "%s %s: timed out waiting for a connection", call->method,
                        c->host_header);
        push_failed(call);
        return;
    }
}

/* What would let a value from outside add header lines or requests of its own. */
static bool is_clean(const char *s, bool blanks)
{
    for (; *s; s++)
        if ((unsigned char)*s == 0x7f || (unsigned char)*s < (blanks ? 0x20 : 0x21))
            return false;
    return true;
}

static bool request_is_clean(const struct http_client *c, const char *method, const char *target,
                             const struct http_headers *headers)
{
    bool clean =
        is_clean(method, false) && *target && is_clean(target, false) && (!c->bearer || is_clean(c->bearer, false));

    for (size_t i = 0; clean && headers && i < headers->count; i++)
        clean = is_clean(headers->items[i].name, false) && !strchr(headers->items[i].name, ':') &&
                is_clean(headers->items[i].value, true);
    return clean;
}

static void build_request(struct http_call *call, const char *target, const struct http_headers *headers,
                          const void *body, size_t len)
{
    struct http_client *c = call->client;
    struct strbuf *b = &call->request;
    bool sends_body = len || streq(call->method, "POST") || streq(call->method, "PUT") || streq(call->method, "PATCH");

    strbuf_addf(b, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: %s\r\n", call->method, target, c->host_header,
                c->user_agent);
    if (c->bearer && !(headers && http_headers_get(headers, "Authorization")))
        strbuf_addf(b, "Authorization: Bearer %s\r\n", c->bearer);
    for (size_t i = 0; headers && i < headers->count; i++)
        strbuf_addf(b, "%s: %s\r\n", headers->items[i].name, headers->items[i].value);
    if (sends_body)
        strbuf_addf(b, "Content-Length: %zu\r\n", len);
    strbuf_adds(b, "\r\n");
    strbuf_add(b, body, len);
}

struct http_call *http_call(struct http_client *c, const char *method, const char *target,
                            const struct http_headers *headers, const void *body, size_t len, int timeout_ms,
                            const struct http_call_callbacks *cb, void *arg)
{
    struct http_call *call = xcalloc(1, sizeof(*call));

    call->client = c;
    call->method = xstrdup(method);
    call->cb = cb;
    call->arg = arg;
    if (!request_is_clean(c, method, target, headers)) {
        (void)error_set(&call->error, EINVAL, "%s: control character in the request", c->host_header);
        push_failed(call);
        return call;
    }
    build_request(call, target, headers, body, len);
    if (timeout_ms > 0) {
        struct timeval tv = {.tv_sec = timeout_ms / 1000, .tv_usec = timeout_ms % 1000 * 1000};
        call->timer = evtimer_new(c->base, on_call_timeout, call);
        if (!call->timer || evtimer_add(call->timer, &tv) < 0)
            abort();
    }
    *c->waiting_tail = call;
    c->waiting_tail = &call->next;
    wake(c);
    return call;
}

struct http_call *
http_call_upgrade(struct http_client *c, const char *method, const char *target, const struct http_headers *headers,
                  const struct http_call_callbacks *cb,
                  void (*upgraded)(void *arg, struct bufferevent *bev, const struct http_headers *headers), void *arg)
{
    struct http_call *call = http_call(c, method, target, headers, NULL, 0, 0, cb, arg);

    call->upgraded = upgraded;
    return call;
}

void http_call_cancel(struct http_call *call)
{
    struct http_client *c = call->client;

    if (call->cancelled)
        return;
    if (call->entered) { /* from within its own callback: on_read cleans up */
        call->cancelled = true;
        return;
    }
    if (call->conn) {
        call->conn->call = NULL;
        conn_free(call->conn);
        wake(c);
        call_free(call);
        return;
    }
    for (struct http_call **p = &c->waiting; *p; p = &(*p)->next) {
        if (*p != call)
            continue;
        *p = call->next;
        if (!*p)
            c->waiting_tail = p;
        call_free(call);
        return;
    }
    call->cancelled = true; /* in the list of the failed */
}
