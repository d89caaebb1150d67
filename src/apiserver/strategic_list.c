#include "apiserver/strategic_list.h"

#include "base/memory.h"
#include "base/strutil.h"

void item_list_clear(struct item_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->items[i].id);
        json_unref(list->items[i].value);
    }
    free(list->items);
    hashmap_free(&list->first, NULL);
    *list = (struct item_list){0};
}

char *item_id(const struct json *item, const char *merge_key)
{
    if (!merge_key)
        return json_text(item);
    return json_has(item, merge_key) ? json_text(json_get(item, merge_key)) : NULL;
}

void item_list_append(struct item_list *list, char *id, struct json *value)
{
    GROW(list->items, list->capacity, list->count + 1);
    list->items[list->count++] = (struct list_item){id, value};
    if (id && !hashmap_get(&list->first, id))
        (void)hashmap_put(&list->first, id, (void *)(uintptr_t)list->count); /* there was none */
}

void item_list_read(struct item_list *list, const struct json *array, const char *merge_key)
{
    for (size_t i = 0; i < json_size(array); i++) {
        struct json *item = json_item(array, i);
        item_list_append(list, item_id(item, merge_key), json_ref(item));
    }
}

/* The position of the first item with that id, or -1. */
static ptrdiff_t position(const struct item_list *list, const char *id)
{
    return id ? (ptrdiff_t)(uintptr_t)hashmap_get(&list->first, id) - 1 : -1;
}

struct list_item *item_list_find(const struct item_list *list, const char *id)
{
    ptrdiff_t i = position(list, id);

    return i < 0 ? NULL : &list->items[i];
}

/* The items stay where they are, without a value: positions remain right, and item_list_arrange() leaves them out. */
void item_list_remove(struct item_list *list, const struct item_list *gone)
{
    for (size_t i = 0; i < list->count; i++) {
        struct list_item *item = &list->items[i];

        if (!item_list_find(gone, item->id))
            continue;
        (void)hashmap_remove(&list->first, item->id); /* gone with an earlier item of the same id */
        json_unref(item->value);
        free(item->id);
        *item = (struct list_item){0};
    }
}

struct ranked {
    const struct list_item *item;
    ptrdiff_t rank; /* in the order it is sorted by */
    size_t position;
};

static int compare_ranked(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return (x->position > y->position) - (x->position < y->position);
}

struct json *item_list_arrange(const struct item_list *list, const struct item_list *wanted,
                               const struct item_list *live)
{
    _cleanup_free_ struct ranked *named = xcalloc(list->count + 1, sizeof(*named));
    _cleanup_free_ struct ranked *others = xcalloc(list->count + 1, sizeof(*others));
    size_t n_named = 0, n_others = 0;

    for (size_t i = 0; i < list->count; i++) {
        const struct list_item *item = &list->items[i];
        ptrdiff_t rank = position(wanted, item->id), live_rank = position(live, item->id);

        if (!item->id && !item->value)
            continue; /* removed */
        if (rank >= 0)
            named[n_named++] = (struct ranked){item, rank, i};
        else
            others[n_others++] = (struct ranked){item, live_rank < 0 ? PTRDIFF_MAX : live_rank, i};
    }
    qsort(named, n_named, sizeof(*named), compare_ranked);
    qsort(others, n_others, sizeof(*others), compare_ranked);

    struct json *result = json_array_make();
    for (size_t i = 0, j = 0; i < n_named || j < n_others;) {
        bool take_other = i == n_named;
        if (!take_other && j < n_others) {
            ptrdiff_t live_rank = position(live, named[i].item->id);
            take_other = live_rank >= 0 && others[j].rank < live_rank;
        }
        json_push(result, json_ref(take_other ? others[j++].item->value : named[i++].item->value));
    }
    return result;
}
