#include "kube/kube.h"

#include "base/memory.h"

#include <stdio.h>

const struct kube_resource KUBE_PODS = {"", "v1", "pods", "Pod", true};
const struct kube_resource KUBE_SERVICES = {"", "v1", "services", "Service", true};
const struct kube_resource KUBE_ENDPOINTS = {"", "v1", "endpoints", "Endpoints", true};
const struct kube_resource KUBE_ENDPOINT_SLICES = {"discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", true};
const struct kube_resource KUBE_PVCS = {"", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", true};
const struct kube_resource KUBE_PVS = {"", "v1", "persistentvolumes", "PersistentVolume", false};
const struct kube_resource KUBE_SECRETS = {"", "v1", "secrets", "Secret", true};
const struct kube_resource KUBE_CONFIGMAPS = {"", "v1", "configmaps", "ConfigMap", true};
const struct kube_resource KUBE_NAMESPACES = {"", "v1", "namespaces", "Namespace", false};
const struct kube_resource KUBE_NODES = {"", "v1", "nodes", "Node", false};
const struct kube_resource KUBE_SERVICEACCOUNTS = {"", "v1", "serviceaccounts", "ServiceAccount", true};
const struct kube_resource KUBE_EVENTS = {"", "v1", "events", "Event", true};
const struct kube_resource KUBE_LEASES = {"coordination.k8s.io", "v1", "leases", "Lease", true};
const struct kube_resource KUBE_CRDS = {"apiextensions.k8s.io", "v1", "customresourcedefinitions",
                                        "CustomResourceDefinition", false};
const struct kube_resource KUBE_QUOTAS = {"", "v1", "resourcequotas", "ResourceQuota", true};
const struct kube_resource KUBE_LIMIT_RANGES = {"", "v1", "limitranges", "LimitRange", true};
const struct kube_resource KUBE_PDBS = {"policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", true};
const struct kube_resource KUBE_SANDBOXES = {"agents.x-k8s.io", "v1beta1", "sandboxes", "Sandbox", true};

char *kube_resource_name(const struct kube_resource *r)
{
    return *r->group ? xasprintf("%s.%s", r->plural, r->group) : xstrdup(r->plural);
}

const char *kube_api_version(const struct kube_resource *r, char *buf, size_t size)
{
    (void)snprintf(buf, size, "%s%s%s", r->group, *r->group ? "/" : "", r->version);
    return buf;
}

void kube_do(struct kube *k, const struct kube_request *request, kube_done done, void *arg)
{
    k->ops->request(k, request, done, arg);
}

struct kube_watch *kube_watch_start(struct kube *k, const struct kube_resource *r, const char *ns,
                                    const char *label_selector, const char *field_selector,
                                    const struct kube_watch_callbacks *cb, void *arg)
{
    return k->ops->watch(k, r, ns, label_selector, field_selector, cb, arg);
}

void kube_watch_stop(struct kube_watch *w)
{
    if (w)
        w->kube->ops->watch_stop(w);
}

void kube_free(struct kube *k)
{
    if (k)
        k->ops->free(k);
}

static int code_of_status(int status)
{
    switch (status) {
    case 404:
        return ENOENT;
    case 409:
        return EEXIST;
    case 401:
    case 403:
        return EACCES;
    case 400:
    case 422:
        return EINVAL;
    case 410:
        return EOVERFLOW;
    case 429:
    case 503:
        return EAGAIN;
    default:
        return EIO;
    }
}

void kube_error_from_status(int status, const struct json *object, struct error *err)
{
    const char *message = json_str(json_get(object, "message"));

    (void)error_set(err, code_of_status(status), "%s", message ? message : "the API server answered without a message");
    error_set_reason(err, json_str(json_get(object, "reason")));
}
