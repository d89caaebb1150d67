#include "test.h"

#include "base/strutil.h"
#include "wire/http_parse.h"

#include <stdio.h>

#define HOST "Host: x\r\n"

static void test_request_heads(void **state UNUSED)
{
    static const struct {
        const char *text;
        int result; /* 1 = a head, 0 = incomplete, -1 = refused (head or framing) */
    } cases[] = {
        {"GET / HTTP/1.1\r\n" HOST "\r\n", 1},
        {"GET /a?b=c%20d HTTP/1.0\r\n\r\n", 1},
        {"GET http://x/y HTTP/1.1\r\n" HOST "\r\n", 1},
        {"CONNECT x:443 HTTP/1.1\r\n" HOST "\r\n", 1},
        {"OPTIONS * HTTP/1.1\r\n" HOST "\r\n", 1},
        {"GET / HTTP/1.1\r\nHost: x\r\n", 0},
        {"GET / HT", 0},
        {"GET / HTTP/1.1\r\n" HOST "\r", 0},
        {"\r\nGET / HTTP/1.1\r\n" HOST "\r\n", -1},
        {"GET / HTTP/1.1\n" HOST "\n", -1},
        {"GET / HTTP/1.1\r\nHost: x\rY: z\r\n\r\n", -1},
        {"GET / HTTP/1.1\r\n\r\n", -1},
        {"GET / HTTP/1.1\r\n" HOST HOST "\r\n", -1},
        {"GET  / HTTP/1.1\r\n" HOST "\r\n", -1},
        {"GET / HTTP/2.0\r\n" HOST "\r\n", -1},
        {"GET / HTTP/1.1 \r\n" HOST "\r\n", -1},
        {"GET x HTTP/1.1\r\n" HOST "\r\n", -1},
        {"GET /a#b HTTP/1.1\r\n" HOST "\r\n", -1},
        {"CONNECT / HTTP/1.1\r\n" HOST "\r\n", -1},
        {"G\x01T / HTTP/1.1\r\n" HOST "\r\n", -1},
        {"GET / HTTP/1.1\r\n" HOST "A : b\r\n\r\n", -1},
        {"GET / HTTP/1.1\r\n" HOST "A: b\r\n c\r\n\r\n", -1},
        {"GET / HTTP/1.1\r\n" HOST ": b\r\n\r\n", -1},
        {"GET / HTTP/1.1\r\n" HOST "A: b\x01\r\n\r\n", -1},
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", -1},
        {"CONNECT [::1]:443 HTTP/1.1\r\n" HOST "\r\n", 1},
        {"CONNECT x HTTP/1.1\r\n" HOST "\r\n", -1},
        {"CONNECT x:0 HTTP/1.1\r\n" HOST "\r\n", -1},
        {"CONNECT x:65536 HTTP/1.1\r\n" HOST "\r\n", -1},
        {"CONNECT u@x:443 HTTP/1.1\r\n" HOST "\r\n", -1},
        {"CONNECT x:443/a HTTP/1.1\r\n" HOST "\r\n", -1},
        {"CONNECT ::1:443 HTTP/1.1\r\n" HOST "\r\n", -1},
        {"CONNECT http://x:443 HTTP/1.1\r\n" HOST "\r\n", -1},
        {"GET x:443 HTTP/1.1\r\n" HOST "\r\n", -1},
        {"GET * HTTP/1.1\r\n" HOST "\r\n", -1},
        {"GET / HTTP/1.1\r\nHost:\r\n\r\n", 1},
        {"GET / HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n", 1},
        {"GET / HTTP/1.1\r\nHost: x, y\r\n\r\n", -1},
        {"GET / HTTP/1.1\r\nHost: x/y\r\n\r\n", -1},
        {"GET / HTTP/1.1\r\nHost: u@x\r\n\r\n", -1},
        {"GET / HTTP/1.0\r\nHost: x\r\nHost: y\r\n\r\n", -1},
        /* smuggling */
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", -1},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\nContent-Length: 5\r\n\r\n", -1},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: +5\r\n\r\n", -1},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 5, 5\r\n\r\n", -1},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: -5\r\n\r\n", -1},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 5 5\r\n\r\n", -1},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length:\r\n\r\n", -1},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length : 5\r\n\r\n", -1},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\ncontent-length: 6\r\n\r\n", -1},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding:\x0b"
         "chunked\r\n\r\n",
         -1},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: \"chunked\"\r\n\r\n", -1},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: identity\r\n\r\n", -1},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding:\r\n\r\n", -1},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 0x5\r\n\r\n", -1},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 99999999999999999999\r\n\r\n", -1},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked, identity\r\n\r\n", -1},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: xchunked\r\n\r\n", -1},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", -1},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding : chunked\r\n\r\n", -1},
        {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", -1},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: CHUNKED\r\n\r\n", 1},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct http_head head = {0};
        struct http_body_reader body;
        size_t scanned = 0, len = strlen(cases[i].text);
        ssize_t n = 0;

        /* Byte by byte, as a slow or hostile client would send it. */
        for (size_t k = 1; k <= len && n == 0; k++)
            n = http_parse_request_head(cases[i].text, k, 4096, &scanned, &head, NULL);
        int result = n < 0 ? -1 : n > 0;
        if (result == 1 && http_body_of_request(&head, &body, NULL) < 0)
            result = -1;
        if (result != cases[i].result)
            print_error("%d instead of %d for %s\n", result, cases[i].result, cases[i].text);
        assert_int_equal(result, cases[i].result);
        http_head_free(&head);
    }
}

