#include "wire/http.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "base/timeutil.h"
#include "wire/http_parse.h"

#include <arpa/inet.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/event.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/un.h>

#define HEAD_MAX_BYTES (256u << 10)
#define COLLECT_MAX_BYTES (512u << 20)
#define READ_MAX_BYTES (1u << 20)
#define IDLE_MAX_NS (60 * NSEC_PER_SEC)

struct client_conn {
    struct http_client *client;
    struct client_conn *next;
    struct bufferevent *bev;
    struct http_call *call; /* NULL = idle */
    int64_t idle_since_ns;
    bool connected, reused;
};

struct http_client {
    struct event_base *base;
    char *host, *unix_path, *bearer, *user_agent, *host_header;
    uint16_t port;
    SSL_CTX *tls;
    int connect_timeout_ms;
    size_t max_connections, count;
    struct client_conn *conns;
    struct http_call *waiting, **waiting_tail;
    struct http_call *failed; /* to be reported from the loop */
    struct event *pump;
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
static void call_broken(struct http_call *call, const char *why)
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
    (void)error_set(&call->error, EIO, "%s %s: %s", call->method, c->host ? c->host : c->unix_path, why);
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
    bufferevent_setcb(bev, NULL, NULL, NULL, NULL);
    bufferevent_setwatermark(bev, EV_READ, 0, 0);
    call->upgraded(call->arg, bev, &call->head.headers);
    call_free(call);
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

static void on_read(struct bufferevent *bev, void *arg)
{
    struct client_conn *conn = arg;
    struct http_call *call = conn->call;
    struct evbuffer *in = bufferevent_get_input(bev);
    _cleanup_error_ struct error err = ERROR_INIT;

    if (!call) { /* an idle connection that speaks is of no use */
        conn_free(conn);
        return;
    }
    call->entered = true;
    enum progress p = call->head_done ? PROGRESS_MORE : read_head(call, in, &err);
    if (p == PROGRESS_ENDED)
        return;
    if (p == PROGRESS_MORE && call->head_done && !call->cancelled)
        p = read_body(call, in, &err);
    if (p == PROGRESS_ENDED)
        return;
    call->entered = false;
    if (call->cancelled) {
        conn->call = NULL;
        conn_free(conn);
        call_free(call);
    } else if (p == PROGRESS_BROKEN) {
        call_broken(call, error_text(&err));
    }
}

static void send_request(struct client_conn *conn)
{
    struct http_call *call = conn->call;

    (void)bufferevent_write(conn->bev, call->request.data, call->request.len);
}

static char *tls_failure(struct bufferevent *bev)
{
    unsigned long code = bufferevent_get_openssl_error(bev);
    char text[256];

    if (!code)
        return NULL;
    ERR_error_string_n(code, text, sizeof(text));
    SSL *ssl = bufferevent_openssl_get_ssl(bev);
    long verify = ssl ? SSL_get_verify_result(ssl) : X509_V_OK;

    return verify != X509_V_OK ? xasprintf("TLS: %s", X509_verify_cert_error_string(verify))
                               : xasprintf("TLS: %s", text);
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
    struct client_conn *conn = arg;
    struct http_call *call = conn->call;
    int code = errno;

    if (what & BEV_EVENT_CONNECTED) {
        conn->connected = true;
        if (call)
            send_request(conn);
        return;
    }
    if (!call) {
        conn_free(conn);
        wake(conn->client);
        return;
    }
    if (call->head_done && call->reader.kind == HTTP_BODY_UNTIL_CLOSE && (what & BEV_EVENT_EOF)) {
        call->reader.done = true;
        call_done(call);
        return;
    }
    _cleanup_free_ char *tls = conn->client->tls ? tls_failure(bev) : NULL;
    call_broken(call, tls                        ? tls
                      : what & BEV_EVENT_TIMEOUT ? "timed out"
                      : what & BEV_EVENT_EOF     ? "connection closed before the answer was complete"
                                                 : strerror(code));
}

/* Name resolution blocks, so it is done for addresses and localhost names as they are and only once per connection. */
static int connect_tcp(struct client_conn *conn)
{
    struct http_client *c = conn->client;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *list = NULL;
    _cleanup_free_ char *port = xasprintf("%u", c->port);

    if (getaddrinfo(c->host, port, &hints, &list) != 0 || !list)
        return -1;
    int r = bufferevent_socket_connect(conn->bev, list->ai_addr, (int)list->ai_addrlen);
    freeaddrinfo(list);
    const int on = 1;
    if (r == 0)
        (void)setsockopt(bufferevent_getfd(conn->bev), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return r;
}

static int connect_unix(struct client_conn *conn)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    size_t len = strlen(conn->client->unix_path);

    if (len >= sizeof(sa.sun_path))
        return -1;
    memcpy(sa.sun_path, conn->client->unix_path, len + 1);
    return bufferevent_socket_connect(conn->bev, (struct sockaddr *)&sa, sizeof(sa));
}

static SSL *new_ssl(struct http_client *c)
{
    SSL *ssl = SSL_new(c->tls);
    unsigned char addr[16];
    bool numeric = inet_pton(AF_INET, c->host, addr) == 1 || inet_pton(AF_INET6, c->host, addr) == 1;

    if (!ssl)
        abort();
    if (numeric)
        (void)X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), c->host);
    else if (SSL_set1_host(ssl, c->host) != 1 || SSL_set_tlsext_host_name(ssl, c->host) != 1)
        abort();
    return ssl;
}

