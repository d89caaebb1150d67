/*
 * An arena: many small allocations that end together. Zero-initialised is empty; nothing in it is freed singly.
 *
 *     _cleanup_(arena_free) struct arena a = {0};
 *     const char *key = arena_concat(&a, "f:", name);
 */
#pragma once

#include "base/macros.h"

struct arena_chunk;

struct arena {
    struct arena_chunk *chunks; /* the newest first */
    char *next, *end;
    size_t bytes; /* taken from the heap: who lets outsiders decide how much that is compares it with a limit */
};

/* Zeroed, aligned for any type. Never NULL; see base/memory.h. */
void *arena_alloc(struct arena *a, size_t size);
/* An array of count elements; at least one byte. */
void *arena_array(struct arena *a, size_t count, size_t size);
/* A string of len bytes from s, NUL-terminated. */
char *arena_strndup(struct arena *a, const char *s, size_t len);
/* prefix and s, one after the other. */
char *arena_concat(struct arena *a, const char *prefix, const char *s);
void arena_free(struct arena *a);
