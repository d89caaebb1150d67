/* Lists in strategic merge patches: items with identities, and their order. Used by strategic_patch.c alone. */
#pragma once

#include "base/hashmap.h"
#include "wire/json.h"

#include <stddef.h>

struct list_item {
    char *id; /* JSON of the merge key's value, or of the item itself; NULL: has no merge key */
    struct json *value;
};

/* A list on its way to become another one. Zero-initialised is empty. */
struct item_list {
    struct list_item *items;
    size_t count, capacity;
    struct hashmap first; /* id → first position + 1 */
};

void item_list_clear(struct item_list *list);
/* merge_key NULL: a list of scalars. */
void item_list_read(struct item_list *list, const struct json *array, const char *merge_key);
/* Takes both. */
void item_list_append(struct item_list *list, char *id, struct json *value);
/* The first item with that id, or NULL. */
struct list_item *item_list_find(const struct item_list *list, const char *id);
/* Removes the items whose ids are in gone. */
void item_list_remove(struct item_list *list, const struct item_list *gone);
char *item_id(const struct json *item, const char *merge_key);

/*
 * A new array of list's items: those that wanted names, in its order, and between them the others, in the order of
 * live, each before the first wanted item that follows it in live.
 */
struct json *item_list_arrange(const struct item_list *list, const struct item_list *wanted,
                               const struct item_list *live);
