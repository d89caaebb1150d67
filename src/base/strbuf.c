#include "base/strbuf.h"

#include "base/memory.h"

#include <stdio.h>
#include <string.h>

void strbuf_reserve(struct strbuf *b, size_t extra)
{
    GROW(b->data, b->capacity, b->len + extra + 1);
    b->data[b->len] = '\0';
}

void strbuf_add(struct strbuf *b, const void *data, size_t len)
{
    strbuf_reserve(b, len);
    if (len)
        memcpy(b->data + b->len, data, len);
    b->len += len;
    b->data[b->len] = '\0';
}

void strbuf_adds(struct strbuf *b, const char *s)
{
    strbuf_add(b, s, strlen(s));
}

void strbuf_addc(struct strbuf *b, char c)
{
    strbuf_add(b, &c, 1);
}

void strbuf_vaddf(struct strbuf *b, const char *fmt, va_list ap)
{
    va_list again;

    va_copy(again, ap);
    strbuf_reserve(b, 64);
    int n = vsnprintf(b->data + b->len, b->capacity - b->len, fmt, ap);

    if (n > 0 && (size_t)n >= b->capacity - b->len) {
        strbuf_reserve(b, (size_t)n);
        (void)vsnprintf(b->data + b->len, b->capacity - b->len, fmt, again);
    }
    va_end(again);
    if (n > 0)
        b->len += (size_t)n;
}

void strbuf_addf(struct strbuf *b, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    strbuf_vaddf(b, fmt, ap);
    va_end(ap);
}

void strbuf_truncate(struct strbuf *b, size_t len)
{
    if (len < b->len) {
        b->len = len;
        b->data[len] = '\0';
    }
}

const char *strbuf_str(const struct strbuf *b)
{
    return b->data ? b->data : "";
}

char *strbuf_detach(struct strbuf *b)
{
    char *s = b->data ? b->data : xstrdup("");

    *b = (struct strbuf){0};
    return s;
}

void strbuf_free(struct strbuf *b)
{
    free(b->data);
    *b = (struct strbuf){0};
}
