#include "wire/http2_internal.h"

#include "base/log.h"
#include "base/memory.h"
#include "base/timeutil.h"

#include <event2/bufferevent.h>
#include <event2/event.h>

/* Resets of streams by the client: this many at once, and so many a second; then the connection ends. */
#define RESETS_BURST 500
#define RESETS_PER_SECOND 50
#define GLITCHES_BURST 1000
#define GLITCHES_PER_SECOND 100
#define OUTBOUND_ACKS_MAX 200
#define SETTINGS_MAX 32
#define CONTINUATIONS_MAX 8

void http2_queue_push(struct http2_queue *q, struct http2_stream *st)
{
    st->next_in_queue = NULL;
    if (!q->first)
        q->last = &q->first;
    *q->last = st;
    q->last = &st->next_in_queue;
}

struct http2_stream *http2_queue_pop(struct http2_queue *q)
{
    struct http2_stream *st = q->first;

    if (st)
        q->first = st->next_in_queue;
    return st;
}

void http2_queue_remove(struct http2_queue *q, struct http2_stream *st)
{
    for (struct http2_stream **at = &q->first; *at; at = &(*at)->next_in_queue) {
        if (*at != st)
            continue;
        *at = st->next_in_queue;
        if (q->last == &st->next_in_queue)
            q->last = at;
        return;
    }
}

void http2_set_priority(struct http2_conn *h, int priority)
{
    (void)event_priority_set(h->turn, priority); /* refused while it is about to run: at the next request */
}

void http2_kick(struct http2_conn *h)
{
    if (!h->pumping && !h->c->dead)
        event_active(h->turn, 0, 0);
}

void http2_reset(struct http2_stream *st, uint32_t code)
{
    if (!st->gone)
        (void)nghttp2_submit_rst_stream(st->h->session, NGHTTP2_FLAG_NONE, st->id, code); /* fails without memory */
    http2_kick(st->h);
}

bool http2_glitch(struct http2_conn *h)
{
    int64_t now = time_monotonic_ns();
    int64_t refill = (now - h->glitches_at_ns) / NSEC_PER_SEC * GLITCHES_PER_SECOND;

    if (refill > 0) {
        h->glitches -= (unsigned)MIN(refill, (int64_t)h->glitches);
        h->glitches_at_ns = now;
    }
    if (++h->glitches <= GLITCHES_BURST)
        return true;
    if (!h->failed)
        log_warn("client floods its HTTP/2 connection, closed", "peer", h->c->peer, NULL);
    h->failed = true;
    (void)nghttp2_session_terminate_session(h->session, NGHTTP2_ENHANCE_YOUR_CALM);
    return false;
}

void http2_body_done(struct http2_stream *st)
{
    struct http2_conn *h = st->h;

    h->body_bytes -= st->body_bytes;
    st->body_bytes = 0;
    if (h->withheld && h->body_bytes <= HTTP2_BODIES_MAX) {
        (void)nghttp2_session_consume_connection(h->session, h->withheld);
        h->withheld = 0;
        http2_kick(h);
    }
}

static void stream_free(struct http2_stream *st)
{
    struct http2_conn *h = st->h;

    *st->prev = st->next;
    if (st->next)
        st->next->prev = st->prev;
    h->count--;
    if (!h->count)
        h->idle_since_ns = time_monotonic_ns();
    http2_body_done(st);
    if (st->out) {
        h->out_bytes -= evbuffer_get_length(st->out);
        evbuffer_free(st->out);
    }
    http_head_free(&st->head);
    free(st->authority);
    free(st);
}

/* The request loses its stream; if its handler knows it, it hears of it. */
static void lose_request(struct http2_stream *st)
{
    struct http_request *req = take_ptr(st->req);

    if (!req)
        return;
    http_request_detach(req);
    if (!st->handled)
        http_request_free(req);
    else if (req->on_close)
        req->on_close(req->on_close_arg, req);
}

