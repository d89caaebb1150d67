#include "apiserver/pod_resources.h"

#include "base/memory.h"
#include "base/strutil.h"

bool resource_amount(const struct json *list, const char *name, struct quantity *ret)
{
    const struct json *v = json_get(list, name);
    struct error err = ERROR_INIT;
    bool ok;

    if (!v)
        return false;
    if (json_str(v)) {
        ok = quantity_parse(json_str(v), ret, &err) == 0;
    } else {
        _cleanup_free_ char *text = json_text(v);
        ok = quantity_parse(text, ret, &err) == 0;
    }
    error_clear(&err);
    return ok;
}

struct quantity quantity_sum(struct quantity a, struct quantity b)
{
    return (struct quantity){.nano = a.nano + b.nano, .binary = a.nano ? a.binary : b.binary};
}

struct quantity quantity_difference(struct quantity a, struct quantity b)
{
    return (struct quantity){.nano = a.nano - b.nano, .binary = a.nano ? a.binary : b.binary};
}

static struct quantity larger(struct quantity a, struct quantity b)
{
    return quantity_compare(&a, &b) >= 0 ? a : b;
}

static bool is_sidecar(const struct json *container)
{
    return streq(json_str_or(json_get(container, "restartPolicy"), ""), "Always");
}

bool pod_resource(const struct json *spec, const char *which, const char *name, struct quantity *ret)
{
    const struct json *containers = json_get(spec, "containers"), *init = json_get(spec, "initContainers");
    struct quantity sum = {0}, sidecars = {0}, peak = {0}, q;
    bool found = false;

    for (size_t i = 0; i < json_size(containers); i++)
        if (resource_amount(json_at(json_item(containers, i), "resources", which, NULL), name, &q)) {
            sum = quantity_sum(sum, q);
            found = true;
        }
    for (size_t i = 0; i < json_size(init); i++) {
        if (!resource_amount(json_at(json_item(init, i), "resources", which, NULL), name, &q))
            continue;
        found = true;
        if (is_sidecar(json_item(init, i)))
            sidecars = quantity_sum(sidecars, q);
        peak = larger(peak, is_sidecar(json_item(init, i)) ? sidecars : quantity_sum(sidecars, q));
    }
    *ret = larger(quantity_sum(sum, sidecars), peak);
    /* The overhead raises a limit only where there is one. */
    if (resource_amount(json_get(spec, "overhead"), name, &q) && (found || streq(which, "requests"))) {
        *ret = quantity_sum(*ret, q);
        found = true;
    }
    return found;
}

/* --- what counts --- */

#define CLASS_INFIX ".storageclass.storage.k8s.io/"

static const char *const pod_native[] = {"cpu", "memory", "ephemeral-storage"};

static bool core_kind(const char *name, const char *group, const char *plural)
{
    return !*group && streq(name, plural);
}

/* The rest of "count/" is "plural" or "plural.group". */
static bool counts_objects(const char *name, const char *group, const char *plural)
{
    const char *what = str_skip_prefix(name, "count/");
    const char *rest = what ? str_skip_prefix(what, plural) : NULL;

    return rest && (*group ? *rest == '.' && streq(rest + 1, group) : !*rest);
}

/* Which resource of a pod a name means. */
static bool pod_compute(const char *name, const char **ret_which, const char **ret_resource)
{
    const char *rest;

    *ret_which = "requests";
    *ret_resource = name;
    for (size_t i = 0; i < ARRAY_LEN(pod_native); i++)
        if (streq(name, pod_native[i]))
            return true;
    if (str_skip_prefix(name, "hugepages-"))
        return true;
    if (streq(name, "requests.storage"))
        return false;
    if ((rest = str_skip_prefix(name, "requests."))) {
        *ret_resource = rest;
        return true;
    }
    if ((rest = str_skip_prefix(name, "limits."))) {
        *ret_which = "limits";
        *ret_resource = rest;
        return true;
    }
    return false;
}

bool quota_counts(const char *name, const char *group, const char *plural)
{
    const char *which, *resource;

    if (counts_objects(name, group, plural))
        return true;
    if (*group)
        return false;
    if (streq(plural, "pods"))
        return streq(name, "pods") || (!strchr(name, '/') && pod_compute(name, &which, &resource)) ||
               (str_skip_prefix(name, "requests.") && !strstr(name, CLASS_INFIX));
    if (streq(plural, "persistentvolumeclaims"))
        return streq(name, "requests.storage") || streq(name, plural) || strstr(name, CLASS_INFIX);
    if (streq(plural, "services"))
        return streq(name, "services") || str_skip_prefix(name, "services.");
    static const char *const counted[] = {"secrets", "configmaps", "replicationcontrollers", "resourcequotas"};
    for (size_t i = 0; i < ARRAY_LEN(counted); i++)
        if (streq(name, counted[i]) && core_kind(name, group, plural))
            return true;
    return false;
}

