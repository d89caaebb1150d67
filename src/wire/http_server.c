#include "wire/http.h"

#include "base/log.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "base/timeutil.h"
#include "wire/http_parse.h"

#include <arpa/inet.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/event.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <sys/socket.h>

#define SWEEP_SECONDS 1
/* Input kept while a request is being worked on: pipelined bytes, no more. */
#define PIPELINE_MAX_BYTES (64u << 10)
#define ACCEPT_BATCH 64
/* How long a refused client may go on sending: closing at once would reset the connection and take our answer along. */
#define LINGER_MS 2000

struct http_server {
    struct event_base *base;
    int fd;
    SSL_CTX *tls;
    struct http_server_options options;
    http_handler handler;
    void *arg;
    struct event *accept_event, *sweep;
    struct http_conn *conns;
    size_t count;
    bool draining;
};

enum conn_state { CONN_HEAD, CONN_BODY, CONN_BUSY, CONN_CLOSING };

struct http_conn {
    struct http_server *server;
    struct http_conn *next, **prev;
    struct bufferevent *bev;
    enum conn_state state;
    int64_t deadline_ns; /* 0 = none */
    size_t scanned;
    struct http_request *req;
    struct http_body_reader reader;
    char *peer;
    int64_t peer_uid;
    unsigned entered; /* callbacks on the stack: freed when they have returned */
    bool dead;
    bool too_large;
    bool lingering; /* refused: what still comes is dropped until the client has read the answer */
};

struct http_request {
    struct http_conn *conn; /* NULL once the client is gone */
    struct event_base *base;
    struct http_head head;
    char *path;
    char **query; /* strv: name, value, name, value */
    struct strbuf body;
    struct http_headers out;
    char *peer; /* kept when the connection goes */
    bool started, chunked, keep_alive;
    void (*on_close)(void *arg, struct http_request *req);
    void *on_close_arg;
    void (*on_drain)(void *arg, struct http_request *req);
    void *on_drain_arg;
};

static void conn_process(struct http_conn *c);

static void request_free(struct http_request *req)
{
    http_head_free(&req->head);
    http_headers_free(&req->out);
    strbuf_free(&req->body);
    strv_free(req->query);
    free(req->path);
    free(req->peer);
    free(req);
}

/* Connections. */

static void conn_release(struct http_conn *c)
{
    if (c->entered)
        return;
    free(c->peer);
    free(c);
}

static void conn_unlink(struct http_conn *c)
{
    *c->prev = c->next;
    if (c->next)
        c->next->prev = c->prev;
    c->server->count--;
}

/* Ends a connection. The request in work, if any, loses it and hears of it. */
static void conn_close(struct http_conn *c)
{
    struct http_request *req = c->req;

    if (c->dead)
        return;
    c->dead = true;
    c->entered++;
    conn_unlink(c);
    if (c->bev)
        bufferevent_free(c->bev);
    c->bev = NULL;
    c->req = NULL;
    if (req) {
        req->conn = NULL;
        if (c->state == CONN_BUSY) {
            if (req->on_close)
                req->on_close(req->on_close_arg, req);
        } else {
            request_free(req); /* never reached the handler */
        }
    }
    c->entered--;
    conn_release(c);
}

static int64_t deadline_in(int ms)
{
    return time_monotonic_ns() + ms * NSEC_PER_MSEC;
}

/* Sends a last answer that belongs to no handler, then closes. */
static void conn_refuse(struct http_conn *c, int status, const char *text)
{
    struct evbuffer *out = bufferevent_get_output(c->bev);

    (void)evbuffer_add_printf(out,
                              "HTTP/1.1 %d %s\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\nConnection: "
                              "close\r\n\r\n%s\n",
                              status, status == 413 ? "Request Entity Too Large" : "Bad Request", strlen(text) + 1,
                              text);
    if (c->req) {
        request_free(c->req);
        c->req = NULL;
    }
    c->state = CONN_CLOSING;
    c->lingering = true;
    c->deadline_ns = deadline_in(LINGER_MS);
}

