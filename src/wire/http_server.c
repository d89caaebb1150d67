#include "wire/http_server_internal.h"

#include "base/log.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "base/timeutil.h"

#include <arpa/inet.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/event.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <sys/socket.h>

#define SWEEP_SECONDS 1
/* Input kept while a request is being worked on: pipelined bytes, no more. */
#define PIPELINE_MAX_BYTES (64u << 10)
#define ACCEPT_BATCH 64
/* How long a refused client may go on sending before it is cut off. */
#define LINGER_MS 2000
/* A peer that vanished without a word (power, network) is noticed after about two minutes. */
#define KEEPALIVE_IDLE_S 60
#define KEEPALIVE_INTERVAL_S 15
#define KEEPALIVE_PROBES 4

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

/* With a TLS close_notify, so that the client can tell an end from a cut. */
static void bev_close(struct bufferevent *bev)
{
    SSL *ssl = bufferevent_openssl_get_ssl(bev);

    if (ssl && SSL_is_init_finished(ssl)) {
        SSL_set_shutdown(ssl, SSL_RECEIVED_SHUTDOWN);
        (void)SSL_shutdown(ssl); /* best effort: the peer may be gone */
        ERR_clear_error();
    }
    bufferevent_free(bev);
}

/* Ends a connection. The request in work, if any, loses it and hears of it. */
void http_conn_close(struct http_conn *c)
{
    struct http_request *req = c->req;

    if (c->dead)
        return;
    c->dead = true;
    c->entered++;
    conn_unlink(c);
    if (c->bev)
        bev_close(c->bev);
    c->bev = NULL;
    c->req = NULL;
    if (req) {
        req->conn = NULL;
        req->peer = take_ptr(c->peer);
        req->peer_uid = c->peer_uid;
        if (c->state == CONN_BUSY) {
            if (req->on_close)
                req->on_close(req->on_close_arg, req);
        } else {
            http_request_free(req); /* never reached the handler */
        }
    }
    c->entered--;
    conn_release(c);
}

static int64_t deadline_in(int ms)
{
    return time_monotonic_ns() + ms * NSEC_PER_MSEC;
}

/* Closes once everything is written. */
static void conn_finish(struct http_conn *c)
{
    c->state = CONN_CLOSING;
    c->deadline_ns = deadline_in(c->server->options.idle_timeout_ms);
    (void)bufferevent_disable(c->bev, EV_READ);
    if (evbuffer_get_length(bufferevent_get_output(c->bev)) == 0)
        http_conn_close(c);
}

/*
 * Sends a last answer that belongs to no handler, then closes. The client may be in the middle of sending: closing with
 * its bytes unread would reset the connection and take the answer away from it, so they are read and dropped for a
 * while.
 */
static void conn_refuse(struct http_conn *c, int status, const char *text)
{
    (void)evbuffer_add_printf(bufferevent_get_output(c->bev),
                              "HTTP/1.1 %d %s\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\nConnection: "
                              "close\r\n\r\n%s\n",
                              status, http_reason_phrase(status), strlen(text) + 1, text);
    if (c->req) {
        http_request_free(c->req);
        c->req = NULL;
    }
    c->state = CONN_LINGER;
    c->deadline_ns = deadline_in(LINGER_MS);
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
        conn_refuse(c, n == -EMSGSIZE ? 431 : 400, error_text(&err));
        return false;
    }
    (void)evbuffer_drain(in, (size_t)n);
    c->scanned = 0;
    c->too_large = c->reader.kind == HTTP_BODY_LENGTH && c->reader.left > c->server->options.max_body_bytes;
    c->req = http_request_new(c, &head);
    c->state = CONN_BODY;
    c->deadline_ns = deadline_in(c->server->options.body_timeout_ms);
    const char *expect = http_headers_get(&c->req->head.headers, "Expect");
    if (expect && !c->reader.done && !c->too_large && c->req->head.minor == 1 &&
        strcasecmp(expect, "100-continue") == 0)
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

static size_t input_max(const struct http_server *s)
{
    return MAX(s->options.max_head_bytes + 2, PIPELINE_MAX_BYTES);
}

/*
 * Stops reading when the input is full while a handler works: libevent calls back again and again for as long as a full
 * buffer is left as it is.
 */