static struct quantity whole(int64_t n)
{
    return (struct quantity){.nano = (__int128)n * 1000000000};
}

/* A pod that has ended needs nothing any more. */
static bool pod_ended(const struct json *pod)
{
    const char *phase = json_str_or(json_at(pod, "status", "phase", NULL), "");

    return streq(phase, "Succeeded") || streq(phase, "Failed");
}

static struct quantity pod_use(const char *name, const struct json *pod)
{
    const char *which, *resource;
    struct quantity q = {0};

    if (pod_ended(pod))
        return q;
    if (streq(name, "pods"))
        return whole(1);
    if (pod_compute(name, &which, &resource))
        (void)pod_resource(json_get(pod, "spec"), which, resource, &q); /* none named: nothing used */
    return q;
}

static struct quantity claim_use(const char *name, const struct json *claim)
{
    const char *class = json_str_or(json_at(claim, "spec", "storageClassName", NULL), "");
    const char *infix = strstr(name, CLASS_INFIX), *what = name;
    struct quantity q = {0};

    if (infix) {
        if (strlen(class) != (size_t)(infix - name) || strncmp(class, name, (size_t)(infix - name)) != 0)
            return q;
        what = infix + strlen(CLASS_INFIX);
    }
    if (streq(what, "persistentvolumeclaims"))
        return whole(1);
    if (streq(what, "requests.storage"))
        (void)resource_amount(json_at(claim, "spec", "resources", "requests", NULL), "storage", &q); /* as above */
    return q;
}

static struct quantity service_use(const char *name, const struct json *service)
{
    const char *type = json_str_or(json_at(service, "spec", "type", NULL), "");
    bool balancer = streq(type, "LoadBalancer");

    if (streq(name, "services"))
        return whole(1);
    if (streq(name, "services.loadbalancers"))
        return whole(balancer);
    bool node_ports = streq(type, "NodePort") ||
                      (balancer && json_bool_or(json_at(service, "spec", "allocateLoadBalancerNodePorts", NULL), true));
    if (streq(name, "services.nodeports") && node_ports)
        return whole((int64_t)json_size(json_at(service, "spec", "ports", NULL)));
    return whole(0);
}

struct quantity quota_use(const char *name, const char *group, const char *plural, const struct json *object)
{
    if (counts_objects(name, group, plural))
        return whole(1);
    if (*group || !quota_counts(name, group, plural))
        return whole(0);
    if (streq(plural, "pods"))
        return pod_use(name, object);
    if (streq(plural, "persistentvolumeclaims"))
        return claim_use(name, object);
    if (streq(plural, "services"))
        return service_use(name, object);
    return whole(1);
}

/* --- scopes --- */

static bool best_effort(const struct json *pod)
{
    static const char *const which[] = {"requests", "limits"};
    struct quantity q;

    for (size_t i = 0; i < ARRAY_LEN(which); i++)
        for (size_t k = 0; k < 2; k++)
            if (pod_resource(json_get(pod, "spec"), which[i], pod_native[k], &q) && q.nano > 0)
                return false;
    return true;
}

static bool crosses_namespaces(const struct json *pod)
{
    static const char *const kinds[] = {"podAffinity", "podAntiAffinity"};
    static const char *const lists[] = {"requiredDuringSchedulingIgnoredDuringExecution",
                                        "preferredDuringSchedulingIgnoredDuringExecution"};

    for (size_t k = 0; k < ARRAY_LEN(kinds); k++)
        for (size_t l = 0; l < ARRAY_LEN(lists); l++) {
            const struct json *terms = json_at(pod, "spec", "affinity", kinds[k], lists[l], NULL);
            for (size_t i = 0; i < json_size(terms); i++) {
                const struct json *term = json_item(terms, i), *inner = json_get(term, "podAffinityTerm");
                term = inner ? inner : term;
                if (json_size(json_get(term, "namespaces")) > 0 || json_get(term, "namespaceSelector"))
                    return true;
            }
        }
    return false;
}

