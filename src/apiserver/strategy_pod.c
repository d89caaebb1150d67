/* Pods: defaults that depend on other fields, placement on the one node, what an update may change, how they end. */
#include "apiserver/eviction.h"
#include "apiserver/limit_range.h"
#include "apiserver/pod_resize.h"
#include "apiserver/pod_validate.h"
#include "apiserver/scheduling.h"
#include "apiserver/strategy.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"

static const char *const container_lists[] = {"initContainers", "containers", "ephemeralContainers"};

/* --- defaults --- */

/* No tag and the tag latest mean: look again each time. */
static const char *pull_policy(const char *image)
{
    const char *name = strrchr(image, '/');
    const char *tag = strchr(name ? name : image, ':');

    if (strchr(image, '@'))
        return "IfNotPresent";
    return !tag || streq(tag, ":latest") ? "Always" : "IfNotPresent";
}

static void default_requests(struct json *container)
{
    const struct json *limits = json_at(container, "resources", "limits", NULL);

    if (json_size(limits) == 0)
        return;
    struct json *requests = json_own(json_own(container, "resources"), "requests");
    for (struct json_iter it = {0}; json_each(limits, &it);)
        if (!json_has(requests, it.key))
            json_set(requests, it.key, json_ref(it.value));
}

static void default_ports(struct json *container)
{
    if (json_size(json_get(container, "ports")) == 0)
        return;
    struct json *ports = json_own(container, "ports");
    for (size_t i = 0; i < json_size(ports); i++)
        if (json_is(json_item(ports, i), JSON_OBJECT) && !json_has(json_item(ports, i), "hostPort"))
            json_set(json_own_item(ports, i), "hostPort", json_ref(json_get(json_item(ports, i), "containerPort")));
}

static void default_containers(struct json *spec, const char *list)
{
    if (!json_is(json_get(spec, list), JSON_ARRAY))
        return;
    struct json *containers = json_own(spec, list);
    for (size_t i = 0; i < json_size(containers); i++) {
        if (!json_is(json_item(containers, i), JSON_OBJECT))
            continue; /* validation will say so */
        struct json *container = json_own_item(containers, i);
        const char *image = json_str_or(json_get(container, "image"), "");
        if (!json_str(json_get(container, "imagePullPolicy")) && *image)
            json_set_str(container, "imagePullPolicy", pull_policy(image));
        default_requests(container);
        if (json_bool_or(json_get(spec, "hostNetwork"), false))
            default_ports(container);
    }
}

static void default_volumes(struct json *spec)
{
    if (!json_is(json_get(spec, "volumes"), JSON_ARRAY))
        return;
    struct json *volumes = json_own(spec, "volumes");
    for (size_t i = 0; i < json_size(volumes); i++)
        if (json_is(json_item(volumes, i), JSON_OBJECT) && json_size(json_item(volumes, i)) == 1)
            json_set(json_own_item(volumes, i), "emptyDir", json_object_make());
}

static void default_service_account(struct json *spec)
{
    const char *name = json_str_or(json_get(spec, "serviceAccountName"), "");

    if (!*name)
        name = json_str_or(json_get(spec, "serviceAccount"), "");
    if (!*name)
        name = "default";
    _cleanup_free_ char *copy = xstrdup(name);
    json_set_str(spec, "serviceAccountName", copy);
    json_set_str(spec, "serviceAccount", copy);
}

static void default_spec(struct json *spec)
{
    for (size_t i = 0; i < ARRAY_LEN(container_lists); i++)
        default_containers(spec, container_lists[i]);
    default_volumes(spec);
    default_service_account(spec);
}

/* --- priority --- */

#define PRIORITY_CLASSES "scheduling.k8s.io/priorityclasses"

/* The class that Pods get which name none: of several the one with the least value; NULL: there is none. */
static struct json *global_priority_class(struct apiserver *s)
{
    size_t count;
    struct stored **list = store_list(s->store, PRIORITY_CLASSES, NULL, &count);
    struct json *found = NULL;

    for (size_t i = 0; i < count; i++) {
        struct json *class = list[i]->value;
        if (json_bool_or(json_get(class, "globalDefault"), false) &&
            (!found || json_int_or(json_get(class, "value"), 0) < json_int_or(json_get(found, "value"), 0)))
            found = class;
    }
    found = json_ref(found);
    store_list_free(list, count);
    return found;
}