static struct client_conn *conn_open(struct http_client *c)
{
    struct client_conn *conn = xcalloc(1, sizeof(*conn));
    struct timeval timeout = {.tv_sec = c->connect_timeout_ms / 1000, .tv_usec = c->connect_timeout_ms % 1000 * 1000};

    conn->client = c;
    conn->bev = c->tls ? bufferevent_openssl_socket_new(c->base, -1, new_ssl(c), BUFFEREVENT_SSL_CONNECTING,
                                                        BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS)
                       : bufferevent_socket_new(c->base, -1, BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS);
    if (!conn->bev)
        abort();
    if (c->tls)
        bufferevent_openssl_set_allow_dirty_shutdown(conn->bev, 1);
    conn->next = c->conns;
    c->conns = conn;
    c->count++;
    bufferevent_setcb(conn->bev, on_read, NULL, on_event, conn);
    bufferevent_setwatermark(conn->bev, EV_READ, 0, READ_MAX_BYTES);
    (void)bufferevent_set_timeouts(conn->bev, NULL, &timeout);
    (void)bufferevent_enable(conn->bev, EV_READ | EV_WRITE);
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
        if ((c->unix_path ? connect_unix(conn) : connect_tcp(conn)) < 0 && call->conn == conn)
            call_broken(call, "cannot connect");
    }
    while (c->failed) {
        struct http_call *call = c->failed;

        c->failed = call->next;
        if (!call->cancelled && call->cb->failed)
            call->cb->failed(call->arg, &call->error);
        call_free(call);
    }
}

static void on_pump(evutil_socket_t fd UNUSED, short what UNUSED, void *arg)
{
    pump(arg);
}

struct http_client *http_client_new(struct event_base *base, const struct http_client_options *o)
{
    struct http_client *c = xcalloc(1, sizeof(*c));

    c->base = base;
    c->host = o->host ? xstrdup(o->host) : NULL;
    c->port = o->port;
    c->unix_path = o->unix_path ? xstrdup(o->unix_path) : NULL;
    c->tls = o->tls;
    c->bearer = o->bearer_token ? xstrdup(o->bearer_token) : NULL;
    c->user_agent = xstrdup(o->user_agent ? o->user_agent : "holt");
    c->host_header =
        c->unix_path ? xstrdup("localhost") : xasprintf(strchr(c->host, ':') ? "[%s]:%u" : "%s:%u", c->host, c->port);
    c->connect_timeout_ms = o->connect_timeout_ms ? o->connect_timeout_ms : 10000;
    c->max_connections = o->max_connections ? o->max_connections : 64;
    c->waiting_tail = &c->waiting;
    c->pump = event_new(base, -1, 0, on_pump, c);
    if (!c->pump)
        abort();
    return c;
}

void http_client_free(struct http_client *c)
{
    if (!c)
        return;
    while (c->conns) {
        if (c->conns->call)
            call_free(c->conns->call);
        conn_free(c->conns);
    }
    struct http_call *lists[] = {c->waiting, c->failed};
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        for (struct http_call *call = lists[i], *next; call; call = next) {
            next = call->next;
            call_free(call);
        }
    }
    event_free(c->pump);
    free(c->host);
    free(c->unix_path);
    if (c->bearer)
        explicit_bzero(c->bearer, strlen(c->bearer));
    free(c->bearer);
    free(c->user_agent);
    free(c->host_header);
    free(c);
}

static void on_call_timeout(evutil_socket_t fd UNUSED, short what UNUSED, void *arg)
{
    struct http_call *call = arg;
    struct http_client *c = call->client;

    if (call->conn) {
        call->conn->reused = false; /* no second try: the time is over */
        call_broken(call, "timed out");
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

static void build_request(struct http_call *call, const char *target, const struct http_headers *headers,
                          const void *body, size_t len)
{
    struct http_client *c = call->client;
    struct strbuf *b = &call->request;
    bool sends_body = len || streq(call->method, "POST") || streq(call->method, "PUT") || streq(call->method, "PATCH");

    strbuf_addf(b, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: %s\r\n", call->method, target, c->host_header,
                c->user_agent);
    if (c->bearer)
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