static bool listed(const struct json *values, const char *text)
{
    for (size_t i = 0; i < json_size(values); i++)
        if (streq(json_str_or(json_item(values, i), ""), text))
            return true;
    return false;
}

static bool priority_matches(const char *operator, const struct json * values, const struct json *pod)
{
    const char *class = json_str_or(json_at(pod, "spec", "priorityClassName", NULL), "");

    if (streq(operator, "Exists"))
        return *class;
    if (streq(operator, "DoesNotExist"))
        return !*class;
    return listed(values, class) == streq(operator, "In");
}

static bool scope_matches(const char *scope, const char *operator, const struct json * values, const struct json *pod)
{
    bool deadline = json_get(json_get(pod, "spec"), "activeDeadlineSeconds") != NULL;

    if (streq(scope, "Terminating"))
        return deadline;
    if (streq(scope, "NotTerminating"))
        return !deadline;
    if (streq(scope, "BestEffort"))
        return best_effort(pod);
    if (streq(scope, "NotBestEffort"))
        return !best_effort(pod);
    if (streq(scope, "PriorityClass"))
        return priority_matches(operator, values, pod);
    return streq(scope, "CrossNamespacePodAffinity") && crosses_namespaces(pod);
}

bool quota_in_scope(const struct json *quota_spec, const char *group, const char *plural, const struct json *object)
{
    const struct json *scopes = json_get(quota_spec, "scopes");
    const struct json *terms = json_at(quota_spec, "scopeSelector", "matchExpressions", NULL);

    if (json_size(scopes) == 0 && json_size(terms) == 0)
        return true;
    if (*group || !streq(plural, "pods"))
        return false; /* scopes are about pods alone */
    for (size_t i = 0; i < json_size(scopes); i++)
        if (!scope_matches(json_str_or(json_item(scopes, i), ""), "Exists", NULL, object))
            return false;
    for (size_t i = 0; i < json_size(terms); i++) {
        const struct json *t = json_item(terms, i);
        if (!scope_matches(json_str_or(json_get(t, "scopeName"), ""), json_str_or(json_get(t, "operator"), ""),
                           json_get(t, "values"), object))
            return false;
    }
    return true;
}

/* --- what must be said --- */

static void add_missing(struct strbuf *names, const struct json *list, const char *which, const char *resource)
{
    struct quantity q;

    for (size_t i = 0; i < json_size(list); i++)
        if (!resource_amount(json_at(json_item(list, i), "resources", which, NULL), resource, &q))
            strbuf_addf(names, "%s%s", names->len ? "," : "", json_str_or(json_get(json_item(list, i), "name"), ""));
}

char *quota_missing(const struct json *hard, const struct json *pod_spec)
{
    /* In the order of their names, as they are told. */
    static const char *const checked[] = {"cpu",    "limits.cpu",   "limits.memory",
                                          "memory", "requests.cpu", "requests.memory"};
    struct strbuf out = {0};

    for (size_t i = 0; i < ARRAY_LEN(checked); i++) {
        _cleanup_(strbuf_free) struct strbuf names = {0};
        const char *which, *resource;
        if (!json_has(hard, checked[i]) || !pod_compute(checked[i], &which, &resource))
            continue;
        add_missing(&names, json_get(pod_spec, "containers"), which, resource);
        add_missing(&names, json_get(pod_spec, "initContainers"), which, resource);
        if (names.len)
            strbuf_addf(&out, "%s%s for: %s", out.len ? "; " : "", checked[i], names.data);
    }
    return out.len ? strbuf_detach(&out) : NULL;
}

bool quota_name_is_count(const char *name)
{
    static const char *const counts[] = {"pods",
                                         "services",
                                         "secrets",
                                         "configmaps",
                                         "resourcequotas",
                                         "replicationcontrollers",
                                         "services.loadbalancers",
                                         "services.nodeports",
                                         "persistentvolumeclaims"};

    for (size_t i = 0; i < ARRAY_LEN(counts); i++)
        if (streq(name, counts[i]))
            return true;
    return str_skip_prefix(name, "count/") || str_has_suffix(name, CLASS_INFIX "persistentvolumeclaims");
}

const char *quota_name_problem(const char *name)
{
    const char *which, *resource;

    if (!*name)
        return "a name is required";
    if (quota_name_is_count(name) || pod_compute(name, &which, &resource) || streq(name, "requests.storage"))
        return NULL;
    return strchr(name, '/') ? NULL : "must be a standard resource for quotas";
}