/* The class called name, "" for the default one, which may be NULL too. -1: there is none of that name. */
static int find_priority_class(struct api_call *c, const char *name, struct json **ret)
{
    struct api_subject s = api_subject(c);
    const struct stored *stored = *name ? store_get(c->server->store, PRIORITY_CLASSES, name) : NULL;

    if (!*name) {
        *ret = global_priority_class(c->server);
    } else if (stored) {
        *ret = json_ref(stored->value);
    } else {
        _cleanup_free_ char *why = xasprintf("no PriorityClass with name %s was found", name);
        return api_fail(c, status_forbidden(&s, why, NULL));
    }
    return 0;
}

static int set_priority(struct api_call *c, struct json *spec)
{
    _cleanup_json_ struct json *class = NULL;
    struct api_subject s = api_subject(c);

    if (find_priority_class(c, json_str_or(json_get(spec, "priorityClassName"), ""), &class) < 0)
        return -1;
    int64_t value = json_int_or(json_get(class, "value"), 0), given = json_int_or(json_get(spec, "priority"), value);
    if (given != value) {
        _cleanup_free_ char *why =
            xasprintf("the integer value of priority (%lld) must not be provided in pod spec; priority admission "
                      "controller computed %lld from the given PriorityClass name",
                      (long long)given, (long long)value);
        return api_fail(c, status_forbidden(&s, why, NULL));
    }
    if (class)
        json_set_str(spec, "priorityClassName", object_name(class));
    json_set_int(spec, "priority", value);
    if (!json_has(spec, "preemptionPolicy"))
        json_set_str(spec, "preemptionPolicy",
                     json_str_or(json_get(class, "preemptionPolicy"), "PreemptLowerPriority"));
    return 0;
}

/* An update that leaves out what was computed when the Pod was made does not change it. */
static void keep_priority(struct json *spec, const struct json *old)
{
    static const char *const keys[] = {"priority", "preemptionPolicy"};

    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        struct json *before = json_at(old, "spec", keys[i], NULL);
        if (!json_has(spec, keys[i]) && before)
            json_set(spec, keys[i], json_ref(before));
    }
}

/* --- quality of service --- */

static bool quantity_positive(const struct json *v)
{
    const char *text = json_str(v);

    return text ? text[strspn(text, "0.")] != '\0' && *text != '-' : json_int_or(v, 0) > 0;
}

struct qos {
    bool any, all_equal;
};

static void qos_container(const struct json *container, struct qos *q)
{
    static const char *const kinds[] = {"cpu", "memory"};
    const struct json *requests = json_at(container, "resources", "requests", NULL);
    const struct json *limits = json_at(container, "resources", "limits", NULL);

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        const struct json *request = json_get(requests, kinds[i]), *limit = json_get(limits, kinds[i]);
        q->any |= quantity_positive(request) || quantity_positive(limit);
        q->all_equal &= quantity_positive(limit) && json_equal(request, limit);
    }
}

const char *pod_qos_class(const struct json *spec)
{
    struct qos q = {.all_equal = true};

    for (size_t l = 0; l < 2; l++) {
        const struct json *containers = json_get(spec, container_lists[l]);
        for (size_t i = 0; i < json_size(containers); i++)
            qos_container(json_item(containers, i), &q);
    }
    return !q.any ? "BestEffort" : q.all_equal ? "Guaranteed" : "Burstable";
}

/* --- placement --- */

static void set_scheduled(struct apiserver *s, struct json *status, const char *value, const char *reason,
                          const char *message)
{
    struct json *conditions = json_own(status, "conditions");

    if (!json_is(conditions, JSON_ARRAY)) {
        conditions = json_array_make();
        json_set(status, "conditions", conditions);
    }
    char now[TIME_RFC3339_MAX];
    api_time_text(s, now);
    (void)condition_remove(conditions, "PodScheduled");
    json_push(conditions, json_build("{s:s, s:s, s:n, s:s, s:s, s:s}", "type", "PodScheduled", "status", value,
                                     "lastProbeTime", "lastTransitionTime", now, "reason", reason, "message", message));
}

