/*
 * Two requests on one connection, the first of them ambiguous: whatever a proxy in front would have made of it, the
 * bytes behind it never become a request of their own.
 */
#include "loopback.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "wire/http.h"

#define POST "POST /first HTTP/1.1\r\nHost: x\r\n"
#define SECOND "GET /second HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

static struct event_base *base;
static struct http_server *server;
static int firsts, seconds;
static uint16_t port;

static void handle(void *arg UNUSED, struct http_request *req)
{
    if (str_skip_prefix(http_path(req), "/first"))
        firsts++;
    else
        seconds++;
    http_respond(req, 200, "text/plain", "", 0);
}

static int setup(void **state UNUSED)
{
    static const struct http_server_options options = {.max_head_bytes = 4096, .body_timeout_ms = 200};

    base = event_base_new();
    server = http_server_new(base, loopback_listen(&port), NULL, &options, handle, NULL);
    return 0;
}

static int teardown(void **state UNUSED)
{
    http_server_free(server);
    event_base_free(base);
    return 0;
}

static char *exchange(const char *text, size_t len)
{
    int fd = loopback_connect(port);

    firsts = seconds = 0;
    assert_int_equal(fd_write_all(fd, text, len), 0);
    return loopback_read(base, fd, NULL);
}

struct row {
    const char *text;
    size_t len;
    const char *status; /* of the first answer */
    int firsts, seconds;
};
#define ROW(text, ...)                                                                                                 \
    {                                                                                                                  \
        text, sizeof(text) - 1, __VA_ARGS__                                                                            \
    }
#define REFUSED(text) ROW(text SECOND, "400", 0, 0)

static void check(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        _cleanup_free_ char *answer = exchange(rows[i].text, rows[i].len);
        const char *status = str_skip_prefix(answer, "HTTP/1.1 ");

        if (!status || !str_skip_prefix(status, rows[i].status) || firsts != rows[i].firsts ||
            seconds != rows[i].seconds)
            print_error("%s\ngave (%d, %d)\n%s\n", rows[i].text, firsts, seconds, answer);
        assert_non_null(status);
        assert_non_null(str_skip_prefix(status, rows[i].status));
        assert_int_equal(firsts, rows[i].firsts);
        assert_int_equal(seconds, rows[i].seconds);
    }
}

static void test_lengths(void **state UNUSED)
{
    static const struct row rows[] = {
        REFUSED(POST "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        REFUSED(POST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"),
        REFUSED(POST "Content-Length: 0\r\nContent-Length: 0\r\n\r\n"),
        REFUSED(POST "Content-Length: 0\r\nContent-Length: 50\r\n\r\n"),
        REFUSED(POST "Content-Length: 0, 0\r\n\r\n"),
        REFUSED(POST "Content-Length: +0\r\n\r\n"),
        REFUSED(POST "Content-Length: -0\r\n\r\n"),
        REFUSED(POST "Content-Length: 0x0\r\n\r\n"),
        REFUSED(POST "Content-Length: 1e1\r\n\r\n"),
        REFUSED(POST "Content-Length: 0 0\r\n\r\n"),
        REFUSED(POST "Content-Length: 18446744073709551616\r\n\r\n"),
        REFUSED(POST "Content-Length: 9223372036854775808\r\n\r\n"),
        REFUSED(POST "Content-Length:\r\n\r\n"),
        REFUSED(POST "Content-Length : 0\r\n\r\n"),
        REFUSED(POST "Content-Length\t: 0\r\n\r\n"),
        REFUSED(POST "Content\0-Length: 0\r\n\r\n"),
        REFUSED(POST "Content-Length: 0\0\r\n\r\n"),
        REFUSED(POST "Content-Length: 0\x0b\r\n\r\n"),
    };

    check(rows, ARRAY_LEN(rows));
}

