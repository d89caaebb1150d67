#include "apiserver/field_set.h"

#include "apiserver/field_set_internal.h"

#include "base/memory.h"
#include "base/strutil.h"

struct field_set *field_set_new(void)
{
    return xcalloc(1, sizeof(struct field_set));
}

void field_set_free(struct field_set *set)
{
    if (!set)
        return;
    arena_free(&set->arena);
    free(set);
}

/* Building. */

struct field_entry *field_node_add(struct field_set *set, struct field_node *node, const char *key)
{
    if (node->count == node->capacity) {
        size_t capacity = node->capacity ? node->capacity * 2 : 4;
        struct field_entry *entries = arena_alloc(&set->arena, capacity * sizeof(*entries));
        if (node->count)
            memcpy(entries, node->entries, node->count * sizeof(*entries));
        node->entries = entries;
        node->capacity = capacity;
    }
    struct field_entry *entry = &node->entries[node->count++];
    *entry = (struct field_entry){.key = key};
    return entry;
}

static int compare_entries(const void *a, const void *b)
{
    return strcmp(((const struct field_entry *)a)->key, ((const struct field_entry *)b)->key);
}

void field_node_seal(struct field_set *set, struct field_node *node)
{
    size_t i = 1, kept = 0;

    while (i < node->count && compare_entries(&node->entries[i - 1], &node->entries[i]) < 0)
        i++;
    if (i >= node->count)
        return; /* in order already */
    qsort(node->entries, node->count, sizeof(*node->entries), compare_entries);
    for (i = 1; i < node->count; i++) {
        struct field_entry *last = &node->entries[kept], *entry = &node->entries[i];

        if (compare_entries(last, entry) != 0) {
            node->entries[++kept] = *entry;
            continue;
        }
        last->marked |= entry->marked;
        for (size_t j = 0; j < entry->below.count; j++)
            *field_node_add(set, &last->below, NULL) = entry->below.entries[j];
        field_node_seal(set, &last->below);
    }
    node->count = kept + 1;
}

