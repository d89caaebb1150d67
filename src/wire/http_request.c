#include "wire/http_server_internal.h"

#include "wire/http2.h"

#include "base/log.h"
#include "base/loop.h"
#include "base/memory.h"
#include "base/strutil.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/bufferevent_struct.h>
#include <event2/event.h>
#include <inttypes.h>
#include <stdio.h>

void http_request_free(struct http_request *req)
{
    for (struct http_finish *f = req->on_finish, *next; f; f = next) {
        next = f->next;
        f->cb(f->arg, req, req->status);
        free(f);
    }
    if (req->leash)
        http_leash_answered(take_ptr(req->leash));
    http_head_free(&req->head);
    http_headers_free(&req->out);
    strbuf_free(&req->body);
    http_headers_free(&req->query);
    free(req->path);
    free(req->peer);
    free(req);
}

static char *target_path(const char *target)
{
    const char *scheme = *target == '/' ? NULL : strstr(target, "://");
    const char *start = scheme ? scheme + 3 + strcspn(scheme + 3, "/?") : target;

    return *start == '/' || !scheme ? xstrndup(start, strcspn(start, "?")) : xstrdup("/");
}

/* Parameters that cannot be decoded are left out. */
static void parse_query(const char *target, struct http_headers *ret)
{
    const char *p = strchr(target, '?');

    for (p = p ? p + 1 : ""; *p;) {
        size_t n = strcspn(p, "&"), name_len = strcspn(p, "=&");
        _cleanup_free_ char *name = url_decode(p, name_len, true);
        _cleanup_free_ char *value = name_len < n ? url_decode(p + name_len + 1, n - name_len - 1, true) : xstrdup("");

        if (name && value && n)
            http_headers_add(ret, name, value);
        p += n + (p[n] == '&');
    }
}

struct http_request *http_request_new(struct http_conn *c, struct http_head *head)
{
    struct http_request *req = xcalloc(1, sizeof(*req));

    req->conn = c;
    req->base = c->server->base;
    req->head = *head;
    *head = (struct http_head){0};
    req->path = target_path(req->head.target);
    parse_query(req->head.target, &req->query);
    req->keep_alive = http_keep_alive(&req->head) && !c->server->draining;
    return req;
}

void http_request_detach(struct http_request *req)
{
    req->peer = xstrdup(req->conn->peer);
    req->peer_uid = req->conn->peer_uid;
    req->conn = NULL;
    req->stream = NULL;
}

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
    for (size_t i = 0; i < req->query.count; i++)
        if (streq(req->query.items[i].name, name) && index-- == 0)
            return req->query.items[i].value;
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
    return req->conn ? req->conn->peer_uid : req->peer_uid;
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

const char *http_reason_phrase(int status)
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
                   {414, "Request-URI Too Long"},
                   {415, "Unsupported Media Type"},
                   {422, "Unprocessable Entity"},
                   {429, "Too Many Requests"},
                   {431, "Request Header Fields Too Large"},
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
    bool switching = status == 101 || (streq(req->head.method, "CONNECT") && status < 300);

    strbuf_addf(&b, "HTTP/1.1 %d %s\r\n", status, http_reason_phrase(status));
    if (content_type) {
        strbuf_adds(&b, "Content-Type: ");
        add_safe(&b, content_type);
        strbuf_adds(&b, "\r\n");
    }
    strbuf_adds(&b, framing);
    if (!switching && !req->keep_alive)
        strbuf_adds(&b, "Connection: close\r\n");
    else if (!switching && req->head.minor == 0)
        strbuf_adds(&b, "Connection: keep-alive\r\n");
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
    struct http_conn *c = req->stream ? NULL : req->conn;
    bool keep = req->keep_alive;

    if (req->stream)
        http2_answer_end(req);
    http_request_free(req);
    if (c)
        http_conn_answered(c, keep);
}

static bool has_no_body(const struct http_request *req, int status)
{
    return status == 204 || status == 304 || streq(req->head.method, "HEAD");
}

void http_respond(struct http_request *req, int status, const char *content_type, const void *body, size_t len)
{
    bool lengthless = status == 204 || status == 304;

    req->status = req->started ? req->status : status;
    if (req->stream && !req->started) {
        bool bare = !len || has_no_body(req, status);
        http2_answer_head(req, status, content_type, lengthless ? -1 : (int64_t)len, bare);
        if (!bare)
            (void)http2_answer_write(req, body, len, false); /* fails when the client is gone: nobody to tell */
    } else if (req->conn && !req->started) {
        _cleanup_free_ char *framing = lengthless ? xstrdup("") : xasprintf("Content-Length: %zu\r\n", len);
        write_head(req, status, content_type, framing);
        if (len && !has_no_body(req, status))
            (void)bufferevent_write(req->conn->bev, body, len);
    }
    finish(req);
}

