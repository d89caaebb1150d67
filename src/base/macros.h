/* Small language helpers: cleanup attributes, ownership hand-over, array length. */
#pragma once

#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
#define MUST_CHECK __attribute__((warn_unused_result))
#define UNUSED __attribute__((unused))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/* Gives the value away and leaves NULL (or -1) behind, so that the cleanup attribute does nothing. */
#define take_ptr(p)                                                                                                    \
    ({                                                                                                                 \
        __typeof__(p) _t = (p);                                                                                        \
        (p) = NULL;                                                                                                    \
        _t;                                                                                                            \
    })
#define take_fd(fd)                                                                                                    \
    ({                                                                                                                 \
        int _t = (fd);                                                                                                 \
        (fd) = -1;                                                                                                     \
        _t;                                                                                                            \
    })

static inline void cleanup_free_p(void *p)
{
    free(*(void **)p);
}

static inline void cleanup_close_p(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
}

#define _cleanup_(f) __attribute__((cleanup(f)))
#define _cleanup_free_ _cleanup_(cleanup_free_p)
#define _cleanup_close_ _cleanup_(cleanup_close_p)

/* DEFINE_CLEANUP(json_unref, struct json *) defines json_unref_p for _cleanup_(json_unref_p). */
#define DEFINE_CLEANUP(func, type)                                                                                     \
    static inline void func##_p(type *p)                                                                               \
    {                                                                                                                  \
        if (*p)                                                                                                        \
            func(*p);                                                                                                  \
    }                                                                                                                  \
    struct cleanup_semicolon_##func
