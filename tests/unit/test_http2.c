/* HTTP/2 of the server, against a client that is made of raw frames and may break every rule. */
#include "loopback.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "wire/http.h"

#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <time.h>

#define STREAMS 2000
#define GET ":method: GET\n:scheme: https\n:path: /echo\n:authority: x\n"
#define POST ":method: POST\n:scheme: https\n:path: /echo\n:authority: x\n"

static struct event_base *base;
static struct http_server *server;
static struct http_request *held[8];
static size_t held_count;
static int handled, closed, finished, drained, drops;
static char *last_query, *last_host;
static uint16_t port;

static void on_closed(void *arg UNUSED, struct http_request *req)
{
    closed++;
    assert_true(http_is_closed(req));
    assert_false(http_write(req, "x", 1));
    for (size_t i = 0; i < ARRAY_LEN(held); i++)
        if (held[i] == req)
            held[i] = NULL;
    http_end(req);
}

static void on_finished(void *arg UNUSED, const struct http_request *req UNUSED, int status UNUSED)
{
    finished++;
}

static void on_drain(void *arg UNUSED, struct http_request *req)
{
    static const char block[20000];

    if (drained++ < 20)
        (void)http_write(req, block, sizeof(block));
    else
        http_end(req);
}

static void handle(void *arg UNUSED, struct http_request *req)
{
    const char *path = http_path(req);
    size_t len;
    const char *body = http_body(req, &len);

    handled++;
    http_on_finish(req, on_finished, NULL);
    free(last_query);
    free(last_host);
    last_query = http_query(req, "q") ? xstrdup(http_query(req, "q")) : NULL;
    last_host = http_header(req, "Host") ? xstrdup(http_header(req, "Host")) : NULL;
    if (streq(path, "/echo")) {
        http_add_header(req, "X-Value", "a\r\nX-Evil: b");
        http_add_header(req, "Connection", "close");
        http_respond(req, 200, "text/plain", body, len);
    } else if (streq(path, "/hold")) {
        held[held_count++ % ARRAY_LEN(held)] = req;
        http_on_close(req, on_closed, NULL);
    } else if (streq(path, "/stream")) {
        http_start(req, 200, "text/plain");
        http_on_drain(req, on_drain, NULL);
        http_on_close(req, on_closed, NULL);
        (void)http_write(req, "begin", 5);
    } else if (streq(path, "/big")) {
        _cleanup_free_ char *big = xcalloc(1, 3 << 20);
        http_respond(req, 200, "text/plain", big, 3 << 20);
    } else if (streq(path, "/flood")) {
        static const char block[65536];
        http_start(req, 200, "text/plain");
        while (http_write(req, block, sizeof(block)))
            ;
        drops++;
        http_end(req);
    } else if (streq(path, "/upgrade")) {
        assert_null(http_take_over(req, 101));
    } else if (streq(path, "/free")) {
        http_server_free(server);
        server = NULL;
        http_respond(req, 200, "text/plain", "late", 4);
    } else {
        http_end(req); /* no answer */
    }
}

static int setup(void **state UNUSED)
{
    static const struct http_server_options options = {.head_timeout_ms = 300,
                                                       .body_timeout_ms = 300,
                                                       .max_head_bytes = 8 << 10,
                                                       .max_body_bytes = 1 << 20,
                                                       .max_output_bytes = 1 << 20,
                                                       .http2_plain = true};

    base = event_base_new();
    server = http_server_new(base, loopback_listen(&port), NULL, &options, handle, NULL);
    held_count = 0;
    handled = closed = finished = drained = drops = 0;
    memset(held, 0, sizeof(held));
    return 0;
}

static int teardown(void **state UNUSED)
{
    http_server_free(server);
    event_base_free(base);
    free(last_query);
    free(last_host);
    last_query = last_host = NULL;
    return 0;
}

/* The client. */

struct client {
    int fd;
    struct strbuf out, in;
    nghttp2_hd_inflater *inflater;
    int status[STREAMS];
    size_t bytes[STREAMS];
    int reset[STREAMS]; /* code + 1 */
    bool ended[STREAMS];
    int goaway; /* code + 1 of the last one */
    int goaways;
    bool closed, stingy; /* stingy: the windows of streams are not opened again */
};

