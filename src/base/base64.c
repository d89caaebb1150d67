#include "base/base64.h"

#include "base/memory.h"

#include <string.h>

static const char standard[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char url[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static char *encode(const unsigned char *in, size_t len, const char *alphabet, bool pad)
{
    char *out = xmalloc((len + 2) / 3 * 4 + 1), *p = out;

    for (size_t i = 0; i < len; i += 3) {
        size_t n = MIN(len - i, (size_t)3);
        unsigned v = (unsigned)in[i] << 16 | (n > 1 ? (unsigned)in[i + 1] << 8 : 0) | (n > 2 ? in[i + 2] : 0);
        for (size_t k = 0; k <= n; k++)
            *p++ = alphabet[v >> (18 - 6 * k) & 63];
        for (size_t k = n; pad && k < 3; k++)
            *p++ = '=';
    }
    *p = '\0';
    return out;
}

char *base64_encode(const void *data, size_t len)
{
    return encode(data, len, standard, true);
}

char *base64_encode_url(const void *data, size_t len)
{
    return encode(data, len, url, false);
}

static char *decode(const char *text, size_t len, const char *alphabet, size_t *ret_len)
{
    unsigned char *out = xmalloc(len / 4 * 3 + 4), *p = out;
    unsigned bits = 0, held = 0;

    for (size_t i = 0; i < len; i++) {
        const char *at = text[i] ? strchr(alphabet, text[i]) : NULL;
        if (!at) {
            free(out);
            return NULL;
        }
        bits = bits << 6 | (unsigned)(at - alphabet);
        held += 6;
        if (held >= 8) {
            held -= 8;
            *p++ = (unsigned char)(bits >> held);
            bits &= (1u << held) - 1;
        }
    }
    if (held >= 6 || bits != 0) {
        free(out);
        return NULL;
    }
    *p = '\0';
    if (ret_len)
        *ret_len = (size_t)(p - out);
    return (char *)out;
}

char *base64_decode(const char *text, size_t len, size_t *ret_len)
{
    if (len % 4 != 0)
        return NULL;
    for (int i = 0; i < 2 && len > 0 && text[len - 1] == '='; i++)
        len--;
    return decode(text, len, standard, ret_len);
}

char *base64_decode_url(const char *text, size_t len, size_t *ret_len)
{
    return decode(text, len, url, ret_len);
}
