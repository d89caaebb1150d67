/* Heads and bodies of both sides; whole and in two pieces must mean the same. */
#include "fuzz.h"

#include "base/strbuf.h"
#include "wire/http_parse.h"

static void append(void *arg, const char *data, size_t len)
{
    strbuf_add(arg, data, len);
}

static ssize_t body(struct http_body_reader *b, const char *data, size_t len, size_t cut, struct strbuf *out)
{
    ssize_t n = http_body_feed(b, data, cut, append, out);

    if (n < 0 || (size_t)n < cut)
        return n;
    ssize_t m = http_body_feed(b, data + cut, len - cut, append, out);
    return m < 0 ? m : n + m;
}

static void bodies(struct http_body_reader reader, const char *data, size_t len)
{
    struct http_body_reader whole = reader, pieces = reader;
    struct strbuf a = {0}, b = {0};
    ssize_t n = body(&whole, data, len, len, &a), m = body(&pieces, data, len, len / 2, &b);

    if ((n < 0) != (m < 0) || (n >= 0 && (n != m || a.len != b.len || memcmp(strbuf_str(&a), strbuf_str(&b), a.len))))
        abort();
    strbuf_free(&a);
    strbuf_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct http_head head = {0};
    struct http_body_reader reader;
    size_t scanned = 0, step = 0;
    const char *text = (const char *)data;
    ssize_t n = http_parse_request_head(text, size, 8192, &scanned, &head, NULL);

    if (n > 0) {
        struct http_head again = {0};
        ssize_t m = 0;
        for (size_t k = 1; k <= (size_t)n && m == 0; k++)
            m = http_parse_request_head(text, k, 8192, &step, &again, NULL);
        if (m != n)
            abort();
        http_head_free(&again);
        if (http_body_of_request(&head, &reader, NULL) == 0)
            bodies(reader, text + n, size - (size_t)n);
        http_head_free(&head);
    }
    scanned = 0;
    n = http_parse_response_head(text, size, 8192, &scanned, &head, NULL);
    if (n > 0) {
        if (http_body_of_response(&head, false, &reader, NULL) == 0)
            bodies(reader, text + n, size - (size_t)n);
        http_head_free(&head);
    }
    char *decoded = url_decode(text, size, true);
    free(decoded);
    return 0;
}
