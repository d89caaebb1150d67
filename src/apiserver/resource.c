#include "apiserver/resource.h"

#include "apiserver/api_files.h"
#include "apiserver/proto.h"
#include "apiserver/resource_crd.h"
#include "base/hashmap.h"
#include "base/memory.h"
#include "base/strutil.h"

#include <ctype.h>

struct resource_table {
    struct json *documents; /* all documents of all files: they hold the built-in definitions */
    struct json *default_objects;
    struct json *bundled;              /* the CustomResourceDefinitions among them */
    struct hashmap definitions;        /* name → const struct json */
    struct hashmap group_ranks;        /* built-in group → its place from 1 on, as a pointer */
    struct hashmap by_plural, by_kind; /* "group/version/name" → struct resource */
    struct hashmap crds;               /* name → struct json: the definitions in force */
    struct resource **list;
    size_t count, capacity;
    uint64_t changes;
};

/* Resources. */

static const char *const no_strings[] = {NULL};

static const char *const *string_list(const struct json *array)
{
    size_t count = 0;

    if (!json_size(array))
        return no_strings;
    const char **list = xcalloc(json_size(array) + 1, sizeof(*list));
    for (size_t i = 0; i < json_size(array); i++)
        if (json_str(json_item(array, i)))
            list[count++] = json_str(json_item(array, i));
    return list;
}

static void string_list_free(const char *const *list)
{
    if (list != no_strings)
        free((void *)list);
}

struct resource *resource_ref(const struct resource *r)
{
    struct resource *shared = (struct resource *)r;

    shared->refs++;
    return shared;
}

void resource_unref(struct resource *r)
{
    if (!r || --r->refs > 0)
        return;
    for (size_t i = 0; i < r->subresource_count; i++)
        string_list_free(r->subresources[i].verbs);
    free(r->subresources);
    string_list_free(r->short_names);
    string_list_free(r->categories);
    string_list_free(r->verbs);
    string_list_free(r->selectable_fields);
    free(r->api_version);
    free(r->store_name);
    free(r->list_kind);
    json_unref((struct json *)r->schema);
    json_unref(r->description);
    free(r);
}

bool resource_has_verb(const struct resource *r, const char *verb)
{
    for (const char *const *v = r->verbs; *v; v++)
        if (streq(*v, verb))
            return true;
    return false;
}

const struct resource_subresource *resource_subresource(const struct resource *r, const char *name)
{
    for (size_t i = 0; i < r->subresource_count; i++)
        if (streq(r->subresources[i].name, name))
            return &r->subresources[i];
    return NULL;
}

static void fill_subresources(struct resource *r, const struct json *list)
{
    r->subresources = xcalloc(json_size(list) + 1, sizeof(*r->subresources));
    for (size_t i = 0; i < json_size(list); i++) {
        const struct json *item = json_item(list, i), *body = json_get(item, "responseKind");
        struct resource_subresource *s = &r->subresources[r->subresource_count++];
        s->name = json_str_or(json_get(item, "name"), "");
        s->group = json_str_or(json_get(body, "group"), r->group);
        s->version = json_str_or(json_get(body, "version"), r->version);
        s->kind = json_str_or(json_get(body, "kind"), r->kind);
        s->verbs = string_list(json_get(item, "verbs"));
        r->has_status |= streq(s->name, "status");
    }
}

static void fill_storage(struct resource *r, const struct json *d)
{
    const struct json *as = json_get(d, "storedAs");

    r->refused = json_str(json_get(d, "refused"));
    r->stored = !r->refused && json_bool_or(json_get(d, "stored"), true);
    r->storage_group = json_str_or(json_get(as, "group"), r->group);
    r->storage_version = json_str_or(json_get(as, "version"), json_str_or(json_get(d, "storageVersion"), r->version));
    r->store_name = xasprintf("%s/%s", r->storage_group, r->plural);
}

static const char *const *verb_list(const struct json *given)
{
    static const char *const all[] = {"create", "delete", "deletecollection", "get", "list", "patch", "update",
                                      "watch",  NULL};

    if (given)
        return string_list(given);
    return xmemdup(all, sizeof(all));
}

/* From a BuiltinResource document or what crd_describe() made. Takes references. NULL when a name is missing. */
static struct resource *resource_make(struct json *d, const struct json *schema)
{
    const struct json *names = json_get(d, "names"), *scale = json_get(d, "scale");
    struct resource *r = xcalloc(1, sizeof(*r));

