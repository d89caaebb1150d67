/* CustomResourceDefinitions: a definition that is stored is served at once. */
#include "apiserver/gc.h"
#include "apiserver/object_schemas.h"
#include "apiserver/strategy.h"
#include "apiserver/structural_check.h"
#include "apiserver/termination.h"
#include "apiserver/watch.h"

#include "base/log.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"

#include <ctype.h>

#define FINALIZER "customresourcecleanup.apiextensions.k8s.io"

static const char *name_at(const struct json *crd, const char *key)
{
    return json_str_or(json_at(crd, "spec", "names", key, NULL), "");
}

static char *lower(const char *s)
{
    char *out = xstrdup(s);

    for (char *p = out; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    return out;
}

static void default_names(struct json *spec)
{
    struct json *names = json_own(spec, "names");
    const char *kind = json_str_or(json_get(names, "kind"), "");
    _cleanup_free_ char *singular = lower(kind), *list_kind = xasprintf("%sList", kind);

    if (!*json_str_or(json_get(names, "singular"), ""))
        json_set_str(names, "singular", singular);
    if (!*json_str_or(json_get(names, "listKind"), ""))
        json_set_str(names, "listKind", list_kind);
    if (!json_get(spec, "conversion"))
        json_set(spec, "conversion", json_build("{s:s}", "strategy", "None"));
}

/* --- names of others --- */

struct conflict {
    const char *reason;
    char *message;
};

static bool in_list(const char *const *list, const char *name)
{
    for (; list && *list; list++)
        if (streq(*list, name))
            return true;
    return false;
}

static bool conflicts(const struct resource *r, const struct json *crd, struct conflict *ret)
{
    const struct json *shorts = json_at(crd, "spec", "names", "shortNames", NULL);
    const struct {
        const char *key, *reason, *theirs;
    } names[] = {{"plural", "PluralConflict", r->plural},
                 {"singular", "SingularConflict", r->singular},
                 {"kind", "KindConflict", r->kind},
                 {"listKind", "ListKindConflict", r->list_kind}};

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (*name_at(crd, names[i].key) && streq(name_at(crd, names[i].key), names[i].theirs)) {
            *ret = (struct conflict){names[i].reason, xasprintf("\"%s\" is already in use", names[i].theirs)};
            return true;
        }
    for (size_t i = 0; i < json_size(shorts); i++) {
        const char *name = json_str_or(json_item(shorts, i), "");
        if (in_list(r->short_names, name)) {
            *ret = (struct conflict){"ShortNamesConflict", xasprintf("\"%s\" is already in use", name)};
            return true;
        }
    }
    return false;
}

static bool find_conflict(struct apiserver *s, const struct json *crd, struct conflict *ret)
{
    const char *group = json_str_or(json_at(crd, "spec", "group", NULL), "");
    size_t n;
    const struct resource *const *all = resource_table_list(s->resources, &n);
    _cleanup_free_ char *own = xasprintf("%s/%s", group, name_at(crd, "plural"));

    for (size_t i = 0; i < n; i++)
        if (streq(all[i]->group, group) && !(all[i]->is_custom && streq(all[i]->store_name, own)) &&
            conflicts(all[i], crd, ret))
            return true;
    return false;
}

/* --- status --- */

static void set_condition(struct api_call *c, struct json *conditions, const char *type, bool value, const char *reason,
                          const char *message)
{
    (void)condition_set(conditions, type, value ? "True" : "False", reason, message, -1,
                        clock_now(c->server->clock)); /* whether it changed does not matter */
}

static void add_stored_version(struct json *status, const struct json *crd)
{
    const struct json *versions = json_at(crd, "spec", "versions", NULL);
    struct json *stored = json_is(json_get(status, "storedVersions"), JSON_ARRAY) ? json_own(status, "storedVersions")
                                                                                  : json_array_make();

    for (size_t i = 0; i < json_size(versions); i++) {
        const struct json *v = json_item(versions, i), *name = json_get(v, "name");
        bool known = !json_bool_or(json_get(v, "storage"), false);
        for (size_t k = 0; k < json_size(stored); k++)
            known |= json_equal(json_item(stored, k), name);
        if (!known)
            json_push(stored, json_ref((struct json *)name));
    }
    if (stored != json_get(status, "storedVersions"))
        json_set(status, "storedVersions", stored);
}

static void set_status(struct api_call *c, struct json *crd)
{
    struct json *status = json_own(crd, "status"), *conditions = json_array_make();
    const struct json *before = json_get(status, "conditions");
    struct conflict conflict = {0};
    bool bad = find_conflict(c->server, crd, &conflict);

    for (size_t i = 0; i < json_size(before); i++)
        json_push(conditions, json_copy(json_item(before, i)));
    set_condition(c, conditions, "NamesAccepted", !bad, bad ? conflict.reason : "NoConflicts",
                  bad ? conflict.message : "no conflicts found");
    if (!bad)
        set_condition(c, conditions, "Established", true, "InitialNamesAccepted",
                      "the initial names have been accepted");
    else if (!condition_find(conditions, "Established"))
        set_condition(c, conditions, "Established", false, "NotAccepted", "not all names are accepted");
    json_set(status, "conditions", conditions);
    if (!bad || !json_get(status, "acceptedNames"))
        json_set(status, "acceptedNames",
                 bad ? json_build("{s:s, s:s}", "plural", "", "kind", "")
                     : json_ref(json_at(crd, "spec", "names", NULL)));
    add_stored_version(status, crd);
    free(conflict.message);
}

static int prepare(struct api_call *c, struct json *o, const struct json *old)
{
    if (!json_is(json_get(o, "spec"), JSON_OBJECT))
        return 0; /* validation will say so */
    default_names(json_own(o, "spec"));
    if (!old) {
        struct json *finalizers = json_own(json_get(o, "metadata"), "finalizers");
        if (!json_is(finalizers, JSON_ARRAY)) {
            finalizers = json_array_make();
            json_set(json_get(o, "metadata"), "finalizers", finalizers);
        }
        json_push(finalizers, json_string(FINALIZER));
    }
    set_status(c, o);
    return 0;
}

/* --- validation --- */

static void check_fixed(const struct json *o, const struct json *old, const char *const *path, const char *field,
                        struct field_errors *errors)
{
    const struct json *a = json_get(o, "spec"), *b = json_get(old, "spec");

    for (; *path; path++) {
        a = json_get(a, *path);
        b = json_get(b, *path);
    }
    if (!json_equal(a, b))
        field_invalid(errors, field, a, "field is immutable");
}

static void check_versions(const struct json *o, struct field_errors *errors)
{
    const struct json *versions = json_at(o, "spec", "versions", NULL);
    size_t storage = 0;
    struct hashmap seen = {0};

    for (size_t i = 0; i < json_size(versions); i++) {
        const struct json *v = json_item(versions, i);
        const char *name = json_str_or(json_get(v, "name"), "");
        _cleanup_free_ char *name_field = xasprintf("spec.versions[%zu].name", i);
        _cleanup_free_ char *schema_field = xasprintf("spec.versions[%zu].schema.openAPIV3Schema", i);
        storage += json_bool_or(json_get(v, "storage"), false);
        if (*name && hashmap_put(&seen, name, &seen))
            field_duplicate_str(errors, name_field, name);
        if (!json_is(json_at(v, "schema", "openAPIV3Schema", NULL), JSON_OBJECT))
            field_required(errors, schema_field, "schemas are required");
        else
            structural_check_schema(json_at(v, "schema", "openAPIV3Schema", NULL), schema_field, errors);
    }
    if (storage != 1)
        field_invalid(errors, "spec.versions", versions, "must have exactly one version marked as storage version");
    hashmap_free(&seen, NULL);
}

static void validate(const struct api_call *c, const struct json *o, const struct json *old,
                     struct field_errors *errors)
{
    static const char *const group_path[] = {"group", NULL}, *const scope_path[] = {"scope", NULL};
    static const char *const plural_path[] = {"names", "plural", NULL}, *const kind_path[] = {"names", "kind", NULL};
    const char *group = json_str_or(json_at(o, "spec", "group", NULL), "");
    _cleanup_free_ char *name = xasprintf("%s.%s", name_at(o, "plural"), group);

    if (c->internal)
        return;
    if (!streq(object_name(o), name))
        field_invalid_str(errors, "metadata.name", object_name(o), "must be spec.names.plural+\".\"+spec.group");
    if (*group && !strchr(group, '.'))
        field_invalid_str(errors, "spec.group", group, "should be a domain with at least one dot");
    if (json_bool_or(json_at(o, "spec", "preserveUnknownFields", NULL), false))
        field_invalid_raw(errors, "spec.preserveUnknownFields", "true",
                          "must be false in order to use defaults in the schema");
    check_versions(o, errors);
    if (!old)
        return;
    check_fixed(o, old, group_path, "spec.group", errors);
    check_fixed(o, old, scope_path, "spec.scope", errors);
    check_fixed(o, old, plural_path, "spec.names.plural", errors);
    check_fixed(o, old, kind_path, "spec.names.kind", errors);
}

static void after(struct apiserver *s, const struct json *old, const struct json *new)
{
    struct error err = ERROR_INIT;

    if (!new)
        (void)resource_table_remove_crd(s->resources, object_name(old)); /* it may never have been accepted */
    else if (condition_true(new, "Established") && resource_table_add_crd(s->resources, new, &err) < 0)
        log_warn("custom resource definition is not served", "name", object_name(new), "error", error_text(&err), NULL);
    error_clear(&err);
    watch_check_resources(s);
    if (s->gc)
        gc_track_resources(s->gc);
    if (new && s->terminations)
        terminations_check_crd(s->terminations, new);
}

const struct strategy strategy_crds = {
    .group = "apiextensions.k8s.io",
    .plural = "customresourcedefinitions",
    .prepare = prepare,
    .validate = validate,
    .after = after,
};
