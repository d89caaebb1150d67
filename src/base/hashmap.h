/*
 * A hash map from strings to pointers, seeded at random per process, so that a client cannot
 * choose colliding keys. Keys are copied; values belong to the caller.
 *
 *     struct hashmap m = {0};                       // zero-initialised is empty
 *     hashmap_put(&m, "key", value);                // returns the value it replaced, or NULL
 *     for (struct hashmap_iter it = {0}; hashmap_next(&m, &it);)  use(it.key, it.value);
 *
 * During iteration only the entry just returned may be removed.
 */
#pragma once

#include "base/macros.h"

#include <stdbool.h>
#include <stdint.h>

struct hashmap_entry;

struct hashmap {
    struct hashmap_entry **buckets;
    size_t bucket_count;
    size_t count;
};

struct hashmap_iter {
    const char *key;
    void *value;
    size_t bucket;
    struct hashmap_entry *next;
    bool started;
};

void *hashmap_get(const struct hashmap *m, const char *key);
void *hashmap_put(struct hashmap *m, const char *key, void *value);
/* Returns the removed value, or NULL. */
void *hashmap_remove(struct hashmap *m, const char *key);
bool hashmap_next(const struct hashmap *m, struct hashmap_iter *it);
/* Frees the map; each value is passed to destroy unless that is NULL. */
void hashmap_free(struct hashmap *m, void (*destroy)(void *value));
