#include "sandbox/blueprint.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"
#include "sandbox/keys.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>

void sandbox_name_hash(const char *name, char out[SANDBOX_HASH_SIZE])
{
    (void)snprintf(out, SANDBOX_HASH_SIZE, "%08" PRIx32, fnv1a32(name));
}

static bool reserved(const char *key)
{
    return str_skip_prefix(key, KEY_PREFIX) || str_skip_prefix(key, KEY_EXTENSIONS_PREFIX);
}

/* Clients name themselves; anything unknown would be a free-form label on the Pod. */
static const char *created_by(const char *value)
{
    static const char *const known[] = {"go-client", "python-client", "controller"};

    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (streq(value, known[i]))
            return known[i];
    return "unknown";
}

/* What the podTemplate gives, without reserved keys. */
static struct json *propagated(const struct json *sandbox, const char *which)
{
    struct json *map = json_object_make();

    for (struct json_iter it = {0}; json_each(json_at(sandbox, "spec", "podTemplate", "metadata", which, NULL), &it);)
        if (!reserved(it.key) && !streq(it.key, KEY_TRACE_CONTEXT))
            json_set(map, it.key, json_ref(it.value));
    return map;
}

static int compare_strings(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sorted and comma-separated; NULL when there are none. */
static char *key_list(const struct json *map)
{
    _cleanup_strv_ char **keys = NULL;
    struct strbuf b = {0};

    for (struct json_iter it = {0}; json_each(map, &it);)
        keys = strv_append(keys, xstrdup(it.key));
    if (!keys)
        return NULL;
    qsort(keys, strv_len(keys), sizeof(*keys), compare_strings);
    for (size_t i = 0; keys[i]; i++)
        strbuf_addf(&b, "%s%s", i ? "," : "", keys[i]);
    return strbuf_detach(&b);
}

static struct json *pod_labels(const struct json *sandbox)
{
    struct json *labels = propagated(sandbox, "labels");
    const char *owner_kind = json_str_or(json_get(object_controller(sandbox), "kind"), "");
    const char *owner_api = json_str_or(json_get(object_controller(sandbox), "apiVersion"), "");
    const char *by = object_label(sandbox, KEY_CREATED_BY);
    char hash[SANDBOX_HASH_SIZE];

    sandbox_name_hash(object_name(sandbox), hash);
    json_set_str(labels, KEY_NAME_HASH, hash);
    if (streq(owner_kind, "SandboxWarmPool"))
        json_set_str(labels, KEY_WARM_POOL, object_label(sandbox, KEY_WARM_POOL));
    if (str_skip_prefix(owner_api, KEY_EXTENSIONS_PREFIX))
        json_set_str(labels, KEY_TEMPLATE_REF_HASH, object_label(sandbox, KEY_TEMPLATE_REF_HASH));
    if (by)
        json_set_str(labels, KEY_CREATED_BY, created_by(by));
    return labels;
}

static struct json *pod_annotations(const struct json *sandbox)
{
    _cleanup_json_ struct json *labels = propagated(sandbox, "labels");
    struct json *annotations = propagated(sandbox, "annotations");
    _cleanup_free_ char *label_keys = key_list(labels), *annotation_keys = key_list(annotations);

    json_set_str(annotations, KEY_PROPAGATED_LABELS, label_keys);
    json_set_str(annotations, KEY_PROPAGATED_ANNOTATIONS, annotation_keys);
    return annotations;
}

/* Each volumeClaimTemplate becomes a volume of its name, in place of one of the same name. */
static struct json *volumes_with_claims(const struct json *sandbox, const struct json *volumes)
{
    const struct json *templates = json_at(sandbox, "spec", "volumeClaimTemplates", NULL);
    struct json *result = json_array_make();

    for (size_t i = 0; i < json_size(volumes); i++) {
        const char *name = json_str_or(json_get(json_item(volumes, i), "name"), "");
        bool replaced = false;
        for (size_t t = 0; t < json_size(templates); t++)
            replaced |= streq(name, object_name(json_item(templates, t)));
        if (!replaced)
            json_push(result, json_ref(json_item(volumes, i)));
    }
    for (size_t t = 0; t < json_size(templates); t++) {
        _cleanup_free_ char *claim = sandbox_pvc_name(sandbox, json_item(templates, t));
        json_push(result, json_build("{s:s, s:{s:s}}", "name", object_name(json_item(templates, t)),
                                     "persistentVolumeClaim", "claimName", claim));
    }
    return result;
}

static struct json *metadata(const struct json *sandbox, const char *name, struct json *labels,
                             struct json *annotations)
{
    struct json *owner = owner_reference(sandbox);

    if (json_size(annotations) == 0) {
        json_unref(annotations);
        annotations = NULL;
    }
    return json_build("{s:s, s:s, s:o, s:o, s:[o]}", "name", name, "namespace", object_namespace(sandbox), "labels",
                      labels, "annotations", annotations, "ownerReferences", owner);
}

struct json *sandbox_build_pod(const struct json *sandbox)
{
    struct json *spec = json_copy_shallow(json_at(sandbox, "spec", "podTemplate", "spec", NULL));

    if (json_size(json_at(sandbox, "spec", "volumeClaimTemplates", NULL)))
        json_set(spec, "volumes", volumes_with_claims(sandbox, json_get(spec, "volumes")));
    return json_build("{s:s, s:s, s:o, s:o}", "apiVersion", "v1", "kind", "Pod", "metadata",
                      metadata(sandbox, object_name(sandbox), pod_labels(sandbox), pod_annotations(sandbox)), "spec",
                      spec);
}

/* Keys of a propagated-* list that are not wanted any more become null in the patch. */
static void prune_listed(const char *list, const struct json *wanted, const struct json *current, struct json *patch)
{
    _cleanup_free_ char *copy = xstrdup(list ? list : "");
    char *save = NULL;

    for (char *key = strtok_r(copy, ",", &save); key; key = strtok_r(NULL, ",", &save))
        if (!reserved(key) && !json_has(wanted, key) && json_has(current, key))
            json_set(patch, key, NULL);
}

static struct json *map_patch(const struct json *wanted, const struct json *current)
{
    struct json *patch = json_object_make();

    for (struct json_iter it = {0}; json_each(wanted, &it);)
        if (!json_equal(it.value, json_get(current, it.key)))
            json_set(patch, it.key, json_ref(it.value));
    return patch;
}

struct json *sandbox_pod_metadata_patch(const struct json *sandbox, const struct json *pod)
{
    /* Reserved keys that come and go with the Sandbox's owner. */
    static const char *const managed[] = {KEY_WARM_POOL, KEY_TEMPLATE_REF_HASH, KEY_CREATED_BY};
    const struct json *labels = json_at(pod, "metadata", "labels", NULL);
    const struct json *annotations = json_at(pod, "metadata", "annotations", NULL);
    _cleanup_json_ struct json *want_labels = pod_labels(sandbox), *want_annotations = pod_annotations(sandbox);
    struct json *label_patch = map_patch(want_labels, labels);
    struct json *annotation_patch = map_patch(want_annotations, annotations);
    static const char *const lists[] = {KEY_PROPAGATED_LABELS, KEY_PROPAGATED_ANNOTATIONS};

    prune_listed(object_annotation(pod, KEY_PROPAGATED_LABELS), want_labels, labels, label_patch);
    prune_listed(object_annotation(pod, KEY_PROPAGATED_ANNOTATIONS), want_annotations, annotations, annotation_patch);
    for (size_t i = 0; i < ARRAY_LEN(managed); i++)
        if (json_has(labels, managed[i]) && !json_has(want_labels, managed[i]))
            json_set(label_patch, managed[i], NULL);
    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        if (json_has(annotations, lists[i]) && !json_has(want_annotations, lists[i]))
            json_set(annotation_patch, lists[i], NULL);

    if (json_size(label_patch) == 0 && json_size(annotation_patch) == 0) {
        json_unref(label_patch);
        json_unref(annotation_patch);
        return NULL;
    }
    return json_build("{s:{s:o, s:o}}", "metadata", "labels", label_patch, "annotations", annotation_patch);
}

struct port {
    int64_t number;
    const char *protocol, *name;
};

static int compare_ports(const void *a, const void *b)
{
    const struct port *x = a, *y = b;

    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    return strcmp(x->protocol, y->protocol);
}

static void add_ports(const struct json *containers, bool sidecars_only, struct port **ports, size_t *count,
                      size_t *capacity)
{
    for (size_t c = 0; c < json_size(containers); c++) {
        const struct json *container = json_item(containers, c), *list = json_get(container, "ports");

        if (sidecars_only && !streq(json_str_or(json_get(container, "restartPolicy"), ""), "Always"))
            continue;
        for (size_t i = 0; i < json_size(list); i++) {
            const struct json *p = json_item(list, i);
            struct port port = {json_int_or(json_get(p, "containerPort"), 0),
                                json_str_or(json_get(p, "protocol"), "TCP"), json_str(json_get(p, "name"))};
            bool known = port.number == 0;

            if (!*port.protocol)
                port.protocol = "TCP";
            for (size_t k = 0; k < *count && !known; k++)
                known = (*ports)[k].number == port.number && streq((*ports)[k].protocol, port.protocol);
            if (known)
                continue;
            GROW(*ports, *capacity, *count + 1);
            (*ports)[(*count)++] = port;
        }
    }
}

static bool name_taken(const struct json *list, const char *name)
{
    for (size_t i = 0; i < json_size(list); i++)
        if (streq(json_str_or(json_get(json_item(list, i), "name"), ""), name))
            return true;
    return false;
}

static char *port_name(const struct json *taken, const struct port *port)
{
    if (port->name && *port->name && !name_taken(taken, port->name))
        return xstrdup(port->name);
    _cleanup_free_ char *base = xasprintf("p-%" PRId64 "-%s", port->number, port->protocol);
    for (char *c = base; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    if (!name_taken(taken, base))
        return take_ptr(base);
    for (unsigned n = 2;; n++) {
        char *name = xasprintf("%s-%u", base, n);
        if (!name_taken(taken, name))
            return name;
        free(name);
    }
}

/* Every port a container declares, once per number and protocol. NULL: none. */
static struct json *service_ports(const struct json *sandbox)
{
    const struct json *spec = json_at(sandbox, "spec", "podTemplate", "spec", NULL);
    _cleanup_free_ struct port *ports = NULL;
    size_t count = 0, capacity = 0;

    add_ports(json_get(spec, "containers"), false, &ports, &count, &capacity);
    add_ports(json_get(spec, "initContainers"), true, &ports, &count, &capacity);
    if (!count)
        return NULL;
    qsort(ports, count, sizeof(*ports), compare_ports);
    struct json *list = json_array_make();
    for (size_t i = 0; i < count; i++) {
        _cleanup_free_ char *name = port_name(list, &ports[i]);
        json_push(list, json_build("{s:s, s:i, s:s, s:i}", "name", name, "port", ports[i].number, "protocol",
                                   ports[i].protocol, "targetPort", ports[i].number));
    }
    return list;
}

static struct json *tracking(const struct json *sandbox)
{
    char hash[SANDBOX_HASH_SIZE];

    sandbox_name_hash(object_name(sandbox), hash);
    return json_build("{s:s}", KEY_NAME_HASH, hash);
}

struct json *sandbox_build_service(const struct json *sandbox)
{
    return json_build("{s:s, s:s, s:o, s:{s:s, s:o, s:o}}", "apiVersion", "v1", "kind", "Service", "metadata",
                      metadata(sandbox, object_name(sandbox), tracking(sandbox), NULL), "spec", "clusterIP", "None",
                      "selector", tracking(sandbox), "ports", service_ports(sandbox));
}

/* Only what we set is compared: the API server adds defaults of its own to each port. */
static bool same_ports(const struct json *a, const struct json *b)
{
    static const char *const keys[] = {"name", "port", "protocol", "targetPort"};

    if (json_size(a) != json_size(b))
        return false;
    for (size_t i = 0; i < json_size(a); i++)
        for (size_t k = 0; k < ARRAY_LEN(keys); k++)
            if (!json_equal(json_get(json_item(a, i), keys[k]), json_get(json_item(b, i), keys[k])))
                return false;
    return true;
}

struct json *sandbox_service_patch(const struct json *sandbox, const struct json *service, bool with_ports)
{
    _cleanup_json_ struct json *want = tracking(sandbox), *ports = with_ports ? service_ports(sandbox) : NULL;
    const char *hash = json_str(json_get(want, KEY_NAME_HASH));
    struct json *patch = json_object_make();

    if (!streq_null(object_label(service, KEY_NAME_HASH), hash))
        json_set(json_ensure_object(patch, "metadata"), "labels", json_ref(want));
    const struct json *selector = json_at(service, "spec", "selector", NULL);
    if (!json_equal(selector, want)) {
        struct json *s = json_copy(want);
        for (struct json_iter it = {0}; json_each(selector, &it);)
            if (!json_has(want, it.key))
                json_set(s, it.key, NULL);
        json_set(json_ensure_object(patch, "spec"), "selector", s);
    }
    if (with_ports && !same_ports(ports, json_at(service, "spec", "ports", NULL)))
        json_set(json_ensure_object(patch, "spec"), "ports", json_ref(ports));
    if (json_size(patch) == 0) {
        json_unref(patch);
        return NULL;
    }
    return patch;
}

char *sandbox_pvc_name(const struct json *sandbox, const struct json *template)
{
    return xasprintf("%s-%s", object_name(template), object_name(sandbox));
}

struct json *sandbox_build_pvc(const struct json *sandbox, const struct json *template)
{
    _cleanup_free_ char *name = sandbox_pvc_name(sandbox, template);
    struct json *labels = json_copy(json_at(template, "metadata", "labels", NULL));
    char hash[SANDBOX_HASH_SIZE];

    if (!labels)
        labels = json_object_make();
    sandbox_name_hash(object_name(sandbox), hash);
    json_set_str(labels, KEY_NAME_HASH, hash);
    return json_build("{s:s, s:s, s:o, s:O}", "apiVersion", "v1", "kind", "PersistentVolumeClaim", "metadata",
                      metadata(sandbox, name, labels, json_copy(json_at(template, "metadata", "annotations", NULL))),
                      "spec", json_get(template, "spec"));
}
