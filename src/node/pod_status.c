#include "node/pod_status.h"

#include "base/memory.h"
#include "base/strbuf.h"
#include "base/strutil.h"
#include "base/timeutil.h"
#include "kube/object.h"

static struct json *time_json(int64_t ns)
{
    char text[TIME_RFC3339_MAX];

    time_format_rfc3339(ns, 0, text);
    return json_string(text);
}

static struct json *terminated_json(const struct container_exit *e)
{
    return json_build("{s:{s:i, s:o, s:s, s:s, s:o, s:o, s:s}}", "terminated", "exitCode", (int64_t)e->code, "signal",
                      e->sig ? json_int(e->sig) : NULL, "reason", e->reason, "message", e->message, "startedAt",
                      time_json(e->started_ns), "finishedAt", time_json(e->finished_ns), "containerID", e->id);
}

static struct json *state_json(const struct container_record *c)
{
    switch (c->phase) {
    case CONTAINER_RUNNING:
        return json_build("{s:{s:o}}", "running", "startedAt", time_json(c->started_ns));
    case CONTAINER_TERMINATED:
        return terminated_json(&c->exit);
    case CONTAINER_WAITING:
        break;
    }
    return json_build("{s:{s:s, s:s}}", "waiting", "reason", c->reason ? c->reason : "ContainerCreating", "message",
                      c->message);
}

static struct json *container_json(const struct json *spec, const struct container_record *c)
{
    return json_build("{s:s, s:s, s:s, s:s, s:b, s:b, s:i, s:o, s:o, s:o, s:o}", "name",
                      json_str(json_get(spec, "name")), "image", json_str_or(json_get(spec, "image"), ""), "imageID",
                      c->image_id ? c->image_id : "", "containerID", c->id, "ready", (int)c->ready, "started",
                      (int)c->started, "restartCount", c->restarts, "state", state_json(c), "lastState",
                      c->last.valid ? terminated_json(&c->last) : json_object_make(), "allocatedResources",
                      json_ref(json_get(c->resources, "requests")), "resources", json_ref(c->resources));
}

const char *pod_phase(const struct pod_state *s)
{
    const struct container_record *last = &s->containers[s->container_count - 1];

    if (s->phase)
        return s->phase;
    if (s->current + 1 < s->container_count)
        return "Pending";
    return last->phase != CONTAINER_WAITING || last->last.valid ? "Running" : "Pending";
}

/* "containers with unready status: [a]". */
static char *unready_text(const struct json *containers, const struct container_record *c)
{
    if (c->ready)
        return NULL;
    return xasprintf("containers with unready status: [%s]",
                     json_str_or(json_get(json_item(containers, 0), "name"), ""));
}

static const char *unmet_gate(const struct json *pod)
{
    const struct json *gates = json_at(pod, "spec", "readinessGates", NULL);

    for (size_t i = 0; i < json_size(gates); i++) {
        const char *type = json_str_or(json_get(json_item(gates, i), "conditionType"), "");
        if (!condition_true(pod, type))
            return type;
    }
    return NULL;
}

static void set_condition(struct json *conditions, const char *type, bool value, const char *reason,
                          const char *message, int64_t now_ns)
{
    (void)condition_set(conditions, type, value ? "True" : "False", value ? NULL : reason, value ? NULL : message, -1,
                        now_ns); /* whether it changed shows in the comparison of the whole */
}

static struct json *conditions_json(const struct json *pod, const struct pod_state *s, int64_t now_ns)
{
    const struct json *old = json_at(pod, "status", "conditions", NULL), *spec = json_get(pod, "spec");
    const struct container_record *last = &s->containers[s->container_count - 1];
    struct json *conditions = old ? json_copy(old) : json_array_make();
    const char *over = s->phase && streq(s->phase, "Succeeded") ? "PodCompleted" : s->phase ? "PodFailed" : NULL;
    const char *gate = unmet_gate(pod);
    bool initialized = s->current + 1 == s->container_count || (s->phase && streq(s->phase, "Succeeded"));
    _cleanup_free_ char *unready = unready_text(json_get(spec, "containers"), last), *uninitialized = NULL;

    if (!initialized)
        uninitialized =
            xasprintf("containers with incomplete status: [%s]",
                      json_str_or(json_get(json_item(json_get(spec, "initContainers"), s->current), "name"), ""));
    if (!condition_find(conditions, "PodScheduled"))
        set_condition(conditions, "PodScheduled", true, NULL, NULL, now_ns);
    set_condition(conditions, "PodReadyToStartContainers", s->sandbox, NULL, NULL, now_ns);
    set_condition(conditions, "Initialized", initialized, "ContainersNotInitialized", uninitialized, now_ns);
    set_condition(conditions, "ContainersReady", last->ready, over ? over : "ContainersNotReady", over ? NULL : unready,
                  now_ns);
    if (last->ready && gate) {
        _cleanup_free_ char *text = xasprintf("corresponding condition of pod readiness gate \"%s\" does not exist or "
                                              "is not True",
                                              gate);
        set_condition(conditions, "Ready", false, "ReadinessGatesNotReady", text, now_ns);
    } else {
        set_condition(conditions, "Ready", last->ready, over ? over : "ContainersNotReady", over ? NULL : unready,
                      now_ns);
    }
    return conditions;
}

static struct json *address_list(const char *ip)
{
    return ip ? json_build("[{s:s}]", "ip", ip) : NULL;
}

static struct json *statuses(const struct json *containers, const struct container_record *records, size_t count)
{
    struct json *list = json_array_make();

    for (size_t i = 0; i < count; i++)
        json_push(list, container_json(json_item(containers, i), &records[i]));
    return list;
}

/* A text that is set, or the removal of one that was. */
static void set_or_remove(struct json *status, const struct json *old, const char *key, const char *value)
{
    if (value)
        json_set_str(status, key, value);
    else if (json_has(old, key))
        json_set(status, key, NULL);
}

static bool changes(const struct json *old, const struct json *status)
{
    for (struct json_iter it = {0}; json_each(status, &it);)
        if (!json_equal(json_get(old, it.key), it.value))
            return true;
    return false;
}

struct json *pod_status_patch(const struct json *pod, const struct pod_state *s, const char *host_ip, int64_t now_ns)
{
    const struct json *spec = json_get(pod, "spec"), *old = json_get(pod, "status");
    size_t init = s->container_count - 1;
    struct json *status = json_build(
        "{s:s, s:o, s:s, s:o, s:s, s:o, s:o, s:o, s:o}", "phase", pod_phase(s), "conditions",
        conditions_json(pod, s, now_ns), "hostIP", host_ip, "hostIPs", address_list(host_ip), "podIP", s->pod_ip,
        "podIPs", address_list(s->pod_ip), "startTime", time_json(s->start_ns), "initContainerStatuses",
        init ? statuses(json_get(spec, "initContainers"), s->containers, init) : NULL, "containerStatuses",
        statuses(json_get(spec, "containers"), s->containers + init, 1));

    set_or_remove(status, old, "reason", s->reason);
    set_or_remove(status, old, "message", s->message);
    set_or_remove(status, old, "resize", s->resize);
    if (!changes(old, status)) {
        json_unref(status);
        return NULL;
    }
    return json_build("{s:o}", "status", status);
}