static void frame(struct client *c, uint8_t type, uint8_t flags, uint32_t stream, const void *payload, size_t len)
{
    const uint8_t head[9] = {
        (uint8_t)(len >> 16),    (uint8_t)(len >> 8),     (uint8_t)len,           type,           flags,
        (uint8_t)(stream >> 24), (uint8_t)(stream >> 16), (uint8_t)(stream >> 8), (uint8_t)stream};

    strbuf_add(&c->out, (const char *)head, sizeof(head));
    if (len)
        strbuf_add(&c->out, payload, len);
}

/* Lines of "name: value" as literal fields without index. Lengths up to 126. */
static void encode(const char *lines, struct strbuf *b)
{
    for (const char *p = lines; *p;) {
        const char *colon = strstr(p + 1, ": "), *end = strchr(p, '\n');
        strbuf_addc(b, 0);
        strbuf_addc(b, (char)(colon - p));
        strbuf_add(b, p, (size_t)(colon - p));
        strbuf_addc(b, (char)(end - colon - 2));
        strbuf_add(b, colon + 2, (size_t)(end - colon - 2));
        p = end + 1;
    }
}

static void headers(struct client *c, uint32_t stream, const char *lines, bool end)
{
    _cleanup_(strbuf_free) struct strbuf b = {0};

    encode(lines, &b);
    frame(c, NGHTTP2_HEADERS, (uint8_t)(NGHTTP2_FLAG_END_HEADERS | (end ? NGHTTP2_FLAG_END_STREAM : 0)), stream, b.data,
          b.len);
}

static void number(struct client *c, uint8_t type, uint32_t stream, uint32_t value)
{
    const uint8_t text[4] = {(uint8_t)(value >> 24), (uint8_t)(value >> 16), (uint8_t)(value >> 8), (uint8_t)value};

    frame(c, type, 0, stream, text, 4);
}

