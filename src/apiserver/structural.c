#include "apiserver/structural.h"

#include "base/memory.h"
#include "base/strutil.h"

static bool keyword_true(struct schema_node node, const char *keyword)
{
    return json_bool_or(schema_keyword(node, keyword), false);
}

static bool is_whole_object(struct schema_node node)
{
    return node.whole_object || keyword_true(node, "x-kubernetes-embedded-resource");
}

/* Members every object has, whatever its schema says. */
static bool always_known(struct schema_node node, const char *name)
{
    return is_whole_object(node) && (streq(name, "apiVersion") || streq(name, "kind") || streq(name, "metadata"));
}

/* --- unknown fields --- */

struct pruning {
    void (*unknown)(void *arg, const char *path);
    void *arg;
};

static struct json *prune(const struct pruning *p, struct schema_node node, struct json *value,
                          const struct field_path *path);

/* Whether the schema leaves room for a member it does not name. */
static bool takes_any(struct schema_node node)
{
    const struct json *additional = schema_keyword(node, "additionalProperties");

    return keyword_true(node, "x-kubernetes-preserve-unknown-fields") || json_is(additional, JSON_OBJECT) ||
           json_bool_or(additional, false);
}

static void report(const struct pruning *p, const struct field_path *path)
{
    if (!p->unknown)
        return;
    _cleanup_free_ char *text = field_path_text(path);
    p->unknown(p->arg, text);
}

static struct json *prune_object(const struct pruning *p, struct schema_node node, struct json *value,
                                 const struct field_path *path)
{
    struct json *copy = NULL;
    bool any = takes_any(node);

    for (struct json_iter it = {0}; json_each(value, &it);) {
        struct field_path here = {.parent = path, .name = it.key};

        if (!any && !schema_declares(node, it.key) && !always_known(node, it.key)) {
            report(p, &here);
            if (!copy)
                copy = json_copy_shallow(value);
            json_remove(copy, it.key);
            continue;
        }
        struct json *kept = prune(p, schema_property(node, it.key), it.value, &here);
        if (kept == it.value) {
            json_unref(kept);
            continue;
        }
        if (!copy)
            copy = json_copy_shallow(value);
        json_set(copy, it.key, kept);
    }
    return copy ? copy : json_ref(value);
}

static struct json *prune_array(const struct pruning *p, struct schema_node node, struct json *value,
                                const struct field_path *path)
{
    struct schema_node items = schema_items(node);
    struct json *copy = NULL;

    for (size_t i = 0; i < json_size(value); i++) {
        struct field_path here = {.parent = path, .index = i};
        struct json *kept = prune(p, items, json_item(value, i), &here);

        if (kept == json_item(value, i)) {
            json_unref(kept);
            continue;
        }
        if (!copy)
            copy = json_copy_shallow(value);
        json_set_item(copy, i, kept);
    }
    return copy ? copy : json_ref(value);
}

static struct json *prune(const struct pruning *p, struct schema_node node, struct json *value,
                          const struct field_path *path)
{
    if (!schema_is_known(node))
        return json_ref(value);
    if (json_is(value, JSON_OBJECT))
        return prune_object(p, node, value, path);
    if (json_is(value, JSON_ARRAY))
        return prune_array(p, node, value, path);
    return json_ref(value);
}

struct json *structural_prune(struct schema_node root, struct json *value, void (*unknown)(void *arg, const char *path),
                              void *arg)
{
    const struct pruning p = {unknown, arg};

    return prune(&p, root, value, NULL);
}

/* --- defaults --- */

static void set_member(struct json **copy, struct json *value, const char *key, struct json *member)
{
    if (!*copy)
        *copy = json_copy_shallow(value);
    json_set(*copy, key, member);
}

/* The default of a property, with the defaults within it; NULL when it has none. */
static struct json *default_of(struct schema_node property)
{
    const struct json *given = schema_keyword(property, "default");
    _cleanup_json_ struct json *copy = json_copy(given);

    return given ? structural_default(property, copy) : NULL;
}

static void default_missing(struct schema_node node, struct json *value, struct json **copy)
{
    for (struct json_iter it = {0}; json_each(schema_keyword(node, "properties"), &it);) {
        if (json_get(value, it.key))
            continue;
        struct schema_node property = schema_property(node, it.key);
        bool is_null = json_has(value, it.key);
        if (is_null && keyword_true(property, "nullable"))
            continue;
        struct json *filled = default_of(property);
        if (filled)
            set_member(copy, value, it.key, filled);
    }
}

static struct json *default_object(struct schema_node node, struct json *value)
{
    struct json *copy = NULL;

    for (struct json_iter it = {0}; json_each(value, &it);) {
        struct schema_node property = schema_property(node, it.key);

        if (!it.value) {
            if (schema_is_known(property) && !keyword_true(property, "nullable") &&
                !keyword_true(property, "x-kubernetes-preserve-unknown-fields")) {
                if (!copy)
                    copy = json_copy_shallow(value);
                json_remove(copy, it.key);
            }
            continue;
        }
        struct json *filled = structural_default(property, it.value);
        if (filled == it.value)
            json_unref(filled);
        else
            set_member(&copy, value, it.key, filled);
    }
    default_missing(node, value, &copy);
    return copy ? copy : json_ref(value);
}

static struct json *default_array(struct schema_node node, struct json *value)
{
    struct schema_node items = schema_items(node);
    struct json *copy = NULL;

    for (size_t i = 0; i < json_size(value); i++) {
        struct json *filled = structural_default(items, json_item(value, i));

        if (filled == json_item(value, i)) {
            json_unref(filled);
            continue;
        }
        if (!copy)
            copy = json_copy_shallow(value);
        json_set_item(copy, i, filled);
    }
    return copy ? copy : json_ref(value);
}

struct json *structural_default(struct schema_node node, struct json *value)
{
    if (!schema_is_known(node))
        return json_ref(value);
    if (json_is(value, JSON_OBJECT))
        return default_object(node, value);
    if (json_is(value, JSON_ARRAY))
        return default_array(node, value);
    return json_ref(value);
}
