#include "apiserver/openapi.h"

#include "base/hashmap.h"
#include "base/memory.h"
#include "base/strutil.h"

#define REF_PREFIX "#/components/schemas/"
#define META "io.k8s.apimachinery.pkg.apis.meta.v1."

/* A document, and the resources it is about: while the table has the same ones, it is up to date. */
struct entry {
    struct document *document;
    struct resource **resources;
    size_t count;
};

struct openapi {
    const struct resource_table *table;
    struct hashmap entries; /* path → struct entry */
    struct document *root, *v2;
    uint64_t root_changes, v2_changes; /* of the table, when they were made */
};

static void entry_free(void *value)
{
    struct entry *e = value;

    if (!e)
        return;
    for (size_t i = 0; i < e->count; i++)
        resource_unref(e->resources[i]);
    free(e->resources);
    document_free(e->document);
    free(e);
}

struct openapi *openapi_new(const struct resource_table *table)
{
    struct openapi *o = xcalloc(1, sizeof(*o));

    o->table = table;
    return o;
}

void openapi_free(struct openapi *o)
{
    hashmap_free(&o->entries, entry_free);
    document_free(o->root);
    document_free(o->v2);
    free(o);
}

/* Schemas. */

static struct json *ref_to(const char *name)
{
    _cleanup_free_ char *ref = xasprintf(REF_PREFIX "%s", name);

    return json_build("{s:s}", "$ref", ref);
}

/*
 * A schema as OpenAPI wants it: beside a $ref nothing is allowed, so {$ref, more} becomes {allOf: [{$ref}], more}. Adds
 * the names referred to to names.
 */
static struct json *published(const struct json *node, struct json *names);

static struct json *published_object(const struct json *node, struct json *names)
{
    const char *ref = json_str(json_get(node, "$ref"));
    struct json *copy = json_object_make();

    for (struct json_iter it = {0}; json_each(node, &it);) {
        if (!ref || !streq(it.key, "$ref"))
            json_set(copy, it.key, published(it.value, names));
        else if (json_size(node) == 1)
            json_set(copy, "$ref", json_ref(it.value));
        else
            json_set(copy, "allOf", json_build("[{s:O}]", "$ref", it.value));
    }
    const char *name = ref ? str_skip_prefix(ref, REF_PREFIX) : NULL;
    if (name)
        json_set_bool(names, name, true);
    return copy;
}

static struct json *published(const struct json *node, struct json *names)
{
    if (json_is(node, JSON_OBJECT))
        return published_object(node, names);
    if (!json_is(node, JSON_ARRAY))
        return json_ref((struct json *)node);
    struct json *copy = json_array_make();
    for (size_t i = 0; i < json_size(node); i++)
        json_push(copy, published(json_item(node, i), names));
    return copy;
}

/* Adds a definition and all that it refers to, directly or not. */
static void add_schema(const struct resource_table *t, struct json *schemas, const char *name)
{
    _cleanup_json_ struct json *names = json_object_make();
    const struct json *schema = resource_schema_definition(t, name);

    if (!schema || json_has(schemas, name))
        return;
    json_set(schemas, name, published(schema, names));
    for (struct json_iter it = {0}; json_each(names, &it);)
        add_schema(t, schemas, it.key);
}

/* "io.k8s.api.core.v1.Pod" → "io.k8s.api.core.v1.PodList" */
static char *list_schema_name(const struct resource *r)
{
    size_t prefix = strlen(r->schema_name) - strlen(r->kind);

    return xasprintf("%.*s%s", (int)prefix, r->schema_name, r->list_kind);
}

static struct json *list_schema(const struct resource *r)
{
    return json_build(
        "{s:s, s:s, s:[s], s:{s:{s:s, s:s}, s:{s:s, s:s}, s:{s:s, s:[o]}, s:{s:s, s:s, s:o}}, s:[{s:s, s:s, s:s}]}",
        "description", "A list of objects.", "type", "object", "required", "items", "properties", /**/
        "apiVersion", "description", "API group and version of the list.", "type", "string",      /**/
        "kind", "description", "Kind of the list.", "type", "string",                             /**/
        "metadata", "description", "Facts about the list.", "allOf", ref_to(META "ListMeta"),     /**/
        "items", "description", "The objects.", "type", "array", "items", ref_to(r->schema_name), /**/
        "x-kubernetes-group-version-kind", "group", r->group, "kind", r->list_kind, "version", r->version);
}