static void begin(struct client *c)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

    memset(c, 0, sizeof(*c));
    c->fd = loopback_connect(port);
    assert_int_equal(fcntl(c->fd, F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(nghttp2_hd_inflate_new(&c->inflater), 0);
    strbuf_add(&c->out, preface, sizeof(preface) - 1);
    frame(c, NGHTTP2_SETTINGS, 0, 0, NULL, 0);
    number(c, NGHTTP2_WINDOW_UPDATE, 0, 100 << 20);
}

static void end(struct client *c)
{
    nghttp2_hd_inflate_del(c->inflater);
    strbuf_free(&c->in);
    strbuf_free(&c->out);
    (void)close(c->fd);
}

static void take_headers(struct client *c, uint32_t stream, const uint8_t *p, size_t len)
{
    while (len) {
        nghttp2_nv nv;
        int flags = 0;
        ssize_t n = nghttp2_hd_inflate_hd2(c->inflater, &nv, &flags, p, len, 1);
        assert_true(n >= 0);
        p += n;
        len -= (size_t)n;
        if (flags & NGHTTP2_HD_INFLATE_FINAL) {
            (void)nghttp2_hd_inflate_end_headers(c->inflater);
            return;
        }
        if (!(flags & NGHTTP2_HD_INFLATE_EMIT))
            continue;
        assert_null(strchr((char *)nv.value, '\n'));
        assert_string_not_equal((char *)nv.name, "connection");
        if (streq((char *)nv.name, ":status"))
            c->status[stream] = atoi((char *)nv.value);
    }
    (void)nghttp2_hd_inflate_end_headers(c->inflater);
}

static void take_frame(struct client *c, const uint8_t *h, size_t len)
{
    uint32_t stream = (uint32_t)h[5] << 24 | (uint32_t)h[6] << 16 | (uint32_t)h[7] << 8 | h[8];
    const uint8_t *p = h + 9;

    assert_true(stream < STREAMS);
    if (h[3] == NGHTTP2_HEADERS)
        take_headers(c, stream, p, len);
    if (h[3] == NGHTTP2_DATA) {
        c->bytes[stream] += len;
        if (!c->stingy && len)
            number(c, NGHTTP2_WINDOW_UPDATE, stream, (uint32_t)len);
    }
    if (h[3] == NGHTTP2_HEADERS || h[3] == NGHTTP2_DATA)
        c->ended[stream] |= h[4] & NGHTTP2_FLAG_END_STREAM;
    if (h[3] == NGHTTP2_RST_STREAM)
        c->reset[stream] = p[3] + 1;
    if (h[3] == NGHTTP2_GOAWAY) {
        c->goaway = p[7] + 1;
        c->goaways++;
    }
}

static void consume(struct strbuf *b, size_t n)
{
    if (n)
        memmove(b->data, b->data + n, b->len - n);
    strbuf_truncate(b, b->len - n);
}

/* Sends what is to be sent and takes what has come. */
static void step(struct client *c)
{
    char buf[65536];
    ssize_t n;

    if (c->out.len && (n = send(c->fd, c->out.data, c->out.len, MSG_NOSIGNAL)) > 0)
        consume(&c->out, (size_t)n);
    loopback_run(base, 1);
    while ((n = read(c->fd, buf, sizeof(buf))) > 0)
        strbuf_add(&c->in, buf, (size_t)n);
    if (n == 0 || errno != EAGAIN)
        c->closed = true;
    size_t at = 0;
    while (c->in.len - at >= 9) {
        const uint8_t *h = (const uint8_t *)c->in.data + at;
        size_t len = (size_t)h[0] << 16 | (size_t)h[1] << 8 | h[2];
        if (c->in.len - at < 9 + len)
            break;
        take_frame(c, h, len);
        at += 9 + len;
    }
    consume(&c->in, at);
}

#define UNTIL(c, condition)                                                                                            \
    do {                                                                                                               \
        for (int _turns = 0; !(condition); _turns++) {                                                                 \
            if (_turns == 5000)                                                                                        \
                print_error("never: %s\n", #condition);                                                                \
            assert_true(_turns < 5000);                                                                                \
            step(c);                                                                                                   \
        }                                                                                                              \
    } while (0)

static void test_requests(void **state UNUSED)
{
    struct client c;
    static char block[16384];

    begin(&c);
    headers(&c, 1, ":method: GET\n:scheme: https\n:path: /echo?q=a%20b\n:authority: x:1\nte: trailers\n", true);
    headers(&c, 3, POST "content-length: 32768\n", false);
    headers(&c, 5, ":method: HEAD\n:scheme: https\n:path: /echo\n:authority: x\n", true);
    UNTIL(&c, c.ended[1] && c.ended[5]);
    assert_int_equal(c.status[1], 200);
    assert_int_equal(c.status[5], 200);
    frame(&c, NGHTTP2_DATA, 0, 3, block, sizeof(block));
    frame(&c, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 3, block, sizeof(block));
    UNTIL(&c, c.ended[3]);
    assert_int_equal(c.bytes[3], 32768);
    headers(&c, 7, ":method: GET\n:scheme: https\n:path: /stream\n:authority: x:1\n", true);
    headers(&c, 9, ":method: GET\n:scheme: https\n:path: /none\n:authority: x:1\n", true);
    headers(&c, 11, ":method: GET\n:scheme: https\n:path: /upgrade\n:authority: x:1\n", true);
    UNTIL(&c, c.ended[7] && c.reset[9] && c.reset[11]);
    assert_int_equal(c.bytes[7], 5 + 20 * 20000);
    assert_int_equal(c.reset[9] - 1, NGHTTP2_INTERNAL_ERROR);
    assert_int_equal(c.reset[11] - 1, NGHTTP2_HTTP_1_1_REQUIRED);
    assert_string_equal(last_host, "x:1");
    assert_int_equal(finished, handled);
    assert_int_equal(c.goaway, 0);
    end(&c);
}

/* What a request is made of, and what becomes of it: an answer, a reset, or the end of the connection. */
static void test_abuses(void **state UNUSED)
{
    static const struct {
        const char *fields, *body;
        int status, reset, goaway; /* reset, goaway: code + 1 */
        bool handled;
    } cases[] = {
        {GET, NULL, 200, 0, 0, true},
        {POST "content-length: 2\n", "ok", 200, 0, 0, true},
        {POST "content-length: 3\n", "ok", 0, 1 + NGHTTP2_PROTOCOL_ERROR, 0, false},
        {POST "content-length: 1\n", "ok", 0, 1 + NGHTTP2_PROTOCOL_ERROR, 0, false},
        {POST "content-length: 2\ncontent-length: 2\n", "ok", 0, 1 + NGHTTP2_PROTOCOL_ERROR, 0, false},
        {POST "content-length: 2, 2\n", "ok", 0, 1 + NGHTTP2_PROTOCOL_ERROR, 0, false},
        {POST "content-length: +2\n", "ok", 0, 1 + NGHTTP2_PROTOCOL_ERROR, 0, false},
        {GET "transfer-encoding: chunked\n", NULL, 0, 1 + NGHTTP2_PROTOCOL_ERROR, 0, false},
        {GET "connection: close\n", NULL, 0, 1 + NGHTTP2_PROTOCOL_ERROR, 0, false},
        {GET "keep-alive: 1\n", NULL, 0, 1 + NGHTTP2_PROTOCOL_ERROR, 0, false},
        {GET "proxy-connection: x\n", NULL, 0, 1 + NGHTTP2_PROTOCOL_ERROR, 0, false},
        {GET "upgrade: websocket\n", NULL, 0, 1 + NGHTTP2_PROTOCOL_ERROR, 0, false},
        {GET "te: gzip\n", NULL, 0, 1 + NGHTTP2_PROTOCOL_ERROR, 0, false},
        {GET "X-Upper: a\n", NULL, 0, 1 + NGHTTP2_PROTOCOL_ERROR, 0, false},
        {GET "a b: c\n", NULL, 0, 1 + NGHTTP2_PROTOCOL_ERROR, 0, false},
        {GET ":path: /other\n", NULL, 0, 1 + NGHTTP2_PROTOCOL_ERROR, 0, false},
        {GET ":method: POST\n", NULL, 0, 1 + NGHTTP2_PROTOCOL_ERROR, 0, false},
        {GET ":authority: y\n", NULL, 0, 1 + NGHTTP2_PROTOCOL_ERROR, 0, false},
        {GET ":status: 200\n", NULL, 0, 1 + NGHTTP2_PROTOCOL_ERROR, 0, false},
        {GET ":protocol: websocket\n", NULL, 0, 1 + NGHTTP2_PROTOCOL_ERROR, 0, false},
        {"a: b\n" GET, NULL, 0, 1 + NGHTTP2_PROTOCOL_ERROR, 0, false}, /* pseudo fields come first */
        {":method: GET\n:scheme: https\n:authority: x\n", NULL, 0, 1 + NGHTTP2_PROTOCOL_ERROR, 0, false},
        {":method: GET\n:path: /echo\n:authority: x\n", NULL, 0, 1 + NGHTTP2_PROTOCOL_ERROR, 0, false},
        {":method: GET\n:scheme: https\n:path: \n:authority: x\n", NULL, 0, 1 + NGHTTP2_PROTOCOL_ERROR, 0, false},
        {":method: GET\n:scheme: https\n:path: echo\n:authority: x\n", NULL, 0, 1 + NGHTTP2_PROTOCOL_ERROR, 0, false},
        {":method: GET\n:scheme: https\n:path: http://y/\n:authority: x\n", NULL, 0, 1 + NGHTTP2_PROTOCOL_ERROR, 0,
         false},
        {":method: GET\n:scheme: https\n:path: /a HTTP/1.1\n:authority: x\n", NULL, 0, 1 + NGHTTP2_PROTOCOL_ERROR, 0,
         false},
        {":method: GET\n:scheme: https\n:path: /a#b\n:authority: x\n", NULL, 400, 0, 0, false},
        {":method: GET\n:scheme: https\n:path: *\n:authority: x\n", NULL, 0, 1 + NGHTTP2_PROTOCOL_ERROR, 0, false},
        {":method: G T\n:scheme: https\n:path: /a\n:authority: x\n", NULL, 0, 1 + NGHTTP2_PROTOCOL_ERROR, 0, false},
        {":method: GET\n:scheme: https\n:path: /echo\n", NULL, 0, 1 + NGHTTP2_PROTOCOL_ERROR, 0, false}, /* no Host */
        {":method: GET\n:scheme: https\n:path: /echo\nhost: x\n", NULL, 200, 0, 0, true},
        {GET "host: x\n", NULL, 200, 0, 0, true},
        {GET "host: y\n", NULL, 400, 0, 0, false},
        {":method: GET\n:scheme: https\n:path: /echo\n:authority: u@x\n", NULL, 400, 0, 0, false},
        {":method: CONNECT\n:authority: x:443\n", NULL, 400, 0, 0, false},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct client c;
        int before = handled;

        begin(&c);
        headers(&c, 1, cases[i].fields, !cases[i].body);
        if (cases[i].body)
            frame(&c, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1, cases[i].body, strlen(cases[i].body));
        UNTIL(&c, c.ended[1] || c.reset[1] || c.goaway || c.closed);
        if (c.status[1] != cases[i].status || c.reset[1] != cases[i].reset || c.goaway != cases[i].goaway ||
            (handled > before) != cases[i].handled)
            print_error("%sgave status %d, reset %d, goaway %d\n", cases[i].fields, c.status[1], c.reset[1], c.goaway);
        assert_int_equal(c.status[1], cases[i].status);
        assert_int_equal(c.reset[1], cases[i].reset);
        assert_int_equal(c.goaway, cases[i].goaway);
        assert_int_equal(handled > before, cases[i].handled);
        end(&c);
    }
}

static void test_large_head(void **state UNUSED)
{
    struct client c;
    _cleanup_(strbuf_free) struct strbuf lines = {0};

    begin(&c);
    strbuf_adds(&lines, GET);
    for (int i = 0; i < 100; i++)
        strbuf_addf(&lines, "a%d: %0100d\n", i, 0);
    headers(&c, 1, lines.data, true);
    strbuf_truncate(&lines, 0);
    strbuf_adds(&lines, GET);
    for (int i = 0; i < 300; i++)
        strbuf_adds(&lines, "a: \n");
    headers(&c, 3, lines.data, true);
    headers(&c, 5, GET, true);
    UNTIL(&c, c.ended[1] && c.ended[3] && c.ended[5]);
    assert_int_equal(c.status[1], 431);
    assert_int_equal(c.status[3], 431);
    assert_int_equal(c.status[5], 200);
    end(&c);
}

/* A body beyond the limit that was not announced; the connection goes on. */
static void test_large_body(void **state UNUSED)
{
    static char block[16384];
    struct client c;

    begin(&c);
    headers(&c, 1, POST, false);
    for (size_t sent = 0; !c.ended[1]; sent += sizeof(block)) {
        assert_true(sent < 4 << 20);
        frame(&c, NGHTTP2_DATA, 0, 1, block, sizeof(block));
        step(&c);
    }
    assert_int_equal(c.status[1], 413);
    UNTIL(&c, c.reset[1] == 1 + NGHTTP2_NO_ERROR);
    headers(&c, 3, GET, true);
    headers(&c, 5, POST "content-length: 2000000\n", false); /* refused before it is sent */
    UNTIL(&c, c.ended[3] && c.ended[5]);
    assert_int_equal(c.status[5], 413);
    assert_int_equal(handled, 1);
    end(&c);
}

enum flood { PINGS, SETTINGS, RESETS, EMPTY_DATA, CONTINUATIONS, PRIORITIES, BAD_REQUESTS };

static void flood_frame(struct client *c, enum flood kind, uint32_t i)
{
    static const char zeros[8];

    if (kind == PINGS)
        frame(c, NGHTTP2_PING, 0, 0, zeros, 8);
    if (kind == SETTINGS)
        frame(c, NGHTTP2_SETTINGS, 0, 0, NULL, 0);
    if (kind == RESETS) {
        headers(c, 2 * i + 1, ":method: GET\n:scheme: https\n:path: /hold\n:authority: x\n", true);
        number(c, NGHTTP2_RST_STREAM, 2 * i + 1, NGHTTP2_CANCEL);
    }
    if (kind == EMPTY_DATA) {
        if (i == 0)
            headers(c, 1, POST, false);
        frame(c, NGHTTP2_DATA, 0, 1, NULL, 0);
    }
    if (kind == CONTINUATIONS)
        frame(c, i == 0 ? NGHTTP2_HEADERS : NGHTTP2_CONTINUATION, 0, 1, NULL, 0);
    if (kind == PRIORITIES)
        frame(c, NGHTTP2_PRIORITY, 0, 1, "\0\0\0\3\1", 5);
    if (kind == BAD_REQUESTS)
        headers(c, 2 * i + 1, GET "connection: close\n", true);
}

/* Each ends the connection, soon; few of the requests among them reach a handler. */
static void test_floods(void **state UNUSED)
{
    for (int kind = PINGS; kind <= BAD_REQUESTS; kind++) {
        struct client c;
        uint32_t i = 0;

        begin(&c);
        handled = closed = 0;
        for (; !c.goaway && !c.closed && i < 20000; i++) {
            flood_frame(&c, (enum flood)kind, i);
            if (i % 100 == 0)
                step(&c);
        }
        if (!c.goaway && !c.closed)
            print_error("flood %d is let through\n", kind);
        assert_true(c.goaway || c.closed);
        UNTIL(&c, c.closed);
        assert_true(i < 2500);
        assert_true(handled <= 700);
        assert_int_equal(closed, kind == RESETS ? handled : 0);
        end(&c);
        loopback_run(base, 10);
        assert_int_equal(http_server_connections(server), 0);
    }
}

/* Concurrent streams are limited; those beyond are refused, which clients may try again. */
static void test_concurrency(void **state UNUSED)
{
    struct client c;

    begin(&c);
    for (uint32_t i = 0; i < 120; i++)
        headers(&c, 2 * i + 1, POST, false);
    UNTIL(&c, c.reset[239]);
    assert_int_equal(c.reset[199], 0);
    assert_int_equal(c.reset[201] - 1, NGHTTP2_REFUSED_STREAM);
    /* Bodies that do not come: reset, and the connection lives. */
    UNTIL(&c, c.reset[1]);
    assert_int_equal(c.reset[1] - 1, NGHTTP2_CANCEL);
    headers(&c, 241, GET, true);
    UNTIL(&c, c.ended[241]);
    assert_int_equal(handled, 1);
    end(&c);
}

/* A client that reads one stream and not the other. */
static void test_slow_reader(void **state UNUSED)
{
    struct client c;

    begin(&c);
    c.stingy = true;
    headers(&c, 1, ":method: GET\n:scheme: https\n:path: /big\n:authority: x\n", true);
    headers(&c, 3, ":method: GET\n:scheme: https\n:path: /stream\n:authority: x\n", true);
    UNTIL(&c, c.bytes[1] == 65535 && c.bytes[3] == 65535);
    headers(&c, 5, GET, true);
    UNTIL(&c, c.ended[5]);
    headers(&c, 7, ":method: GET\n:scheme: https\n:path: /flood\n:authority: x\n", true);
    UNTIL(&c, c.reset[7]);
    assert_int_equal(c.reset[7] - 1, NGHTTP2_ENHANCE_YOUR_CALM);
    assert_int_equal(drops, 1);
    headers(&c, 9, GET, true);
    UNTIL(&c, c.ended[9]);
    /* Its window opened, the big answer arrives whole. */
    c.stingy = false;
    number(&c, NGHTTP2_WINDOW_UPDATE, 1, 4 << 20);
    UNTIL(&c, c.ended[1]);
    assert_int_equal(c.bytes[1], 3 << 20);
    end(&c);
    loopback_run(base, 10);
    assert_int_equal(finished, handled);
}

/* Answers that are not taken hold back further requests of the same connection, not its memory. */
static void test_unread_answers(void **state UNUSED)
{
    struct client c;

    begin(&c);
    c.stingy = true;
    for (uint32_t i = 0; i < 50; i++)
        headers(&c, 2 * i + 1, ":method: GET\n:scheme: https\n:path: /big\n:authority: x\n", true);
    UNTIL(&c, c.bytes[1] == 65535);
    for (int i = 0; i < 50; i++)
        step(&c);
    assert_in_range(handled, 1, 3);
    c.stingy = false;
    for (uint32_t i = 0; i < 50; i++)
        number(&c, NGHTTP2_WINDOW_UPDATE, 2 * i + 1, 4 << 20);
    UNTIL(&c, handled > 20);
    end(&c);
}

static void test_vanished(void **state UNUSED)
{
    struct client c;

    begin(&c);
    headers(&c, 1, ":method: GET\n:scheme: https\n:path: /hold\n:authority: x\n", true);
    headers(&c, 3, ":method: GET\n:scheme: https\n:path: /hold\n:authority: x\n", true);
    UNTIL(&c, handled == 2);
    number(&c, NGHTTP2_RST_STREAM, 1, NGHTTP2_CANCEL);
    UNTIL(&c, closed == 1);
    end(&c);
    loopback_run(base, 20);
    assert_int_equal(closed, 2);
    assert_int_equal(finished, 2);
    assert_int_equal(http_server_connections(server), 0);
}

static void test_slow_head(void **state UNUSED)
{
    struct client c;

    begin(&c);
    frame(&c, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_STREAM, 1, NULL, 0); /* to be continued */
    UNTIL(&c, c.closed);
    end(&c);
}

static void on_drained(void *arg)
{
    *(bool *)arg = true;
}

/* Requests in work are answered, one on its way too; then the connection ends. */
static void test_shutdown(void **state UNUSED)
{
    struct client c, idle;
    bool done = false;

    begin(&c);
    begin(&idle);
    headers(&c, 1, ":method: GET\n:scheme: https\n:path: /hold\n:authority: x\n", true);
    UNTIL(&c, handled == 1);
    step(&idle);
    http_server_drain(server, on_drained, &done);
    UNTIL(&idle, idle.closed);
    UNTIL(&c, c.goaways == 1);
    headers(&c, 3, GET, true);
    UNTIL(&c, c.ended[3]);
    UNTIL(&c, c.goaways == 2);
    headers(&c, 5, GET, true);
    http_respond(held[0], 200, "text/plain", "last", 4);
    UNTIL(&c, c.closed);
    assert_int_equal(c.bytes[1], 4);
    assert_false(c.ended[5]);
    assert_int_equal(c.goaway - 1, NGHTTP2_NO_ERROR);
    loopback_run(base, 20);
    assert_true(done);
    end(&c);
    end(&idle);
}

static void test_freed_by_its_handler(void **state UNUSED)
{
    struct client c;

    begin(&c);
    headers(&c, 1, ":method: GET\n:scheme: https\n:path: /hold\n:authority: x\n", true);
    headers(&c, 3, ":method: GET\n:scheme: https\n:path: /free\n:authority: x\n", true);
    headers(&c, 5, GET, true);
    UNTIL(&c, c.closed);
    assert_int_equal(handled, 2);
    assert_int_equal(closed, 1);
    end(&c);
}

/* An upgrade to h2c is not taken up; the preface is HTTP/2 only where it was said that it may be. */
static void test_cleartext(void **state UNUSED)
{
    uint16_t plain;
    struct http_server *other = http_server_new(base, loopback_listen(&plain), NULL, NULL, handle, NULL);
    _cleanup_free_ char *upgrade = loopback_read(
        base,
        loopback_send(port, "GET /echo HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings, close\r\n"
                            "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n"),
        NULL);
    _cleanup_free_ char *preface = loopback_read(base, loopback_send(plain, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), NULL);

    assert_non_null(str_skip_prefix(upgrade, "HTTP/1.1 200 OK\r\n"));
    assert_non_null(str_skip_prefix(preface, "HTTP/1.1 400 "));
    http_server_free(other);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_requests),  CASE(test_abuses),      CASE(test_large_head),  CASE(test_large_body),
        CASE(test_floods),    CASE(test_concurrency), CASE(test_slow_reader), CASE(test_unread_answers),
        CASE(test_vanished),  CASE(test_slow_head),   CASE(test_shutdown),    CASE(test_freed_by_its_handler),
        CASE(test_cleartext),
    };
    return cmocka_run_group_tests_name("http2", tests, NULL, NULL);
}
