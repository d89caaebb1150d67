#include "apiserver/rbac_defaults.h"

#include "apiserver/rbac.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"

/* Roles may be composed of composed ones: so deep. Those that select each other could go on for ever. */
#define AGGREGATION_ROUNDS 8

static const char AUTOUPDATE[] = "rbac.authorization.kubernetes.io/autoupdate",
                  BOOTSTRAPPING[] = "kubernetes.io/bootstrapping";

static bool holds(const struct json *list, const struct json *item)
{
    for (size_t i = 0; i < json_size(list); i++)
        if (json_equal(json_item(list, i), item))
            return true;
    return false;
}

/* Puts the items of from that to does not have into it. Returns whether there were any. */
static bool add_missing(struct json *to, const struct json *from)
{
    bool any = false;

    for (size_t i = 0; i < json_size(from); i++)
        if (!holds(to, json_item(from, i))) {
            json_push(to, json_ref(json_item(from, i)));
            any = true;
        }
    return any;
}

static const struct resource *cluster_roles(struct apiserver *s)
{
    return resource_by_plural(s->resources, RBAC_GROUP, "v1", "clusterroles");
}

static int write_role(struct apiserver *s, const struct resource *r, enum api_verb verb, struct json *object,
                      struct error *err)
{
    struct api_call c = api_internal_call(s, verb, r, "", verb == VERB_CREATE ? "" : object_name(object));
    int result = 0;

    c.body = object;
    api_execute(&c);
    if (c.result.code >= 400)
        result = error_set(err, EIO, "%s %s: %s", r->plural, object_name(object),
                           json_str_or(json_get(c.result.object, "message"), "refused"));
    api_result_clear(&c.result);
    return result;
}

/* --- defaults --- */

static struct json *marked(const struct json *object)
{
    struct json *o = json_copy_shallow(object);
    struct json *metadata = json_own(o, "metadata");

    json_set_str(json_own(metadata, "labels"), BOOTSTRAPPING, "rbac-defaults");
    json_set_str(json_own(metadata, "annotations"), AUTOUPDATE, "true");
    return o;
}

/* NULL: it has all that it should. */
static struct json *completed(const struct json *current, const struct json *wanted)
{
    static const char *const lists[] = {"rules", "subjects"};
    struct json *o = json_copy_shallow(current);
    bool any = false;

    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        if (json_size(json_get(wanted, lists[i])) == 0)
            continue;
        struct json *list =
            json_is(json_get(o, lists[i]), JSON_ARRAY) ? json_own(o, lists[i]) : json_ensure_array(o, lists[i]);
        any = add_missing(list, json_get(wanted, lists[i])) || any;
    }
    if (any)
        return o;
    json_unref(o);
    return NULL;
}

static int make_default(struct apiserver *s, const struct json *object, struct error *err)
{
    const struct resource *r = resource_by_kind(s->resources, RBAC_GROUP, "v1", object_kind(object));
    const struct stored *current = r ? store_get(s->store, r->store_name, object_name(object)) : NULL;
    const char *update = current ? object_annotation(current->value, AUTOUPDATE) : NULL;
    _cleanup_json_ struct json *wanted = NULL;

    if (!r)
        return error_set(err, EINVAL, "%s is no kind of roles", object_kind(object));
    if (current && (!streq_null(update, "true") || object_deleting(current->value)))
        return 0;
    wanted = current ? completed(current->value, object) : marked(object);
    return wanted ? write_role(s, r, current ? VERB_UPDATE : VERB_CREATE, wanted, err) : 0;
}

int rbac_defaults_make(struct apiserver *s, struct error *err)
{
    const struct json *objects = resource_table_default_objects(s->resources);

    for (size_t i = 0; i < json_size(objects); i++)
        if (make_default(s, json_item(objects, i), err) < 0)
            return -1;
    rbac_aggregate(s);
    return 0;
}

/* --- aggregation --- */

static void add_selected(struct json *rules, const struct json *role, const struct json *label_selector,
                         struct stored **list, size_t count)
{
    struct error err = ERROR_INIT;
    struct selector *selector = selector_from_object(label_selector, &err);

    for (size_t i = 0; selector && i < count; i++)
        if (!streq(object_name(list[i]->value), object_name(role)) &&
            selector_matches(selector, json_at(list[i]->value, "metadata", "labels", NULL)))
            (void)add_missing(rules, json_get(list[i]->value, "rules")); /* all of them may be there */
    selector_free(selector);
    error_clear(&err); /* validation lets no bad selector in */
}

static bool same_set(const struct json *a, const struct json *b)
{
    if (json_size(a) != json_size(b))
        return false;
    for (size_t i = 0; i < json_size(a); i++)
        if (!holds(b, json_item(a, i)))
            return false;
    return true;
}

static bool fill_role(struct apiserver *s, const struct json *role, struct stored **list, size_t count)
{
    const struct json *selectors = json_at(role, "aggregationRule", "clusterRoleSelectors", NULL);
    _cleanup_json_ struct json *rules = json_array_make(), *new = NULL;
    struct error err = ERROR_INIT;

    for (size_t i = 0; i < json_size(selectors); i++)
        add_selected(rules, role, json_item(selectors, i), list, count);
    if (same_set(rules, json_get(role, "rules")))
        return false;
    new = json_copy_shallow(role);
    json_set(new, "rules", take_ptr(rules));
    if (write_role(s, cluster_roles(s), VERB_UPDATE, new, &err) < 0)
        log_warn("aggregated role is not up to date", "error", error_text(&err), NULL);
    error_clear(&err);
    return true;
}

static bool fill_roles(struct apiserver *s)
{
    size_t count;
    struct stored **list = store_list(s->store, cluster_roles(s)->store_name, NULL, &count);
    bool any = false;

    for (size_t i = 0; i < count; i++)
        if (json_get(list[i]->value, "aggregationRule") && !object_deleting(list[i]->value))
            any = fill_role(s, list[i]->value, list, count) || any;
    store_list_free(list, count);
    return any;
}

void rbac_aggregate(struct apiserver *s)
{
    if (s->aggregating)
        return; /* its own writes */
    s->aggregating = true;
    for (int i = 0; i < AGGREGATION_ROUNDS && fill_roles(s); i++)
        ;
    s->aggregating = false;
}