    r->refs = 1;
    r->description = json_ref(d);
    r->schema = json_ref((struct json *)schema);
    r->schema_name = json_str(json_get(d, "schema"));
    r->group = json_str(json_get(d, "group"));
    r->version = json_str(json_get(d, "version"));
    r->kind = json_str(json_get(names, "kind"));
    r->plural = json_str(json_get(names, "plural"));
    r->singular = json_str(json_get(names, "singular"));
    if (!r->group || !r->version || !r->kind || !r->plural || !r->singular || !r->schema_name) {
        resource_unref(r);
        return NULL;
    }
    const char *list_kind = json_str(json_get(names, "listKind"));
    r->list_kind = list_kind ? xstrdup(list_kind) : xasprintf("%sList", r->kind);
    r->api_version = *r->group ? xasprintf("%s/%s", r->group, r->version) : xstrdup(r->version);
    r->short_names = string_list(json_get(names, "shortNames"));
    r->categories = string_list(json_get(names, "categories"));
    r->verbs = verb_list(json_get(d, "verbs"));
    r->selectable_fields = string_list(json_get(d, "selectableFields"));
    r->is_custom = json_bool_or(json_get(d, "isCustom"), false);
    r->has_protobuf = !r->is_custom && proto_has_kind(r->api_version, r->kind);
    r->namespaced = json_bool_or(json_get(d, "namespaced"), false);
    r->has_generation = json_bool_or(json_get(d, "hasGeneration"), false);
    r->returns_deleted = json_bool_or(json_get(d, "returnsDeleted"), false);
    r->unconditional_update = json_bool_or(json_get(d, "unconditionalUpdate"), false);
    r->create_on_update = json_bool_or(json_get(d, "createOnUpdate"), false);
    r->columns = json_get(d, "columns");
    r->deprecation_warning = json_str(json_get(d, "deprecationWarning"));
    r->has_scale = scale != NULL;
    r->scale.spec_path = json_str(json_get(scale, "specReplicasPath"));
    r->scale.status_path = json_str(json_get(scale, "statusReplicasPath"));
    r->scale.selector_path = json_str(json_get(scale, "labelSelectorPath"));
    fill_subresources(r, json_get(d, "subresources"));
    fill_storage(r, d);
    return r;
}

/* Order. */

/* "v1beta2" → 1, 'b', 2; "v1" → 1, 'z', 0. False for names of another form. */
static bool parse_version(const char *s, int64_t *major, char *stability, int64_t *minor)
{
    char *end;

    if (s[0] != 'v' || s[1] < '1' || s[1] > '9')
        return false;
    *major = strtoll(s + 1, &end, 10);
    *stability = 'z';
    *minor = 0;
    if (!*end)
        return true;
    const char *rest = str_skip_prefix(end, "alpha");
    *stability = 'a';
    if (!rest) {
        rest = str_skip_prefix(end, "beta");
        *stability = 'b';
    }
    return rest && rest[0] >= '1' && rest[0] <= '9' && parse_i64(rest, minor);
}

int version_compare(const char *a, const char *b)
{
    int64_t major_a, major_b, minor_a, minor_b;
    char stability_a, stability_b;
    bool known_a = parse_version(a, &major_a, &stability_a, &minor_a);
    bool known_b = parse_version(b, &major_b, &stability_b, &minor_b);

    if (known_a != known_b)
        return known_a ? -1 : 1;
    if (!known_a)
        return strcmp(a, b);
    if (stability_a != stability_b)
        return stability_a > stability_b ? -1 : 1;
    if (major_a != major_b)
        return major_a > major_b ? -1 : 1;
    return minor_a == minor_b ? 0 : minor_a > minor_b ? -1 : 1;
}

static size_t group_rank(const struct resource_table *t, const char *group)
{
    size_t rank = (size_t)hashmap_get(&t->group_ranks, group);

    return rank ? rank : SIZE_MAX;
}

static int compare_resources(const void *pa, const void *pb, void *arg)
{
    const struct resource *a = *(struct resource *const *)pa, *b = *(struct resource *const *)pb;
    size_t rank_a = group_rank(arg, a->group), rank_b = group_rank(arg, b->group);
    int c;

    if (rank_a != rank_b)
        return rank_a < rank_b ? -1 : 1;
    if ((c = strcmp(a->group, b->group)) != 0)
        return c;
    if ((c = version_compare(a->version, b->version)) != 0)
        return c;
    return strcmp(a->plural, b->plural);
}

/* Table. */

static char *table_key(const char *group, const char *version, const char *name)
{
    return xasprintf("%s/%s/%s", group, version, name);
}

static const struct resource *table_find(const struct hashmap *m, const char *group, const char *version,
                                         const char *name)
{
    _cleanup_free_ char *key = table_key(group, version, name);

    return hashmap_get(m, key);
}