void http_start_sized(struct http_request *req, int status, const char *content_type, int64_t length)
{
    bool lengthless = status == 204 || status == 304;

    req->status = status;
    if (!req->conn)
        return;
    req->bodyless = has_no_body(req, status);
    if (req->stream) {
        http2_answer_head(req, status, content_type, lengthless ? -1 : length, req->bodyless);
        return;
    }
    req->chunked = length < 0 && req->head.minor == 1 && !lengthless;
    if (length < 0 && !req->chunked && !req->bodyless)
        req->keep_alive = false; /* HTTP/1.0: the end of the connection is the end of the body */
    _cleanup_free_ char *framing = req->chunked               ? xstrdup("Transfer-Encoding: chunked\r\n")
                                   : length < 0 || lengthless ? xstrdup("")
                                                              : xasprintf("Content-Length: %" PRId64 "\r\n", length);
    write_head(req, status, content_type, framing);
}

void http_start(struct http_request *req, int status, const char *content_type)
{
    http_start_sized(req, status, content_type, -1);
}

bool http_write(struct http_request *req, const void *data, size_t len)
{
    if (!req->conn)
        return false;
    if (!len || req->bodyless)
        return true;
    if (req->stream)
        return http2_answer_write(req, data, len, true);
    struct evbuffer *out = bufferevent_get_output(req->conn->bev);
    if (evbuffer_get_length(out) > req->conn->server->options.max_output_bytes) {
        log_warn("client does not read, connection closed", "peer", req->conn->peer, "path", req->path, NULL);
        req->on_close = NULL; /* the caller learns it from the result */
        http_conn_close(req->conn);
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
    if (req->conn && !req->stream && req->started && req->chunked && !req->bodyless)
        (void)bufferevent_write(req->conn->bev, "0\r\n\r\n", 5);
    if (req->conn && !req->started)
        req->keep_alive = false; /* ended without an answer: nothing sensible can follow */
    finish(req);
}

void http_abort(struct http_request *req)
{
    req->on_close = NULL;
    if (req->stream)
        http2_answer_abort(req);
    else if (req->conn)
        http_conn_close(req->conn);
    http_request_free(req);
}

size_t http_output_pending(const struct http_request *req)
{
    if (req->stream)
        return http2_answer_pending(req);
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

void http_on_finish(struct http_request *req, void (*cb)(void *arg, const struct http_request *req, int status),
                    void *arg)
{
    struct http_finish *f = xcalloc(1, sizeof(*f));

    *f = (struct http_finish){.cb = cb, .arg = arg, .next = req->on_finish};
    req->on_finish = f;
}

void http_set_low_priority(struct http_request *req, bool low)
{
    int priority = low ? LOOP_LOW : LOOP_HIGH;

    if (!req->conn || req->conn->low_priority == low)
        return;
    /* Refused for what is about to run: at the next request. Not bufferevent_priority_set(): that changes the deferred
     * callback too, also while it is in the queue of the other priority, and then events are lost. */
    struct bufferevent *bev = req->conn->bev;
    if (event_priority_set(&bev->ev_read, priority) == 0 && event_priority_set(&bev->ev_write, priority) == 0)
        req->conn->low_priority = low;
    if (req->conn->h2)
        http2_set_priority(req->conn->h2, priority);
}

bool http_is_closed(const struct http_request *req)
{
    return req->conn == NULL;
}

struct bufferevent *http_take_over(struct http_request *req, int status)
{
    struct http_conn *c = req->conn;
    struct bufferevent *bev = NULL;

    req->status = status;
    if (req->stream) {
        http2_answer_by_http1(req);
    } else if (c) {
        write_head(req, status, NULL, "");
        bev = c->bev;
        bufferevent_setcb(bev, NULL, NULL, NULL, NULL);
        bufferevent_setwatermark(bev, EV_READ, 0, 0);
        (void)bufferevent_enable(bev, EV_READ | EV_WRITE);
        c->bev = NULL;
        c->req = NULL;
        http_conn_close(c);
    }
    if (req->leash)
        http_leash_taken_over(req->leash, bev);
    http_request_free(req);
    return bev;
}
