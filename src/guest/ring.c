#include "guest/ring.h"

#include "wire/guest_frame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TRIMMED_MIN 64

static uint32_t power_of_two(uint32_t n)
{
    uint32_t p = TRIMMED_MIN;
    while (p < n)
        p *= 2;
    return p;
}

void ring_init(struct ring *r, uint32_t bytes)
{
    if (bytes == 0)
        bytes = GUEST_RING_DEFAULT;
    if (bytes < GUEST_RING_MIN)
        bytes = GUEST_RING_MIN;
    if (bytes > GUEST_RING_MAX)
        bytes = GUEST_RING_MAX;
    *r = (struct ring){.max = power_of_two(bytes)};
}

/* The two stretches of the buffer that the len bytes at offset are in. */
static void segments(const struct ring *r, uint64_t offset, size_t len, struct iovec out[2])
{
    size_t at = offset & (r->size - 1);
    size_t first = len < r->size - at ? len : r->size - at;
    out[0] = (struct iovec){.iov_base = r->data + at, .iov_len = first};
    out[1] = (struct iovec){.iov_base = r->data, .iov_len = len - first};
}

/* size is a power of two and holds the content. */
static bool resize(struct ring *r, uint32_t size)
{
    struct ring to = *r;
    to.size = size;
    to.data = malloc(size);
    if (to.data == NULL)
        return false;
    for (uint64_t o = r->start; o < r->end;) {
        struct iovec from[2], into[2];
        segments(r, o, r->end - o, from);
        segments(&to, o, r->end - o, into);
        size_t n = from[0].iov_len < into[0].iov_len ? from[0].iov_len : into[0].iov_len;
        memcpy(into[0].iov_base, from[0].iov_base, n);
        o += n;
    }
    free(r->data);
    *r = to;
    return true;
}

int ring_read(struct ring *r, int fd, size_t limit)
{
    uint32_t kept = (uint32_t)(r->end - r->start);
    if (r->size == 0 && !resize(r, GUEST_RING_MIN))
        return -ENOMEM;
    /* When it cannot grow it keeps fewer bytes. */
    if (r->size - kept < r->size / 2 && r->size < r->max)
        (void)resize(r, r->size * 2);
    /* While it may still grow, nothing old is overwritten. */
    size_t room = r->size < r->max && r->size > kept ? r->size - kept : r->size;
    struct iovec at[2];
    segments(r, r->end, limit < room ? limit : room, at);
    ssize_t n = readv(fd, at, at[1].iov_len > 0 ? 2 : 1);
    if (n < 0)
        return -errno;
    r->end += (uint64_t)n;
    if (r->end - r->start > r->size)
        r->start = r->end - r->size;
    return (int)n;
}

size_t ring_peek(const struct ring *r, uint64_t offset, size_t max, struct iovec out[2])
{
    size_t len = r->end - offset < max ? (size_t)(r->end - offset) : max;
    if (len > 0)
        segments(r, offset, len, out);
    return len;
}

void ring_trim(struct ring *r)
{
    uint32_t size = power_of_two((uint32_t)(r->end - r->start));
    if (r->start == r->end)
        ring_drop(r);
    else if (size < r->size)
        (void)resize(r, size); /* without memory for it, it stays as it is */
}

void ring_drop(struct ring *r)
{
    free(r->data);
    r->data = NULL;
    r->size = 0;
    r->start = r->end;
}
