/* CustomResourceDefinitions: a definition that is stored is served at once. */
#include "apiserver/crd_validate.h"
#include "apiserver/gc.h"
#include "apiserver/object_schemas.h"
#include "apiserver/redefault.h"
#include "apiserver/strategy.h"
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

static void validate(const struct api_call *c, const struct json *o, const struct json *old,
                     struct field_errors *errors)
{
    if (!c->internal)
        crd_validate(o, old, errors);
}

static void validate_status(const struct api_call *c UNUSED, const struct json *o, const struct json *old UNUSED,
                            struct field_errors *errors)
{
    crd_validate_stored_versions(o, errors);
}

/* --- what follows a change --- */

/* Names that one definition has given up may be what others of its group wait for. */
static void accept_waiting(struct apiserver *s, const char *group)
{
    const struct resource *crds =
        resource_by_plural(s->resources, "apiextensions.k8s.io", "v1", "customresourcedefinitions");
    size_t count;
    struct stored **list = store_list(s->store, crds->store_name, NULL, &count);

    for (size_t i = 0; i < count; i++) {
        const struct json *crd = list[i]->value;
        struct conflict conflict = {0};
        if (!streq(json_str_or(json_at(crd, "spec", "group", NULL), ""), group) ||
            condition_true(crd, "NamesAccepted") || find_conflict(s, crd, &conflict)) {
            free(conflict.message);
            continue;
        }
        struct api_call c = api_internal_call(s, VERB_UPDATE, crds, "", object_name(crd));
        c.body = list[i]->value; /* the status is made anew on the way */
        api_update(&c);
        if (c.result.code >= 400)
            log_warn("custom resource definition is not accepted yet", "name", object_name(crd), "error",
                     json_str_or(json_get(c.result.object, "message"), ""), NULL);
        api_result_clear(&c.result);
    }
    store_list_free(list, count);
}

static void after(struct apiserver *s, const struct json *old, const struct json *new)
{
    struct error err = ERROR_INIT;

    if (!new)
        (void)resource_table_remove_crd(s->resources, object_name(old)); /* it may never have been accepted */
    else if (condition_true(new, "Established") && resource_table_add_crd(s->resources, new, &err) < 0)
        log_warn("custom resource definition is not served", "name", object_name(new), "error", error_text(&err), NULL);
    error_clear(&err);
    if (old && (!new || !json_equal(json_at(old, "spec", "names", NULL), json_at(new, "spec", "names", NULL))))
        accept_waiting(s, json_str_or(json_at(old, "spec", "group", NULL), ""));
    watch_check_resources(s);
    if (s->gc)
        gc_track_resources(s->gc);
    if (new && s->terminations)
        terminations_check_crd(s->terminations, new);
    if (old && new && s->redefaults && !json_equal(json_get(old, "spec"), json_get(new, "spec")))
        redefaults_check(s->redefaults, new);
}

const struct strategy strategy_crds = {
    .group = "apiextensions.k8s.io",
    .plural = "customresourcedefinitions",
    .prepare = prepare,
    .validate = validate,
    .validate_status = validate_status,
    .after = after,
};
