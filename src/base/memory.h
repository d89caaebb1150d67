/*
 * Allocation that does not return on failure. Sizes that come from outside are bounded by the caller before they get
 * here, so running out of memory is a machine without memory, not an attack; the process ends with a message and is
 * restarted by its supervisor.
 */
#pragma once

#include "base/macros.h"

#include <stdarg.h>
#include <stdint.h>

void *xmalloc(size_t size);
void *xcalloc(size_t count, size_t size);
void *xrealloc(void *ptr, size_t size);
void *xreallocarray(void *ptr, size_t count, size_t size);
char *xstrdup(const char *s);
char *xstrndup(const char *s, size_t len);
void *xmemdup(const void *p, size_t len);
char *xasprintf(const char *fmt, ...) PRINTF_LIKE(1, 2);
char *xvasprintf(const char *fmt, va_list ap) PRINTF_LIKE(1, 0);

/* Grows *array so that at least need elements fit; doubles, so that appending is amortised O(1). */
#define GROW(array, capacity, need)                                                                                    \
    do {                                                                                                               \
        if ((need) > (capacity)) {                                                                                     \
            size_t _c = (capacity) ? (capacity)*2 : 8;                                                                 \
            if (_c < (need))                                                                                           \
                _c = (need);                                                                                           \
            (array) = xreallocarray((array), _c, sizeof(*(array)));                                                    \
            (capacity) = _c;                                                                                           \
        }                                                                                                              \
    } while (0)
