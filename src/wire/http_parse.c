#include "wire/http_parse.h"

#include "base/memory.h"
#include "base/strutil.h"

#include <ctype.h>

#define HEADERS_MAX 200
#define METHOD_MAX 32
#define CHUNK_LINE_MAX 256
/* Trailers and chunk extensions of one body together: bytes that cost work and carry nothing. */
#define DISCARDED_MAX_BYTES 8192

void http_head_free(struct http_head *h)
{
    free(h->method);
    free(h->target);
    http_headers_free(&h->headers);
    *h = (struct http_head){0};
}

/* RFC 9110 token characters. */
static bool is_token(unsigned char c)
{
    return isalnum(c) || (c && strchr("!#$%&'*+-.^_`|~", c));
}

static int bad(struct error *err, const char *what)
{
    return error_set(err, EBADMSG, "malformed HTTP message: %s", what);
}

/*
 * Finds the blank line that ends a head. Every line must end in CRLF: a bare LF, a bare CR and NUL are refused at once,
 * wherever they stand. Returns the length, 0 for more, or an error.
 */
static ssize_t find_end(const char *buf, size_t len, size_t max, size_t *scanned, struct error *err)
{
    for (size_t i = *scanned; i < len && i < max; i++) {
        if (buf[i] == '\0')
            return bad(err, "NUL byte");
        if (buf[i] == '\r' && i + 1 < len && buf[i + 1] != '\n')
            return bad(err, "CR without LF");
        if (buf[i] != '\n')
            continue;
        if (i == 0 || buf[i - 1] != '\r')
            return bad(err, "LF without CR");
        if (i >= 3 && buf[i - 3] == '\r' && buf[i - 2] == '\n')
            return (ssize_t)i + 1;
        if (i == 1)
            return bad(err, "empty first line");
    }
    if (len >= max && !memchr(buf, '\n', max))
        return error_set(err, ENAMETOOLONG, "first line is longer than %zu bytes", max);
    if (len >= max)
        return error_set(err, EMSGSIZE, "HTTP head is longer than %zu bytes", max);
    /* A trailing CR may turn out to be half of a CRLF: look at it again. */
    *scanned = len && buf[len - 1] == '\r' ? len - 1 : len;
    return 0;
}

static int parse_field(const char *line, size_t len, struct http_headers *headers, struct error *err)
{
    const char *colon = memchr(line, ':', len);

    if (line[0] == ' ' || line[0] == '\t')
        return bad(err, "folded header line");
    if (!colon || colon == line)
        return bad(err, "header line without a name");
    for (const char *p = line; p < colon; p++)
        if (!is_token((unsigned char)*p))
            return bad(err, "invalid character in a header name");
    const char *value = colon + 1, *end = line + len;
    while (value < end && (*value == ' ' || *value == '\t'))
        value++;
    while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    for (const char *p = value; p < end; p++)
        if (((unsigned char)*p < 0x20 && *p != '\t') || *p == 0x7f)
            return bad(err, "control character in a header value");
    if (headers->count >= HEADERS_MAX)
        return bad(err, "too many header lines");
    _cleanup_free_ char *name_copy = xstrndup(line, (size_t)(colon - line));
    _cleanup_free_ char *value_copy = xstrndup(value, (size_t)(end - value));
    http_headers_add(headers, name_copy, value_copy);
    return 0;
}

/* The header lines between the first line and the blank one. */
static int parse_fields(const char *p, const char *end, struct http_headers *headers, struct error *err)
{
    while (p < end) {
        const char *eol = memchr(p, '\r', (size_t)(end - p));
        if (!eol)
            return bad(err, "header line without an end");
        if (parse_field(p, (size_t)(eol - p), headers, err) < 0)
            return -EBADMSG;
        p = eol + 2;
    }
    return 0;
}

/* "HTTP/1.0" or "HTTP/1.1". */
static bool parse_version(const char *p, int *ret_minor)
{
    if (strncmp(p, "HTTP/1.", 7) != 0 || (p[7] != '0' && p[7] != '1'))
        return false;
    *ret_minor = p[7] - '0';
    return true;
}

/* "host:port", "[address]:port": the only form that CONNECT has. */
static bool valid_authority(const char *s)
{
    const char *colon = strrchr(s, ':');
    uint64_t port;

    return colon && colon != s && !strpbrk(s, "/?@") && parse_u64(colon + 1, &port) && port > 0 && port <= 65535 &&
           (*s == '[' ? colon[-1] == ']' : memchr(s, ':', (size_t)(colon - s)) == NULL);
}

