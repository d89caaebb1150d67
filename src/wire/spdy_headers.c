/* The header blocks of SPDY/3: one zlib stream for a connection, begun with a dictionary that both sides know. */
#include "wire/spdy.h"

#include "base/memory.h"
#include "base/strbuf.h"
#include "base/strutil.h"
#include "wire/http.h"

#include <zlib.h>

/* The dictionary of the SPDY/3 draft: words behind their lengths, then text. */
static const char *const words[] = {
    "options",
    "head",
    "post",
    "put",
    "delete",
    "trace",
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "accept-ranges",
    "age",
    "allow",
    "authorization",
    "cache-control",
    "connection",
    "content-base",
    "content-encoding",
    "content-language",
    "content-length",
    "content-location",
    "content-md5",
    "content-range",
    "content-type",
    "date",
    "etag",
    "expect",
    "expires",
    "from",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "last-modified",
    "location",
    "max-forwards",
    "pragma",
    "proxy-authenticate",
    "proxy-authorization",
    "range",
    "referer",
    "retry-after",
    "server",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "vary",
    "via",
    "warning",
    "www-authenticate",
    "method",
    "get",
    "status",
    "200 OK",
    "version",
    "HTTP/1.1",
    "url",
    "public",
    "set-cookie",
    "keep-alive",
    "origin",
};
static const char tail[] =
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 Non-Au"
    "thoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidd"
    "en404 Not Found500 Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr Ma"
    "y Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,imag"
    "e/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,publicpri"
    "vatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.";

#define HEADERS_MAX 64 /* in one block */

struct spdy_inflater {
    z_stream z;
};

static void put_dictionary(struct strbuf *out)
{
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        size_t len = strlen(words[i]);
        strbuf_add(out, (const char[]){0, 0, 0, (char)len}, 4);
        strbuf_add(out, words[i], len);
    }
    strbuf_add(out, tail, sizeof(tail) - 1);
}

struct spdy_inflater *spdy_inflater_new(void)
{
    struct spdy_inflater *z = xcalloc(1, sizeof(*z));

    if (inflateInit(&z->z) != Z_OK)
        abort();
    return z;
}

void spdy_inflater_free(struct spdy_inflater *z)
{
    if (!z)
        return;
    (void)inflateEnd(&z->z); /* the memory is released in any case */
    free(z);
}

static int inflate_block(struct spdy_inflater *z, const uint8_t *data, size_t len, struct strbuf *out,
                         struct error *err)
{
    uint8_t piece[4096];
    int r = Z_OK;

    z->z.next_in = (Bytef *)(uintptr_t)data; /* zlib does not write to it */
    z->z.avail_in = (uInt)len;
    do {
        z->z.next_out = piece;
        z->z.avail_out = sizeof(piece);
        r = inflate(&z->z, Z_SYNC_FLUSH);
        if (r == Z_NEED_DICT) {
            _cleanup_(strbuf_free) struct strbuf dictionary = {0};
            put_dictionary(&dictionary);
            r = inflateSetDictionary(&z->z, (const Bytef *)strbuf_str(&dictionary), (uInt)dictionary.len);
            if (r == Z_OK)
                continue;
        }
        if (r != Z_OK && r != Z_BUF_ERROR)
            return error_set(err, EPROTO, "SPDY: header block that does not inflate");
        strbuf_add(out, (const char *)piece, sizeof(piece) - z->z.avail_out);
        if (out->len > SPDY_HEADER_BLOCK_MAX)
            return error_set(err, EPROTO, "SPDY: header block above %u bytes", SPDY_HEADER_BLOCK_MAX);
    } while (r == Z_OK && (z->z.avail_in > 0 || z->z.avail_out == 0));
    return 0;
}

static bool take_u32(const uint8_t **p, size_t *left, uint32_t *ret)
{
    if (*left < 4)
        return false;
    *ret = (uint32_t)(*p)[0] << 24 | (uint32_t)(*p)[1] << 16 | (uint32_t)(*p)[2] << 8 | (*p)[3];
    *p += 4;
    *left -= 4;
    return true;
}

/* NULL: it is not whole, or holds NUL (which separates several values; nobody here sends them). */
static char *take_text(const uint8_t **p, size_t *left)
{
    uint32_t len;

    if (!take_u32(p, left, &len) || len > *left || memchr(*p, 0, len))
        return NULL;
    char *text = xstrndup((const char *)*p, len);
    *p += len;
    *left -= len;
    return text;
}

int spdy_headers_parse(struct spdy_inflater *z, const uint8_t *data, size_t len, struct http_headers *ret,
                       struct error *err)
{
    _cleanup_(strbuf_free) struct strbuf text = {0};
    uint32_t count;

    if (inflate_block(z, data, len, &text, err) < 0)
        return -EPROTO;
    const uint8_t *p = (const uint8_t *)strbuf_str(&text);
    size_t left = text.len;
    if (!take_u32(&p, &left, &count) || count > HEADERS_MAX)
        return error_set(err, EPROTO, "SPDY: header block with a bad count");
    for (; count > 0; count--) {
        _cleanup_free_ char *name = take_text(&p, &left);
        _cleanup_free_ char *value = name ? take_text(&p, &left) : NULL;
        if (!value)
            return error_set(err, EPROTO, "SPDY: header block cut short");
        http_headers_add(ret, name, value);
    }
    return left ? error_set(err, EPROTO, "SPDY: bytes behind the headers") : 0;
}

/*
 * Without compression: the count 0 as a stored block, the first behind zlib's header that names the dictionary; then
 * an empty block, at which receivers flush: Go's gives nothing out before it.
 */
const uint8_t *spdy_empty_block(bool first, size_t *ret_len)
{
    static const uint8_t block[] = {0x78, 0xf9, 0xe3, 0xc6, 0xa7, 0xc2, 0, 4, 0,    0xfb,
                                    0xff, 0,    0,    0,    0,    0,    0, 0, 0xff, 0xff};
    size_t skip = first ? 0 : 6;

    *ret_len = sizeof(block) - skip;
    return block + skip;
}
