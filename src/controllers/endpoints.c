#include "controllers/endpoints.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"

/* The most that the API allows in a slice, and that an Endpoints object holds by custom. */
#define ENDPOINTS_MAX 1000

#define SERVICE_NAME "kubernetes.io/service-name"
#define MANAGED_BY "endpointslice.kubernetes.io/managed-by"
#define MANAGER "endpointslice-controller.k8s.io"
#define ENDPOINTS_MANAGED_BY "endpoints.kubernetes.io/managed-by"
#define ENDPOINTS_MANAGER "endpoint-controller"
#define HEADLESS "service.kubernetes.io/headless"
#define OVER_CAPACITY "endpoints.kubernetes.io/over-capacity"

/* --- Pods --- */

static const char *pod_ip(const struct json *pod)
{
    const char *phase = json_str_or(json_at(pod, "status", "phase", NULL), "");

    if (streq(phase, "Succeeded") || streq(phase, "Failed"))
        return "";
    return json_str_or(json_at(pod, "status", "podIP", NULL), "");
}

static const struct json *named_port(const struct json *containers, const char *name, const char *protocol)
{
    for (size_t i = 0; i < json_size(containers); i++) {
        const struct json *ports = json_get(json_item(containers, i), "ports");
        for (size_t k = 0; k < json_size(ports); k++) {
            const struct json *port = json_item(ports, k);
            if (streq(json_str_or(json_get(port, "name"), ""), name) &&
                streq(json_str_or(json_get(port, "protocol"), "TCP"), protocol))
                return json_get(port, "containerPort");
        }
    }
    return NULL;
}

/* The number a port of the Service leads to in this Pod; NULL: the Pod has no port of that name. */
static const struct json *target_port(const struct json *port, const struct json *pod)
{
    const struct json *target = json_get(port, "targetPort");
    const char *protocol = json_str_or(json_get(port, "protocol"), "TCP"), *name = json_str(target);

    if (!name)
        return json_int_or(target, 0) > 0 ? target : json_get(port, "port");
    const struct json *found = named_port(json_at(pod, "spec", "containers", NULL), name, protocol);
    return found ? found : named_port(json_at(pod, "spec", "initContainers", NULL), name, protocol);
}

/* What a Pod offers of a Service, as slices tell it. */
static struct json *ports_of(const struct json *service, const struct json *pod)
{
    const struct json *ports = json_at(service, "spec", "ports", NULL);
    struct json *out = json_array_make();

    for (size_t i = 0; i < json_size(ports); i++) {
        const struct json *port = json_item(ports, i), *number = target_port(port, pod);
        if (number)
            json_push(out,
                      json_build("{s:s, s:i, s:s, s:s}", "name", json_str_or(json_get(port, "name"), ""), "port",
                                 json_int_or(number, 0), "protocol", json_str_or(json_get(port, "protocol"), "TCP"),
                                 "appProtocol", json_str(json_get(port, "appProtocol"))));
    }
    return out;
}

static bool takes_unready(const struct json *service)
{
    return json_bool_or(json_at(service, "spec", "publishNotReadyAddresses", NULL), false);
}

static struct json *pod_reference(const struct json *pod)
{
    return json_build("{s:s, s:s, s:s, s:s}", "kind", "Pod", "namespace", object_namespace(pod), "name",
                      object_name(pod), "uid", object_uid(pod));
}

/* Only Pods that ask for a name under the Service have one. */
static const char *pod_hostname(const struct json *service, const struct json *pod)
{
    const char *subdomain = json_str_or(json_at(pod, "spec", "subdomain", NULL), "");

    return streq(subdomain, object_name(service)) ? json_str(json_at(pod, "spec", "hostname", NULL)) : NULL;
}

/* --- groups of Pods with the same ports: [{ports, pods}] --- */

static struct json *group_by_ports(const struct json *service, const struct json *pods)
{
    struct json *groups = json_array_make();
    bool wants_ports = json_size(json_at(service, "spec", "ports", NULL)) > 0;

    for (size_t i = 0; i < json_size(pods); i++) {
        struct json *pod = json_item(pods, i), *group = NULL;
        _cleanup_json_ struct json *ports = ports_of(service, pod);
        if (!*pod_ip(pod) || (wants_ports && json_size(ports) == 0))
            continue;
        for (size_t k = 0; k < json_size(groups) && !group; k++)
            if (json_equal(json_get(json_item(groups, k), "ports"), ports))
                group = json_item(groups, k);
        if (!group) {
            group = json_build("{s:O, s:[]}", "ports", ports, "pods");
            json_push(groups, group);
        }
        json_push(json_get(group, "pods"), json_ref(pod));
    }
    return groups;
}

