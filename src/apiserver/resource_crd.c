#include "apiserver/resource_crd.h"

#include "base/memory.h"
#include "base/strutil.h"

#include <ctype.h>

#define REF_PREFIX "#/components/schemas/"
#define OBJECT_META "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"

/* "agents.x-k8s.io" → "io.x-k8s.agents" */
static char *reverse_domain(const char *domain)
{
    struct strbuf out = {0};
    const char *end = domain + strlen(domain);

    while (end > domain) {
        const char *start = end;
        while (start > domain && start[-1] != '.')
            start--;
        if (out.len)
            strbuf_addc(&out, '.');
        strbuf_add(&out, start, (size_t)(end - start));
        end = start > domain ? start - 1 : domain;
    }
    return strbuf_detach(&out);
}

static char *lower_case(const char *s)
{
    char *copy = xstrdup(s);

    for (char *c = copy; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    return copy;
}

static struct json *describe_names(const struct json *crd)
{
    const struct json *spec = json_at(crd, "spec", "names", NULL);
    const struct json *names = json_at(crd, "status", "acceptedNames", NULL);

    if (!json_str(json_get(names, "kind")) || !json_str(json_get(names, "plural")))
        names = spec;
    const char *kind = json_str(json_get(names, "kind")), *plural = json_str(json_get(names, "plural"));
    if (!kind || !plural)
        return NULL;
    _cleanup_free_ char *list_kind = xasprintf("%sList", kind);
    _cleanup_free_ char *singular = lower_case(kind);
    return json_build("{s:s, s:s, s:s, s:s, s:O, s:O}", "kind", kind, "plural", plural, "singular",
                      json_str_or(json_get(names, "singular"), singular), "listKind",
                      json_str_or(json_get(names, "listKind"), list_kind), "shortNames", json_get(names, "shortNames"),
                      "categories", json_get(names, "categories"));
}

static struct json *describe_subresources(const struct json *subresources)
{
    struct json *list = json_array_make();
    static const char *const names[] = {"status", "scale"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (!json_is(json_get(subresources, names[i]), JSON_OBJECT))
            continue;
        struct json *scale_kind = NULL;
        if (streq(names[i], "scale"))
            scale_kind = json_build("{s:s, s:s, s:s}", "group", "autoscaling", "version", "v1", "kind", "Scale");
        json_push(list, json_build("{s:s, s:o, s:[s, s, s]}", "name", names[i], "responseKind", scale_kind, "verbs",
                                   "get", "patch", "update"));
    }
    return list;
}

static struct json *describe_columns(const struct json *printed)
{
    struct json *columns = json_build("[{s:s, s:s, s:s, s:s, s:s}]", "name", "Name", "type", "string", "format", "name",
                                      "description", "Name of the object.", "jsonPath", ".metadata.name");

    for (size_t i = 0; i < json_size(printed); i++)
        json_push(columns, json_ref(json_item(printed, i)));
    if (!json_size(printed))
        json_push(columns, json_build("{s:s, s:s, s:s, s:s}", "name", "Age", "type", "date", "description",
                                      "Time since the object was made.", "jsonPath", ".metadata.creationTimestamp"));
    return columns;
}

static struct json *describe_selectable(const struct json *fields)
{
    struct json *names = json_array_make();

    for (size_t i = 0; i < json_size(fields); i++) {
        const char *path = json_str(json_get(json_item(fields, i), "jsonPath"));
        if (path)
            json_push(names, json_string(path[0] == '.' ? path + 1 : path));
    }
    return names;
}

static struct json *describe_warning(const char *group, const char *kind, const struct json *version)
{
    const struct json *text = json_get(version, "deprecationWarning");

    if (!json_bool_or(json_get(version, "deprecated"), false))
        return NULL;
    if (json_str(text))
        return json_ref((struct json *)text);
    _cleanup_free_ char *s =
        xasprintf("%s/%s %s is deprecated", group, json_str_or(json_get(version, "name"), ""), kind);
    return json_string(s);
}

static const struct json *storage_version(const struct json *versions)
{
    for (size_t i = 0; i < json_size(versions); i++)
        if (json_bool_or(json_get(json_item(versions, i), "storage"), false))
            return json_get(json_item(versions, i), "name");
    return NULL;
}

struct json *crd_describe(const struct json *crd, const struct json *version, struct error *err)
{
    const struct json *spec = json_get(crd, "spec");
    const char *group = json_str(json_get(spec, "group")), *name = json_str(json_get(version, "name"));
    const struct json *storage = storage_version(json_get(spec, "versions"));
    struct json *names = describe_names(crd);

    if (!group || !name || !names || !json_str(storage)) {
        json_unref(names);
        error_set(err, EINVAL, "CustomResourceDefinition without group, names, version name or storage version");
        return NULL;
    }
    _cleanup_free_ char *reversed = reverse_domain(group);
    _cleanup_free_ char *schema = xasprintf("%s.%s.%s", reversed, name, json_str_at(names, "kind", NULL));
    struct json *d = json_object_make();
    json_set_str(d, "group", group);
    json_set_str(d, "version", name);
    json_set_str(d, "schema", schema);
    json_set_bool(d, "isCustom", true);
    json_set_bool(d, "namespaced", streq(json_str_or(json_get(spec, "scope"), ""), "Namespaced"));
    json_set_bool(d, "hasGeneration", true);
    json_set(d, "storageVersion", json_ref((struct json *)storage));
    json_set(d, "verbs",
             json_build("[s, s, s, s, s, s, s, s]", "delete", "deletecollection", "get", "list", "patch", "create",
                        "update", "watch"));
    json_set(d, "subresources", describe_subresources(json_get(version, "subresources")));
    json_set(d, "columns", describe_columns(json_get(version, "additionalPrinterColumns")));
    json_set(d, "selectableFields", describe_selectable(json_get(version, "selectableFields")));
    struct json *scale = json_at(version, "subresources", "scale", NULL);
    if (scale)
        json_set(d, "scale", json_ref(scale));
    struct json *warning = describe_warning(group, json_str_at(names, "kind", NULL), version);
    if (warning)
        json_set(d, "deprecationWarning", warning);
    json_set(d, "names", names);
    return d;
}

/* {x-holt-ref: NAME, ...} → {$ref: ..., ...}; the reference brings its own type. */
static struct json *reference(const struct resource_table *t, const struct json *node, struct error *err)
{
    const char *name = json_str(json_get(node, "x-holt-ref"));
    const char *rest = name ? str_skip_prefix(name, "io.k8s.") : NULL;
    const char *core = rest ? str_skip_prefix(rest, "api.") : NULL;
    _cleanup_free_ char *plain = xasprintf("io.holt.undefaulted.%s", core ? core : rest ? rest : "");

    if (!name || !resource_schema_definition(t, name)) {
        error_set(err, EINVAL, "x-holt-ref: there is no definition %s", name ? name : "without a name");
        return NULL;
    }
    _cleanup_free_ char *ref = xasprintf(REF_PREFIX "%s", resource_schema_definition(t, plain) ? plain : name);
    struct json *copy = json_copy_shallow(node);
    json_remove(copy, "x-holt-ref");
    json_remove(copy, "type");
    json_set_str(copy, "$ref", ref);
    return copy;
}

static struct json *resolve(const struct resource_table *t, const struct json *node, struct error *err);

/* Every member of an object, or item of an array, resolved. Returns the same value, referenced, if nothing changed. */
static struct json *resolve_all(const struct resource_table *t, const struct json *container, struct error *err)
{
    _cleanup_json_ struct json *copy = json_copy_shallow(container);
    bool changed = false;

    for (struct json_iter it = {0}; json_each(container, &it);) {
        struct json *value = resolve(t, it.value, err);
        if (it.value && !value)
            return NULL;
        changed |= value != it.value;
        json_set(copy, it.key, value);
    }
    for (size_t i = 0; json_is(container, JSON_ARRAY) && i < json_size(container); i++) {
        struct json *value = resolve(t, json_item(container, i), err);
        if (json_item(container, i) && !value)
            return NULL;
        changed |= value != json_item(container, i);
        json_set_item(copy, i, value);
    }
    return changed ? take_ptr(copy) : json_ref((struct json *)container);
}

/* The schema with references in place of x-holt-ref; the same value, referenced, if it has none. NULL with err set. */
static struct json *resolve(const struct resource_table *t, const struct json *node, struct error *err)
{
    static const struct {
        const char *key;
        bool many;
    } below[] = {{"properties", true}, {"items", false}, {"additionalProperties", false},
                 {"allOf", true},      {"anyOf", true},  {"oneOf", true},
                 {"not", false}};
    _cleanup_json_ struct json *copy = NULL;

    if (!json_is(node, JSON_OBJECT))
        return json_ref((struct json *)node);
    if (json_has(node, "x-holt-ref"))
        return reference(t, node, err);
    for (size_t i = 0; i < ARRAY_LEN(below); i++) {
        struct json *old = json_get(node, below[i].key);
        if (!old)
            continue;
        struct json *value = below[i].many ? resolve_all(t, old, err) : resolve(t, old, err);
        if (!value)
            return NULL;
        if (value == old) {
            json_unref(value);
            continue;
        }
        if (!copy)
            copy = json_copy_shallow(node);
        json_set(copy, below[i].key, value);
    }
    return copy ? take_ptr(copy) : json_ref((struct json *)node);
}

/* Usually a reference to ObjectMeta; a copy of it when the definition restricts the name. */
static struct json *metadata_schema(const struct resource_table *t, const struct json *wanted)
{
    static const char *const restricted[] = {"name", "generateName"};
    const struct json *meta = resource_schema_definition(t, OBJECT_META);

    if (!json_size(json_get(wanted, "properties")))
        return json_build("{s:s, s:s}", "description", "Name, labels and other facts about the object.", "$ref",
                          REF_PREFIX OBJECT_META);
    struct json *copy = json_copy_shallow(meta);
    struct json *properties = json_copy_shallow(json_get(meta, "properties"));
    for (size_t i = 0; i < ARRAY_LEN(restricted); i++) {
        const struct json *rules = json_at(wanted, "properties", restricted[i], NULL);
        if (!json_is(rules, JSON_OBJECT))
            continue;
        struct json *property = json_copy_shallow(json_get(properties, restricted[i]));
        for (struct json_iter it = {0}; json_each(rules, &it);)
            json_set(property, it.key, json_ref(it.value));
        json_set(properties, restricted[i], property);
    }
    json_set(copy, "properties", properties);
    return copy;
}

struct json *crd_schema(const struct resource_table *t, const struct json *description, const struct json *version,
                        struct error *err)
{
    const struct json *given = json_at(version, "schema", "openAPIV3Schema", NULL);

    if (!json_is(given, JSON_OBJECT)) {
        error_set(err, EINVAL, "CustomResourceDefinition without a schema");
        return NULL;
    }
    _cleanup_json_ struct json *resolved = resolve(t, given, err);
    if (!resolved)
        return NULL;
    struct json *schema = json_copy_shallow(resolved);
    const struct json *members = json_get(resolved, "properties");
    struct json *properties = json_is(members, JSON_OBJECT) ? json_copy_shallow(members) : json_object_make();
    json_set(properties, "apiVersion",
             json_build("{s:s, s:s}", "description", "API group and version of the object, such as apps/v1.", "type",
                        "string"));
    json_set(properties, "kind", json_build("{s:s, s:s}", "description", "Kind of the object.", "type", "string"));
    json_set(properties, "metadata", metadata_schema(t, json_at(given, "properties", "metadata", NULL)));
    json_set(schema, "properties", properties);
    json_set(schema, "x-kubernetes-group-version-kind",
             json_build("[{s:O, s:O, s:O}]", "group", json_get(description, "group"), "kind",
                        json_at(description, "names", "kind", NULL), "version", json_get(description, "version")));
    return schema;
}