const struct resource *resource_by_plural(const struct resource_table *t, const char *group, const char *version,
                                          const char *plural)
{
    return table_find(&t->by_plural, group, version, plural);
}

const struct resource *resource_by_kind(const struct resource_table *t, const char *group, const char *version,
                                        const char *kind)
{
    return table_find(&t->by_kind, group, version, kind);
}

const struct resource *const *resource_table_list(const struct resource_table *t, size_t *ret_count)
{
    *ret_count = t->count;
    return (const struct resource *const *)t->list;
}

uint64_t resource_table_changes(const struct resource_table *t)
{
    return t->changes;
}

const struct json *resource_schema_definition(const struct resource_table *t, const char *name)
{
    return hashmap_get(&t->definitions, name);
}

const struct json *resource_table_default_objects(const struct resource_table *t)
{
    return t->default_objects;
}

const struct json *resource_table_bundled_crds(const struct resource_table *t)
{
    return t->bundled;
}

/* Takes r. The list is to be sorted afterwards. */
static void table_add(struct resource_table *t, struct resource *r)
{
    _cleanup_free_ char *plural = table_key(r->group, r->version, r->plural);
    _cleanup_free_ char *kind = table_key(r->group, r->version, r->kind);

    (void)hashmap_put(&t->by_plural, plural, r); /* callers have checked that the names are free */
    (void)hashmap_put(&t->by_kind, kind, r);
    if (r->schema)
        (void)hashmap_put(&t->definitions, r->schema_name, (void *)r->schema); /* the same value, if it is there */
    GROW(t->list, t->capacity, t->count + 1);
    t->list[t->count++] = r;
}

static void table_sort(struct resource_table *t)
{
    qsort_r(t->list, t->count, sizeof(struct resource *), compare_resources, t);
    t->changes++;
}

static void table_drop(struct resource_table *t, struct resource *r)
{
    _cleanup_free_ char *plural = table_key(r->group, r->version, r->plural);
    _cleanup_free_ char *kind = table_key(r->group, r->version, r->kind);

    hashmap_remove(&t->by_plural, plural);
    hashmap_remove(&t->by_kind, kind);
    hashmap_remove(&t->definitions, r->schema_name);
    resource_unref(r);
}

/* Takes all versions of a custom resource out; the order of the others stays. */
static void table_drop_custom(struct resource_table *t, const char *group, const char *plural)
{
    size_t kept = 0;

    for (size_t i = 0; i < t->count; i++) {
        struct resource *r = t->list[i];
        if (r->is_custom && streq(r->group, group) && streq(r->plural, plural))
            table_drop(t, r);
        else
            t->list[kept++] = r;
    }
    t->count = kept;
}

/* Built-in kinds. */

static int load_document(struct resource_table *t, struct json *document, struct error *err)
{
    const char *kind = json_str_or(json_get(document, "kind"), "");

    if (streq(kind, "Definitions")) {
        for (struct json_iter it = {0}; json_each(json_get(document, "schemas"), &it);)
            if (hashmap_put(&t->definitions, it.key, it.value))
                return error_set(err, EINVAL, "%s is defined twice", it.key);
    } else if (streq(kind, "GroupOrder")) {
        const struct json *groups = json_get(document, "groups");
        for (size_t i = 0; i < json_size(groups); i++)
            (void)hashmap_put(&t->group_ranks, json_str_or(json_item(groups, i), ""), (void *)(i + 1));
    } else if (streq(kind, "CustomResourceDefinition")) {
        json_push(t->bundled, json_ref(document));
    } else if (streq(kind, "DefaultObject")) {
        json_push(t->default_objects, json_ref(json_get(document, "object")));
    } else if (!streq(kind, "BuiltinResource")) {
        return error_set(err, EINVAL, "unknown kind of document \"%s\"", kind);
    }
    return 0;
}

static int load_files(struct resource_table *t, struct error *err)
{
    for (size_t i = 0; i < api_file_count; i++) {
        _cleanup_json_ struct json *file = json_parse(api_files[i].text, api_files[i].len, err);
        if (!file)
            return error_wrap(err, "api/%s", api_files[i].name);
        for (size_t j = 0; j < json_size(file); j++) {
            json_push(t->documents, json_ref(json_item(file, j)));
            if (load_document(t, json_item(file, j), err) < 0)
                return error_wrap(err, "api/%s", api_files[i].name);
        }
    }
    return 0;
}

