#include "apiserver/strategic_patch.h"

#include "apiserver/strategic_list.h"
#include "base/memory.h"
#include "base/strutil.h"

#define PATCH "$patch"
#define RETAIN_KEYS "$retainKeys"
#define SET_ORDER "$setElementOrder/"
#define DELETE_FROM "$deleteFromPrimitiveList/"

static bool is_directive(const char *key)
{
    return key[0] == '$' && (streq(key, PATCH) || streq(key, RETAIN_KEYS) || str_skip_prefix(key, SET_ORDER) ||
                             str_skip_prefix(key, DELETE_FROM));
}

static bool directive_is(const struct json *v, const char *what)
{
    return streq(json_str_or(json_get(v, PATCH), ""), what);
}

/*
 * What a patch says where there is nothing to merge it with: itself, without directives and nulls. The caller checks
 * for "$patch": "delete" of the value itself.
 */
static struct json *plain(const struct json *v)
{
    if (json_is(v, JSON_OBJECT)) {
        struct json *result = json_object_make();
        for (struct json_iter it = {0}; json_each(v, &it);)
            if (it.value && !is_directive(it.key) && !directive_is(it.value, "delete"))
                json_set(result, it.key, plain(it.value));
        return result;
    }
    if (json_is(v, JSON_ARRAY)) {
        struct json *result = json_array_make();
        for (size_t i = 0; i < json_size(v); i++) {
            const struct json *item = json_item(v, i);
            if (!directive_is(item, "delete") && !directive_is(item, "replace"))
                json_push(result, plain(item));
        }
        return result;
    }
    return json_ref((struct json *)v);
}

/* As Go prints values: clients know messages by that. */
static void print_like_go(const struct json *v, struct strbuf *out)
{
    if (json_is(v, JSON_OBJECT)) {
        _cleanup_(strbuf_free) struct strbuf sorted = {0};
        json_write_sorted(v, &sorted);
        _cleanup_json_ struct json *in_order = json_parse(strbuf_str(&sorted), sorted.len, NULL);
        const char *space = "";
        strbuf_adds(out, "map[");
        for (struct json_iter it = {0}; json_each(in_order, &it); space = " ") {
            strbuf_addf(out, "%s%s:", space, it.key);
            print_like_go(it.value, out);
        }
        strbuf_addc(out, ']');
    } else if (json_is(v, JSON_ARRAY)) {
        strbuf_addc(out, '[');
        for (size_t i = 0; i < json_size(v); i++) {
            if (i)
                strbuf_addc(out, ' ');
            print_like_go(json_item(v, i), out);
        }
        strbuf_addc(out, ']');
    } else if (json_is(v, JSON_STRING)) {
        strbuf_adds(out, json_str(v));
    } else if (!v) {
        strbuf_adds(out, "<nil>");
    } else {
        json_write(v, out);
    }
}

static int no_merge_key(const struct json *item, const char *merge_key, struct error *err)
{
    _cleanup_(strbuf_free) struct strbuf text = {0};

    print_like_go(item, &text);
    return error_set(err, EPERM, "map: %s does not contain declared merge key: %s", strbuf_str(&text), merge_key);
}

static struct json *merge_map(const struct json *doc, const struct json *patch, struct schema_node schema,
                              struct error *err);

/* Lists. */

/* How the lists of one field merge. */
struct list_rule {
    struct schema_node schema;
    bool merges;
    const char *merge_key; /* NULL: scalars */
};

static struct list_rule list_rule(struct schema_node map, const char *field)
{
    struct schema_node schema = schema_property(map, field);
    const char *key = schema_merge_key(schema);

    return (struct list_rule){schema, schema_has_patch_strategy(schema, "merge"), key};
}

static int check_items(const struct json *list, const struct list_rule *rule, struct error *err)
{
    for (size_t i = 0; i < json_size(list); i++) {
        const struct json *item = json_item(list, i);

        if (rule->merge_key && !json_is(item, JSON_OBJECT))
            return error_set(err, EPERM, "a list that merges by %s has an item that is no map", rule->merge_key);
        if (!rule->merge_key && (json_is(item, JSON_OBJECT) || json_is(item, JSON_ARRAY)))
            return error_set(err, EPERM, "cannot merge lists of maps or lists without merge key");
    }
    return 0;
}

/* "$patch" items: deletes from list; *ret_replace is set when the patch's other items are to be the list. */
static int run_item_directives(struct item_list *list, const struct json *patch, const struct list_rule *rule,
                               bool *ret_replace, struct error *err)
{
    _cleanup_(item_list_clear) struct item_list gone = {0};

    *ret_replace = false;
    for (size_t i = 0; rule->merge_key && i < json_size(patch); i++) {
        const struct json *item = json_item(patch, i);

        if (!json_has(item, PATCH))
            continue;
        if (directive_is(item, "replace")) {
            *ret_replace = true;
        } else if (directive_is(item, "delete")) {
            char *id = item_id(item, rule->merge_key);
            if (!id)
                return no_merge_key(item, rule->merge_key, err);
            item_list_append(&gone, id, NULL);
        } else if (!directive_is(item, "merge")) {
            return error_set(err, EINVAL, "unknown patch type: %s", json_str_or(json_get(item, PATCH), "?"));
        }
    }
    item_list_remove(list, &gone);
    return 0;
}

