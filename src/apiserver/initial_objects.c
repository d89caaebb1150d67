#include "apiserver/initial_objects.h"

#include "apiserver/scheduling.h"
#include "apiserver/service_addresses.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"

/* Takes body; its name is name. */
static int make(struct apiserver *s, const struct resource *r, const char *ns, const char *name, struct json *body,
                struct error *err)
{
    _cleanup_json_ struct json *taken = body;
    _cleanup_free_ char *key = key_make(ns, name);
    struct api_call c = api_internal_call(s, VERB_CREATE, r, ns, "");
    int result = 0;

    if (store_get(s->store, r->store_name, key))
        return 0;
    json_set_str(json_ensure_object(taken, "metadata"), "name", name);
    c.body = taken;
    api_execute(&c);
    if (c.result.code >= 400)
        result = error_set(err, EIO, "%s: %s", name, json_str_or(json_get(c.result.object, "message"), "refused"));
    api_result_clear(&c.result);
    return result;
}

static int make_namespaces(struct apiserver *s, struct error *err)
{
    static const char *const names[] = {"default", "kube-system", "kube-public", "kube-node-lease"};
    const struct resource *r = resource_by_plural(s->resources, "", "v1", "namespaces");

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (make(s, r, "", names[i], json_object_make(), err) < 0)
            return -err->code;
    return 0;
}

/* The class of the volumes that the node makes. Who wants another default takes the annotation away; it stays away. */
static int make_storage_class(struct apiserver *s, struct error *err)
{
    return make(s, resource_by_plural(s->resources, "storage.k8s.io", "v1", "storageclasses"), "", "holt-local",
                json_build("{s:{s:{s:s}}, s:s, s:s, s:s}", "metadata", "annotations",
                           "storageclass.kubernetes.io/is-default-class", "true", "provisioner", "holt.dev/local",
                           "reclaimPolicy", "Delete", "volumeBindingMode", "Immediate"),
                err);
}

static int make_priority_classes(struct apiserver *s, struct error *err)
{
    const struct resource *r = resource_by_plural(s->resources, "scheduling.k8s.io", "v1", "priorityclasses");

    for (size_t i = 0; i < system_priority_class_count; i++) {
        const struct system_priority_class *class = &system_priority_classes[i];
        if (make(s, r, "", class->name,
                 json_build("{s:i, s:s}", "value", class->value, "description", class->description), err) < 0)
            return -err->code;
    }
    return 0;
}

/* It has no endpoints: sandboxes do not reach the server. Clients of the machine learn its port from it. */
static int make_own_service(struct apiserver *s, const char *server_address, struct error *err)
{
    const char *colon = server_address ? strrchr(server_address, ':') : NULL;
    int64_t port;

    if (!colon || !parse_i64(colon + 1, &port))
        return 0;
    return make(s, resource_by_plural(s->resources, "", "v1", "services"), "default", "kubernetes",
                json_build("{s:{s:{s:s, s:s}}, s:{s:s, s:[{s:s, s:s, s:i, s:i}]}}", "metadata", "labels", "component",
                           "apiserver", "provider", "kubernetes", "spec", "clusterIP", SERVICE_API_ADDRESS, "ports",
                           "name", "https", "protocol", "TCP", "port", (int64_t)443, "targetPort", port),
                err);
}

int initial_objects_make(struct apiserver *s, const char *server_address, struct error *err)
{
    if (make_namespaces(s, err) < 0 || make_storage_class(s, err) < 0 || make_priority_classes(s, err) < 0)
        return -err->code;
    return make_own_service(s, server_address, err);
}