const struct field_entry *field_node_find(const struct field_node *node, const char *key)
{
    size_t low = 0, high = node->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(key, node->entries[middle].key);
        if (order == 0)
            return &node->entries[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

static struct field_entry *add_copied_key(struct field_set *set, struct field_node *node, const char *key)
{
    return field_node_add(set, node, arena_strndup(&set->arena, key, strlen(key)));
}

static void copy_entry(struct field_set *set, struct field_node *to, const struct field_entry *from)
{
    struct field_node below = {0};

    for (size_t i = 0; i < from->below.count; i++)
        copy_entry(set, &below, &from->below.entries[i]);
    struct field_entry *entry = add_copied_key(set, to, from->key);
    entry->marked = from->marked;
    entry->below = below;
}

/* Adds an entry unless it would hold nothing. */
static void add_if_used(struct field_set *set, struct field_node *to, const char *key, bool marked,
                        struct field_node below)
{
    if (!marked && below.count == 0)
        return;
    struct field_entry *entry = add_copied_key(set, to, key);
    entry->marked = marked;
    entry->below = below;
}

/* Asking. */

bool field_set_is_empty(const struct field_set *set)
{
    return !set || set->root.count == 0;
}

static bool nodes_equal(const struct field_node *a, const struct field_node *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++) {
        const struct field_entry *x = &a->entries[i], *y = &b->entries[i];
        if (x->marked != y->marked || !streq(x->key, y->key) || !nodes_equal(&x->below, &y->below))
            return false;
    }
    return true;
}

bool field_set_equal(const struct field_set *a, const struct field_set *b)
{
    return nodes_equal(&a->root, &b->root);
}

static bool nodes_overlap(const struct field_node *a, const struct field_node *b)
{
    if (a->count > b->count)
        return nodes_overlap(b, a);
    for (size_t i = 0; i < a->count; i++) {
        const struct field_entry *x = &a->entries[i], *y = field_node_find(b, x->key);
        if (y && ((x->marked && y->marked) || nodes_overlap(&x->below, &y->below)))
            return true;
    }
    return false;
}

bool field_set_overlaps(const struct field_set *a, const struct field_set *b)
{
    return nodes_overlap(&a->root, &b->root);
}

/* Combining. */

static struct field_node unite(struct field_set *set, const struct field_node *a, const struct field_node *b)
{
    struct field_node result = {0};
    size_t i = 0, j = 0;

    while (i < a->count || j < b->count) {
        int order = i == a->count ? 1 : j == b->count ? -1 : compare_entries(&a->entries[i], &b->entries[j]);
        if (order < 0) {
            copy_entry(set, &result, &a->entries[i++]);
        } else if (order > 0) {
            copy_entry(set, &result, &b->entries[j++]);
        } else {
            const struct field_entry *x = &a->entries[i++], *y = &b->entries[j++];
            add_if_used(set, &result, x->key, x->marked || y->marked, unite(set, &x->below, &y->below));
        }
    }
    return result;
}

struct field_set *field_set_union(const struct field_set *a, const struct field_set *b)
{
    struct field_set *set = field_set_new();

    set->root = unite(set, &a->root, &b->root);
    return set;
}

static struct field_node subtract(struct field_set *set, const struct field_node *a, const struct field_node *b)
{
    struct field_node result = {0};

    for (size_t i = 0; i < a->count; i++) {
        const struct field_entry *x = &a->entries[i], *y = field_node_find(b, x->key);
        if (y)
            add_if_used(set, &result, x->key, x->marked && !y->marked, subtract(set, &x->below, &y->below));
        else
            copy_entry(set, &result, x);
    }
    return result;
}

struct field_set *field_set_difference(const struct field_set *a, const struct field_set *b)
{
    struct field_set *set = field_set_new();

    set->root = subtract(set, &a->root, &b->root);
    return set;
}

static struct field_node intersect(struct field_set *set, const struct field_node *a, const struct field_node *b)
{
    struct field_node result = {0};

    for (size_t i = 0; i < a->count; i++) {
        const struct field_entry *x = &a->entries[i], *y = field_node_find(b, x->key);
        if (y)
            add_if_used(set, &result, x->key, x->marked && y->marked, intersect(set, &x->below, &y->below));
    }
    return result;
}

struct field_set *field_set_intersection(const struct field_set *a, const struct field_set *b)
{
    struct field_set *set = field_set_new();

    set->root = intersect(set, &a->root, &b->root);
    return set;
}

static struct schema_node schema_below(struct schema_node schema, const char *key)
{
    return key[0] == 'f' ? schema_property(schema, key + 2) : schema_items(schema);
}

static struct field_node with_containers(struct field_set *set, const struct field_node *from,
                                         struct schema_node schema)
{
    struct field_node result = {0};

    for (size_t i = 0; i < from->count; i++) {
        const struct field_entry *x = &from->entries[i];
        bool container = x->below.count && x->key[0] == 'f' && schema_declares(schema, x->key + 2);
        add_if_used(set, &result, x->key, x->marked || container,
                    with_containers(set, &x->below, schema_below(schema, x->key)));
    }
    return result;
}

struct field_set *field_set_with_containers(const struct field_set *set, struct schema_node schema)
{
    struct field_set *result = field_set_new();

    result->root = with_containers(result, &set->root, schema);
    return result;
}

void field_set_unmark(struct field_set *set, const char *name)
{
    for (size_t i = 0; i < set->root.count; i++) {
        struct field_entry *entry = &set->root.entries[i];

        if (!streq(entry->key + 2, name) || entry->key[0] != 'f')
            continue;
        entry->marked = false;
        if (entry->below.count == 0) {
            memmove(entry, entry + 1, (set->root.count - i - 1) * sizeof(*entry));
            set->root.count--;
        }
        return;
    }
}