static void free_gone(struct http2_conn *h)
{
    for (struct http2_stream *st; (st = http2_queue_pop(&h->gone));) {
        lose_request(st);
        stream_free(st);
    }
}

/* Frames into the socket's buffer, as many as it should hold. */
static void send_frames(struct http2_conn *h)
{
    struct evbuffer *out = bufferevent_get_output(h->c->bev);
    const uint8_t *data;

    while (evbuffer_get_length(out) < HTTP2_OUTPUT_HIGH) {
        ssize_t n = nghttp2_session_mem_send(h->session, &data);
        if (n < 0)
            h->failed = true;
        if (n <= 0)
            return;
        (void)bufferevent_write(h->c->bev, data, (size_t)n);
    }
}

/* Runs what is whole. A client that does not take its answers waits with its further questions. */
static bool run_ready(struct http2_conn *h)
{
    struct http_server *s = h->c->server;
    bool any = false;

    while (!h->c->dead && !h->failed && h->out_bytes < s->options.max_output_bytes * HTTP2_OUTPUT_SHARE) {
        struct http2_stream *st = http2_queue_pop(&h->ready);
        if (!st)
            break;
        any = st->handled = true;
        s->handler(s->arg, st->req);
    }
    return any;
}

static bool run_drained(struct http2_conn *h)
{
    bool any = false;

    for (struct http2_stream *st; !h->c->dead && (st = http2_queue_pop(&h->drained));) {
        st->drained = false;
        if (!st->req || !st->req->on_drain || evbuffer_get_length(st->out))
            continue;
        any = true;
        st->req->on_drain(st->req->on_drain_arg, st->req);
    }
    return any;
}

/* The connection's turn: everything that can be done now. */
static void pump(struct http2_conn *h)
{
    struct http_conn *c = h->c;
    bool more;

    if (h->pumping || c->dead)
        return;
    h->pumping = true;
    c->entered++;
    do {
        send_frames(h);
        more = h->gone.first != NULL;
        free_gone(h);
        more |= !c->dead && run_drained(h);
        more |= !c->dead && run_ready(h);
    } while (more && !c->dead);
    h->pumping = false;
    if (!c->dead && (h->failed || (!nghttp2_session_want_read(h->session) && !nghttp2_session_want_write(h->session))))
        http_conn_finish(c);
    http_conn_leave(c);
}

static void on_turn(evutil_socket_t fd UNUSED, short what UNUSED, void *arg)
{
    pump(arg);
}

void http2_received(struct http2_conn *h)
{
    struct evbuffer *in = bufferevent_get_input(h->c->bev);

    h->pumping = true; /* what is caused here is done at the end */
    while (!h->failed && evbuffer_get_length(in)) {
        size_t len = evbuffer_get_contiguous_space(in);
        ssize_t n = nghttp2_session_mem_recv(h->session, evbuffer_pullup(in, (ssize_t)len), len);
        if (n < 0) {
            /* What it is told is sent as far as that goes. */
            (void)nghttp2_session_terminate_session(h->session, n == NGHTTP2_ERR_FLOODED ? NGHTTP2_ENHANCE_YOUR_CALM
                                                                                         : NGHTTP2_PROTOCOL_ERROR);
            send_frames(h);
            h->failed = true;
            break;
        }
        (void)evbuffer_drain(in, (size_t)n);
    }
    h->pumping = false;
    if (h->failed)
        (void)evbuffer_drain(in, evbuffer_get_length(in));
    pump(h);
}

void http2_written(struct http2_conn *h)
{
    pump(h);
}

/* A stream whose client has not taken a byte of what waits for it for so long is ended. */
static void sweep_stream(struct http2_stream *st, int64_t now)
{
    const struct http_server_options *o = &st->h->c->server->options;
    size_t out = st->out ? evbuffer_get_length(st->out) : 0;

    if (!out || st->taken)
        st->stuck_ns = now;
    st->taken = false;
    if ((st->deadline_ns && now >= st->deadline_ns) || now - st->stuck_ns >= o->idle_timeout_ms * NSEC_PER_MSEC)
        http2_reset(st, NGHTTP2_CANCEL);
}

