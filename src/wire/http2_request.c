/* Requests of an HTTP/2 connection as they come in, frame by frame: nghttp2's callbacks. */
#include "wire/http2_internal.h"

#include "base/log.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "base/timeutil.h"

/* What a field costs besides its bytes (RFC 9113, 6.5.2). */
#define FIELD_OVERHEAD 32

static int64_t deadline_in(int ms)
{
    return time_monotonic_ns() + ms * NSEC_PER_MSEC;
}

static struct http2_stream *stream_of(nghttp2_session *session, int32_t id)
{
    return nghttp2_session_get_stream_user_data(session, id);
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct http2_conn *h = arg;

    if (!h->head_deadline_ns)
        h->head_deadline_ns = deadline_in(h->c->server->options.head_timeout_ms);
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0; /* trailers */
    struct http2_stream *st = xcalloc(1, sizeof(*st));

    st->h = h;
    st->taken = true;
    st->id = frame->hd.stream_id;
    st->head.minor = 1; /* means what it does with HTTP/1.1 */
    st->next = h->streams;
    st->prev = &h->streams;
    if (h->streams)
        h->streams->prev = &st->next;
    h->streams = st;
    h->count++;
    (void)nghttp2_session_set_stream_user_data(session, st->id, st); /* it exists */
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                     const uint8_t *value, size_t value_len, uint8_t flags UNUSED, void *arg)
{
    struct http2_conn *h = arg;
    struct http2_stream *st = stream_of(session, frame->hd.stream_id);

    if (!st || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0; /* trailers are read and dropped */
    st->head_bytes += name_len + value_len + FIELD_OVERHEAD;
    if (st->head_bytes > h->c->server->options.max_head_bytes || st->head.headers.count >= HTTP2_FIELDS_MAX) {
        st->head_bytes = SIZE_MAX / 2; /* too long, whatever follows */
        return 0;
    }
    _cleanup_free_ char *key = xstrndup((const char *)name, name_len);
    _cleanup_free_ char *text = xstrndup((const char *)value, value_len); /* holds no NUL: nghttp2 checks */

    if (*key != ':')
        http_headers_add(&st->head.headers, key, text);
    else if (streq(key, ":method") && !st->head.method)
        st->head.method = take_ptr(text);
    else if (streq(key, ":path") && !st->head.target)
        st->head.target = take_ptr(text);
    else if (streq(key, ":authority") && !st->authority)
        st->authority = take_ptr(text);
    return 0; /* :scheme says nothing that the connection does not */
}

/* The authority is what Host is in HTTP/1.1; two that differ are two readings. */
static int settle_host(struct http2_stream *st, struct error *err)
{
    const char *host = http_headers_get(&st->head.headers, "host");

    if (st->authority && host && strcasecmp(st->authority, host) != 0)
        return error_set(err, EBADMSG, "malformed HTTP message: Host is not :authority");
    if (st->authority && !host)
        http_headers_add(&st->head.headers, "host", st->authority);
    return 0;
}

static void head_complete(struct http2_stream *st, bool last)
{
    struct http_server *s = st->h->c->server;
    _cleanup_error_ struct error err = ERROR_INIT;
    const char *length = http_headers_get(&st->head.headers, "content-length");
    uint64_t body = 0;

    st->deadline_ns = last ? 0 : deadline_in(s->options.body_timeout_ms);
    if (st->head_bytes > s->options.max_head_bytes) {
        http2_refuse(st, 431, "HTTP head is too long");
        return;
    }
    if (!st->head.method || !st->head.target || settle_host(st, &err) < 0 || http_check_request(&st->head, &err) < 0) {
        http2_refuse(st, 400, err.code ? error_text(&err) : "malformed HTTP message: request line");
        return;
    }
    if (streq(st->head.method, "CONNECT")) {
        http2_refuse(st, 501, "CONNECT is not supported");
        return;
    }
    if (length && parse_u64(length, &body) && body > s->options.max_body_bytes) {
        _cleanup_free_ char *text = http_too_large_text(s);
        http2_refuse(st, 413, text);
        return;
    }
    const char *expect = last ? NULL : http_headers_get(&st->head.headers, "expect");
    if (expect && strcasecmp(expect, "100-continue") == 0) {
        const nghttp2_nv nv = {(uint8_t *)":status", (uint8_t *)"100", 7, 3, NGHTTP2_NV_FLAG_NONE};
        (void)nghttp2_submit_headers(st->h->session, NGHTTP2_FLAG_NONE, st->id, NULL, &nv, 1, NULL);
    }
    st->req = http_request_new(st->h->c, &st->head);
    st->req->stream = st;
}

static void request_complete(struct http2_stream *st)
{
    st->deadline_ns = 0;
    if (!st->req || st->refused || st->ready)
        return;
    st->ready = true;
    http2_queue_push(&st->h->ready, st);
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct http2_conn *h = arg;
    struct http2_stream *st = frame->hd.stream_id ? stream_of(session, frame->hd.stream_id) : NULL;
    bool last = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;

    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
        h->head_deadline_ns = 0;
        if (st && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
            head_complete(st, last);
        if (st && last)
            request_complete(st);
        return 0;
    case NGHTTP2_DATA:
        if (st && last)
            request_complete(st);
        else if (frame->hd.length == 0)
            (void)http2_glitch(h);
        return 0;
    case NGHTTP2_WINDOW_UPDATE:
        return 0;
    default: /* PING, SETTINGS, PRIORITY, RST_STREAM, ...: a client needs few */
        (void)http2_glitch(h);
        return 0;
    }
}

static int on_invalid_frame(nghttp2_session *session UNUSED, const nghttp2_frame *frame UNUSED, int code UNUSED,
                            void *arg)
{
    struct http2_conn *h = arg;

    if (frame->hd.type == NGHTTP2_HEADERS)
        h->head_deadline_ns = 0;
    (void)http2_glitch(h);
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags UNUSED, int32_t id, const uint8_t *data, size_t len,
                   void *arg)
{
    struct http2_conn *h = arg;
    struct http2_stream *st = stream_of(session, id);
    size_t max = h->c->server->options.max_body_bytes;

    if (!st || !st->req || st->handled) {
        (void)nghttp2_session_consume(session, id, len);
        return 0;
    }
    (void)nghttp2_session_consume_stream(session, id, len);
    st->body_bytes += len;
    h->body_bytes += len;
    h->withheld += len;
    if (st->req->body.len + len > max) {
        _cleanup_free_ char *text = http_too_large_text(h->c->server);
        http2_refuse(st, 413, text);
    } else {
        strbuf_add(&st->req->body, (const char *)data, len);
    }
    if (h->body_bytes <= HTTP2_BODIES_MAX) {
        (void)nghttp2_session_consume_connection(session, h->withheld);
        h->withheld = 0;
    }
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code UNUSED, void *arg)
{
    struct http2_conn *h = arg;
    struct http2_stream *st = stream_of(session, id);

    if (!st)
        return 0;
    (void)nghttp2_session_set_stream_user_data(session, id, NULL);
    h->head_deadline_ns = 0;
    st->gone = true;
    if (st->ready && !st->handled)
        http2_queue_remove(&h->ready, st);
    if (st->drained)
        http2_queue_remove(&h->drained, st);
    http2_queue_push(&h->gone, st); /* its request hears of it when nghttp2 has returned */
    http2_kick(h);
    return 0;
}

/* An answer has ended before its request: the rest of that is not wanted. */
static int on_frame_sent(nghttp2_session *session, const nghttp2_frame *frame, void *arg UNUSED)
{
    struct http2_stream *st = frame->hd.stream_id ? stream_of(session, frame->hd.stream_id) : NULL;

    if (st && (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
        (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) && !nghttp2_session_get_stream_remote_close(session, st->id))
        http2_reset(st, NGHTTP2_NO_ERROR);
    return 0;
}

void http2_request_callbacks(nghttp2_session_callbacks *cb)
{
    nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(cb, on_invalid_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_stream_close);
    nghttp2_session_callbacks_set_on_frame_send_callback(cb, on_frame_sent);
}
