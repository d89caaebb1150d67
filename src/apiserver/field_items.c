#include "apiserver/field_items.h"

#include "apiserver/field_set_internal.h"
#include "base/strutil.h"

#define KEY_FIELDS_MAX 16 /* far beyond what schemas declare; more count as no identity */

static int compare_items(const void *a, const void *b)
{
    const struct field_item *x = *(struct field_item *const *)a, *y = *(struct field_item *const *)b;
    int order = strcmp(x->key, y->key);

    return order ? order : (x->position > y->position) - (x->position < y->position);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* How the items of one list are identified; read from the schema once a list. */
struct identity {
    enum schema_list_type type;
    const char *names[KEY_FIELDS_MAX]; /* sorted */
    const struct json *defaults[KEY_FIELDS_MAX];
    size_t count;
};

static void identity_read(struct identity *id, struct schema_node schema)
{
    const struct json *keys = schema_list_keys(schema);

    *id = (struct identity){.type = schema_list_type(schema)};
    if (id->type != SCHEMA_LIST_MAP)
        return;
    for (size_t i = 0; i < json_size(keys) && id->count < KEY_FIELDS_MAX; i++)
        id->names[id->count++] = json_str_or(json_item(keys, i), "");
    qsort(id->names, id->count, sizeof(*id->names), compare_names);
    struct schema_node item = schema_items(schema);
    for (size_t i = 0; i < id->count; i++)
        id->defaults[i] = schema_keyword(schema_property(item, id->names[i]), "default");
}

static bool is_container(const struct json *v)
{
    return json_is(v, JSON_OBJECT) || json_is(v, JSON_ARRAY);
}

/* False: the item has no identity; *ret_missing says which key field it lacks. */
static bool write_key(const struct identity *id, const struct json *item, struct strbuf *out, const char **ret_missing)
{
    *ret_missing = NULL;
    if (id->type == SCHEMA_LIST_SET) {
        if (is_container(item))
            return false;
        strbuf_adds(out, "v:");
        field_scalar_write(item, out);
        return true;
    }
    if (!json_is(item, JSON_OBJECT) || id->count == 0)
        return false;
    strbuf_adds(out, "k:");
    for (size_t i = 0; i < id->count; i++) {
        const struct json *v = json_get(item, id->names[i]);

        if (!v && !json_has(item, id->names[i])) {
            v = id->defaults[i];
            *ret_missing = v ? NULL : id->names[i];
            if (!v)
                return false;
        }
        if (is_container(v))
            return false;
        strbuf_addc(out, i ? ',' : '{');
        json_write_string(id->names[i], strlen(id->names[i]), out);
        strbuf_addc(out, ':');
        field_scalar_write(v, out);
    }
    strbuf_addc(out, '}');
    return true;
}

struct field_items field_items_make(struct arena *arena, const struct json *list, struct schema_node schema,
                                    size_t *ret_unkeyed, const char **ret_missing)
{
    size_t n = json_size(list), unkeyed = SIZE_MAX;
    struct field_items result = {.count = n};
    _cleanup_(strbuf_free) struct strbuf key = {0};
    const char *missing = NULL, *first_missing = NULL;
    struct identity id;

    identity_read(&id, schema);
    result.items = arena_alloc(arena, (n + 1) * sizeof(*result.items));
    result.by_key = arena_alloc(arena, (n + 1) * sizeof(struct field_item *));
    for (size_t i = 0; i < n; i++) {
        const struct json *item = json_item(list, i);

        strbuf_truncate(&key, 0);
        if (!write_key(&id, item, &key, &missing)) {
            strbuf_truncate(&key, 0);
            strbuf_addf(&key, "i:%zu", i);
            if (unkeyed == SIZE_MAX) {
                unkeyed = i;
                first_missing = missing;
            }
        }
        result.items[i] = (struct field_item){arena_strndup(arena, strbuf_str(&key), key.len), item, i};
        result.by_key[i] = &result.items[i];
    }
    qsort(result.by_key, n, sizeof(struct field_item *), compare_items);
    if (ret_unkeyed)
        *ret_unkeyed = unkeyed;
    if (ret_missing)
        *ret_missing = first_missing;
    return result;
}

const struct field_item *field_items_find(const struct field_items *items, const char *key)
{
    size_t low = 0, high = items->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(items->by_key[middle]->key, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < items->count && streq(items->by_key[low]->key, key) ? items->by_key[low] : NULL;
}
