/* The items of a list of type set or map, found by what identifies them. */
#pragma once

#include "apiserver/schema_walk.h"
#include "base/arena.h"
#include "base/error.h"

#include <stddef.h>

struct field_item {
    const char *key;          /* the path element, "k:{...}", "v:..." or "i:N" */
    const struct json *value; /* borrowed */
    size_t position;
};

struct field_items {
    struct field_item *items;   /* as in the list */
    struct field_item **by_key; /* the same, by key, then position */
    size_t count;
};

/*
 * Everything is in the arena. Items without identity get "i:N"; the position of the first is in *ret_unkeyed (SIZE_MAX:
 * none), and the missing key field's name, or NULL for an item of the wrong type, in *ret_missing. Both may be NULL.
 */
struct field_items field_items_make(struct arena *arena, const struct json *list, struct schema_node schema,
                                    size_t *ret_unkeyed, const char **ret_missing);
/* The first item with that key, or NULL. */
const struct field_item *field_items_find(const struct field_items *items, const char *key);