/* --- slices --- */

static struct json *endpoint(const struct json *service, const struct json *pod)
{
    bool serving = condition_true(pod, "Ready"), terminating = object_deleting(pod);
    bool ready = takes_unready(service) || (serving && !terminating);

    return json_build("{s:[s], s:{s:b, s:b, s:b}, s:s, s:s, s:o}", "addresses", pod_ip(pod), "conditions", "ready",
                      ready, "serving", serving, "terminating", terminating, "hostname", pod_hostname(service, pod),
                      "nodeName", json_str(json_at(pod, "spec", "nodeName", NULL)), "targetRef", pod_reference(pod));
}

static struct json *labels_of(const struct json *service, const char *key, const char *value)
{
    const struct json *own = json_at(service, "metadata", "labels", NULL);
    struct json *labels = own ? json_copy(own) : json_object_make();

    json_set_str(labels, key, value);
    if (streq(json_str_or(json_at(service, "spec", "clusterIP", NULL), ""), "None"))
        json_set_str(labels, HEADLESS, "");
    else
        json_remove(labels, HEADLESS);
    return labels;
}

static const char *address_type(const struct json *pod)
{
    return strchr(pod_ip(pod), ':') ? "IPv6" : "IPv4";
}

static struct json *slice_new(const struct json *service, const char *type, size_t index, const struct json *ports)
{
    struct json *labels = labels_of(service, MANAGED_BY, MANAGER);
    _cleanup_free_ char *name = xasprintf("%s-%s-%zu", object_name(service), type, index);

    for (char *c = name; *c; c++)
        *c = (char)(*c >= 'A' && *c <= 'Z' ? *c - 'A' + 'a' : *c);
    json_set_str(labels, SERVICE_NAME, object_name(service));
    return json_build("{s:s, s:s, s:{s:s, s:s, s:o}, s:s, s:[], s:o}", "apiVersion", "discovery.k8s.io/v1", "kind",
                      "EndpointSlice", "metadata", "name", name, "namespace", object_namespace(service), "labels",
                      labels, "addressType", type, "endpoints", "ports", json_copy(ports));
}

struct json *endpoints_slices(const struct json *service, const struct json *pods)
{
    static const char *const types[] = {"IPv4", "IPv6"};
    _cleanup_json_ struct json *groups = group_by_ports(service, pods);
    struct json *slices = json_array_make();

    for (size_t t = 0; t < ARRAY_LEN(types); t++) {
        size_t index = 0;
        for (size_t g = 0; g < json_size(groups); g++) {
            const struct json *members = json_get(json_item(groups, g), "pods");
            struct json *slice = NULL;
            for (size_t i = 0; i < json_size(members); i++) {
                if (!streq(address_type(json_item(members, i)), types[t]))
                    continue;
                if (!slice || json_size(json_get(slice, "endpoints")) == ENDPOINTS_MAX) {
                    slice = slice_new(service, types[t], index++, json_get(json_item(groups, g), "ports"));
                    json_push(slices, slice);
                }
                json_push(json_get(slice, "endpoints"), endpoint(service, json_item(members, i)));
            }
        }
    }
    if (json_size(slices) == 0) { /* readers learn from it that there is nobody */
        _cleanup_json_ struct json *none = json_array_make();
        json_push(slices, slice_new(service, "IPv4", 0, none));
    }
    return slices;
}

/* --- Endpoints --- */

static struct json *subset_ports(const struct json *ports)
{
    struct json *copy = json_copy(ports);

    for (size_t i = 0; i < json_size(copy); i++)
        if (!*json_str_or(json_get(json_item(copy, i), "name"), ""))
            json_remove(json_item(copy, i), "name");
    return copy;
}

static struct json *subset(const struct json *service, const struct json *group, size_t *left)
{
    struct json *ready = json_array_make(), *unready = json_array_make();
    const struct json *pods = json_get(group, "pods");