static bool valid_target(const char *method, const char *target)
{
    for (const char *p = target; *p; p++)
        if ((unsigned char)*p <= 0x20 || (unsigned char)*p >= 0x7f || *p == '#')
            return false;
    if (streq(method, "CONNECT"))
        return valid_authority(target);
    if (streq(target, "*"))
        return streq(method, "OPTIONS");
    return *target == '/' || str_skip_prefix(target, "http://") || str_skip_prefix(target, "https://");
}

static bool valid_method(const char *s)
{
    size_t len = strlen(s);

    for (const char *p = s; *p; p++)
        if (!is_token((unsigned char)*p))
            return false;
    return len > 0 && len <= METHOD_MAX;
}

static int request_line(const char *buf, const char *eol, struct http_head *h, struct error *err)
{
    const char *space = memchr(buf, ' ', (size_t)(eol - buf));
    const char *second = space ? memchr(space + 1, ' ', (size_t)(eol - space - 1)) : NULL;

    if (!second || eol - second != 9 || !parse_version(second + 1, &h->minor))
        return bad(err, "request line");
    h->method = xstrndup(buf, (size_t)(space - buf));
    h->target = xstrndup(space + 1, (size_t)(second - space - 1));
    return 0;
}

static int check_host(const struct http_head *h, struct error *err)
{
    size_t hosts = 0;

    for (size_t i = 0; i < h->headers.count; i++) {
        if (strcasecmp(h->headers.items[i].name, "Host") != 0)
            continue;
        hosts++;
        if (h->headers.items[i].value[strcspn(h->headers.items[i].value, " \t,/?#@\\")])
            return bad(err, "Host");
    }
    if (hosts > 1 || (hosts == 0 && h->minor == 1))
        return bad(err, hosts ? "more than one Host" : "no Host");
    return 0;
}

int http_check_request(const struct http_head *h, struct error *err)
{
    if (!valid_method(h->method))
        return bad(err, "method");
    return valid_target(h->method, h->target) ? check_host(h, err) : bad(err, "request target");
}

ssize_t http_parse_request_head(const char *buf, size_t len, size_t max, size_t *scanned, struct http_head *ret,
                                struct error *err)
{
    ssize_t n = find_end(buf, len, max, scanned, err);
    if (n <= 0)
        return n;
    struct http_head h = {0};
    const char *eol = memchr(buf, '\r', (size_t)n);
    int r = request_line(buf, eol, &h, err);

    if (r == 0)
        r = parse_fields(eol + 2, buf + n - 2, &h.headers, err);
    if (r == 0)
        r = http_check_request(&h, err);
    if (r < 0) {
        http_head_free(&h);
        return r;
    }
    *ret = h;
    return n;
}

ssize_t http_parse_response_head(const char *buf, size_t len, size_t max, size_t *scanned, struct http_head *ret,
                                 struct error *err)
{
    ssize_t n = find_end(buf, len, max, scanned, err);
    if (n <= 0)
        return n;
    struct http_head h = {0};
    const char *eol = memchr(buf, '\r', (size_t)n);

    if (eol - buf < 12 || !parse_version(buf, &h.minor) || buf[8] != ' ' || !isdigit((unsigned char)buf[9]) ||
        !isdigit((unsigned char)buf[10]) || !isdigit((unsigned char)buf[11]) || (eol - buf > 12 && buf[12] != ' '))
        return bad(err, "status line");
    h.status = (buf[9] - '0') * 100 + (buf[10] - '0') * 10 + (buf[11] - '0');
    if (parse_fields(eol + 2, buf + n - 2, &h.headers, err) < 0) {
        http_head_free(&h);
        return -EBADMSG;
    }
    *ret = h;
    return n;
}

/* 0 = no such header, 1 = exactly one, -1 = several. */
static int single(const struct http_headers *h, const char *name, const char **ret)
{
    int count = 0;

    for (size_t i = 0; i < h->count; i++) {
        if (strcasecmp(h->items[i].name, name) != 0)
            continue;
        *ret = h->items[i].value;
        count++;
    }
    return count > 1 ? -1 : count;
}

/* Both lengths, or one twice, is how requests are smuggled: refused even when the values agree. */
static int framing(const struct http_head *h, struct http_body_reader *ret, struct error *err)
{
    const char *length = NULL, *encoding = NULL;
    int lengths = single(&h->headers, "Content-Length", &length);
    int encodings = single(&h->headers, "Transfer-Encoding", &encoding);

    *ret = (struct http_body_reader){.kind = HTTP_BODY_NONE, .done = true};
    if (lengths < 0 || encodings < 0 || (lengths && encodings))
        return bad(err, "ambiguous length");
    if (encodings) {
        if (strcasecmp(encoding, "chunked") != 0 || h->minor == 0)
            return bad(err, "unsupported Transfer-Encoding");
        *ret = (struct http_body_reader){.kind = HTTP_BODY_CHUNKED};
    } else if (lengths) {
        uint64_t n;
        if (!parse_u64(length, &n) || n > INT64_MAX)
            return bad(err, "Content-Length");
        *ret = (struct http_body_reader){.kind = HTTP_BODY_LENGTH, .left = n, .done = n == 0};
    }
    return 0;
}

