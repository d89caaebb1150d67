/* Answers on the streams of an HTTP/2 connection. */
#include "wire/http2_internal.h"

#include "base/log.h"
#include "base/memory.h"
#include "base/strutil.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>

/* Fields of one connection, which HTTP/2 forbids. */
static bool of_connection(const char *name)
{
    static const char *const names[] = {"connection", "transfer-encoding", "upgrade", "keep-alive", "proxy-connection"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcasecmp(name, names[i]) == 0)
            return true;
    return false;
}

struct fields {
    nghttp2_nv *items;
    size_t count, capacity;
};

/* Values come from objects and clients too: what may not be in a field becomes a blank. */
static void add(struct fields *f, const char *name, const char *value)
{
    char *key = xstrdup(name), *text = xstrdup(value);

    for (char *p = key; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    for (char *p = text; *p; p++)
        if (((unsigned char)*p < 0x20 && *p != '\t') || *p == 0x7f)
            *p = ' ';
    GROW(f->items, f->capacity, f->count + 1);
    f->items[f->count++] =
        (nghttp2_nv){(uint8_t *)key, (uint8_t *)text, strlen(key), strlen(text), NGHTTP2_NV_FLAG_NONE};
}

static void fields_free(struct fields *f)
{
    for (size_t i = 0; i < f->count; i++) {
        free(f->items[i].name);
        free(f->items[i].value);
    }
    free(f->items);
}

static ssize_t read_out(nghttp2_session *session UNUSED, int32_t id UNUSED, uint8_t *buf, size_t len, uint32_t *flags,
                        nghttp2_data_source *source, void *arg)
{
    struct http2_conn *h = arg;
    struct http2_stream *st = source->ptr;
    int n = st->out ? evbuffer_remove(st->out, buf, len) : 0;
    bool empty = !st->out || evbuffer_get_length(st->out) == 0;

    h->out_bytes -= n > 0 ? (size_t)n : 0;
    st->taken |= n > 0;
    if (empty && st->ended) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    } else if (n <= 0) {
        st->deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    if (empty && st->req && !st->drained) {
        st->drained = true;
        http2_queue_push(&h->drained, st);
    }
    return n > 0 ? n : 0;
}

static void submit(struct http2_stream *st, int status, const char *content_type, int64_t length,
                   const struct http_headers *more, bool end)
{
    struct fields f = {0};
    char text[24];
    nghttp2_data_provider data = {.source.ptr = st, .read_callback = read_out};

    (void)snprintf(text, sizeof(text), "%d", status);
    add(&f, ":status", text);
    if (content_type)
        add(&f, "content-type", content_type);
    (void)snprintf(text, sizeof(text), "%" PRId64, length);
    if (length >= 0)
        add(&f, "content-length", text);
    for (size_t i = 0; more && i < more->count; i++)
        if (!of_connection(more->items[i].name))
            add(&f, more->items[i].name, more->items[i].value);
    st->answered = true;
    st->ended = end;
    if (nghttp2_submit_response(st->h->session, st->id, f.items, f.count, end ? NULL : &data) != 0)
        http2_reset(st, NGHTTP2_INTERNAL_ERROR);
    fields_free(&f);
    http2_kick(st->h);
}

static void put(struct http2_stream *st, const void *data, size_t len)
{
    if (!st->out && !(st->out = evbuffer_new()))
        abort(); /* out of memory */
    if (evbuffer_add(st->out, data, len) < 0)
        abort(); /* out of memory */
    st->h->out_bytes += len;
}

/* There is more for a stream that had run dry. */
static void resume(struct http2_stream *st)
{
    if (st->deferred && !st->gone)
        (void)nghttp2_session_resume_data(st->h->session, st->id); /* nothing deferred: nothing to do */
    st->deferred = false;
    http2_kick(st->h);
}

void http2_answer_head(struct http_request *req, int status, const char *content_type, int64_t length, bool end)
{
    if (!req->stream->gone)
        submit(req->stream, status, content_type, length, &req->out, end);
    req->started = true;
}

/* Beyond its own share, or beyond what all may hold together and not among those that hold little. */
static bool too_much(const struct http2_stream *st)
{
    const struct http2_conn *h = st->h;
    size_t own = st->out ? evbuffer_get_length(st->out) : 0, max = h->c->server->options.max_output_bytes;

    return own > max || (h->out_bytes > max * HTTP2_OUTPUT_SHARE && own >= h->out_bytes / h->count);
}

bool http2_answer_write(struct http_request *req, const void *data, size_t len, bool limited)
{
    struct http2_stream *st = req->stream;

    if (st->gone)
        return false; /* on_close is on its way */
    if (limited && too_much(st)) {
        log_warn("client does not read, stream closed", "peer", st->h->c->peer, "path", req->path, NULL);
        req->on_close = NULL; /* the caller learns it from the result */
        http2_reset(st, NGHTTP2_ENHANCE_YOUR_CALM);
        st->req = NULL;
        http_request_detach(req);
        return false;
    }
    put(st, data, len);
    resume(st);
    return true;
}

void http2_answer_end(struct http_request *req)
{
    struct http2_stream *st = req->stream;

    st->req = NULL;
    http2_body_done(st);
    if (st->gone)
        return;
    if (!st->answered)
        http2_reset(st, NGHTTP2_INTERNAL_ERROR);
    st->ended = true;
    resume(st);
}

void http2_answer_abort(struct http_request *req)
{
    struct http2_stream *st = req->stream;

    st->req = NULL;
    http2_reset(st, NGHTTP2_INTERNAL_ERROR);
}

void http2_answer_by_http1(struct http_request *req)
{
    struct http2_stream *st = req->stream;

    st->req = NULL;
    http2_reset(st, NGHTTP2_HTTP_1_1_REQUIRED);
}

size_t http2_answer_pending(const struct http_request *req)
{
    return req->stream->out ? evbuffer_get_length(req->stream->out) : 0;
}

void http2_refuse(struct http2_stream *st, int status, const char *text)
{
    bool head = st->req ? streq(st->req->head.method, "HEAD") : st->head.method && streq(st->head.method, "HEAD");
    struct http_request *req = take_ptr(st->req);

    st->refused = true;
    st->deadline_ns = 0;
    if (req) {
        http_request_detach(req);
        http_request_free(req);
    }
    if (!head)
        put(st, text, strlen(text));
    submit(st, status, "text/plain", (int64_t)strlen(text), NULL, head);
    st->ended = true;
}
