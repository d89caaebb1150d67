#include "base/arena.h"

#include "base/memory.h"

#include <stdalign.h>
#include <stdint.h>
#include <string.h>

#define CHUNK_FIRST 2048
#define CHUNK_MAX (64 * 1024)

struct arena_chunk {
    struct arena_chunk *older;
    size_t size;
    alignas(max_align_t) char bytes[];
};

/* Chunks double, so that a small arena costs one malloc and a large one few. */
static void *from_new_chunk(struct arena *a, size_t size)
{
    size_t wanted = a->chunks ? MIN(a->chunks->size * 2, (size_t)CHUNK_MAX) : CHUNK_FIRST;
    size_t capacity = MAX(wanted, size);
    struct arena_chunk *chunk = xmalloc(sizeof(*chunk) + capacity);

    chunk->older = a->chunks;
    chunk->size = capacity;
    a->chunks = chunk;
    a->next = chunk->bytes + size;
    a->end = chunk->bytes + capacity;
    a->bytes += capacity;
    return chunk->bytes;
}

static void *take(struct arena *a, size_t size, size_t alignment)
{
    size_t padding = a->next ? -(uintptr_t)a->next & (alignment - 1) : 0;

    if (!a->next || size > SIZE_MAX / 2 || (size_t)(a->end - a->next) < padding + size)
        return from_new_chunk(a, size);
    char *p = a->next + padding;
    a->next = p + size;
    return p;
}

void *arena_alloc(struct arena *a, size_t size)
{
    return memset(take(a, size, alignof(max_align_t)), 0, size);
}

void *arena_array(struct arena *a, size_t count, size_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(count, size, &bytes))
        abort(); /* no machine has as much */
    return arena_alloc(a, bytes + !bytes);
}

char *arena_strndup(struct arena *a, const char *s, size_t len)
{
    char *copy = take(a, len + 1, 1);

    memcpy(copy, s, len);
    copy[len] = '\0';
    return copy;
}

char *arena_concat(struct arena *a, const char *prefix, const char *s)
{
    size_t prefix_len = strlen(prefix), len = strlen(s);
    char *text = take(a, prefix_len + len + 1, 1);

    memcpy(text, prefix, prefix_len);
    memcpy(text + prefix_len, s, len + 1);
    return text;
}

void arena_free(struct arena *a)
{
    for (struct arena_chunk *chunk = a->chunks; chunk;) {
        struct arena_chunk *older = chunk->older;
        free(chunk);
        chunk = older;
    }
    *a = (struct arena){0};
}
