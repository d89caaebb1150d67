#include "wire/http_server_internal.h"

#include "wire/http2.h"

#include "base/log.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "base/timeutil.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/event.h>
#include <malloc.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <sys/socket.h>

#define SWEEP_SECONDS 1
/* What a client must take of an answer within idle_timeout_ms to count as reading. */
#define OUTPUT_MIN_BYTES (16u << 10)
/* Input kept while a request is being worked on: pipelined bytes, no more. */
#define PIPELINE_MAX_BYTES (64u << 10)
/* How long a refused client may go on sending before it is cut off. */
#define LINGER_MS 2000
/* So many have been there at once: their memory is given back when they are gone. */
#define RUSH_CONNECTIONS 256

static void conn_release(struct http_conn *c)
{
    if (c->entered)
        return;
    http2_free(c->h2);
    free(c->peer);
    free(c);
}

static void conn_unlink(struct http_conn *c)
{
    *c->prev = c->next;
    if (c->next)
        c->next->prev = c->prev;
    c->server->count--;
    if (c->server->draining && c->server->count == 0) /* told on a turn of its own */
        event_active(c->server->sweep, EV_TIMEOUT, 0);
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
        http_request_detach(req);
        if (c->state != CONN_BUSY)
            http_request_free(req); /* never reached the handler */
        else if (req->on_close)
            req->on_close(req->on_close_arg, req);
    }
    if (c->h2)
        http2_detach(c->h2);
    http_conn_leave(c);
}

void http_conn_leave(struct http_conn *c)
{
    c->entered--;
    if (c->dead)
        conn_release(c);
}

static int64_t deadline_in(int ms)
{
    return time_monotonic_ns() + ms * NSEC_PER_MSEC;
}

/* Closes once everything is written. */
void http_conn_finish(struct http_conn *c)
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

/* A client that knows that HTTP/2 is spoken here begins with its preface. False: it did not. */
static bool begins_http2(struct http_conn *c, struct evbuffer *in)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    char start[sizeof(preface) - 1];
    ssize_t n = evbuffer_copyout(in, start, sizeof(start));

    if (n <= 0 || memcmp(start, preface, (size_t)n) != 0)
        return false;
    if (n == sizeof(start))
        http2_open(c);
    return true;
}