static char *target_path(const char *target)
{
    const char *start = target;

    if (*target != '/') {
        const char *scheme = strstr(target, "://");
        const char *slash = scheme ? strchr(scheme + 3, '/') : NULL;
        start = scheme ? (slash ? slash : "/") : target;
    }
    return xstrndup(start, strcspn(start, "?"));
}

static char **parse_query(const char *target)
{
    const char *p = strchr(target, '?');
    char **query = NULL;

    for (p = p ? p + 1 : ""; *p;) {
        size_t n = strcspn(p, "&"), name_len = strcspn(p, "=&");
        char *name = url_decode(p, MIN(name_len, n), true);
        char *value = name_len < n ? url_decode(p + name_len + 1, n - name_len - 1, true) : xstrdup("");

        if (name && value && n) {
            query = strv_append(query, name);
            query = strv_append(query, value);
        } else {
            free(name);
            free(value);
        }
        p += n + (p[n] == '&');
    }
    return query;
}

/* A new request from a whole head. */
static void conn_begin(struct http_conn *c, struct http_head *head)
{
    struct http_request *req = xcalloc(1, sizeof(*req));

    req->conn = c;
    req->base = c->server->base;
    req->head = *head;
    *head = (struct http_head){0};
    req->path = target_path(req->head.target);
    req->query = parse_query(req->head.target);
    req->keep_alive = http_keep_alive(&req->head) && !c->server->draining;
    c->req = req;
}

static bool conn_read_head(struct http_conn *c)
{
    struct evbuffer *in = bufferevent_get_input(c->bev);
    size_t max = c->server->options.max_head_bytes;
    size_t len = MIN(evbuffer_get_length(in), max + 1);
    struct http_head head = {0};
    _cleanup_error_ struct error err = ERROR_INIT;

    if (!len)
        return false;
    if (c->scanned == 0)
        c->deadline_ns = deadline_in(c->server->options.head_timeout_ms);
    const char *data = (const char *)evbuffer_pullup(in, (ssize_t)len);
    ssize_t n = http_parse_request_head(data, len, max, &c->scanned, &head, &err);
    if (n == 0)
        return false;
    if (n < 0 || http_body_of_request(&head, &c->reader, &err) < 0) {
        http_head_free(&head);
        conn_refuse(c, 400, error_text(&err));
        return false;
    }
    (void)evbuffer_drain(in, (size_t)n);
    c->scanned = 0;
    c->too_large = false;
    conn_begin(c, &head);
    c->state = CONN_BODY;
    c->deadline_ns = deadline_in(c->server->options.body_timeout_ms);
    const char *expect = http_headers_get(&c->req->head.headers, "Expect");
    if (expect && !c->reader.done && strcasecmp(expect, "100-continue") == 0)
        (void)bufferevent_write(c->bev, "HTTP/1.1 100 Continue\r\n\r\n", 25);
    return true;
}

static void body_sink(void *arg, const char *data, size_t len)
{
    struct http_conn *c = arg;

    if (c->req->body.len + len > c->server->options.max_body_bytes)
        c->too_large = true;
    else
        strbuf_add(&c->req->body, data, len);
}

static bool conn_read_body(struct http_conn *c)
{
    struct evbuffer *in = bufferevent_get_input(c->bev);

    if (c->reader.kind == HTTP_BODY_LENGTH && c->reader.left > c->server->options.max_body_bytes)
        c->too_large = true;
    while (!c->reader.done && !c->too_large) {
        size_t len = evbuffer_get_contiguous_space(in);
        if (!len)
            return false;
        ssize_t n = http_body_feed(&c->reader, (const char *)evbuffer_pullup(in, (ssize_t)len), len, body_sink, c);
        if (n < 0) {
            conn_refuse(c, 400, "malformed HTTP message: chunk");
            return false;
        }
        (void)evbuffer_drain(in, (size_t)n);
    }
    if (c->too_large) {
        _cleanup_free_ char *text =
            xasprintf("Request entity too large: limit is %zu", c->server->options.max_body_bytes);
        conn_refuse(c, 413, text);
        return false;
    }
    c->state = CONN_BUSY;
    c->deadline_ns = 0;
    c->server->handler(c->server->arg, c->req);
    return !c->dead && c->bev && c->state == CONN_HEAD;
}

