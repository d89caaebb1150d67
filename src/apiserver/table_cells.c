/* Cells of built-in kinds that are more than a field of the object. Pods have table_pod.c. */
#include "apiserver/table.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"

#include <ctype.h>

static struct json *count_cell(const struct json *object, const char *a, const char *b)
{
    size_t n = json_size(json_get(object, a)) + (b ? json_size(json_get(object, b)) : 0);

    return json_int((int64_t)n);
}

static struct json *text_cell(char *taken)
{
    struct json *cell = json_string(*taken ? taken : "<none>");

    free(taken);
    return cell;
}

/* The strings at key of each item, with commas; at most max, then "+ N more...". */
static char *joined(const struct json *array, const char *key, size_t max)
{
    struct strbuf out = {0};
    size_t n = json_size(array);

    for (size_t i = 0; i < n && i < max; i++) {
        const struct json *item = json_item(array, i);
        strbuf_addf(&out, "%s%s", i ? "," : "", json_str_or(key ? json_get(item, key) : item, ""));
    }
    if (n > max)
        strbuf_addf(&out, " + %zu more...", n - max);
    return strbuf_detach(&out);
}

static char *pairs(const struct json *object)
{
    struct strbuf out = {0};

    for (struct json_iter it = {0}; json_each(object, &it);)
        strbuf_addf(&out, "%s%s=%s", out.len ? "," : "", it.key, json_str_or(it.value, ""));
    return strbuf_detach(&out);
}

static struct json *service_cell(const char *column, const struct json *o)
{
    const struct json *spec = json_get(o, "spec"), *ports = json_get(spec, "ports");
    const char *type = json_str_or(json_get(spec, "type"), "");

    if (streq(column, "Cluster-IP")) {
        const char *ip = json_str_or(json_get(spec, "clusterIP"), "");
        return json_string(*ip ? ip : "<none>");
    }
    if (streq(column, "External-IP")) {
        if (streq(type, "ExternalName"))
            return json_string(json_str_or(json_get(spec, "externalName"), ""));
        const struct json *ingress = json_at(o, "status", "loadBalancer", "ingress", NULL);
        if (json_size(ingress) > 0)
            return text_cell(joined(ingress, "ip", 16));
        if (streq(type, "LoadBalancer") && json_size(json_get(spec, "externalIPs")) == 0)
            return json_string("<pending>");
        return text_cell(joined(json_get(spec, "externalIPs"), NULL, 16));
    }
    if (streq(column, "Selector"))
        return text_cell(pairs(json_get(spec, "selector")));
    if (!streq(column, "Port(s)"))
        return NULL;
    struct strbuf out = {0};
    for (size_t i = 0; i < json_size(ports); i++) {
        const struct json *p = json_item(ports, i);
        int64_t node_port = json_int_or(json_get(p, "nodePort"), 0);
        strbuf_addf(&out, "%s%lld", i ? "," : "", (long long)json_int_or(json_get(p, "port"), 0));
        if (node_port)
            strbuf_addf(&out, ":%lld", (long long)node_port);
        strbuf_addf(&out, "/%s", json_str_or(json_get(p, "protocol"), "TCP"));
    }
    return text_cell(strbuf_detach(&out));
}

static const struct json *first_of(const struct json *o, const char *const *keys)
{
    for (; *keys; keys++)
        if (json_str(json_get(o, *keys)))
            return json_get(o, *keys);
    return NULL;
}

/* Both forms of events. */
static struct json *event_cell(const char *column, const struct json *o, int64_t now_ns)
{
    static const char *const last_keys[] = {"lastTimestamp", "deprecatedLastTimestamp", "eventTime", NULL};
    static const char *const first_keys[] = {"firstTimestamp", "deprecatedFirstTimestamp", "eventTime", NULL};
    static const char *const message_keys[] = {"message", "note", NULL};
    const struct json *object = json_has(o, "regarding") ? json_get(o, "regarding") : json_get(o, "involvedObject");
    const struct json *series = json_get(o, "series");