static bool conn_read_head(struct http_conn *c)
{
    struct evbuffer *in = bufferevent_get_input(c->bev);
    size_t max = c->server->options.max_head_bytes;
    size_t len = MIN(evbuffer_get_length(in), max + 1);
    struct http_head head = {0};
    _cleanup_error_ struct error err = ERROR_INIT;

    if (!len || (c->server->options.http2_plain && !c->server->tls && begins_http2(c, in)))
        return false;
    if (c->scanned == 0)
        c->deadline_ns = deadline_in(c->server->options.head_timeout_ms);
    const char *data = (const char *)evbuffer_pullup(in, (ssize_t)len);
    ssize_t n = http_parse_request_head(data, len, max, &c->scanned, &head, &err);
    if (n == 0)
        return false;
    if (n < 0 || http_body_of_request(&head, &c->reader, &err) < 0) {
        http_head_free(&head);
        conn_refuse(c, n == -ENAMETOOLONG ? 414 : n == -EMSGSIZE ? 431 : 400, error_text(&err));
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

char *http_too_large_text(const struct http_server *s)
{
    return xasprintf("Request entity too large: limit is %zu", s->options.max_body_bytes);
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
        _cleanup_free_ char *text = http_too_large_text(c->server);
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
    if (!c->dead && c->state == CONN_HTTP2)
        http2_received(c->h2);
    if (!c->dead)
        conn_hold(c);
    if (!c->dead && c->state == CONN_LINGER)
        (void)evbuffer_drain(bufferevent_get_input(c->bev), evbuffer_get_length(bufferevent_get_input(c->bev)));
    http_conn_leave(c);
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
    if (c->state == CONN_HTTP2)
        http2_written(c->h2);
    else if (c->state == CONN_BUSY && c->req && c->req->on_drain)
        c->req->on_drain(c->req->on_drain_arg, c->req);
}

/* The TLS handshake is done, and with it what is spoken. */
static void choose_version(struct http_conn *c)
{
    const unsigned char *protocol = NULL;
    unsigned len = 0;

    SSL_get0_alpn_selected(bufferevent_openssl_get_ssl(c->bev), &protocol, &len);
    if (c->state == CONN_HEAD && len == 2 && memcmp(protocol, "h2", 2) == 0)
        http2_open(c);
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
    struct http_conn *c = arg;

    if (what & BEV_EVENT_CONNECTED)
        choose_version(c);
    if (!(what & (BEV_EVENT_EOF | BEV_EVENT_ERROR | BEV_EVENT_TIMEOUT)))
        return;
    /* A client that ends its side right behind its last request still gets the answer that is on its way. */
    if ((what & BEV_EVENT_EOF) && (what & BEV_EVENT_READING) && c->state != CONN_BODY && c->state != CONN_BUSY &&
        c->state != CONN_HTTP2 && evbuffer_get_length(bufferevent_get_output(bev)))
        http_conn_finish(c);
    else
        http_conn_close(c);
}

/* The connection after an answer: the next request, or the end. */
void http_conn_answered(struct http_conn *c, bool keep)
{
    c->req = NULL;
    if (!keep || c->server->draining) {
        http_conn_finish(c);
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

/*
 * Closes what is late. A client that is slow but takes what it is sent is given time: as much as it would need at the
 * slowest speed that is served.
 */
static void sweep_conn(struct http_conn *c, int64_t now)
{
    const struct http_server_options *o = &c->server->options;
    size_t pending = evbuffer_get_length(bufferevent_get_output(c->bev));
    bool answering = c->state == CONN_HEAD || c->state == CONN_CLOSING;

    if (!pending || pending + OUTPUT_MIN_BYTES <= c->pending) {
        c->taken_ns = now;
        if (pending && c->scanned == 0 && answering)
            c->deadline_ns = deadline_in(o->idle_timeout_ms);
    }
    if (c->taken_ns == now || pending > c->pending)
        c->pending = pending;
    bool late = (c->deadline_ns && now >= c->deadline_ns) ||
                (pending && now - c->taken_ns >= o->idle_timeout_ms * NSEC_PER_MSEC);
    if (!late && c->state == CONN_HTTP2)
        late = http2_sweep(c->h2, now);
    if (late)
        http_conn_close(c);
}

static void report_drained(struct http_server *s)
{
    void (*cb)(void *arg) = s->count == 0 && s->draining ? take_ptr(s->on_drained) : NULL;

    if (cb)
        cb(s->on_drained_arg);
}

void http_conn_begin(struct http_conn *c)
{
    c->deadline_ns = deadline_in(c->server->options.head_timeout_ms);
    c->taken_ns = time_monotonic_ns();
    bufferevent_setwatermark(c->bev, EV_READ, 0, input_max(c->server));
    bufferevent_setcb(c->bev, on_read, on_written, on_event, c);
    (void)bufferevent_enable(c->bev, EV_READ | EV_WRITE);
}

/* After a rush most of the heap is empty, and would stay with the process. */
static void give_memory_back(struct http_server *s)
{
    s->most = MAX(s->most, s->count);
    if (s->most < RUSH_CONNECTIONS || s->count > s->most / 4)
        return;
    (void)malloc_trim(0); /* whether there was any does not matter */
    s->most = s->count;
}

static void on_sweep(evutil_socket_t fd UNUSED, short what UNUSED, void *arg)
{
    struct http_server *s = arg;
    int64_t now = time_monotonic_ns();

    for (struct http_conn *c = s->conns, *next; c; c = next) {
        next = c->next;
        sweep_conn(c, now);
    }
    http_accept_resume(s);
    give_memory_back(s);
    report_drained(s);
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
    http_accept_limit(s);
    s->handler = handler;
    s->arg = arg;
    s->accept_event = event_new(base, listen_fd, EV_READ | EV_PERSIST, http_on_accept, s);
    s->sweep = event_new(base, -1, EV_PERSIST, on_sweep, s);
    if (!s->accept_event || !s->sweep || event_add(s->accept_event, NULL) < 0 || event_add(s->sweep, &every) < 0)
        abort();
    return s;
}

void http_server_drain(struct http_server *s, void (*cb)(void *arg), void *arg)
{
    s->draining = true;
    (void)event_del(s->accept_event);
    for (struct http_conn *c = s->conns, *next; c; c = next) {
        next = c->next;
        if (c->state == CONN_HTTP2)
            http2_drain(c->h2);
        else if (c->state == CONN_HEAD && evbuffer_get_length(bufferevent_get_input(c->bev)) == 0)
            http_conn_finish(c);
    }
    s->on_drained = cb;
    s->on_drained_arg = arg;
    if (s->count == 0)
        event_active(s->sweep, EV_TIMEOUT, 0);
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