static void append(void *arg, const char *data, size_t len)
{
    strbuf_add(arg, data, len);
}

static void test_chunks(void **state UNUSED)
{
    static const struct {
        const char *text, *body; /* NULL: refused */
    } cases[] = {
        {"5\r\nhello\r\n0\r\n\r\n", "hello"},
        {"1\r\na\r\n2;x=y\r\nbc\r\n0\r\nTrailer: t\r\n\r\n", "abc"},
        {"A\r\n0123456789\r\n0\r\n\r\n", "0123456789"},
        {"0\r\n\r\n", ""},
        {"5;a=\"b\"\r\nhello\r\n0\r\n\r\n", "hello"},
        {"5;a\nb\r\nhello\r\n0\r\n\r\n", NULL},
        {"5;a\x01\r\nhello\r\n0\r\n\r\n", NULL},
        {"5 \r\nhello\r\n0\r\n\r\n", NULL},
        {"5\rhello\r\n0\r\n\r\n", NULL},
        {"5\nhello\r\n0\r\n\r\n", NULL},
        {"5\r\nhelloX\r\n0\r\n\r\n", NULL},
        {"-5\r\nhello\r\n0\r\n\r\n", NULL},
        {"0x5\r\nhello\r\n0\r\n\r\n", NULL},
        {"\r\nhello\r\n0\r\n\r\n", NULL},
        {" 5\r\nhello\r\n0\r\n\r\n", NULL},
        {"fffffffffffffffff\r\nhello", NULL},
        {"8000000000000000\r\nhello", NULL},
        {"0\r\nA: b\n\r\n", NULL},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        for (size_t step = 1; step <= 64; step *= 8) {
            struct http_body_reader b = {.kind = HTTP_BODY_CHUNKED};
            _cleanup_(strbuf_free) struct strbuf out = {0};
            size_t len = strlen(cases[i].text);
            ssize_t n = 0;

            for (size_t at = 0; at < len && n >= 0 && !b.done; at += (size_t)n)
                n = http_body_feed(&b, cases[i].text + at, MIN(step, len - at), append, &out);
            bool ok = n >= 0 && b.done;
            if (ok != (cases[i].body != NULL))
                print_error("%d for %s\n", ok, cases[i].text);
            assert_int_equal(ok, cases[i].body != NULL);
            if (ok)
                assert_string_equal(strbuf_str(&out), cases[i].body);
        }
    }
}

static void test_limit(void **state UNUSED)
{
    struct http_head head;
    size_t scanned = 0;
    char big[200];

    memset(big, 'a', sizeof(big));
    assert_int_equal(http_parse_request_head(big, sizeof(big), 200, &scanned, &head, NULL), -ENAMETOOLONG);
    scanned = 0;
    memcpy(big, "GET / HTTP/1.1\r\n", 16);
    assert_int_equal(http_parse_request_head(big, sizeof(big), 200, &scanned, &head, NULL), -EMSGSIZE);
}

static void test_urls(void **state UNUSED)
{
    static const struct {
        const char *text, *decoded;
        bool plus;
    } cases[] = {{"a%2Fb", "a/b", false}, {"a+b", "a b", true}, {"a+b", "a+b", false}, {"%zz", NULL, false},
                 {"%4", NULL, false},     {"a%", NULL, false},  {"%00", NULL, false},  {"%41%62", "Ab", false}};

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_free_ char *out = url_decode(cases[i].text, strlen(cases[i].text), cases[i].plus);
        if (cases[i].decoded)
            assert_string_equal(out, cases[i].decoded);
        else
            assert_null(out);
    }
    _cleanup_free_ char *encoded = url_encode("a b/ü~");
    assert_string_equal(encoded, "a%20b%2F%C3%BC~");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_request_heads),
        cmocka_unit_test(test_chunks),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_urls),
    };
    return cmocka_run_group_tests_name("http_parse", tests, NULL, NULL);
}