    if (streq(column, "Last Seen")) {
        const struct json *at = json_get(series, "lastObservedTime");
        return text_cell(age_text(json_str(at) ? at : first_of(o, last_keys), now_ns));
    }
    if (streq(column, "First Seen"))
        return text_cell(age_text(first_of(o, first_keys), now_ns));
    if (streq(column, "Message"))
        return json_string(json_str_or(first_of(o, message_keys), ""));
    if (streq(column, "Count")) {
        int64_t count = json_int_or(json_get(o, "count"), json_int_or(json_get(o, "deprecatedCount"), 1));
        return json_int(json_int_or(json_get(series, "count"), MAX(count, 1)));
    }
    if (streq(column, "Source")) {
        const struct json *source = json_has(o, "source") ? json_get(o, "source") : json_get(o, "deprecatedSource");
        const char *component = json_str_or(json_get(source, "component"), ""),
                   *host = json_str(json_get(source, "host"));
        if (!*component)
            component =
                json_str_or(json_get(o, "reportingComponent"), json_str_or(json_get(o, "reportingController"), ""));
        return text_cell(host && *host ? xasprintf("%s, %s", component, host) : xstrdup(component));
    }
    if (!streq(column, "Object"))
        return NULL;
    _cleanup_free_ char *kind = xstrdup(json_str_or(json_get(object, "kind"), ""));
    for (char *p = kind; *p; p++)
        *p = (char)(*p >= 'A' && *p <= 'Z' ? *p + 32 : *p);
    return text_cell(xasprintf("%s/%s", kind, json_str_or(json_get(object, "name"), "")));
}

static char *node_status(const struct json *o)
{
    const struct json *conditions = json_at(o, "status", "conditions", NULL);
    const struct json *ready = condition_find(conditions, "Ready");
    const char *status = json_str_or(json_get(ready, "status"), "");

    return xasprintf("%s%s",
                     !ready                  ? "Unknown"
                     : streq(status, "True") ? "Ready"
                                             : "NotReady",
                     json_bool_or(json_at(o, "spec", "unschedulable", NULL), false) ? ",SchedulingDisabled" : "");
}

static char *node_roles(const struct json *o)
{
    struct strbuf out = {0};

    for (struct json_iter it = {0}; json_each(json_at(o, "metadata", "labels", NULL), &it);) {
        const char *role = str_skip_prefix(it.key, "node-role.kubernetes.io/");
        if (role && *role)
            strbuf_addf(&out, "%s%s", out.len ? "," : "", role);
    }
    return strbuf_detach(&out);
}

static char *node_address(const struct json *o, const char *type)
{
    const struct json *addresses = json_at(o, "status", "addresses", NULL);

    for (size_t i = 0; i < json_size(addresses); i++)
        if (streq(json_str_or(json_get(json_item(addresses, i), "type"), ""), type))
            return xstrdup(json_str_or(json_get(json_item(addresses, i), "address"), ""));
    return xstrdup("");
}

static struct json *node_cell(const char *column, const struct json *o)
{
    if (streq(column, "Status"))
        return text_cell(node_status(o));
    if (streq(column, "Roles"))
        return text_cell(node_roles(o));
    if (streq(column, "Internal-IP"))
        return text_cell(node_address(o, "InternalIP"));
    if (streq(column, "External-IP"))
        return text_cell(node_address(o, "ExternalIP"));
    return NULL;
}

static char *access_modes(const struct json *modes)
{
    static const char *const shorts[][2] = {
        {"ReadWriteOnce", "RWO"}, {"ReadOnlyMany", "ROX"}, {"ReadWriteMany", "RWX"}, {"ReadWriteOncePod", "RWOP"}};
    struct strbuf out = {0};

    for (size_t i = 0; i < json_size(modes); i++) {
        const char *mode = json_str_or(json_item(modes, i), "");
        for (size_t k = 0; k < ARRAY_LEN(shorts); k++)
            if (streq(mode, shorts[k][0]))
                mode = shorts[k][1];
        strbuf_addf(&out, "%s%s", i ? "," : "", mode);
    }
    return strbuf_detach(&out);
}

/* Claims and volumes. */
static struct json *volume_cell(const char *column, const struct json *o, bool claim)
{
    const struct json *spec = json_get(o, "spec"), *status = json_get(o, "status");

    if (streq(column, "Status"))
        return json_string(object_deleting(o) ? "Terminating" : json_str_or(json_get(status, "phase"), ""));
    if (streq(column, "Capacity")) {
        const char *bound = json_str(json_at(status, "capacity", "storage", NULL));
        return json_string(bound ? bound : "");
    }
    if (streq(column, "Access Modes")) {
        const struct json *modes = json_get(claim ? status : spec, "accessModes");
        _cleanup_free_ char *text = access_modes(modes);
        return json_string(text);
    }
    if (!streq(column, "Claim"))
        return NULL;
    const struct json *ref = json_get(spec, "claimRef");
    return ref ? text_cell(xasprintf("%s/%s", json_str_or(json_get(ref, "namespace"), ""),
                                     json_str_or(json_get(ref, "name"), "")))
               : json_string("");
}