/* Merges one item of the patch into list, or appends it. */
static int merge_item(struct item_list *list, const struct json *item, const struct list_rule *rule, struct error *err)
{
    _cleanup_free_ char *id = item_id(item, rule->merge_key);

    if (!id)
        return no_merge_key(item, rule->merge_key, err);
    struct list_item *old = item_list_find(list, id);
    if (!old) {
        item_list_append(list, take_ptr(id), plain(item));
        return 0;
    }
    if (!rule->merge_key)
        return 0;
    struct json *merged = merge_map(old->value, item, schema_items(rule->schema), err);
    if (!merged)
        return -EINVAL; /* err tells */
    json_unref(old->value);
    old->value = merged;
    return 0;
}

static int merge_items(struct item_list *list, const struct json *patch, const struct list_rule *rule,
                       struct error *err)
{
    bool replace;
    int r = run_item_directives(list, patch, rule, &replace, err);

    if (r < 0)
        return r;
    if (replace)
        item_list_clear(list);
    for (size_t i = 0; i < json_size(patch); i++) {
        const struct json *item = json_item(patch, i);

        if (rule->merge_key && (directive_is(item, "delete") || directive_is(item, "replace")))
            continue;
        r = merge_item(list, item, rule, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static struct json *merge_list(const struct json *doc, const struct json *patch, const struct list_rule *rule,
                               struct error *err)
{
    _cleanup_(item_list_clear) struct item_list list = {0}, live = {0}, wanted = {0};

    if (!rule->merges || !json_is(doc, JSON_ARRAY))
        return plain(patch);
    if (check_items(doc, rule, err) < 0 || check_items(patch, rule, err) < 0)
        return NULL;
    item_list_read(&list, doc, rule->merge_key);
    item_list_read(&live, doc, rule->merge_key);
    item_list_read(&wanted, patch, rule->merge_key);
    return merge_items(&list, patch, rule, err) < 0 ? NULL : item_list_arrange(&list, &wanted, &live);
}

/* Every item of the patch is named in order, and in the same order. */
static int check_order(const struct json *patch, const struct json *order, const struct list_rule *rule,
                       struct error *err)
{
    _cleanup_(item_list_clear) struct item_list names = {0};
    size_t next = 0;

    item_list_read(&names, order, rule->merge_key);
    for (size_t i = 0; i < names.count; i++)
        if (!names.items[i].id)
            return no_merge_key(json_item(order, i), rule->merge_key, err);
    for (size_t i = 0; i < json_size(patch); i++) {
        const struct json *item = json_item(patch, i);
        _cleanup_free_ char *id = item_id(item, rule->merge_key);

        if (directive_is(item, "delete") || directive_is(item, "replace"))
            continue;
        if (!id)
            return no_merge_key(item, rule->merge_key, err);
        while (next < names.count && !streq(names.items[next].id, id))
            next++;
        if (next == names.count)
            return error_set(err, EINVAL, "the order in the patch list does not match its $setElementOrder list");
    }
    return 0;
}

/* Merges the list called field and arranges it as order says. */
static int merge_ordered(struct json *result, const struct json *doc, const struct json *patch, const char *field,
                         const struct json *order, struct schema_node schema, struct error *err)
{
    const struct list_rule rule = list_rule(schema, field);
    const struct json *live = json_get(doc, field), *changes = json_get(patch, field);
    _cleanup_(item_list_clear) struct item_list list = {0}, wanted = {0}, before = {0};
    _cleanup_json_ struct json *merged = NULL;

    if (!json_is(order, JSON_ARRAY))
        return error_set(err, EINVAL, "invalid patch format of setElementOrder list");
    if ((changes && !json_is(changes, JSON_ARRAY)) || (live && !json_is(live, JSON_ARRAY)))
        return error_set(err, EINVAL, "%s%s belongs to no list", SET_ORDER, field);
    if (!changes && (json_has(patch, field) || !live))
        return 0; /* null removes the list; no list, no order */
    if (rule.merges) {
        int r = check_items(order, &rule, err);
        if (r == 0)
            r = check_order(changes, order, &rule, err);
        if (r < 0)
            return r;
    }
    merged = changes ? merge_list(live, changes, &rule, err) : json_ref((struct json *)live);
    if (!merged)
        return -EINVAL; /* err tells */
    if (!rule.merges) {
        json_set(result, field, take_ptr(merged));
        return 0;
    }
    item_list_read(&list, merged, rule.merge_key);
    item_list_read(&wanted, order, rule.merge_key);
    item_list_read(&before, live, rule.merge_key);
    json_set(result, field, item_list_arrange(&list, &wanted, &before));
    return 0;
}

static int delete_from(struct json *result, const char *field, const struct json *values, struct error *err)
{
    const struct json *list = json_get(result, field);
    _cleanup_(item_list_clear) struct item_list gone = {0};

    if (!json_is(values, JSON_ARRAY))
        return error_set(err, EINVAL, "invalid patch format of primitive list");
    if (!json_is(list, JSON_ARRAY))
        return 0;
    item_list_read(&gone, values, NULL);
    struct json *kept = json_array_make();
    for (size_t i = 0; i < json_size(list); i++) {
        _cleanup_free_ char *id = item_id(json_item(list, i), NULL);
        if (!item_list_find(&gone, id))
            json_push(kept, json_ref(json_item(list, i)));
    }
    json_set(result, field, kept);
    return 0;
}

/* Maps. */

static int retain_keys(struct json *result, const struct json *doc, const struct json *patch, struct error *err)
{
    const struct json *retained = json_get(patch, RETAIN_KEYS);
    struct hashmap names = {0};
    int r = 0;

    if (!json_has(patch, RETAIN_KEYS))
        return 0;
    for (size_t i = 0; i < json_size(retained); i++)
        (void)hashmap_put(&names, json_str_or(json_item(retained, i), ""), &names); /* a set: only keys count */
    for (struct json_iter it = {0}; json_each(patch, &it);)
        if (it.value && !is_directive(it.key) && !hashmap_get(&names, it.key))
            r = -EINVAL;
    if (r < 0 || !json_is(retained, JSON_ARRAY))
        r = error_set(err, EINVAL, "invalid patch format of retainKeys");
    for (struct json_iter it = {0}; r == 0 && json_each(doc, &it);)
        if (!hashmap_get(&names, it.key))
            json_remove(result, it.key);
    hashmap_free(&names, NULL);
    return r;
}

/* Directives about the lists of this map. */
static int run_list_directives(struct json *result, const struct json *doc, const struct json *patch,
                               struct schema_node schema, struct error *err)
{
    int r = 0;

    for (struct json_iter it = {0}; r == 0 && json_each(patch, &it);) {
        const char *field = str_skip_prefix(it.key, SET_ORDER);
        if (field)
            r = merge_ordered(result, doc, patch, field, it.value, schema, err);
    }
    for (struct json_iter it = {0}; r == 0 && json_each(patch, &it);) {
        const char *field = str_skip_prefix(it.key, DELETE_FROM);
        if (field)
            r = delete_from(result, field, it.value, err);
    }
    return r;
}

/* Whether "$setElementOrder/NAME" has dealt with the list already. */
static bool is_ordered(const struct json *patch, const char *name)
{
    _cleanup_free_ char *directive = NULL;

    if (!json_is(json_get(patch, name), JSON_ARRAY))
        return false;
    directive = xasprintf("%s%s", SET_ORDER, name);
    return json_has(patch, directive);
}

static int merge_member(struct json *result, const char *name, const struct json *patch, struct schema_node schema,
                        struct error *err)
{
    const struct json *old = json_get(result, name);
    struct json *merged;

    if (!patch || directive_is(patch, "delete")) {
        json_remove(result, name);
        return 0;
    }
    struct schema_node property = schema_property(schema, name);
    if (json_is(patch, JSON_OBJECT) && json_is(old, JSON_OBJECT) && !schema_has_patch_strategy(property, "replace")) {
        merged = merge_map(old, patch, property, err);
    } else if (json_is(patch, JSON_ARRAY)) {
        const struct list_rule rule = list_rule(schema, name);
        merged = merge_list(old, patch, &rule, err);
    } else {
        merged = plain(patch);
    }
    if (!merged)
        return -EINVAL; /* err tells */
    json_set(result, name, merged);
    return 0;
}

static struct json *merge_map(const struct json *doc, const struct json *patch, struct schema_node schema,
                              struct error *err)
{
    _cleanup_json_ struct json *result = NULL;

    if (directive_is(patch, "replace"))
        return plain(patch);
    if (directive_is(patch, "delete"))
        return json_object_make();
    if (json_has(patch, PATCH) && !directive_is(patch, "merge")) {
        (void)error_set(err, EINVAL, "unknown patch type: %s", json_str_or(json_get(patch, PATCH), "?"));
        return NULL;
    }
    result = json_copy_shallow(doc);
    if (retain_keys(result, doc, patch, err) < 0 || run_list_directives(result, doc, patch, schema, err) < 0)
        return NULL;
    for (struct json_iter it = {0}; json_each(patch, &it);)
        if (!is_directive(it.key) && !is_ordered(patch, it.key) &&
            merge_member(result, it.key, it.value, schema, err) < 0)
            return NULL;
    return take_ptr(result);
}

struct json *strategic_patch_apply(const struct json *doc, const struct json *patch,
                                   const struct schema_context *context, const struct json *schema, struct error *err)
{
    if (json_is(patch, JSON_OBJECT) && json_is(doc, JSON_OBJECT))
        return merge_map(doc, patch, schema_root(context, schema), err);
    (void)error_set(err, EINVAL, "a strategic merge patch is an object, and so is what it changes");
    return NULL;
}
