/* Values made from values by the schema: without some fields, and with an applied configuration merged in. */
#include "apiserver/field_value.h"

#include "apiserver/field_items.h"
#include "apiserver/field_set_internal.h"
#include "base/memory.h"
#include "base/strutil.h"

static struct json *without(const struct json *value, const struct field_node *node, struct schema_node schema);

static struct json *without_members(const struct json *value, const struct field_node *node, struct schema_node schema)
{
    struct json *result = json_object_make();

    for (struct json_iter it = {0}; json_each(value, &it);) {
        _cleanup_free_ char *key = xasprintf("f:%s", it.key);
        const struct field_entry *entry = field_node_find(node, key);

        if (!entry)
            json_set(result, it.key, json_ref(it.value));
        else if (!entry->marked)
            json_set(result, it.key, without(it.value, &entry->below, schema_property(schema, it.key)));
    }
    return result;
}

static struct json *without_items(const struct json *value, const struct field_node *node, struct schema_node schema)
{
    _cleanup_(arena_free) struct arena arena = {0};
    struct field_items items = field_items_make(&arena, value, schema, NULL, NULL);
    struct schema_node item_schema = schema_items(schema);
    struct json *result = json_array_make();

    for (size_t i = 0; i < items.count; i++) {
        const struct field_entry *entry = field_node_find(node, items.items[i].key);

        if (!entry)
            json_push(result, json_ref((struct json *)items.items[i].value));
        else if (!entry->marked)
            json_push(result, without(items.items[i].value, &entry->below, item_schema));
    }
    return result;
}

static struct json *without(const struct json *value, const struct field_node *node, struct schema_node schema)
{
    if (node->count && json_is(value, JSON_OBJECT) && !schema_map_is_atomic(schema))
        return without_members(value, node, schema);
    if (node->count && json_is(value, JSON_ARRAY) && schema_list_type(schema) != SCHEMA_LIST_ATOMIC)
        return without_items(value, node, schema);
    return json_ref((struct json *)value);
}

struct json *field_value_remove(const struct json *value, const struct field_set *set, struct schema_node schema)
{
    return without(value, &set->root, schema);
}

/* A member of both; live's value itself when config says the same. */
static struct json *merge_member(const struct json *live, const struct json *config, struct schema_node schema,
                                 const char *name)
{
    bool scalar = config && !json_is(config, JSON_OBJECT) && !json_is(config, JSON_ARRAY);

    if (scalar) /* needs no schema */
        return json_ref((struct json *)(json_equal(live, config) ? live : config));
    return field_value_merge(live, config, schema_property(schema, name));
}

/* Copies live only when something changes, so that an apply that changes nothing shares everything. */
static struct json *merge_members(const struct json *live, const struct json *config, struct schema_node schema)
{
    struct json *result = NULL;

    for (struct json_iter it = {0}; json_each(config, &it);) {
        const struct json *old = json_get(live, it.key);
        bool had = old || json_has(live, it.key);
        struct json *merged = had ? merge_member(old, it.value, schema, it.key) : json_ref(it.value);

        if (had && merged == old) {
            json_unref(merged);
            continue;
        }
        if (!result)
            result = json_copy_shallow(live);
        json_set(result, it.key, merged);
    }
    return result ? result : json_ref((struct json *)live);
}

/* Merges config's items with those of the same key in live, and appends them in order. */
struct merge {
    struct field_items live, config;
    struct schema_node item_schema;
    size_t next; /* the first of config's items that is not appended yet */
    struct json *result;
};

static void append_config_until(struct merge *m, size_t end)
{
    for (; m->next < end; m->next++) {
        const struct field_item *item = &m->config.items[m->next];
        const struct field_item *old = field_items_find(&m->live, item->key);

        if (old)
            json_push(m->result, field_value_merge(old->value, item->value, m->item_schema));
        else
            json_push(m->result, json_ref((struct json *)item->value));
    }
}

/* The next item of config, not before from, that live has too; or the end. */
static size_t next_shared(const struct merge *m, size_t from)
{
    while (from < m->config.count && !field_items_find(&m->live, m->config.items[from].key))
        from++;
    return from;
}

static bool same_items(const struct json *a, const struct json *b)
{
    size_t i = 0;

    while (i < json_size(a) && i < json_size(b) && json_item(a, i) == json_item(b, i))
        i++;
    return i == json_size(a) && i == json_size(b);
}

/*
 * Goes along live. An item of live alone stays; an item both have is appended, with those of config before it, when it
 * is the next of its kind in config's order, and else left to its turn.
 */
static struct json *merge_items(const struct json *live, const struct json *config, struct schema_node schema)
{
    _cleanup_(arena_free) struct arena arena = {0};
    struct merge m = {.live = field_items_make(&arena, live, schema, NULL, NULL),
                      .config = field_items_make(&arena, config, schema, NULL, NULL),
                      .item_schema = schema_items(schema),
                      .result = json_array_make()};
    size_t shared = next_shared(&m, 0);

    for (size_t i = 0; i < m.live.count; i++) {
        const struct field_item *item = &m.live.items[i];

        if (!field_items_find(&m.config, item->key)) {
            json_push(m.result, json_ref((struct json *)item->value));
        } else if (shared < m.config.count && streq(item->key, m.config.items[shared].key)) {
            append_config_until(&m, shared + 1);
            shared = next_shared(&m, m.next);
        }
    }
    append_config_until(&m, m.config.count);
    if (!same_items(m.result, live))
        return m.result;
    json_unref(m.result);
    return json_ref((struct json *)live);
}

struct json *field_value_merge(const struct json *live, const struct json *config, struct schema_node schema)
{
    bool members = json_is(live, JSON_OBJECT) && !schema_map_is_atomic(schema);
    bool items = json_is(live, JSON_ARRAY) && schema_list_type(schema) != SCHEMA_LIST_ATOMIC;

    if (members && json_is(config, JSON_OBJECT) && json_size(config) + json_size(live) > 0)
        return merge_members(live, config, schema);
    if (items && json_is(config, JSON_ARRAY) && json_size(config) + json_size(live) > 0)
        return merge_items(live, config, schema);
    if ((members || items) && !config)
        return json_ref((struct json *)live); /* null says nothing about what others put there */
    return json_ref((struct json *)(json_equal(live, config) ? live : config));
}
