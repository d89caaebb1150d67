/* PriorityClasses: their value is for ever, one of them may be the default, and some belong to the system. */
#include "apiserver/scheduling.h"
#include "apiserver/strategy.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"

#define SYSTEM_PREFIX "system-"
#define VALUE_MAX 1000000000 /* what is above is the system's */

const struct system_priority_class system_priority_classes[] = {
    {"system-cluster-critical", "For pods that must run somewhere, even if others have to go.", 2 * (int64_t)VALUE_MAX},
    {"system-node-critical", "For pods that must not be moved from their node.", 2 * (int64_t)VALUE_MAX + 1000},
};
const size_t system_priority_class_count = ARRAY_LEN(system_priority_classes);

static bool is_system_class(const char *name)
{
    for (size_t i = 0; i < system_priority_class_count; i++)
        if (streq(system_priority_classes[i].name, name))
            return true;
    return false;
}

/* There may be one default. */
static int prepare(struct api_call *c, struct json *o, const struct json *old UNUSED)
{
    size_t count;
    int r = 0;

    if (!json_bool_or(json_get(o, "globalDefault"), false))
        return 0;
    struct stored **list = store_list(c->server->store, c->resource->store_name, NULL, &count);
    for (size_t i = 0; i < count && r == 0; i++) {
        const char *name = object_name(list[i]->value);
        if (!json_bool_or(json_get(list[i]->value, "globalDefault"), false) || streq(name, object_name(o)))
            continue;
        struct api_subject s = api_subject(c);
        _cleanup_free_ char *why =
            xasprintf("PriorityClass %s is already marked as default. Only one default can exist", name);
        r = api_fail(c, status_forbidden(&s, why, NULL));
    }
    store_list_free(list, count);
    return r;
}

static void validate(const struct api_call *c, const struct json *o, const struct json *old,
                     struct field_errors *errors)
{
    if (!old && !c->internal) {
        if (str_skip_prefix(object_name(o), SYSTEM_PREFIX))
            field_forbidden(errors, "metadata.name",
                            "priority class names with '" SYSTEM_PREFIX "' prefix are reserved for system use only");
        if (json_int_or(json_get(o, "value"), 0) > VALUE_MAX)
            field_forbidden(errors, "value", "maximum allowed value of a user defined priority is %d", VALUE_MAX);
    }
    if (!old)
        return;
    if (!json_equal(json_get(o, "value"), json_get(old, "value")))
        field_forbidden(errors, "value", "may not be changed in an update.");
    if (!json_equal(json_get(o, "preemptionPolicy"), json_get(old, "preemptionPolicy")))
        field_invalid(errors, "preemptionPolicy", json_get(o, "preemptionPolicy"), "field is immutable");
}

static int check_delete(struct api_call *c, const struct json *object)
{
    struct api_subject s = api_subject(c);

    if (!is_system_class(object_name(object)))
        return 0;
    return api_fail(c, status_forbidden(&s, "this is a system priority class and cannot be deleted", NULL));
}

const struct strategy strategy_priority_classes = {
    .group = "scheduling.k8s.io",
    .plural = "priorityclasses",
    .prepare = prepare,
    .validate = validate,
    .check_delete = check_delete,
};