/* Paths. */

static const struct {
    const char *name, *type, *description;
} parameters[] = {
    {"dryRun", "string", "All: check everything and change nothing."},
    {"fieldManager", "string", "Who makes the change, for metadata.managedFields."},
    {"fieldValidation", "string", "What to do with unknown and duplicate fields: Ignore, Warn or Strict."},
    {"force", "boolean", "Take over fields that other managers have set. Only when applying."},
    {"gracePeriodSeconds", "integer", "Seconds the object has to end by itself."},
    {"propagationPolicy", "string", "What happens to dependents: Orphan, Background or Foreground."},
    {"labelSelector", "string", "Chooses objects by their labels."},
    {"fieldSelector", "string", "Chooses objects by their fields."},
    {"resourceVersion", "string", "Which version of the store to read."},
    {"limit", "integer", "Most objects to return at once."},
    {"continue", "string", "Token for the next part of a list."},
    {"watch", "boolean", "Report changes as they happen."},
    {"timeoutSeconds", "integer", "When to end a watch."},
};

static struct json *query_parameters(const char *const *names)
{
    struct json *list = json_array_make();

    for (; *names; names++)
        for (size_t i = 0; i < ARRAY_LEN(parameters); i++)
            if (streq(parameters[i].name, *names))
                json_push(list,
                          json_build("{s:s, s:s, s:s, s:{s:s}}", "in", "query", "name", parameters[i].name,
                                     "description", parameters[i].description, "schema", "type", parameters[i].type));
    return list;
}

static struct json *path_parameters(const struct resource *r, bool namespaced, bool item)
{
    struct json *list = json_array_make();

    if (item)
        json_push(list, json_build("{s:s, s:s, s:s, s:b, s:{s:s}}", "in", "path", "name", "name", "description",
                                   "Name of the object.", "required", true, "schema", "type", "string"));
    if (namespaced && r->namespaced)
        json_push(list, json_build("{s:s, s:s, s:s, s:b, s:{s:s}}", "in", "path", "name", "namespace", "description",
                                   "Namespace of the object.", "required", true, "schema", "type", "string"));
    return list;
}

struct operation {
    const char *verb;          /* of the resource: get, list, ... */
    const char *method;        /* in the document */
    const char *action;        /* x-kubernetes-action */
    const char *parameters[8]; /* ends with NULL */
};

static const struct operation item_operations[] = {
    {"get", "get", "get", {NULL}},
    {"update", "put", "put", {"dryRun", "fieldManager", "fieldValidation", NULL}},
    {"patch", "patch", "patch", {"dryRun", "fieldManager", "fieldValidation", "force", NULL}},
    {"delete", "delete", "delete", {"dryRun", "gracePeriodSeconds", "propagationPolicy", NULL}},
};
static const struct operation collection_operations[] = {
    {"list",
     "get",
     "list",
     {"labelSelector", "fieldSelector", "resourceVersion", "limit", "continue", "watch", "timeoutSeconds", NULL}},
    {"create", "post", "post", {"dryRun", "fieldManager", "fieldValidation", NULL}},
    {"deletecollection",
     "delete",
     "deletecollection",
     {"labelSelector", "fieldSelector", "dryRun", "gracePeriodSeconds", "propagationPolicy", NULL}},
};

static struct json *content(const char *type, struct json *schema)
{
    return json_build("{s:{s:o}}", type, "schema", schema);
}

static struct json *request_body(const struct resource *r, const struct operation *op)
{
    static const char *const patch_types[] = {"application/apply-patch+yaml", "application/json-patch+json",
                                              "application/merge-patch+json", "application/strategic-merge-patch+json"};