static void place(struct api_call *c, struct json *spec, struct json *status)
{
    if (json_size(json_get(spec, "schedulingGates")) > 0) {
        set_scheduled(c->server, status, "False", "SchedulingGated",
                      "Scheduling is blocked due to non-empty scheduling gates");
        return;
    }
    if (!*json_str_or(json_get(spec, "nodeName"), "") && c->server->node_name) {
        _cleanup_free_ char *obstacle = scheduling_obstacle(c->server, spec);
        if (obstacle) {
            set_scheduled(c->server, status, "False", "Unschedulable", obstacle);
            return;
        }
        json_set_str(spec, "nodeName", c->server->node_name);
    }
    if (*json_str_or(json_get(spec, "nodeName"), ""))
        set_scheduled(c->server, status, "True", NULL, NULL);
}

/* The account must be there; "default" comes with the namespace, at once or a moment later. */
static int check_service_account(struct api_call *c, const struct json *spec)
{
    const char *name = json_str_or(json_get(spec, "serviceAccountName"), "default");
    _cleanup_free_ char *key = key_make(c->ns, name);

    if (streq(name, "default") || store_get(c->server->store, "/serviceaccounts", key))
        return 0;
    struct api_subject s = api_subject(c);
    _cleanup_free_ char *why =
        xasprintf("error looking up service account %s/%s: serviceaccount \"%s\" not found", c->ns, name, name);
    return api_fail(c, status_forbidden(&s, why, NULL));
}

static int check_runtime_class(struct api_call *c, const struct json *spec)
{
    const char *name = json_str_or(json_get(spec, "runtimeClassName"), "");
    struct api_subject s = api_subject(c);

    if (!*name || store_get(c->server->store, "node.k8s.io/runtimeclasses", name))
        return 0;
    _cleanup_free_ char *why = xasprintf("pod rejected: RuntimeClass \"%s\" not found (spec.runtimeClassName)", name);
    return api_fail(c, status_forbidden(&s, why, NULL));
}

static int prepare(struct api_call *c, struct json *o, const struct json *old)
{
    if (!json_is(json_get(o, "spec"), JSON_OBJECT))
        return 0; /* validation will say so */
    if (streq(c->subresource, "resize"))
        return pod_resize_check(c, o, old);
    struct json *spec = json_own(o, "spec");
    default_spec(spec);
    if (!old) {
        if (check_service_account(c, spec) < 0 || check_runtime_class(c, spec) < 0 || set_priority(c, spec) < 0)
            return -1;
        limit_ranges_default(c->server, c->ns, json_get(o, "metadata"), spec);
        struct json *status = json_build("{s:s, s:s}", "phase", "Pending", "qosClass", pod_qos_class(spec));
        json_set(o, "status", status);
        place(c, spec, status);
        return 0;
    }
    keep_priority(spec, old);
    bool was_gated = json_size(json_at(old, "spec", "schedulingGates", NULL)) > 0;
    if (was_gated && json_size(json_get(spec, "schedulingGates")) == 0) {
        place(c, spec, json_own(o, "status"));
    }
    return 0;
}

/* --- updates --- */

#define UPDATE_FORBIDDEN                                                                                               \
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"          \
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"                        \
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"

static void copy_member(struct json *to, const struct json *from, const char *key)
{
    if (json_has(from, key))
        json_set(to, key, json_ref(json_get(from, key)));
    else
        json_remove(to, key);
}

/* Gives the containers of spec the images of those of new, where the lists are alike. */
static void copy_images(struct json *spec, const struct json *new_spec, const char *list)
{
    const struct json *new_list = json_get(new_spec, list);

    if (json_size(new_list) == 0 || json_size(new_list) != json_size(json_get(spec, list)))
        return;
    struct json *containers = json_own(spec, list);
    for (size_t i = 0; i < json_size(containers); i++) {
        struct json *container = json_own_item(containers, i);
        copy_member(container, json_item(new_list, i), "image");
    }
}

static bool contains(const struct json *array, const struct json *item)
{
    for (size_t i = 0; i < json_size(array); i++)
        if (json_equal(json_item(array, i), item))
            return true;
    return false;
}

static bool includes_all(const struct json *bigger, const struct json *smaller)
{
    for (size_t i = 0; i < json_size(smaller); i++)
        if (!contains(bigger, json_item(smaller, i)))
            return false;
    return true;
}