static struct json *binding_cell(const char *column, const struct json *o)
{
    static const char *const kinds[][2] = {
        {"Users", "User"}, {"Groups", "Group"}, {"ServiceAccounts", "ServiceAccount"}};
    const struct json *subjects = json_get(o, "subjects");
    struct strbuf out = {0};

    if (streq(column, "Role"))
        return text_cell(xasprintf("%s/%s", json_str_or(json_at(o, "roleRef", "kind", NULL), ""),
                                   json_str_or(json_at(o, "roleRef", "name", NULL), "")));
    for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
        if (!streq(column, kinds[k][0]))
            continue;
        for (size_t i = 0; i < json_size(subjects); i++) {
            const struct json *s = json_item(subjects, i);
            const char *ns = json_str(json_get(s, "namespace"));
            if (!streq(json_str_or(json_get(s, "kind"), ""), kinds[k][1]))
                continue;
            strbuf_addf(&out, "%s%s%s%s", out.len ? ", " : "", k == 2 && ns ? ns : "", k == 2 && ns ? "/" : "",
                        json_str_or(json_get(s, "name"), ""));
        }
        char *text = strbuf_detach(&out);
        struct json *cell = json_string(text);
        free(text);
        return cell;
    }
    return NULL;
}

static struct json *quota_cell(const char *column, const struct json *o)
{
    const struct json *hard = json_at(o, "status", "hard", NULL), *used = json_at(o, "status", "used", NULL);
    bool limits = streq(column, "Limit");
    struct strbuf out = {0};

    if (!limits && !streq(column, "Request"))
        return NULL;
    for (struct json_iter it = {0}; json_each(hard, &it);)
        if ((str_skip_prefix(it.key, "limits.") != NULL) == limits)
            strbuf_addf(&out, "%s%s: %s/%s", out.len ? ", " : "", it.key, json_str_or(json_get(used, it.key), "0"),
                        json_str_or(it.value, ""));
    char *text = strbuf_detach(&out);
    struct json *cell = json_string(text);
    free(text);
    return cell;
}

static struct json *budget_cell(const char *column, const struct json *o)
{
    const struct json *v = json_at(o, "spec", streq(column, "Min Available") ? "minAvailable" : "maxUnavailable", NULL);

    if (!v)
        return json_string("N/A");
    return json_str(v) ? json_string(json_str(v)) : text_cell(xasprintf("%lld", (long long)json_int_or(v, 0)));
}

static char *slice_endpoints(const struct json *o)
{
    const struct json *endpoints = json_get(o, "endpoints");
    struct json *all = json_array_make();

    for (size_t i = 0; i < json_size(endpoints); i++) {
        const struct json *addresses = json_get(json_item(endpoints, i), "addresses");
        for (size_t k = 0; k < json_size(addresses); k++)
            json_push(all, json_ref(json_item(addresses, k)));
    }
    char *text = joined(all, NULL, 3);
    json_unref(all);
    return text;
}

static char *numbers(const struct json *ports)
{
    struct strbuf out = {0};

    for (size_t i = 0; i < json_size(ports); i++)
        strbuf_addf(&out, "%s%lld", i ? "," : "", (long long)json_int_or(json_get(json_item(ports, i), "port"), 0));
    return strbuf_detach(&out);
}

static char *endpoints_text(const struct json *o)
{
    const struct json *subsets = json_get(o, "subsets");
    struct json *all = json_array_make();

    for (size_t i = 0; i < json_size(subsets); i++) {
        const struct json *s = json_item(subsets, i), *addresses = json_get(s, "addresses"),
                          *ports = json_get(s, "ports");
        for (size_t a = 0; a < json_size(addresses); a++)
            for (size_t p = 0; p < MAX(json_size(ports), (size_t)1); p++) {
                const char *ip = json_str_or(json_get(json_item(addresses, a), "ip"), "");
                int64_t port = json_int_or(json_get(json_item(ports, p), "port"), 0);
                _cleanup_free_ char *text = port ? xasprintf("%s:%lld", ip, (long long)port) : xstrdup(ip);
                json_push(all, json_string(text));
            }
    }
    char *text = joined(all, NULL, 3);
    json_unref(all);
    return text;
}