    if (streq(op->verb, "create") || streq(op->verb, "update"))
        return json_build("{s:b, s:o}", "required", true, "content",
                          content("application/json", ref_to(r->schema_name)));
    if (streq(op->verb, "delete") || streq(op->verb, "deletecollection"))
        return json_build("{s:o}", "content", content("application/json", ref_to(META "DeleteOptions")));
    if (!streq(op->verb, "patch"))
        return NULL;
    struct json *types = json_object_make();
    size_t count = ARRAY_LEN(patch_types) - (r->is_custom ? 1 : 0);
    for (size_t i = 0; i < count; i++)
        json_set(types, patch_types[i], json_build("{s:{s:s}}", "schema", "type", "object"));
    return json_build("{s:b, s:o}", "required", true, "content", types);
}

static struct json *operation(const struct resource *r, const struct operation *op)
{
    _cleanup_free_ char *list_name = list_schema_name(r);
    bool deletes = streq(op->verb, "delete") || streq(op->verb, "deletecollection");
    const char *answer = streq(op->verb, "list")          ? list_name
                         : deletes && !r->returns_deleted ? META "Status"
                                                          : r->schema_name;
    struct json *v = json_object_make();

    json_set_str(v, "x-kubernetes-action", op->action);
    json_set(v, "x-kubernetes-group-version-kind",
             json_build("{s:s, s:s, s:s}", "group", r->group, "kind", r->kind, "version", r->version));
    if (op->parameters[0])
        json_set(v, "parameters", query_parameters(op->parameters));
    struct json *body = request_body(r, op);
    if (body)
        json_set(v, "requestBody", body);
    json_set(v, "responses",
             json_build("{s:{s:s, s:o}}", streq(op->verb, "create") ? "201" : "200", "description", "Done.", "content",
                        content("application/json", ref_to(answer))));
    return v;
}

static bool in_list(const char *const *list, const char *s)
{
    for (; *list; list++)
        if (streq(*list, s))
            return true;
    return false;
}

/* Adds the path with those of the operations that verbs has, if there are any. Takes path_params. */
static void add_path(struct json *paths, const char *path, const struct resource *r, const char *const *verbs,
                     const struct operation *operations, size_t count, struct json *path_params)
{
    struct json *v = json_object_make();

    for (size_t i = 0; i < count; i++)
        if (in_list(verbs, operations[i].verb))
            json_set(v, operations[i].method, operation(r, &operations[i]));
    if (json_size(v) && json_size(path_params))
        json_set(v, "parameters", json_ref(path_params));
    json_unref(path_params);
    if (json_size(v))
        json_set(paths, path, v);
    else
        json_unref(v);
}

static void add_paths(struct json *paths, const struct resource *r)
{
    static const char *const list_only[] = {"list", NULL};
    _cleanup_free_ char *prefix =
        *r->group ? xasprintf("/apis/%s/%s", r->group, r->version) : xasprintf("/api/%s", r->version);
    _cleanup_free_ char *everywhere = xasprintf("%s/%s", prefix, r->plural);
    _cleanup_free_ char *collection =
        r->namespaced ? xasprintf("%s/namespaces/{namespace}/%s", prefix, r->plural) : xstrdup(everywhere);
    _cleanup_free_ char *item = xasprintf("%s/{name}", collection);
    _cleanup_free_ char *status = xasprintf("%s/status", item);

    if (r->namespaced && in_list(r->verbs, "list"))
        add_path(paths, everywhere, r, list_only, collection_operations, ARRAY_LEN(collection_operations),
                 path_parameters(r, false, false));
    add_path(paths, collection, r, r->verbs, collection_operations, ARRAY_LEN(collection_operations),
             path_parameters(r, true, false));
    add_path(paths, item, r, r->verbs, item_operations, ARRAY_LEN(item_operations), path_parameters(r, true, true));
    const struct resource_subresource *s = resource_subresource(r, "status");
    if (s)
        add_path(paths, status, r, s->verbs, item_operations, ARRAY_LEN(item_operations),
                 path_parameters(r, true, true));
}

/* Documents. */