static void validate_update(const struct json *o, const struct json *old, struct field_errors *errors)
{
    const struct json *spec = json_get(o, "spec"), *old_spec = json_get(old, "spec");
    _cleanup_json_ struct json *allowed = json_copy_shallow(old_spec);

    if (json_equal(spec, old_spec))
        return;
    copy_images(allowed, spec, "containers");
    copy_images(allowed, spec, "initContainers");
    copy_member(allowed, spec, "activeDeadlineSeconds");
    if (includes_all(json_get(spec, "tolerations"), json_get(old_spec, "tolerations")))
        copy_member(allowed, spec, "tolerations");
    if (json_size(json_get(old_spec, "schedulingGates")) > 0 &&
        includes_all(json_get(old_spec, "schedulingGates"), json_get(spec, "schedulingGates"))) {
        copy_member(allowed, spec, "schedulingGates");
        if (json_size(json_get(spec, "schedulingGates")) == 0)
            copy_member(allowed, spec, "nodeName");
    }
    if (json_int_or(json_get(old_spec, "terminationGracePeriodSeconds"), 0) < 0 &&
        json_int_or(json_get(spec, "terminationGracePeriodSeconds"), 0) == 1)
        copy_member(allowed, spec, "terminationGracePeriodSeconds");
    if (!json_equal(allowed, spec))
        field_forbidden(errors, "spec", UPDATE_FORBIDDEN);
}

static void validate(const struct api_call *c, const struct json *o, const struct json *old,
                     struct field_errors *errors)
{
    if (old)
        validate_update(o, old, errors);
    else
        pod_validate_new(c->server, o, errors);
}

/* --- subresources --- */

static struct json *merge(struct api_call *c, struct json *object, const struct json *old)
{
    if (!streq(c->subresource, "resize"))
        return object; /* a binding: made here, from the old one */
    return pod_resize_merge(object, old);
}

static struct json *plain_success(void)
{
    return json_build("{s:s, s:s, s:{}, s:s, s:i}", "kind", "Status", "apiVersion", "v1", "metadata", "status",
                      "Success", "code", (int64_t)201);
}

static void bind_pod(struct api_call *c)
{
    struct stored *pod = api_current(c);
    const char *node = json_str_at(c->body, "target", "name", NULL);
    struct api_subject s = api_subject(c);

    if (!pod)
        return;
    if (!node || !*node) {
        (void)api_fail(c, status_bad_request("a binding must name its target"));
        return;
    }
    if (*json_str_or(json_at(pod->value, "spec", "nodeName", NULL), "")) {
        (void)api_fail(c, status_conflict(&s, "the pod is already assigned to a node"));
        return;
    }
    struct json *bound = json_copy_shallow(pod->value);
    (void)json_own(bound, "metadata");
    json_set_str(json_own(bound, "spec"), "nodeName", node);
    set_scheduled(c->server, json_own(bound, "status"), "True", NULL, NULL);
    if (api_store_change(c, pod, bound) == 0)
        (void)api_answer(c, 201, plain_success());
}

/* A sandbox has one container; others that share its namespaces would need one of their own. */
static bool refuse_ephemeral(struct api_call *c)
{
    struct api_subject s = api_subject(c);

    (void)api_fail(c, status_forbidden(&s,
                                       "ephemeral containers are not supported: use kubectl exec, which runs a "
                                       "program in the sandbox as its container sees it",
                                       NULL));
    return true;
}

static bool act(struct api_call *c)
{
    if (streq(c->subresource, "ephemeralcontainers") && c->verb != VERB_GET && api_current(c))
        return refuse_ephemeral(c);
    if (c->verb != VERB_CREATE)
        return false;
    if (streq(c->subresource, "binding"))
        bind_pod(c);
    else if (streq(c->subresource, "eviction"))
        eviction_execute(c);
    else
        return false;
    return true;
}

/* Where nobody runs it, or nothing of it runs any more, there is nothing to wait for. */
static int64_t grace(const struct apiserver *s, const struct json *pod, int64_t wish)
{
    const char *phase = json_str_or(json_at(pod, "status", "phase", NULL), "");
    const char *node = json_str_or(json_at(pod, "spec", "nodeName", NULL), "");

    if (!*node || !scheduling_node_exists(s, node) || streq(phase, "Succeeded") || streq(phase, "Failed"))
        return 0;
    if (wish < 0)
        wish = json_int_or(json_at(pod, "spec", "terminationGracePeriodSeconds", NULL), 30);
    return wish < 0 ? 1 : wish;
}

const struct strategy strategy_pods = {
    .group = "",
    .plural = "pods",
    .prepare = prepare,
    .validate = validate,
    .merge = merge,
    .act = act,
    .grace = grace,
};