/* As kubectl would take it: "a=b,c in (d,e),!f". */
static char *pod_selector(const struct json *o)
{
    const struct json *selector = json_at(o, "spec", "podSelector", NULL);
    const struct json *expressions = json_get(selector, "matchExpressions");
    _cleanup_free_ char *labels = pairs(json_get(selector, "matchLabels"));
    struct strbuf out = {0};

    strbuf_adds(&out, labels);
    for (size_t i = 0; i < json_size(expressions); i++) {
        const struct json *e = json_item(expressions, i);
        const char *key = json_str_or(json_get(e, "key"), ""), *how = json_str_or(json_get(e, "operator"), "");
        _cleanup_free_ char *values = joined(json_get(e, "values"), NULL, SIZE_MAX);
        strbuf_adds(&out, out.len ? "," : "");
        if (streq(how, "Exists") || streq(how, "DoesNotExist"))
            strbuf_addf(&out, "%s%s", streq(how, "Exists") ? "" : "!", key);
        else
            strbuf_addf(&out, "%s %s (%s)", key, streq(how, "In") ? "in" : "notin", values);
    }
    return strbuf_detach(&out);
}

static struct json *storage_class_cell(const char *column, const struct json *o)
{
    static const char *const marks[] = {"storageclass.kubernetes.io/is-default-class",
                                        "storageclass.beta.kubernetes.io/is-default-class"};

    if (!streq(column, "Name"))
        return json_boolean(json_bool_or(json_get(o, "allowVolumeExpansion"), false));
    for (size_t i = 0; i < ARRAY_LEN(marks); i++)
        if (streq(json_str_or(json_at(o, "metadata", "annotations", marks[i], NULL), ""), "true"))
            return text_cell(xasprintf("%s (default)", object_name(o)));
    return json_string(object_name(o));
}

/* "statefulset.apps/web" */
static struct json *controller_cell(const struct json *reference)
{
    _cleanup_free_ char *kind = xstrdup(json_str_or(json_get(reference, "kind"), ""));
    const char *version = json_str_or(json_get(reference, "apiVersion"), ""), *slash = strchr(version, '/');

    if (!reference)
        return json_string("<none>");
    for (char *p = kind; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    return text_cell(xasprintf("%s%s%.*s/%s", kind, slash ? "." : "", slash ? (int)(slash - version) : 0, version,
                               json_str_or(json_get(reference, "name"), "")));
}

struct json *table_computed_cell(const struct resource *r, const char *column, const struct json *o, int64_t now_ns)
{
    const char *kind = r->kind;

    if (streq(kind, "Pod"))
        return table_pod_cell(column, o, now_ns);
    if (streq(kind, "ConfigMap"))
        return count_cell(o, "data", "binaryData");
    if (streq(kind, "Secret"))
        return count_cell(o, "data", NULL);
    if (streq(kind, "ServiceAccount"))
        return count_cell(o, "secrets", NULL);
    if (streq(kind, "Service"))
        return service_cell(column, o);
    if (streq(kind, "Event"))
        return event_cell(column, o, now_ns);
    if (streq(kind, "Node"))
        return node_cell(column, o);
    if (streq(kind, "PersistentVolumeClaim") || streq(kind, "PersistentVolume"))
        return volume_cell(column, o, streq(kind, "PersistentVolumeClaim"));
    if (streq(kind, "RoleBinding") || streq(kind, "ClusterRoleBinding"))
        return binding_cell(column, o);
    if (streq(kind, "ResourceQuota"))
        return quota_cell(column, o);
    if (streq(kind, "PodDisruptionBudget"))
        return budget_cell(column, o);
    if (streq(kind, "Endpoints"))
        return text_cell(endpoints_text(o));
    if (streq(kind, "EndpointSlice"))
        return text_cell(streq(column, "Ports") ? numbers(json_get(o, "ports")) : slice_endpoints(o));
    if (streq(kind, "NetworkPolicy"))
        return text_cell(pod_selector(o));
    if (streq(kind, "StorageClass"))
        return storage_class_cell(column, o);
    if (streq(kind, "PriorityClass"))
        return json_boolean(json_bool_or(json_get(o, "globalDefault"), false));
    if (streq(kind, "ControllerRevision"))
        return controller_cell(object_controller(o));
    return NULL;
}