/* Takes what has arrived as far as it goes. */
static void conn_process(struct http_conn *c)
{
    if (c->entered)
        return; /* further up the stack the same loop runs */
    c->entered++;
    for (bool more = true; more && !c->dead;) {
        if (c->state == CONN_HEAD)
            more = conn_read_head(c);
        else if (c->state == CONN_BODY)
            more = conn_read_body(c);
        else
            more = false;
    }
    c->entered--;
    if (c->dead)
        conn_release(c);
}

static void on_read(struct bufferevent *bev, void *arg)
{
    struct http_conn *c = arg;

    if (c->lingering)
        (void)evbuffer_drain(bufferevent_get_input(bev), evbuffer_get_length(bufferevent_get_input(bev)));
    else
        conn_process(c);
}

/* The output is empty. */
static void on_written(struct bufferevent *bev UNUSED, void *arg)
{
    struct http_conn *c = arg;

    if (c->state == CONN_CLOSING && c->lingering) {
        (void)shutdown(bufferevent_getfd(c->bev), SHUT_WR); /* with TLS too: there is nothing more to say */
        return;
    }
    if (c->state == CONN_CLOSING) {
        conn_close(c);
        return;
    }
    if (c->state == CONN_BUSY && c->req && c->req->on_drain)
        c->req->on_drain(c->req->on_drain_arg, c->req);
}

static void on_event(struct bufferevent *bev UNUSED, short what, void *arg)
{
    if (what & (BEV_EVENT_EOF | BEV_EVENT_ERROR | BEV_EVENT_TIMEOUT))
        conn_close(arg);
}

/* The connection after an answer: the next request, or the end. */
static void conn_answered(struct http_conn *c, bool keep)
{
    c->req = NULL;
    if (!keep || c->server->draining) {
        c->state = CONN_CLOSING;
        c->deadline_ns = deadline_in(c->server->options.idle_timeout_ms);
        (void)bufferevent_disable(c->bev, EV_READ);
        if (evbuffer_get_length(bufferevent_get_output(c->bev)) == 0)
            conn_close(c);
        return;
    }
    c->state = CONN_HEAD;
    c->deadline_ns = deadline_in(c->server->options.idle_timeout_ms);
    conn_process(c);
}

/* Accepting. */

static char *peer_text(const struct sockaddr *sa)
{
    char host[INET6_ADDRSTRLEN] = "";

    if (sa->sa_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, sa, sizeof(v4));
        (void)inet_ntop(AF_INET, &v4.sin_addr, host, sizeof(host));
        return xasprintf("%s:%u", host, ntohs(v4.sin_port));
    }
    if (sa->sa_family == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, sa, sizeof(v6));
        (void)inet_ntop(AF_INET6, &v6.sin6_addr, host, sizeof(host));
        return xasprintf("[%s]:%u", host, ntohs(v6.sin6_port));
    }
    return xstrdup("unix");
}