static void test_encodings(void **state UNUSED)
{
    static const struct row rows[] = {
        REFUSED(POST "Transfer-Encoding: xchunked\r\n\r\n"),
        REFUSED(POST "Transfer-Encoding: chunked, identity\r\n\r\n"),
        REFUSED(POST "Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n"),
        REFUSED(POST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
        REFUSED(POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n"),
        REFUSED(POST "Transfer-Encoding: \x0b"
                     "chunked\r\n\r\n0\r\n\r\n"),
        REFUSED(POST "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n"),
        REFUSED(POST "Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n"),
        REFUSED(POST "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"),
        REFUSED(POST "Transfer-Encoding\r\n : chunked\r\n\r\n0\r\n\r\n"),
        REFUSED(POST "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n"),
        REFUSED(POST " Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        REFUSED(POST "X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        REFUSED(POST "X: y\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        REFUSED("POST /first HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        ROW(POST "transfer-ENCODING: \t CHUNKED \r\n\r\n0\r\n\r\n" SECOND, "200", 1, 1),
    };

    check(rows, ARRAY_LEN(rows));
}

#define CHUNKED POST "Transfer-Encoding: chunked\r\n\r\n"

static void test_chunks(void **state UNUSED)
{
    static const struct row rows[] = {
        ROW(CHUNKED "1\r\na\r\n0\r\n\r\n" SECOND, "200", 1, 1),
        ROW(CHUNKED "1;a=b\r\na\r\n0;c\r\nTrailer: t\r\n\r\n" SECOND, "200", 1, 1),
        REFUSED(CHUNKED "0x0\r\n\r\n"),
        REFUSED(CHUNKED "+0\r\n\r\n"),
        REFUSED(CHUNKED " 0\r\n\r\n"),
        REFUSED(CHUNKED "0 \r\n\r\n"),
        REFUSED(CHUNKED "0\n\n"),
        REFUSED(CHUNKED "0\r\r\n"),
        REFUSED(CHUNKED "1\r\nab\r\n0\r\n\r\n"),
        REFUSED(CHUNKED "1\na\n0\n\n"),
        REFUSED(CHUNKED "1;a\nb\r\na\r\n0\r\n\r\n"),
        REFUSED(CHUNKED "1;a\rb\r\na\r\n0\r\n\r\n"),
        REFUSED(CHUNKED "10000000000000000\r\na\r\n0\r\n\r\n"),
        REFUSED(CHUNKED "ffffffffffffffff\r\na\r\n0\r\n\r\n"),
        REFUSED(CHUNKED "00000000000000001\r\na\r\n0\r\n\r\n"),
        REFUSED(CHUNKED "\r\na\r\n0\r\n\r\n"),
        REFUSED(CHUNKED ";\r\na\r\n0\r\n\r\n"),
        REFUSED(CHUNKED "0\r\nA: b\n\r\n"),
        /* A trailer cannot bring the next request a length. */
        ROW(CHUNKED "0\r\nContent-Length: 60\r\n\r\n" SECOND, "200", 1, 1),
    };

    check(rows, ARRAY_LEN(rows));
}

static void test_heads(void **state UNUSED)
{
    static const struct row rows[] = {
        REFUSED("GET /first HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n"),
        REFUSED("GET /first HTTP/1.1\r\n\r\n"),
        REFUSED("GET /first HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n"),
        REFUSED("GET /first HTTP/1.1\r\nHost: x\r\nA: b\r\n\tfolded\r\n\r\n"),
        REFUSED("GET /first HTTP/1.1\nHost: x\n\n"),
        REFUSED("GET /first HTTP/1.1\rHost: x\r\r"),
        REFUSED("GET /first HTTP/1.1\r\nHost: x\r\n\n"),
        REFUSED("GET /first HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n"),
        REFUSED("GET /first HTTP/1.1\r\nHost: x\r\n: empty\r\n\r\n"),
        REFUSED("GET /first\tHTTP/1.1\r\nHost: x\r\n\r\n"),
        REFUSED("GET /first HTTP/1.1 HTTP/1.1\r\nHost: x\r\n\r\n"),
        REFUSED("GET /first HTTP/1.2\r\nHost: x\r\n\r\n"),
        REFUSED("GET /first HTTP/01.1\r\nHost: x\r\n\r\n"),
        REFUSED("GET /first http/1.1\r\nHost: x\r\n\r\n"),
        REFUSED("GET /first\r\n\r\n"),
        REFUSED("GET first HTTP/1.1\r\nHost: x\r\n\r\n"),
        REFUSED("GET ftp://x/first HTTP/1.1\r\nHost: x\r\n\r\n"),
        REFUSED("GET /first\x80 HTTP/1.1\r\nHost: x\r\n\r\n"),
        REFUSED("\r\n\r\nGET /first HTTP/1.1\r\nHost: x\r\n\r\n"),
        ROW("GET http://x/first HTTP/1.1\r\nHost: x\r\n\r\n" SECOND, "200", 1, 1),
        /* Not taken up: it goes on as HTTP/1.1. */
        ROW("GET /first HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
            "HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n" SECOND,
            "200", 1, 1),
        REFUSED("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        /* A GET with a body has it. */
        ROW("GET /first HTTP/1.1\r\nHost: x\r\nContent-Length: 53\r\n\r\n" SECOND "GET /x HTTP/1.1\r\n\r\n", "200", 1,
            0),
    };

    check(rows, ARRAY_LEN(rows));
}

/* Heads that are too long say which part is. */
static void test_too_long(void **state UNUSED)
{
    _cleanup_(strbuf_free) struct strbuf line = {0}, fields = {0};

    strbuf_addf(&line, "GET /first?%05000d HTTP/1.1\r\nHost: x\r\n\r\n" SECOND, 0);
    strbuf_addf(&fields, "GET /first HTTP/1.1\r\nHost: x\r\nA: %05000d\r\n\r\n" SECOND, 0);
    const struct row rows[] = {{line.data, line.len, "414", 0, 0}, {fields.data, fields.len, "431", 0, 0}};
    check(rows, ARRAY_LEN(rows));
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {CASE(test_lengths), CASE(test_encodings), CASE(test_chunks), CASE(test_heads),
                                       CASE(test_too_long)};
    return cmocka_run_group_tests_name("http_smuggling", tests, NULL, NULL);
}