static void conn_hold(struct http_conn *c)
{
    if (c->state != CONN_BUSY || evbuffer_get_length(bufferevent_get_input(c->bev)) < input_max(c->server))
        return;
    c->held = true;
    (void)bufferevent_disable(c->bev, EV_READ);
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
    if (!c->dead)
        conn_hold(c);
    if (!c->dead && c->state == CONN_LINGER)
        (void)evbuffer_drain(bufferevent_get_input(c->bev), evbuffer_get_length(bufferevent_get_input(c->bev)));
    c->entered--;
    if (c->dead)
        conn_release(c);
}

static void on_read(struct bufferevent *bev UNUSED, void *arg)
{
    conn_process(arg);
}

/* The output is empty. */
static void on_written(struct bufferevent *bev UNUSED, void *arg)
{
    struct http_conn *c = arg;

    if (c->state == CONN_CLOSING) {
        http_conn_close(c);
        return;
    }
    if (c->state == CONN_LINGER) {
        (void)shutdown(bufferevent_getfd(c->bev), SHUT_WR); /* the client sees the end and closes */
        return;
    }
    if (c->state == CONN_BUSY && c->req && c->req->on_drain)
        c->req->on_drain(c->req->on_drain_arg, c->req);
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
    struct http_conn *c = arg;

    if (!(what & (BEV_EVENT_EOF | BEV_EVENT_ERROR | BEV_EVENT_TIMEOUT)))
        return;
    /* A client that ends its side right behind its last request still gets the answer that is on its way. */
    if ((what & BEV_EVENT_EOF) && (what & BEV_EVENT_READING) && c->state != CONN_BODY && c->state != CONN_BUSY &&
        evbuffer_get_length(bufferevent_get_output(bev)))
        conn_finish(c);
    else
        http_conn_close(c);
}

/* The connection after an answer: the next request, or the end. */
void http_conn_answered(struct http_conn *c, bool keep)
{
    c->req = NULL;
    if (!keep || c->server->draining) {
        conn_finish(c);
        return;
    }
    c->state = CONN_HEAD;
    c->deadline_ns = deadline_in(c->server->options.idle_timeout_ms);
    if (c->held)
        (void)bufferevent_enable(c->bev, EV_READ);
    c->held = false;
    /* The next request may be here already; its handler must not run from within whoever answered this one. */
    if (!c->entered && evbuffer_get_length(bufferevent_get_input(c->bev)))
        bufferevent_trigger(c->bev, EV_READ, BEV_TRIG_DEFER_CALLBACKS);
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

/* Options that only cost latency or a late end when they are refused. */
static void tune(int fd)
{
    static const struct {
        int level, name, value;
    } options[] = {{IPPROTO_TCP, TCP_NODELAY, 1},
                   {SOL_SOCKET, SO_KEEPALIVE, 1},
                   {IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S},
                   {IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S},
                   {IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES}};

    for (size_t i = 0; i < ARRAY_LEN(options); i++)
        (void)setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(options[i].value));
}

static void conn_open(struct http_server *s, int fd, const struct sockaddr *sa)
{
    struct http_conn *c = xcalloc(1, sizeof(*c));
    SSL *ssl = s->tls ? SSL_new(s->tls) : NULL;

    if (sa->sa_family != AF_UNIX)
        tune(fd);
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
    bufferevent_setwatermark(c->bev, EV_READ, 0, input_max(s));
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
            if (errno != EAGAIN) { /* no descriptors left: asking again at once would only burn the processor */
                log_warn("cannot accept connections", "error", strerror(errno), NULL);
                (void)event_del(s->accept_event);
                s->accept_paused = true;
            }
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
        size_t pending = evbuffer_get_length(bufferevent_get_output(c->bev));

        next = c->next;
        if (pending && pending != c->pending && c->scanned == 0 && (c->state == CONN_HEAD || c->state == CONN_CLOSING))
            c->deadline_ns = deadline_in(s->options.idle_timeout_ms); /* slow, but reading */
        c->pending = pending;
        if (c->deadline_ns && now >= c->deadline_ns)
            http_conn_close(c);
    }
    if (s->accept_paused && !s->draining && event_add(s->accept_event, NULL) == 0)
        s->accept_paused = false;
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
            conn_finish(c);
    }
}

void http_server_free(struct http_server *s)
{
    if (!s)
        return;
    while (s->conns)
        http_conn_close(s->conns);
    event_free(s->accept_event);
    event_free(s->sweep);
    (void)close(s->fd);
    free(s);
}

size_t http_server_connections(const struct http_server *s)
{
    return s->count;
}