static int64_t unix_peer_uid(int fd, int family)
{
    struct ucred cred;
    socklen_t len = sizeof(cred);

    if (family != AF_UNIX || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
        return -1;
    return cred.uid;
}

static void conn_open(struct http_server *s, int fd, const struct sockaddr *sa)
{
    const int on = 1;
    struct http_conn *c = xcalloc(1, sizeof(*c));
    SSL *ssl = s->tls ? SSL_new(s->tls) : NULL;

    if (sa->sa_family != AF_UNIX)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* only costs latency when refused */
    c->bev =
        s->tls
            ? (ssl ? bufferevent_openssl_socket_new(s->base, fd, ssl, BUFFEREVENT_SSL_ACCEPTING, BEV_OPT_CLOSE_ON_FREE)
                   : NULL)
            : bufferevent_socket_new(s->base, fd, BEV_OPT_CLOSE_ON_FREE);
    if (!c->bev) {
        (void)close(fd);
        free(c);
        return;
    }
    if (ssl)
        bufferevent_openssl_set_allow_dirty_shutdown(c->bev, 1);
    c->server = s;
    c->peer = peer_text(sa);
    c->peer_uid = unix_peer_uid(fd, sa->sa_family);
    c->deadline_ns = deadline_in(s->options.head_timeout_ms);
    c->next = s->conns;
    c->prev = &s->conns;
    if (s->conns)
        s->conns->prev = &c->next;
    s->conns = c;
    s->count++;
    bufferevent_setwatermark(c->bev, EV_READ, 0, MAX(s->options.max_head_bytes + 2, PIPELINE_MAX_BYTES));
    bufferevent_setcb(c->bev, on_read, on_written, on_event, c);
    (void)bufferevent_enable(c->bev, EV_READ | EV_WRITE);
}

static void on_accept(evutil_socket_t fd, short what UNUSED, void *arg)
{
    struct http_server *s = arg;

    for (int i = 0; i < ACCEPT_BATCH; i++) {
        struct sockaddr_storage sa = {0};
        socklen_t len = sizeof(sa);
        int conn = accept4(fd, (struct sockaddr *)&sa, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (conn < 0) {
            if (errno == ECONNABORTED || errno == EINTR)
                continue;
            return;
        }
        if (s->count >= s->options.max_connections)
            (void)close(conn);
        else
            conn_open(s, conn, (struct sockaddr *)&sa);
    }
}

static void on_sweep(evutil_socket_t fd UNUSED, short what UNUSED, void *arg)
{
    struct http_server *s = arg;
    int64_t now = time_monotonic_ns();

    for (struct http_conn *c = s->conns, *next; c; c = next) {
        next = c->next;
        if (c->deadline_ns && now >= c->deadline_ns)
            conn_close(c);
    }
}

static void defaults(struct http_server_options *o)
{
    if (!o->max_head_bytes)
        o->max_head_bytes = 64 << 10;
    if (!o->max_body_bytes)
        o->max_body_bytes = 3 << 20;
    if (!o->head_timeout_ms)
        o->head_timeout_ms = 10000;
    if (!o->body_timeout_ms)
        o->body_timeout_ms = 60000;
    if (!o->idle_timeout_ms)
        o->idle_timeout_ms = 120000;
    if (!o->max_connections)
        o->max_connections = 10000;
    if (!o->max_output_bytes)
        o->max_output_bytes = 8 << 20;
}

struct http_server *http_server_new(struct event_base *base, int listen_fd, struct ssl_ctx_st *tls,
                                    const struct http_server_options *options, http_handler handler, void *arg)
{
    struct http_server *s = xcalloc(1, sizeof(*s));
    struct timeval every = {.tv_sec = SWEEP_SECONDS};

    s->base = base;
    s->fd = listen_fd;
    s->tls = tls;
    if (options)
        s->options = *options;
    defaults(&s->options);
    s->handler = handler;
    s->arg = arg;
    s->accept_event = event_new(base, listen_fd, EV_READ | EV_PERSIST, on_accept, s);
    s->sweep = event_new(base, -1, EV_PERSIST, on_sweep, s);
    if (!s->accept_event || !s->sweep || event_add(s->accept_event, NULL) < 0 || event_add(s->sweep, &every) < 0)
        abort();
    return s;
}

void http_server_drain(struct http_server *s)
{
    s->draining = true;
    (void)event_del(s->accept_event);
    for (struct http_conn *c = s->conns, *next; c; c = next) {
        next = c->next;
        if (c->state == CONN_HEAD && evbuffer_get_length(bufferevent_get_input(c->bev)) == 0)
            conn_close(c);
    }
}

void http_server_free(struct http_server *s)
{
    if (!s)
        return;
    while (s->conns)
        conn_close(s->conns);
    event_free(s->accept_event);
    event_free(s->sweep);
    (void)close(s->fd);
    free(s);
}

size_t http_server_connections(const struct http_server *s)
{
    return s->count;
}

/* Requests. */

const char *http_method(const struct http_request *req)
{
    return req->head.method;
}

const char *http_target(const struct http_request *req)
{
    return req->head.target;
}

const char *http_path(const struct http_request *req)
{
    return req->path;
}

const char *http_query_n(const struct http_request *req, const char *name, size_t index)
{
    for (size_t i = 0; req->query && req->query[i]; i += 2)
        if (streq(req->query[i], name) && index-- == 0)
            return req->query[i + 1];
    return NULL;
}

const char *http_query(const struct http_request *req, const char *name)
{
    return http_query_n(req, name, 0);
}

const struct http_headers *http_request_headers(const struct http_request *req)
{
    return &req->head.headers;
}

const char *http_header(const struct http_request *req, const char *name)
{
    return http_headers_get(&req->head.headers, name);
}

const char *http_body(const struct http_request *req, size_t *ret_len)
{
    if (ret_len)
        *ret_len = req->body.len;
    return strbuf_str(&req->body);
}

const char *http_peer(const struct http_request *req)
{
    return req->conn ? req->conn->peer : req->peer ? req->peer : "";
}

int64_t http_peer_uid(const struct http_request *req)
{
    return req->conn ? req->conn->peer_uid : -1;
}

struct ssl_st *http_tls(const struct http_request *req)
{
    return req->conn && req->conn->server->tls ? bufferevent_openssl_get_ssl(req->conn->bev) : NULL;
}

struct event_base *http_event_base(const struct http_request *req)
{
    return req->base;
}

/* Answers. */

static const char *reason_phrase(int status)
{
    static const struct {
        int status;
        const char *phrase;
    } phrases[] = {{101, "Switching Protocols"},
                   {200, "OK"},
                   {201, "Created"},
                   {202, "Accepted"},
                   {204, "No Content"},
                   {206, "Partial Content"},
                   {301, "Moved Permanently"},
                   {302, "Found"},
                   {304, "Not Modified"},
                   {400, "Bad Request"},
                   {401, "Unauthorized"},
                   {403, "Forbidden"},
                   {404, "Not Found"},
                   {405, "Method Not Allowed"},
                   {406, "Not Acceptable"},
                   {409, "Conflict"},
                   {410, "Gone"},
                   {413, "Request Entity Too Large"},
                   {415, "Unsupported Media Type"},
                   {422, "Unprocessable Entity"},
                   {429, "Too Many Requests"},
                   {500, "Internal Server Error"},
                   {501, "Not Implemented"},
                   {502, "Bad Gateway"},
                   {503, "Service Unavailable"},
                   {504, "Gateway Timeout"},
                   {507, "Insufficient Storage"}};

    for (size_t i = 0; i < ARRAY_LEN(phrases); i++)
        if (phrases[i].status == status)
            return phrases[i].phrase;
    return "Status";
}

void http_add_header(struct http_request *req, const char *name, const char *value)
{
    http_headers_add(&req->out, name, value);
}

/* Values come from objects and clients too: a line break in one would start a header of its choosing. */
static void add_safe(struct strbuf *b, const char *value)
{
    for (; *value; value++)
        strbuf_addc(b, (unsigned char)*value < 0x20 && *value != '\t' ? ' ' : *value);
}

static void write_head(struct http_request *req, int status, const char *content_type, const char *framing)
{
    _cleanup_(strbuf_free) struct strbuf b = {0};

    strbuf_addf(&b, "HTTP/1.1 %d %s\r\n", status, reason_phrase(status));
    if (content_type)
        strbuf_addf(&b, "Content-Type: %s\r\n", content_type);
    strbuf_adds(&b, framing);
    if (!req->keep_alive && status != 101)
        strbuf_adds(&b, "Connection: close\r\n");
    for (size_t i = 0; i < req->out.count; i++) {
        strbuf_addf(&b, "%s: ", req->out.items[i].name);
        add_safe(&b, req->out.items[i].value);
        strbuf_adds(&b, "\r\n");
    }
    strbuf_adds(&b, "\r\n");
    (void)bufferevent_write(req->conn->bev, b.data, b.len);
    req->started = true;
}

static void finish(struct http_request *req)
{
    struct http_conn *c = req->conn;
    bool keep = req->keep_alive;

    request_free(req);
    if (c)
        conn_answered(c, keep);
}

void http_respond(struct http_request *req, int status, const char *content_type, const void *body, size_t len)
{
    bool bodyless = status == 204 || status == 304;

    if (req->conn) {
        _cleanup_free_ char *framing = bodyless ? xstrdup("") : xasprintf("Content-Length: %zu\r\n", len);
        write_head(req, status, content_type, framing);
        if (len && !bodyless && !streq(req->head.method, "HEAD"))
            (void)bufferevent_write(req->conn->bev, body, len);
    }
    finish(req);
}

void http_start(struct http_request *req, int status, const char *content_type)
{
    if (!req->conn)
        return;
    req->chunked = req->head.minor == 1;
    if (!req->chunked)
        req->keep_alive = false; /* HTTP/1.0: the end of the connection is the end of the body */
    write_head(req, status, content_type, req->chunked ? "Transfer-Encoding: chunked\r\n" : "");
}

bool http_write(struct http_request *req, const void *data, size_t len)
{
    if (!req->conn)
        return false;
    if (!len)
        return true;
    struct evbuffer *out = bufferevent_get_output(req->conn->bev);
    if (evbuffer_get_length(out) > req->conn->server->options.max_output_bytes) {
        log_warn("client does not read, connection closed", "peer", req->conn->peer, "path", req->path, NULL);
        req->on_close = NULL; /* the caller learns it from the result */
        conn_close(req->conn);
        return false;
    }
    char size[20];
    int n = req->chunked ? snprintf(size, sizeof(size), "%zx\r\n", len) : 0;
    struct evbuffer *piece = evbuffer_new();
    if (!piece)
        abort();
    (void)evbuffer_add(piece, size, (size_t)n);
    (void)evbuffer_add(piece, data, len);
    if (req->chunked)
        (void)evbuffer_add(piece, "\r\n", 2);
    (void)bufferevent_write_buffer(req->conn->bev, piece);
    evbuffer_free(piece);
    return true;
}

void http_end(struct http_request *req)
{
    if (req->conn && req->started && req->chunked)
        (void)bufferevent_write(req->conn->bev, "0\r\n\r\n", 5);
    if (req->conn && !req->started)
        req->keep_alive = false; /* ended without an answer: nothing sensible can follow */
    finish(req);
}

size_t http_output_pending(const struct http_request *req)
{
    return req->conn ? evbuffer_get_length(bufferevent_get_output(req->conn->bev)) : 0;
}

void http_on_drain(struct http_request *req, void (*cb)(void *arg, struct http_request *req), void *arg)
{
    req->on_drain = cb;
    req->on_drain_arg = arg;
}

void http_on_close(struct http_request *req, void (*cb)(void *arg, struct http_request *req), void *arg)
{
    req->on_close = cb;
    req->on_close_arg = arg;
}

bool http_is_closed(const struct http_request *req)
{
    return req->conn == NULL;
}

struct bufferevent *http_take_over(struct http_request *req, int status)
{
    struct http_conn *c = req->conn;
    struct bufferevent *bev = NULL;

    if (c) {
        write_head(req, status, NULL, "");
        bev = c->bev;
        bufferevent_setcb(bev, NULL, NULL, NULL, NULL);
        bufferevent_setwatermark(bev, EV_READ, 0, 0);
        c->bev = NULL;
        c->req = NULL;
        conn_close(c);
    }
    request_free(req);
    return bev;
}
