#include "base/memory.h"

#include <stdio.h>
#include <string.h>

static void *check(void *p)
{
    if (!p) {
        static const char msg[] = "{\"level\":\"fatal\",\"msg\":\"out of memory\"}\n";
        (void)!write(STDERR_FILENO, msg, sizeof(msg) - 1);
        abort();
    }
    return p;
}

void *xmalloc(size_t size)
{
    return check(malloc(size ? size : 1));
}

void *xcalloc(size_t count, size_t size)
{
    return check(calloc(count ? count : 1, size ? size : 1));
}

void *xrealloc(void *ptr, size_t size)
{
    return check(realloc(ptr, size ? size : 1));
}

void *xreallocarray(void *ptr, size_t count, size_t size)
{
    return check(reallocarray(ptr, count ? count : 1, size ? size : 1));
}

char *xstrdup(const char *s)
{
    return check(strdup(s));
}

char *xstrndup(const char *s, size_t len)
{
    return check(strndup(s, len));
}

void *xmemdup(const void *p, size_t len)
{
    void *copy = xmalloc(len);

    if (len)
        memcpy(copy, p, len);
    return copy;
}

char *xvasprintf(const char *fmt, va_list ap)
{
    char *s = NULL;

    if (vasprintf(&s, fmt, ap) < 0)
        s = NULL;
    return check(s);
}

char *xasprintf(const char *fmt, ...)
{
    va_list ap;
    char *s;

    va_start(ap, fmt);
    s = xvasprintf(fmt, ap);
    va_end(ap);
    return s;
}
