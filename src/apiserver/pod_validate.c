#include "apiserver/pod_validate.h"

#include "apiserver/metadata_validate.h"
#include "apiserver/names.h"
#include "apiserver/scheduling.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "kube/quantity.h"

static const char *const container_lists[] = {"containers", "initContainers", "ephemeralContainers"};

/* Names in a list of objects must differ. */
static void check_unique(const struct json *spec, const char *list, const char *prefix, struct hashmap *seen,
                         struct field_errors *errors)
{
    const struct json *items = json_get(spec, list);

    for (size_t i = 0; i < json_size(items); i++) {
        const char *name = json_str(json_get(json_item(items, i), "name"));
        if (name && hashmap_put(seen, name, seen)) {
            _cleanup_free_ char *field = xasprintf("%s.%s[%zu].name", prefix, list, i);
            field_duplicate_str(errors, field, name);
        }
    }
}

static void check_mounts(const struct json *spec, const char *list, const struct hashmap *volumes,
                         struct field_errors *errors)
{
    const struct json *containers = json_get(spec, list);

    for (size_t i = 0; i < json_size(containers); i++) {
        const struct json *mounts = json_get(json_item(containers, i), "volumeMounts");
        for (size_t k = 0; k < json_size(mounts); k++) {
            const char *name = json_str(json_get(json_item(mounts, k), "name"));
            _cleanup_free_ char *field = xasprintf("spec.%s[%zu].volumeMounts[%zu].name", list, i, k);
            if (name && !hashmap_get(volumes, name))
                field_not_found(errors, field, name);
        }
    }
}

/* Both quantities are sound: the schema has seen to it. */
static void check_below_limit(const char *field, const char *name, const struct json *request, const struct json *limit,
                              struct field_errors *errors)
{
    struct quantity r, l;

    if (quantity_of_json(request, &r) < 0 || quantity_of_json(limit, &l) < 0 || quantity_compare(&r, &l) <= 0)
        return;
    _cleanup_free_ char *request_text = quantity_json_text(request), *limit_text = quantity_json_text(limit);
    field_invalid_str(errors, field, request_text, "must be less than or equal to %s limit of %s", name, limit_text);
}

static void check_resources(const struct json *spec, const char *list, struct field_errors *errors)
{
    const struct json *containers = json_get(spec, list);

    for (size_t i = 0; i < json_size(containers); i++) {
        const struct json *resources = json_get(json_item(containers, i), "resources");
        const struct json *limits = json_get(resources, "limits");
        _cleanup_free_ char *field = xasprintf("spec.%s[%zu].resources.requests", list, i);
        for (struct json_iter it = {0}; json_each(json_get(resources, "requests"), &it);)
            if (json_get(limits, it.key))
                check_below_limit(field, it.key, it.value, json_get(limits, it.key), errors);
    }
}

static void check_label(const struct json *spec, const char *member, struct field_errors *errors)
{
    const char *value = json_str_or(json_get(spec, member), "");
    _cleanup_free_ char *field = xasprintf("spec.%s", member);
    const char *wrong = *value ? name_check_label(value) : NULL;

    if (wrong)
        field_invalid_str(errors, field, value, "%s", wrong);
}

/* Any printable character but "=". */
static bool is_env_name(const char *name)
{
    for (const char *p = name; *p; p++)
        if (*p < 0x20 || *p > 0x7e || *p == '=')
            return false;
    return *name;
}

static void check_env(const struct json *container, const char *where, struct field_errors *errors)
{
    const struct json *env = json_get(container, "env");

    for (size_t i = 0; i < json_size(env); i++) {
        const char *name = json_str_or(json_get(json_item(env, i), "name"), "");
        _cleanup_free_ char *field = xasprintf("%s.env[%zu].name", where, i);
        if (!is_env_name(name))
            field_invalid_str(errors, field, name,
                              "a valid environment variable name must consist only of printable ASCII characters other "
                              "than '='");
    }
}

/* One thing to do, and no more than one. */
static void check_handler(const struct json *holder, const char *member, const char *where, struct field_errors *errors)
{
    static const char *const handlers[] = {"exec", "httpGet", "tcpSocket", "grpc", "sleep"};
    const struct json *handler = json_get(holder, member);
    _cleanup_free_ char *field = xasprintf("%s.%s", where, member);
    size_t count = 0;

    if (!handler)
        return;
    for (size_t i = 0; i < ARRAY_LEN(handlers); i++) {
        if (!json_get(handler, handlers[i]) || ++count == 1)
            continue;
        _cleanup_free_ char *second = xasprintf("%s.%s", field, handlers[i]);
        field_forbidden(errors, second, "may not specify more than 1 handler type");
    }
    if (count == 0)
        field_required(errors, field, "must specify a handler type");
}

static void check_containers(const struct json *spec, const char *list, struct field_errors *errors)
{
    static const char *const probes[] = {"livenessProbe", "readinessProbe", "startupProbe"};
    const struct json *containers = json_get(spec, list);

    for (size_t i = 0; i < json_size(containers); i++) {
        const struct json *c = json_item(containers, i);
        _cleanup_free_ char *where = xasprintf("spec.%s[%zu]", list, i), *name_field = xasprintf("%s.name", where),
                            *image_field = xasprintf("%s.image", where), *hooks = xasprintf("%s.lifecycle", where);
        const char *name = json_str(json_get(c, "name")), *wrong = name ? name_check_label(name) : NULL;
        if (wrong)
            field_invalid_str(errors, name_field, name, "%s", wrong);
        if (!*json_str_or(json_get(c, "image"), ""))
            field_required(errors, image_field, NULL);
        check_env(c, where, errors);
        for (size_t k = 0; k < ARRAY_LEN(probes); k++)
            check_handler(c, probes[k], where, errors);
        check_handler(json_get(c, "lifecycle"), "postStart", hooks, errors);
        check_handler(json_get(c, "lifecycle"), "preStop", hooks, errors);
    }
}

void pod_validate_new(const struct apiserver *s, const struct json *pod, struct field_errors *errors)
{
    const struct json *spec = json_get(pod, "spec");
    const char *node = json_str_or(json_get(spec, "nodeName"), "");
    struct hashmap names = {0}, volumes = {0};

    if (json_size(json_get(spec, "containers")) == 0)
        field_required(errors, "spec.containers", NULL);
    for (size_t i = 0; i < ARRAY_LEN(container_lists); i++)
        check_unique(spec, container_lists[i], "spec", &names, errors);
    check_unique(spec, "volumes", "spec", &volumes, errors);
    for (size_t i = 0; i < ARRAY_LEN(container_lists); i++) {
        check_mounts(spec, container_lists[i], &volumes, errors);
        check_resources(spec, container_lists[i], errors);
        check_containers(spec, container_lists[i], errors);
    }
    labels_validate(json_get(spec, "nodeSelector"), "spec.nodeSelector", errors);
    check_label(spec, "hostname", errors);
    check_label(spec, "subdomain", errors);
    /* A cluster takes it and lets the Pod wait for ever; here all nodes are known. */
    if (*node && s->node_name && !scheduling_node_exists(s, node))
        field_not_found(errors, "spec.nodeName", node);
    hashmap_free(&names, NULL);
    hashmap_free(&volumes, NULL);
}
