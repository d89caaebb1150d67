#include "apiserver/field_value.h"

#include "apiserver/field_items.h"
#include "apiserver/field_set_internal.h"
#include "base/memory.h"
#include "base/strutil.h"

/* How a value is taken apart: not at all, by member, or by item. */
enum shape { LEAF, MEMBERS, ITEMS };

static enum shape shape_of(const struct json *value, struct schema_node schema)
{
    switch (json_kind(value)) {
    case JSON_OBJECT:
        return schema_map_is_atomic(schema) ? LEAF : MEMBERS;
    case JSON_ARRAY:
        return schema_list_type(schema) == SCHEMA_LIST_ATOMIC ? LEAF : ITEMS;
    default:
        return LEAF;
    }
}

static bool is_container(const struct json *v)
{
    return json_is(v, JSON_OBJECT) || json_is(v, JSON_ARRAY);
}

struct walk {
    const struct field_scope *scope;
    struct arena scratch; /* keys of items */
    struct strbuf path;   /* only kept up to date when err is wanted */
    struct error *err;
};

/* parent: the name of the member the walk is in, at depth 1. */
static bool keeps(const struct walk *w, size_t depth, const char *parent, const char *name)
{
    return depth > 1 || !w->scope->filter || w->scope->filter(w->scope->arg, depth ? parent : NULL, name);
}

static struct field_entry *add(struct field_set *set, struct field_node *node, const char *prefix, const char *key)
{
    return field_node_add(set, node, arena_concat(&set->arena, prefix, key));
}

/* The fields of one value. */

struct collect {
    struct walk walk;
    struct field_set *set;
};

static bool collect_value(struct collect *c, const struct json *value, struct schema_node schema, size_t depth,
                          const char *name, struct field_node *node);

static void collect_members(struct collect *c, const struct json *value, struct schema_node schema, size_t depth,
                            const char *parent, struct field_node *node)
{
    size_t base = c->walk.path.len;

    for (struct json_iter it = {0}; json_each(value, &it);) {
        if (!keeps(&c->walk, depth, parent, it.key))
            continue;
        if (!is_container(it.value)) {
            add(c->set, node, "f:", it.key)->marked = true;
            continue;
        }
        struct field_node below = {0};
        bool declared = schema_declares(schema, it.key);

        if (c->walk.err) {
            strbuf_addc(&c->walk.path, '.');
            strbuf_adds(&c->walk.path, it.key);
        }
        bool leaf = collect_value(c, it.value, schema_property(schema, it.key), depth + 1, it.key, &below);
        bool empty = !leaf && json_size(it.value) == 0;
        bool marked = leaf || empty || !declared;
        strbuf_truncate(&c->walk.path, base);
        if (!marked && below.count == 0)
            continue; /* nothing in it is wanted */
        struct field_entry *entry = add(c->set, node, "f:", it.key);
        entry->marked = marked;
        entry->below = below;
    }
}

static void report_item(struct walk *w, const struct field_items *items, size_t unkeyed, const char *missing)
{
    if (w->err->code)
        return;
    if (unkeyed != SIZE_MAX && missing)
        (void)error_set(w->err, EINVAL,
                        "%s: element %zu: associative list with keys has an element that omits key field \"%s\" (and "
                        "doesn't have default value)",
                        strbuf_str(&w->path), unkeyed, missing);
    else if (unkeyed != SIZE_MAX)
        (void)error_set(w->err, EINVAL, "%s: element %zu: not an item of such a list", strbuf_str(&w->path), unkeyed);
    for (size_t i = 1; i < items->count && !w->err->code; i++) {
        if (!streq(items->by_key[i - 1]->key, items->by_key[i]->key))
            continue;
        _cleanup_(strbuf_free) struct strbuf key = {0};
        field_key_print(items->by_key[i]->key, &key);
        (void)error_set(w->err, EINVAL, "%s: duplicate entries for key %s", strbuf_str(&w->path), strbuf_str(&key));
    }
}

static void collect_items(struct collect *c, const struct json *value, struct schema_node schema, size_t depth,
                          struct field_node *node)
{
    size_t base = c->walk.path.len, unkeyed;
    const char *missing;
    struct field_items items = field_items_make(&c->walk.scratch, value, schema, &unkeyed, &missing);
    struct schema_node item_schema = schema_items(schema);