int http_body_of_request(const struct http_head *h, struct http_body_reader *ret, struct error *err)
{
    return framing(h, ret, err);
}

int http_body_of_response(const struct http_head *h, bool to_head_request, struct http_body_reader *ret,
                          struct error *err)
{
    int r = framing(h, ret, err);

    if (r < 0)
        return r;
    if (to_head_request || h->status < 200 || h->status == 204 || h->status == 304)
        *ret = (struct http_body_reader){.kind = HTTP_BODY_NONE, .done = true};
    else if (ret->kind == HTTP_BODY_NONE)
        *ret = (struct http_body_reader){.kind = HTTP_BODY_UNTIL_CLOSE};
    return 0;
}

/* Chunked: SIZE [;ext] CRLF DATA CRLF ... 0 CRLF [trailers] CRLF */
enum chunk_state {
    CHUNK_SIZE,
    CHUNK_EXTENSION,
    CHUNK_SIZE_LF,
    CHUNK_DATA,
    CHUNK_DATA_CR,
    CHUNK_DATA_LF,
    TRAILER,
    TRAILER_LF
};

static int hex_digit(unsigned char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (unsigned char)tolower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* One byte of the framing around chunks. */
static int chunk_byte(struct http_body_reader *b, unsigned char c)
{
    int digit;

    switch ((enum chunk_state)b->state) {
    case CHUNK_SIZE:
        if ((digit = hex_digit(c)) >= 0) {
            if (b->left > (INT64_MAX >> 4) || ++b->line_len > 16)
                return -EBADMSG;
            b->left = b->left << 4 | (uint64_t)digit;
            return 0;
        }
        if (b->line_len == 0 || (c != ';' && c != '\r'))
            return -EBADMSG;
        b->state = c == ';' ? CHUNK_EXTENSION : CHUNK_SIZE_LF;
        return 0;
    case CHUNK_EXTENSION:
        if (c == '\r')
            b->state = CHUNK_SIZE_LF;
        else if ((c < 0x20 && c != '\t') || c == 0x7f || ++b->line_len > CHUNK_LINE_MAX ||
                 ++b->discarded > DISCARDED_MAX_BYTES)
            return -EBADMSG;
        return 0;
    case CHUNK_SIZE_LF:
        b->state = b->left ? CHUNK_DATA : TRAILER;
        b->line_len = 0;
        return c == '\n' ? 0 : -EBADMSG;
    case CHUNK_DATA_CR:
        b->state = CHUNK_DATA_LF;
        return c == '\r' ? 0 : -EBADMSG;
    case CHUNK_DATA_LF:
        b->state = CHUNK_SIZE;
        b->line_len = 0;
        return c == '\n' ? 0 : -EBADMSG;
    case TRAILER: /* read and dropped */
        if (c == '\r') {
            b->state = TRAILER_LF;
            return 0;
        }
        b->line_len++;
        return c == '\n' || c == 0 || ++b->discarded > DISCARDED_MAX_BYTES ? -EBADMSG : 0;
    case TRAILER_LF:
        if (c != '\n')
            return -EBADMSG;
        b->done = b->line_len == 0;
        b->line_len = 0;
        b->state = TRAILER;
        return 0;
    case CHUNK_DATA:
        break;
    }
    return -EBADMSG;
}

ssize_t http_body_feed(struct http_body_reader *b, const char *data, size_t len,
                       void (*sink)(void *arg, const char *data, size_t len), void *arg)
{
    size_t at = 0;

    while (at < len && !b->done) {
        bool counted = b->kind == HTTP_BODY_LENGTH || (b->kind == HTTP_BODY_CHUNKED && b->state == CHUNK_DATA);

        if (b->kind == HTTP_BODY_UNTIL_CLOSE || counted) {
            size_t n = counted && len - at > b->left ? (size_t)b->left : len - at;
            sink(arg, data + at, n);
            at += n;
            if (!counted)
                continue;
            b->left -= n;
            if (b->left == 0 && b->kind == HTTP_BODY_CHUNKED)
                b->state = CHUNK_DATA_CR;
            else if (b->left == 0)
                b->done = true;
        } else if (chunk_byte(b, (unsigned char)data[at++]) < 0) {
            return -EBADMSG;
        }
    }
    return (ssize_t)at;
}

bool http_keep_alive(const struct http_head *h)
{
    if (http_headers_has_token(&h->headers, "Connection", "close"))
        return false;
    return h->minor == 1 || http_headers_has_token(&h->headers, "Connection", "keep-alive");
}