bool http2_sweep(struct http2_conn *h, int64_t now)
{
    const struct http_server_options *o = &h->c->server->options;

    if (h->head_deadline_ns && now >= h->head_deadline_ns)
        return true;
    for (struct http2_stream *st = h->streams; st; st = st->next)
        sweep_stream(st, now);
    if (h->draining && !h->last_word) {
        h->last_word = true;
        (void)nghttp2_submit_goaway(h->session, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(h->session),
                                    NGHTTP2_NO_ERROR, NULL, 0); /* fails without memory: then the deadline ends it */
    }
    if (!h->count && !h->failed && (h->draining || now - h->idle_since_ns >= o->idle_timeout_ms * NSEC_PER_MSEC))
        (void)nghttp2_session_terminate_session(h->session, NGHTTP2_NO_ERROR);
    http2_kick(h);
    return false;
}

void http2_drain(struct http2_conn *h)
{
    h->draining = true;
    if (h->count)
        (void)nghttp2_submit_shutdown_notice(h->session); /* the last word comes with the next sweep */
    else
        (void)nghttp2_session_terminate_session(h->session, NGHTTP2_NO_ERROR);
    http2_kick(h);
}

void http2_detach(struct http2_conn *h)
{
    for (struct http2_stream *st = h->streams; st; st = h->streams) {
        http2_queue_remove(&h->gone, st);
        st->gone = true;
        lose_request(st);
        stream_free(st);
    }
    h->ready.first = h->drained.first = h->gone.first = NULL;
}

void http2_free(struct http2_conn *h)
{
    if (!h)
        return;
    nghttp2_session_del(h->session);
    event_free(h->turn);
    free(h);
}

static nghttp2_session *new_session(struct http2_conn *h)
{
    nghttp2_session *session = NULL;
    nghttp2_session_callbacks *cb = NULL;
    nghttp2_option *option = NULL;

    if (nghttp2_session_callbacks_new(&cb) != 0 || nghttp2_option_new(&option) != 0)
        abort(); /* out of memory */
    http2_request_callbacks(cb);
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_no_closed_streams(option, 1);
    nghttp2_option_set_max_outbound_ack(option, OUTBOUND_ACKS_MAX);
    nghttp2_option_set_max_settings(option, SETTINGS_MAX);
    nghttp2_option_set_max_continuations(option, CONTINUATIONS_MAX);
    nghttp2_option_set_stream_reset_rate_limit(option, RESETS_BURST, RESETS_PER_SECOND);
    if (nghttp2_session_server_new2(&session, cb, h, option) != 0)
        abort(); /* out of memory */
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(cb);
    return session;
}

void http2_open(struct http_conn *c)
{
    struct http2_conn *h = xcalloc(1, sizeof(*h));
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, HTTP2_STREAMS_MAX},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, HTTP2_STREAM_WINDOW},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, (uint32_t)c->server->options.max_head_bytes},
    };

    h->c = c;
    h->session = new_session(h);
    h->turn = event_new(c->server->base, -1, 0, on_turn, h);
    h->glitches_at_ns = h->idle_since_ns = time_monotonic_ns();
    if (!h->turn || nghttp2_submit_settings(h->session, NGHTTP2_FLAG_NONE, settings, ARRAY_LEN(settings)) != 0 ||
        nghttp2_session_set_local_window_size(h->session, NGHTTP2_FLAG_NONE, 0, HTTP2_CONNECTION_WINDOW) != 0)
        abort(); /* out of memory */
    c->h2 = h;
    c->state = CONN_HTTP2;
    c->deadline_ns = 0;
    http2_kick(h);
}