    for (size_t i = 0; i < json_size(pods) && *left > 0; i++) {
        const struct json *pod = json_item(pods, i);
        bool takes = takes_unready(service);
        if (object_deleting(pod) && !takes)
            continue;
        json_push(takes || condition_true(pod, "Ready") ? ready : unready,
                  json_build("{s:s, s:s, s:s, s:o}", "ip", pod_ip(pod), "hostname", pod_hostname(service, pod),
                             "nodeName", json_str(json_at(pod, "spec", "nodeName", NULL)), "targetRef",
                             pod_reference(pod)));
        (*left)--;
    }
    struct json *out = json_object_make();
    if (json_size(ready) > 0)
        json_set(out, "addresses", json_ref(ready));
    if (json_size(unready) > 0)
        json_set(out, "notReadyAddresses", json_ref(unready));
    bool any = json_size(out) > 0;
    json_unref(ready);
    json_unref(unready);
    if (any && json_size(json_get(group, "ports")) > 0)
        json_set(out, "ports", subset_ports(json_get(group, "ports")));
    if (any)
        return out;
    json_unref(out);
    return NULL;
}

struct json *endpoints_subsets(const struct json *service, const struct json *pods)
{
    _cleanup_json_ struct json *groups = group_by_ports(service, pods);
    struct json *subsets = json_array_make();
    size_t left = ENDPOINTS_MAX;

    for (size_t i = 0; i < json_size(groups); i++) {
        struct json *one = subset(service, json_item(groups, i), &left);
        if (one)
            json_push(subsets, one);
    }
    return subsets;
}

/* --- plans --- */

static bool selects(const struct json *service, const struct json *pod)
{
    const struct json *wanted = json_at(service, "spec", "selector", NULL);

    for (struct json_iter it = {0}; json_each(wanted, &it);)
        if (!streq_null(object_label(pod, it.key), json_str(it.value)))
            return false;
    return json_size(wanted) > 0;
}

static bool is_kept(const struct json *service)
{
    return json_size(json_at(service, "spec", "selector", NULL)) > 0 &&
           !streq(json_str_or(json_at(service, "spec", "type", NULL), ""), "ExternalName");
}

/* Of the annotations one is ours; the others are left alone. */
static void put_annotation(struct json *metadata, const struct json *value)
{
    struct json *annotations = json_get(metadata, "annotations");

    annotations = annotations ? json_copy_shallow(annotations) : json_object_make();
    if (value)
        json_set(annotations, OVER_CAPACITY, json_ref((struct json *)value));
    else
        json_remove(annotations, OVER_CAPACITY);
    json_set(metadata, "annotations", annotations);
}

static void put(const struct world *w, const struct kube_resource *r, const struct json *wanted,
                const char *const *members, struct plan *plan)
{
    const struct json *now = w->get(w, r, object_namespace(wanted), object_name(wanted));
    const struct json *cut = json_at(wanted, "metadata", "annotations", OVER_CAPACITY, NULL);
    bool same_cut = json_equal(json_at(now, "metadata", "annotations", OVER_CAPACITY, NULL), cut);
    bool same = now && same_cut &&
                json_equal(json_at(now, "metadata", "labels", NULL), json_at(wanted, "metadata", "labels", NULL));

    if (!now) {
        plan_create(plan, r, json_copy_shallow(wanted));
        return;
    }
    struct json *changed = json_copy_shallow(now);
    struct json *metadata = json_copy_shallow(json_get(now, "metadata"));
    json_set(metadata, "labels", json_ref(json_at(wanted, "metadata", "labels", NULL)));
    if (!same_cut)
        put_annotation(metadata, cut);
    json_set(changed, "metadata", metadata);
    for (; *members; members++) {
        struct json *value = json_get(wanted, *members);
        if (json_size(value) == 0 && json_size(json_get(now, *members)) == 0)
            continue;
        same = same && json_equal(json_get(now, *members), value);
        json_set(changed, *members, json_ref(value));
    }
    if (same)
        json_unref(changed);
    else
        plan_update(plan, r, NULL, changed);
}