static int load_builtins(struct resource_table *t, struct error *err)
{
    for (size_t i = 0; i < json_size(t->documents); i++) {
        struct json *document = json_item(t->documents, i);
        if (!streq(json_str_or(json_get(document, "kind"), ""), "BuiltinResource"))
            continue;
        const char *name = json_str_or(json_get(document, "schema"), "");
        const struct json *schema = resource_schema_definition(t, name);
        struct resource *r = schema ? resource_make(document, schema) : NULL;
        if (!r)
            return error_set(err, EINVAL, "built-in resource with schema \"%s\" is incomplete", name);
        table_add(t, r);
    }
    table_sort(t);
    return 0;
}

struct resource_table *resource_table_new(struct error *err)
{
    _cleanup_(resource_table_free_p) struct resource_table *t = xcalloc(1, sizeof(*t));

    t->documents = json_array_make();
    t->bundled = json_array_make();
    t->default_objects = json_array_make();
    if (load_files(t, err) < 0 || load_builtins(t, err) < 0)
        return NULL;
    return take_ptr(t);
}

static void unref_json(void *value)
{
    json_unref(value);
}

void resource_table_free(struct resource_table *t)
{
    for (size_t i = 0; i < t->count; i++)
        resource_unref(t->list[i]);
    free(t->list);
    hashmap_free(&t->by_plural, NULL);
    hashmap_free(&t->by_kind, NULL);
    hashmap_free(&t->definitions, NULL);
    hashmap_free(&t->group_ranks, NULL);
    hashmap_free(&t->crds, unref_json);
    json_unref(t->bundled);
    json_unref(t->default_objects);
    json_unref(t->documents);
    free(t);
}

/* Custom kinds. */

static struct resource *make_custom(const struct resource_table *t, const struct json *crd, const struct json *version,
                                    struct error *err)
{
    _cleanup_json_ struct json *description = crd_describe(crd, version, err);
    _cleanup_json_ struct json *schema = description ? crd_schema(t, description, version, err) : NULL;

    if (!schema)
        return NULL;
    struct resource *r = resource_make(description, schema);
    if (!r) {
        error_set(err, EINVAL, "CustomResourceDefinition without names");
        return NULL;
    }
    const struct resource *plural = resource_by_plural(t, r->group, r->version, r->plural);
    const struct resource *kind = resource_by_kind(t, r->group, r->version, r->kind);
    const struct json *definition = resource_schema_definition(t, r->schema_name);
    bool ours = !kind || (kind->is_custom && streq(kind->plural, r->plural));
    if ((plural && !plural->is_custom) || !ours || (definition && !kind)) {
        error_set(err, EINVAL, "%s %s is served already", r->api_version, ours ? r->plural : r->kind);
        resource_unref(r);
        return NULL;
    }
    return r;
}

static void free_resources(struct resource **list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        resource_unref(list[i]);
    free(list);
}

/* Whether two definitions serve the same. */
static bool same_definition(const struct json *a, const struct json *b)
{
    return json_equal(json_get(a, "spec"), json_get(b, "spec")) &&
           json_equal(json_at(a, "status", "acceptedNames", NULL), json_at(b, "status", "acceptedNames", NULL));
}

int resource_table_add_crd(struct resource_table *t, const struct json *crd, struct error *err)
{
    const struct json *versions = json_at(crd, "spec", "versions", NULL);
    const char *name = json_str_at(crd, "metadata", "name", NULL);
    const struct json *old = name ? hashmap_get(&t->crds, name) : NULL;
    size_t count = 0;

    if (!name)
        return error_set(err, EINVAL, "CustomResourceDefinition without a name");
    if (old && same_definition(old, crd))
        return 0;
    struct resource **made = xcalloc(json_size(versions) + 1, sizeof(*made));
    for (size_t i = 0; i < json_size(versions); i++) {
        const struct json *version = json_item(versions, i);
        if (!json_bool_or(json_get(version, "served"), false))
            continue;
        struct resource *r = make_custom(t, crd, version, err);
        if (!r) {
            free_resources(made, count);
            return error_wrap(err, "%s", name);
        }
        made[count++] = r;
    }
    if (old)
        (void)resource_table_remove_crd(t, name);
    for (size_t i = 0; i < count; i++)
        table_add(t, made[i]);
    free(made);
    (void)hashmap_put(&t->crds, name, json_ref((struct json *)crd)); /* the old one was taken out above */
    table_sort(t);
    return 0;
}

bool resource_table_remove_crd(struct resource_table *t, const char *name)
{
    _cleanup_json_ struct json *crd = hashmap_remove(&t->crds, name);

    if (!crd)
        return false;
    const struct json *spec = json_get(crd, "spec");
    table_drop_custom(t, json_str_or(json_get(spec, "group"), ""),
                      json_str_or(json_at(spec, "names", "plural", NULL), ""));
    t->changes++;
    return true;
}