    if (c->walk.err)
        report_item(&c->walk, &items, unkeyed, missing);
    for (size_t i = 0; i < items.count; i++) {
        struct field_node below = {0};

        if (c->walk.err)
            field_key_print(items.items[i].key, &c->walk.path);
        (void)collect_value(c, items.items[i].value, item_schema, depth + 1, NULL,
                            &below); /* an item is marked anyway */
        strbuf_truncate(&c->walk.path, base);
        struct field_entry *entry = add(c->set, node, "", items.items[i].key);
        entry->marked = true;
        entry->below = below;
    }
}

/* Returns whether the value is a leaf. */
static bool collect_value(struct collect *c, const struct json *value, struct schema_node schema, size_t depth,
                          const char *name, struct field_node *node)
{
    switch (shape_of(value, schema)) {
    case LEAF:
        return true;
    case MEMBERS:
        collect_members(c, value, schema, depth, name, node);
        break;
    case ITEMS:
        collect_items(c, value, schema, depth, node);
        break;
    }
    field_node_seal(c->set, node);
    return false;
}

struct field_set *field_value_set(const struct json *value, const struct field_scope *scope, struct error *err)
{
    struct collect c = {.walk = {.scope = scope, .err = err}, .set = field_set_new()};

    (void)collect_value(&c, value, scope->schema, 0, NULL, &c.set->root); /* the whole value has no path of its own */
    arena_free(&c.walk.scratch);
    strbuf_free(&c.walk.path);
    if (err && err->code) {
        field_set_free(c.set);
        return NULL;
    }
    return c.set;
}

/* The differences between two values. */

struct compare {
    struct walk walk;
    struct field_set *changed, *removed;
};

/* Where the differences below one element go. */
struct diff {
    struct field_node changed, removed;
};

/* One side of a comparison; a member may be there and null. */
struct side {
    const struct json *value;
    bool there;
};

static void compare_values(struct compare *c, struct side before, struct side after, struct schema_node schema,
                           size_t depth, const char *prefix, const char *key, struct diff *out);

static void mark(struct field_set *set, struct field_node *node, const char *prefix, const char *key, bool marked,
                 struct field_node below)
{
    if (!marked && below.count == 0)
        return;
    struct field_entry *entry = add(set, node, prefix, key);
    entry->marked = marked;
    entry->below = below;
}

static void compare_members(struct compare *c, const struct json *before, const struct json *after,
                            struct schema_node schema, size_t depth, const char *parent, struct diff *out)
{
    struct json_iter other = {0};

    for (struct json_iter it = {0}; json_each(after, &it);) {
        bool aligned = json_each(before, &other) && streq(it.key, other.key); /* saves the lookup */
        const struct json *old = aligned ? other.value : json_get(before, it.key);
        bool had = aligned || old || json_has(before, it.key);

        /* Most members are equal scalars: they need no schema. */
        if (had && !is_container(it.value) && json_equal(old, it.value))
            continue;
        if ((had && old == it.value) || !keeps(&c->walk, depth, parent, it.key))
            continue;
        compare_values(c, (struct side){old, had}, (struct side){it.value, true}, schema_property(schema, it.key),
                       depth + 1, "f:", it.key, out);
    }
    for (struct json_iter it = {0}; json_each(before, &it);)
        if (!json_has(after, it.key) && keeps(&c->walk, depth, parent, it.key))
            compare_values(c, (struct side){it.value, true}, (struct side){0}, schema_property(schema, it.key),
                           depth + 1, "f:", it.key, out);
}

/* The items of one key: usually one on each side. Repeated ones are one unit. */
static void compare_same_key(struct compare *c, struct field_item **before, size_t n_before, struct field_item **after,
                             size_t n_after, struct schema_node schema, size_t depth, struct diff *out)
{
    const char *key = n_before ? before[0]->key : after[0]->key;
    bool equal = n_before == n_after;

    if (n_before <= 1 && n_after <= 1) {
        struct side old = {n_before ? before[0]->value : NULL, n_before},
                    new = {n_after ? after[0]->value : NULL, n_after};
        compare_values(c, old, new, schema, depth, "", key, out);
        return;
    }
    for (size_t i = 0; equal && i < n_before; i++)
        equal = json_equal(before[i]->value, after[i]->value);
    if (equal)
        return;
    if (n_after)
        mark(c->changed, &out->changed, "", key, true, (struct field_node){0});
    else
        mark(c->removed, &out->removed, "", key, true, (struct field_node){0});
}