static void put_slices(const struct world *w, const struct json *service, const struct json *pods, struct plan *plan)
{
    static const char *const members[] = {"endpoints", "ports", NULL};
    _cleanup_json_ struct json *wanted = endpoints_slices(service, pods);
    _cleanup_json_ struct json *owned = w->owned(w, &KUBE_ENDPOINT_SLICES, object_uid(service));

    for (size_t i = 0; i < json_size(wanted); i++) {
        json_set(json_get(json_item(wanted, i), "metadata"), "ownerReferences",
                 json_build("[o]", owner_reference(service)));
        put(w, &KUBE_ENDPOINT_SLICES, json_item(wanted, i), members, plan);
    }
    for (size_t i = 0; i < json_size(owned); i++) {
        const struct json *slice = json_item(owned, i);
        bool needed = object_deleting(slice);
        for (size_t k = 0; k < json_size(wanted); k++)
            needed |= streq(object_name(json_item(wanted, k)), object_name(slice));
        if (!needed)
            plan_delete(plan, &KUBE_ENDPOINT_SLICES, object_namespace(slice), object_name(slice), object_uid(slice), -1,
                        NULL);
    }
}

static void put_endpoints(const struct world *w, const struct json *service, const struct json *pods, struct plan *plan)
{
    static const char *const members[] = {"subsets", NULL};
    _cleanup_json_ struct json *wanted = json_build(
        "{s:s, s:s, s:{s:s, s:s, s:o}, s:o}", "apiVersion", "v1", "kind", "Endpoints", "metadata", "name",
        object_name(service), "namespace", object_namespace(service), "labels",
        labels_of(service, ENDPOINTS_MANAGED_BY, ENDPOINTS_MANAGER), "subsets", endpoints_subsets(service, pods));

    size_t addresses = 0;
    for (size_t i = 0; i < json_size(pods); i++)
        addresses += *pod_ip(json_item(pods, i)) != '\0';
    if (addresses > ENDPOINTS_MAX)
        json_set(json_get(wanted, "metadata"), "annotations", json_build("{s:s}", OVER_CAPACITY, "truncated"));
    put(w, &KUBE_ENDPOINTS, wanted, members, plan);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(object_name(*(struct json *const *)a), object_name(*(struct json *const *)b));
}

/* The Pods of the Service, by name: the caches have no order, and what is written must not change with theirs. */
static struct json *selected_pods(const struct world *w, const struct json *service)
{
    _cleanup_json_ struct json *all = w->list(w, &KUBE_PODS, object_namespace(service));
    _cleanup_free_ struct json **found = xcalloc(json_size(all) + 1, sizeof(*found));
    struct json *pods = json_array_make();
    size_t n = 0;

    for (size_t i = 0; i < json_size(all); i++)
        if (selects(service, json_item(all, i)))
            found[n++] = json_item(all, i);
    qsort(found, n, sizeof(*found), by_name);
    for (size_t i = 0; i < n; i++)
        json_push(pods, json_ref(found[i]));
    return pods;
}

static void reconcile(const struct world *w, const char *ns, const char *name, struct plan *plan)
{
    const struct json *service = w->get(w, &KUBE_SERVICES, ns, name);
    const struct json *endpoints = w->get(w, &KUBE_ENDPOINTS, ns, name);

    if (!service) {
        if (endpoints && streq_null(object_label(endpoints, ENDPOINTS_MANAGED_BY), ENDPOINTS_MANAGER))
            plan_delete(plan, &KUBE_ENDPOINTS, ns, name, object_uid(endpoints), -1, NULL);
        return;
    }
    if (object_deleting(service) || !is_kept(service))
        return;
    _cleanup_json_ struct json *pods = selected_pods(w, service);
    put_slices(w, service, pods, plan);
    put_endpoints(w, service, pods, plan);
}

static char **services_of(const struct world *w, const struct kube_resource *r, const struct json *object)
{
    const char *ns = object_namespace(object);
    char **keys = NULL;

    if (r == &KUBE_ENDPOINTS)
        return strv_append(NULL, key_make(ns, object_name(object)));
    _cleanup_json_ struct json *services = w->list(w, &KUBE_SERVICES, ns);
    for (size_t i = 0; i < json_size(services); i++)
        if (selects(json_item(services, i), object))
            keys = strv_append(keys, key_make(ns, object_name(json_item(services, i))));
    return keys;
}

static const struct kube_resource *const owned[] = {&KUBE_ENDPOINT_SLICES, NULL};
static const struct kube_resource *const watched[] = {&KUBE_PODS, &KUBE_ENDPOINTS, NULL};

const struct controller endpoints_controller = {
    .name = "endpoint-controller",
    .primary = &KUBE_SERVICES,
    .owned = owned,
    .watched = watched,
    .map = services_of,
    .reconcile = reconcile,
};
