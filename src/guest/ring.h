/* The newest bytes of an output stream. Positions are offsets in the stream since its beginning. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct ring {
    uint8_t *data;
    uint32_t size;  /* of data: 0 or a power of two; grows to max */
    uint32_t max;   /* a power of two */
    uint64_t start; /* the oldest byte that is kept */
    uint64_t end;   /* one past the newest */
};

/* bytes is rounded up to a power of two within GUEST_RING_MIN and GUEST_RING_MAX; 0 = the default. Allocates nothing.
 */
void ring_init(struct ring *r, uint32_t bytes);
/* Reads at most limit bytes from fd, which is non-blocking, over the oldest ones. Bytes read, 0 at the end, or -errno.
 */
int ring_read(struct ring *r, int fd, size_t limit);
/* Where the bytes from offset on lie, at most max of them; returns how many. offset is within start and end. */
size_t ring_peek(const struct ring *r, uint64_t offset, size_t max, struct iovec out[2]);
/* Gives back what is not needed for the present content. */
void ring_trim(struct ring *r);
/* Forgets the content. */
void ring_drop(struct ring *r);
