/* OpenAPI v2, made of the documents of v3, for clients that know no other. */
#include "apiserver/openapi.h"

#include "base/memory.h"
#include "base/strutil.h"

#define V3_PREFIX "#/components/schemas/"
#define V2_PREFIX "#/definitions/"

static struct json *converted(const struct json *v);

/* What v2 has no word for is left out, as Kubernetes does: the schema allows more then. */
static bool is_unknown(const char *key)
{
    static const char *const keys[] = {"oneOf", "anyOf", "allOf", "not", "nullable"};

    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (streq(key, keys[i]))
            return true;
    return false;
}

static void set_ref(struct json *schema, const char *ref)
{
    const char *name = ref ? str_skip_prefix(ref, V3_PREFIX) : NULL;
    _cleanup_free_ char *text = name ? xasprintf(V2_PREFIX "%s", name) : NULL;

    json_set_str(schema, "$ref", text);
}

static struct json *converted_properties(const struct json *properties)
{
    struct json *copy = json_object_make();

    for (struct json_iter it = {0}; json_each(properties, &it);)
        json_set(copy, it.key, converted(it.value));
    return copy;
}

/* A schema. */
static struct json *converted(const struct json *v)
{
    if (!json_is(v, JSON_OBJECT))
        return json_ref((struct json *)v);
    struct json *copy = json_object_make();
    for (struct json_iter it = {0}; json_each(v, &it);) {
        if (streq(it.key, "$ref"))
            set_ref(copy, json_str(it.value));
        else if (streq(it.key, "allOf") && json_size(it.value) == 1 && json_has(json_item(it.value, 0), "$ref"))
            set_ref(copy, json_str(json_get(json_item(it.value, 0), "$ref")));
        else if (streq(it.key, "properties"))
            json_set(copy, it.key, converted_properties(it.value));
        else if (streq(it.key, "items") || streq(it.key, "additionalProperties"))
            json_set(copy, it.key, converted(it.value));
        else if (!is_unknown(it.key))
            json_set(copy, it.key, json_ref(it.value));
    }
    return copy;
}

static void add_parameters(struct json *list, const struct json *parameters)
{
    for (size_t i = 0; i < json_size(parameters); i++) {
        struct json *p = json_copy_shallow(json_item(parameters, i));
        json_set_str(p, "type", json_str_at(p, "schema", "type", NULL));
        json_set(p, "uniqueItems", json_boolean(true));
        json_remove(p, "schema");
        json_push(list, p);
    }
}

static struct json *media_types(const struct json *content)
{
    struct json *types = json_array_make();

    for (struct json_iter it = {0}; json_each(content, &it);)
        json_push(types, json_string(it.key));
    return types;
}

/* The schema of the first media type. */
static struct json *schema_of(const struct json *content)
{
    struct json_iter it = {0};

    return json_each(content, &it) ? converted(json_get(it.value, "schema")) : NULL;
}

static struct json *responses_of(const struct json *responses)
{
    struct json *all = json_object_make();

    for (struct json_iter it = {0}; json_each(responses, &it);)
        json_set(all, it.key,
                 json_build("{s:O, s:o}", "description", json_get(it.value, "description"), "schema",
                            schema_of(json_get(it.value, "content"))));
    return all;
}

static struct json *converted_operation(const struct json *op)
{
    const struct json *body = json_get(op, "requestBody");
    struct json *v = json_object_make(), *parameters = json_array_make();

    if (body) {
        json_push(parameters, json_build("{s:s, s:s, s:b, s:o}", "in", "body", "name", "body", "required",
                                         json_bool_or(json_get(body, "required"), false), "schema",
                                         schema_of(json_get(body, "content"))));
        json_set(v, "consumes", media_types(json_get(body, "content")));
    }
    add_parameters(parameters, json_get(op, "parameters"));
    json_set(v, "parameters", parameters);
    json_set(v, "produces",
             json_build("[s, s, s]", "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"));
    json_set(v, "schemes", json_build("[s]", "https"));
    json_set(v, "responses", responses_of(json_get(op, "responses")));
    for (struct json_iter it = {0}; json_each(op, &it);)
        if (str_skip_prefix(it.key, "x-kubernetes-"))
            json_set(v, it.key, json_ref(it.value));
    return v;
}

static struct json *converted_path(const struct json *path)
{
    struct json *v = json_object_make();

    for (struct json_iter it = {0}; json_each(path, &it);) {
        if (!streq(it.key, "parameters")) {
            json_set(v, it.key, converted_operation(it.value));
            continue;
        }
        struct json *parameters = json_array_make();
        add_parameters(parameters, it.value);
        json_set(v, it.key, parameters);
    }
    return v;
}

void openapi_v2_add(struct json *document, const struct json *v3)
{
    struct json *paths = json_get(document, "paths"), *definitions = json_get(document, "definitions");

    for (struct json_iter it = {0}; json_each(json_get(v3, "paths"), &it);)
        json_set(paths, it.key, converted_path(it.value));
    for (struct json_iter it = {0}; json_each(json_at(v3, "components", "schemas", NULL), &it);)
        if (!json_has(definitions, it.key))
            json_set(definitions, it.key, converted(it.value));
}

struct json *openapi_v2_make(void)
{
    return json_build("{s:s, s:{s:s, s:s}, s:o, s:o}", "swagger", "2.0", "info", "title", "holt", "version", "v1.32.0",
                      "paths", json_object_make(), "definitions", json_object_make());
}
