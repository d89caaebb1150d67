#include "apiserver/schema_walk.h"

#include "base/strutil.h"

#define OBJECT_META "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
#define REFERENCE_PREFIX "#/components/schemas/"
#define REFERENCE_CHAIN_MAX 16 /* a definition that is itself only a reference */

static const struct json *resolve(const struct schema_context *context, const char *name)
{
    return context && context->resolve && name ? context->resolve(context->arg, name) : NULL;
}

/* The name a schema refers to, or NULL. */
static const char *reference_name(const struct json *schema)
{
    const char *reference = json_str(json_get(schema, "$ref"));

    if (!reference) {
        const struct json *all = json_get(schema, "allOf");
        reference = json_size(all) == 1 ? json_str(json_get(json_item(all, 0), "$ref")) : NULL;
    }
    return reference ? str_skip_prefix(reference, REFERENCE_PREFIX) : NULL;
}

struct schema_node schema_node_make(const struct schema_context *context, const struct json *schema)
{
    struct schema_node node = {context, schema, schema, false};

    for (int i = 0; i < REFERENCE_CHAIN_MAX; i++) {
        const char *name = reference_name(node.inner);
        const struct json *target = name ? resolve(context, name) : NULL;
        if (!target)
            break;
        node.inner = target;
    }
    return node;
}

struct schema_node schema_root(const struct schema_context *context, const struct json *schema)
{
    struct schema_node node = schema_node_make(context, schema);

    node.whole_object = true;
    return node;
}

const struct json *schema_keyword(struct schema_node node, const char *keyword)
{
    const struct json *v = json_get(node.outer, keyword);

    return v || node.inner == node.outer ? v : json_get(node.inner, keyword);
}

bool schema_declares(struct schema_node node, const char *property)
{
    return json_has(schema_keyword(node, "properties"), property);
}

static bool is_whole_object(struct schema_node node)
{
    return node.whole_object || json_bool_or(schema_keyword(node, "x-kubernetes-embedded-resource"), false);
}

struct schema_node schema_property(struct schema_node node, const char *name)
{
    const struct json *schema = json_get(schema_keyword(node, "properties"), name);

    if (!schema)
        schema = schema_keyword(node, "additionalProperties");
    struct schema_node property = schema_node_make(node.context, json_is(schema, JSON_OBJECT) ? schema : NULL);
    if (streq(name, "metadata") && !schema_keyword(property, "properties") && is_whole_object(node)) {
        const struct json *meta = resolve(node.context, OBJECT_META);
        if (meta)
            return schema_node_make(node.context, meta);
    }
    return property;
}

struct schema_node schema_items(struct schema_node node)
{
    return schema_node_make(node.context, schema_keyword(node, "items"));
}

enum schema_list_type schema_list_type(struct schema_node list)
{
    const char *type = json_str_or(schema_keyword(list, "x-kubernetes-list-type"), "atomic");

    if (streq(type, "set"))
        return SCHEMA_LIST_SET;
    return streq(type, "map") ? SCHEMA_LIST_MAP : SCHEMA_LIST_ATOMIC;
}

const struct json *schema_list_keys(struct schema_node list)
{
    return schema_keyword(list, "x-kubernetes-list-map-keys");
}

bool schema_same_item(struct schema_node list, const struct json *a, const struct json *b)
{
    const struct json *keys = schema_list_keys(list);

    for (size_t i = 0; i < json_size(keys); i++) {
        const char *name = json_str_or(json_item(keys, i), "");
        const struct json *x = json_get(a, name), *y = json_get(b, name);
        if (!x || !y) {
            const struct json *fallback = schema_keyword(schema_property(schema_items(list), name), "default");
            x = x ? x : fallback;
            y = y ? y : fallback;
        }
        if (!json_equal(x, y))
            return false;
    }
    return true;
}

bool schema_map_is_atomic(struct schema_node map)
{
    return streq(json_str_or(schema_keyword(map, "x-kubernetes-map-type"), "granular"), "atomic");
}

const char *schema_merge_key(struct schema_node list)
{
    return json_str(schema_keyword(list, "x-kubernetes-patch-merge-key"));
}

bool schema_has_patch_strategy(struct schema_node node, const char *strategy)
{
    const char *p = json_str_or(schema_keyword(node, "x-kubernetes-patch-strategy"), "");
    size_t len = strlen(strategy);

    while (*p) {
        size_t n = strcspn(p, ",");
        if (n == len && strncmp(p, strategy, n) == 0)
            return true;
        p += n + (p[n] == ',');
    }
    return false;
}