static size_t run_length(const struct field_items *items, size_t from)
{
    size_t n = from;

    while (n < items->count && streq(items->by_key[n]->key, items->by_key[from]->key))
        n++;
    return n - from;
}

static void compare_items(struct compare *c, const struct json *before, const struct json *after,
                          struct schema_node schema, size_t depth, struct diff *out)
{
    if (json_equal(before, after))
        return; /* the usual case, and far cheaper than finding keys */
    struct field_items old = field_items_make(&c->walk.scratch, before, schema, NULL, NULL);
    struct field_items new = field_items_make(&c->walk.scratch, after, schema, NULL, NULL);
    struct schema_node item_schema = schema_items(schema);

    for (size_t i = 0, j = 0; i < old.count || j < new.count;) {
        int order = i == old.count ? 1 : j == new.count ? -1 : strcmp(old.by_key[i]->key, new.by_key[j]->key);
        size_t n_old = order <= 0 ? run_length(&old, i) : 0, n_new = order >= 0 ? run_length(&new, j) : 0;

        compare_same_key(c, old.by_key + i, n_old, new.by_key + j, n_new, item_schema, depth + 1, out);
        i += n_old;
        j += n_new;
    }
}

static void compare_container(struct compare *c, const struct json *before, const struct json *after, enum shape shape,
                              struct schema_node schema, size_t depth, const char *name, struct diff *out)
{
    if (shape == MEMBERS)
        compare_members(c, before, after, schema, depth, name, out);
    else
        compare_items(c, before, after, schema, depth, out);
}

/*
 * Two scalars, two atomic values, or two empty containers: one path. Else each side is taken apart by its own shape,
 * and where the shapes differ (a map became a string) the path itself counts as changed too.
 */
static void compare_values(struct compare *c, struct side before, struct side after, struct schema_node schema,
                           size_t depth, const char *prefix, const char *key, struct diff *out)
{
    enum shape old = shape_of(before.value, schema), new = shape_of(after.value, schema);
    bool both = before.there && after.there;
    bool empty = json_size(before.value) + json_size(after.value) == 0;
    struct diff below = {0};
    bool marked;

    if (empty || (old == LEAF && new == LEAF)) {
        marked = !both || !json_equal(before.value, after.value);
    } else {
        const char *name = *prefix ? key : NULL;
        bool same = old == new || !before.value || !after.value;
        marked = !both || !same;
        if (same) {
            compare_container(c, before.value, after.value, MAX(old, new), schema, depth, name, &below);
        } else {
            if (old != LEAF)
                compare_container(c, before.value, NULL, old, schema, depth, name, &below);
            if (new != LEAF)
                compare_container(c, NULL, after.value, new, schema, depth, name, &below);
        }
        field_node_seal(c->changed, &below.changed);
        field_node_seal(c->removed, &below.removed);
    }
    mark(c->changed, &out->changed, prefix, key, marked && after.there, below.changed);
    mark(c->removed, &out->removed, prefix, key, marked && !after.there, below.removed);
}

void field_value_compare(const struct json *before, const struct json *after, const struct field_scope *scope,
                         struct field_set **ret_changed, struct field_set **ret_removed)
{
    struct compare c = {.walk = {.scope = scope}, .changed = field_set_new(), .removed = field_set_new()};
    struct diff root = {0};

    if (before != after)
        compare_members(&c, before, after, scope->schema, 0, NULL, &root);
    field_node_seal(c.changed, &root.changed);
    field_node_seal(c.removed, &root.removed);
    c.changed->root = root.changed;
    c.removed->root = root.removed;
    arena_free(&c.walk.scratch);
    *ret_changed = c.changed;
    *ret_removed = c.removed;
}
