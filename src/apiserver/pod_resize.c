#include "apiserver/pod_resize.h"

#include "apiserver/pod_resources.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"

static const struct json *named(const struct json *containers, const char *name)
{
    for (size_t i = 0; i < json_size(containers); i++)
        if (streq(json_str_or(json_get(json_item(containers, i), "name"), ""), name))
            return json_item(containers, i);
    return NULL;
}

static void take(struct json *to, const struct json *from, const char *key)
{
    if (json_has(from, key))
        json_set(to, key, json_ref(json_get(from, key)));
    else
        json_remove(to, key);
}

struct json *pod_resize_merge(struct json *object, const struct json *old)
{
    struct json *merged = json_copy_shallow(old), *containers = json_own(json_own(merged, "spec"), "containers");
    const struct json *wanted = json_at(object, "spec", "containers", NULL);

    (void)json_own(merged, "metadata");
    for (size_t i = 0; i < json_size(containers); i++) {
        struct json *container = json_own_item(containers, i);
        const struct json *from = named(wanted, json_str_or(json_get(container, "name"), ""));
        if (!from)
            continue;
        take(container, from, "resources");
        take(container, from, "resizePolicy");
    }
    json_unref(object);
    return merged;
}

static bool resizable(const char *name)
{
    return streq(name, "cpu") || streq(name, "memory");
}

/* The node has that much. */
static void check_capacity(const struct api_call *c, const char *field, const char *name, const struct json *v,
                           struct field_errors *errors)
{
    struct stored *node = c->server->node_name ? store_get(c->server->store, "/nodes", c->server->node_name) : NULL;
    const struct json *all = node ? json_at(node->value, "status", "allocatable", NULL) : NULL;
    _cleanup_json_ struct json *wish = json_object_make();
    struct quantity have, want;

    json_set(wish, name, json_ref((struct json *)v));
    if (!resource_amount(all, name, &have) || !resource_amount(wish, name, &want) ||
        quantity_compare(&want, &have) <= 0)
        return;
    _cleanup_free_ char *text = quantity_format(&have);
    field_invalid(errors, field, v, "is more than the node has (%s)", text);
}

/* One list of one container: what changed, and what of it cannot be. */
static void check_list(const struct api_call *c, const char *list, const char *field, const struct json *is,
                       const struct json *was, struct field_errors *errors)
{
    for (struct json_iter it = {0}; json_each(was, &it);)
        if (!json_has(is, it.key)) {
            _cleanup_free_ char *path = xasprintf("%s.%s", field, list);
            field_forbidden(errors, path,
                            streq(list, "limits") ? "resource limits cannot be removed"
                                                  : "resource requests cannot be removed");
        }
    for (struct json_iter it = {0}; json_each(is, &it);) {
        _cleanup_free_ char *path = xasprintf("%s.%s[%s]", field, list, it.key);
        struct quantity q;
        if (json_equal(it.value, json_get(was, it.key)))
            continue;
        if (!resizable(it.key))
            field_forbidden(errors, path, "only cpu and memory resources are mutable");
        else if (resource_amount(is, it.key, &q) && q.nano < 0)
            field_invalid(errors, path, it.value, "must be greater than or equal to 0");
        else if (streq(list, "requests"))
            check_capacity(c, path, it.key, it.value, errors);
    }
}

static void check_requests(const struct json *resources, const char *field, struct field_errors *errors)
{
    const struct json *requests = json_get(resources, "requests"), *limits = json_get(resources, "limits");
    struct quantity request, limit;

    for (struct json_iter it = {0}; json_each(requests, &it);) {
        _cleanup_free_ char *path = xasprintf("%s.requests", field);
        if (!resource_amount(requests, it.key, &request) || !resource_amount(limits, it.key, &limit) ||
            quantity_compare(&request, &limit) <= 0)
            continue;
        _cleanup_free_ char *limit_text = quantity_format(&limit);
        field_invalid(errors, path, it.value, "must be less than or equal to %s limit of %s", it.key, limit_text);
    }
}

static void check_containers(const struct api_call *c, const struct json *object, const struct json *old,
                             struct field_errors *errors)
{
    const struct json *is = json_at(object, "spec", "containers", NULL),
                      *was = json_at(old, "spec", "containers", NULL);

    for (size_t i = 0; i < json_size(is); i++) {
        const struct json *now = json_get(json_item(is, i), "resources");
        const struct json *before = json_get(json_item(was, i), "resources");
        _cleanup_free_ char *field = xasprintf("spec.containers[%zu].resources", i);
        check_list(c, "limits", field, json_get(now, "limits"), json_get(before, "limits"), errors);
        check_list(c, "requests", field, json_get(now, "requests"), json_get(before, "requests"), errors);
        check_requests(now, field, errors);
    }
}

int pod_resize_check(struct api_call *c, const struct json *object, const struct json *old)
{
    _cleanup_(field_errors_clear) struct field_errors errors = {0};
    const char *was = pod_qos_class(json_get(old, "spec")), *is = pod_qos_class(json_get(object, "spec"));
    const char *phase = json_str_or(json_at(old, "status", "phase", NULL), "");

    if (streq(phase, "Succeeded") || streq(phase, "Failed"))
        field_forbidden(&errors, "spec", "a pod that has ended cannot be resized");
    check_containers(c, object, old, &errors);
    if (!streq(was, is))
        field_invalid_str(&errors, "spec", is, "Pod QOS Class may not change as a result of resizing");
    return field_errors_empty(&errors) ? 0 : api_fail_invalid(c, &errors);
}
