#include "wire/http.h"

#include "base/memory.h"
#include "base/strutil.h"

#include <ctype.h>

void http_headers_add(struct http_headers *h, const char *name, const char *value)
{
    GROW(h->items, h->capacity, h->count + 1);
    h->items[h->count++] = (struct http_header){xstrdup(name), xstrdup(value)};
}

const char *http_headers_get(const struct http_headers *h, const char *name)
{
    for (size_t i = 0; i < h->count; i++)
        if (strcasecmp(h->items[i].name, name) == 0)
            return h->items[i].value;
    return NULL;
}

bool http_headers_has_token(const struct http_headers *h, const char *name, const char *token)
{
    size_t token_len = strlen(token);

    for (size_t i = 0; i < h->count; i++) {
        if (strcasecmp(h->items[i].name, name) != 0)
            continue;
        for (const char *p = h->items[i].value; *p;) {
            p += strspn(p, " \t,");
            size_t n = strcspn(p, ","), trimmed = n;
            while (trimmed && (p[trimmed - 1] == ' ' || p[trimmed - 1] == '\t'))
                trimmed--;
            if (trimmed == token_len && strncasecmp(p, token, token_len) == 0)
                return true;
            p += n;
        }
    }
    return false;
}

void http_headers_free(struct http_headers *h)
{
    for (size_t i = 0; i < h->count; i++) {
        free(h->items[i].name);
        free(h->items[i].value);
    }
    free(h->items);
    *h = (struct http_headers){0};
}

static int hex_value(unsigned char c)
{
    return isdigit(c) ? c - '0' : isxdigit(c) ? tolower(c) - 'a' + 10 : -1;
}

char *url_decode(const char *s, size_t len, bool plus)
{
    char *out = xmalloc(len + 1), *o = out;

    for (size_t i = 0; i < len; i++) {
        char c = s[i];

        if (c == '%') {
            int high = i + 2 < len ? hex_value((unsigned char)s[i + 1]) : -1;
            int low = high >= 0 ? hex_value((unsigned char)s[i + 2]) : -1;
            if (low < 0 || (high == 0 && low == 0)) {
                free(out);
                return NULL;
            }
            c = (char)(high << 4 | low);
            i += 2;
        } else if (c == '+' && plus) {
            c = ' ';
        }
        *o++ = c;
    }
    *o = '\0';
    return out;
}

char *url_encode(const char *s)
{
    struct strbuf b = {0};

    for (; *s; s++) {
        if (isalnum((unsigned char)*s) || strchr("-._~", *s))
            strbuf_addc(&b, *s);
        else
            strbuf_addf(&b, "%%%02X", (unsigned char)*s);
    }
    return strbuf_detach(&b);
}