static struct json *group_version_document(const struct resource_table *t, struct resource *const *resources,
                                           size_t count)
{
    struct json *paths = json_object_make(), *schemas = json_object_make();

    for (size_t i = 0; i < count; i++) {
        const struct resource *r = resources[i];
        add_paths(paths, r);
        add_schema(t, schemas, r->schema_name);
        if (in_list(r->verbs, "list")) {
            _cleanup_free_ char *name = list_schema_name(r);
            json_set(schemas, name, list_schema(r));
            add_schema(t, schemas, META "ListMeta");
        }
    }
    add_schema(t, schemas, META "DeleteOptions");
    add_schema(t, schemas, META "Status");
    return json_build("{s:s, s:{s:s, s:s}, s:o, s:{s:o}}", "openapi", "3.0.0", "info", "title", "holt", "version",
                      resources[0]->version, "paths", paths, "components", "schemas", schemas);
}

static char *document_path(const struct resource *r)
{
    return *r->group ? xasprintf("apis/%s", r->api_version) : xasprintf("api/%s", r->version);
}

/* The run of resources in the table's list that the document at path is about. */
static size_t find_run(const struct resource *const *list, size_t count, const char *path, size_t *ret_start)
{
    size_t start = 0, length = 0;

    for (size_t i = 0; i < count; i++) {
        _cleanup_free_ char *p = document_path(list[i]);
        if (!streq(p, path))
            continue;
        if (!length)
            start = i;
        length++;
    }
    *ret_start = start;
    return length;
}

const struct document *openapi_document(struct openapi *o, const char *path)
{
    size_t count, start;
    const struct resource *const *list = resource_table_list(o->table, &count);
    size_t length = find_run(list, count, path, &start);
    struct entry *e = hashmap_get(&o->entries, path);

    if (e && e->count == length && memcmp(e->resources, list + start, length * sizeof(*list)) == 0)
        return e->document;
    entry_free(hashmap_remove(&o->entries, path));
    if (!length)
        return NULL;
    e = xcalloc(1, sizeof(*e));
    e->resources = xcalloc(length, sizeof(*e->resources));
    for (; e->count < length; e->count++)
        e->resources[e->count] = resource_ref(list[start + e->count]);
    _cleanup_json_ struct json *v = group_version_document(o->table, e->resources, e->count);
    e->document = document_from_json(v);
    (void)hashmap_put(&o->entries, path, e); /* nothing was there */
    return e->document;
}

const struct document *openapi_root(struct openapi *o)
{
    size_t count;
    const struct resource *const *list = resource_table_list(o->table, &count);

    if (o->root && o->root_changes == resource_table_changes(o->table))
        return o->root;
    struct json *paths = json_object_make();
    for (size_t i = 0; i < count; i++) {
        _cleanup_free_ char *path = document_path(list[i]);
        if (json_has(paths, path))
            continue;
        const struct document *d = openapi_document(o, path);
        _cleanup_free_ char *url = xasprintf("/openapi/v3/%s?hash=%s", path, d->hash);
        json_set(paths, path, json_build("{s:s}", "serverRelativeURL", url));
    }
    for (struct hashmap_iter it = {0}; hashmap_next(&o->entries, &it);)
        if (!json_has(paths, it.key))
            entry_free(hashmap_remove(&o->entries, it.key)); /* no longer served */
    _cleanup_json_ struct json *v = json_build("{s:o}", "paths", paths);
    document_free(o->root);
    o->root = document_from_json(v);
    o->root_changes = resource_table_changes(o->table);
    return o->root;
}

const struct document *openapi_v2(struct openapi *o)
{
    size_t count;
    const struct resource *const *list = resource_table_list(o->table, &count);

    if (o->v2 && o->v2_changes == resource_table_changes(o->table))
        return o->v2;
    _cleanup_json_ struct json *all = openapi_v2_make(), *done = json_object_make();
    for (size_t i = 0; i < count; i++) {
        _cleanup_free_ char *path = document_path(list[i]);
        if (json_has(done, path))
            continue;
        json_set_bool(done, path, true);
        const struct document *d = openapi_document(o, path);
        _cleanup_json_ struct json *v3 = json_parse(d->text, d->len, NULL);
        openapi_v2_add(all, v3);
    }
    document_free(o->v2);
    o->v2 = document_from_json(all);
    o->v2_changes = resource_table_changes(o->table);
    return o->v2;
}
