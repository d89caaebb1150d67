/* The four conditions of a Sandbox and the rest of its status. Reasons and texts: agent-sandbox v1beta1. */
#include "controllers/sandbox.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"
#include "sandbox/blueprint.h"
#include "sandbox/keys.h"

static const char *phase_of(const struct json *pod)
{
    return json_str_or(json_at(pod, "status", "phase", NULL), "Pending");
}

static bool terminal(const struct json *pod)
{
    return pod && (streq(phase_of(pod), "Succeeded") || streq(phase_of(pod), "Failed"));
}

static const char *terminal_reason(const struct json *pod)
{
    return streq(phase_of(pod), "Succeeded") ? "PodSucceeded" : "PodFailed";
}

static const struct json *conditions_of(const struct json *object)
{
    return json_at(object, "status", "conditions", NULL);
}

static void set(struct sandbox_state *s, struct json *conditions, const char *type, const char *status,
                const char *reason, const char *message)
{
    (void)condition_set(conditions, type, status, reason, message, object_generation(s->sandbox), s->world->now_ns);
}

static void set_suspended(struct sandbox_state *s, struct json *conditions)
{
    if (!s->suspended)
        set(s, conditions, "Suspended", "False", "NotSuspended", "Sandbox is not suspended");
    else if (s->pod || s->multiple_pods)
        set(s, conditions, "Suspended", "False", "PodTerminating", "Pod is terminating. Sandbox is suspending");
    else if (s->foreign_pod)
        set(s, conditions, "Suspended", "False", "PodNotOwned",
            "Refused to delete pod because it is not owned by this sandbox");
    else
        set(s, conditions, "Suspended", "True", "PodTerminated", "Pod has been terminated. Sandbox is suspended");
}

static void set_scheduled(struct sandbox_state *s, struct json *conditions)
{
    if (!s->pod) {
        (void)condition_remove(conditions, "PodScheduled");
        return;
    }
    const struct json *c = condition_find(conditions_of(s->pod), "PodScheduled");
    const char *status = json_str_or(json_get(c, "status"), "Unknown");
    const char *reason = json_str_or(json_get(c, "reason"), "");

    if (!*reason)
        reason = streq(status, "True") ? "PodScheduled" : "PodSchedulingUnknown";
    set(s, conditions, "PodScheduled", status, reason, json_str_or(json_get(c, "message"), ""));
}

/* How the container's run before this one ended: what a back-off is about. */
static void add_last_end(struct strbuf *b, const struct json *container)
{
    const struct json *ended = json_at(container, "lastState", "terminated", NULL);
    const char *message = json_str_or(json_get(ended, "message"), "");

    if (ended)
        strbuf_addf(b, "; it ended with exit code %lld, %s%s%s", (long long)json_int_or(json_get(ended, "exitCode"), 0),
                    json_str_or(json_get(ended, "reason"), "Error"), *message ? ": " : "", message);
}

/* Why the container does not run yet, in the words of whoever found out: "ErrImagePull: no image ..." */
static void add_waiting_reason(struct strbuf *b, const struct json *pod)
{
    const struct json *list = json_at(pod, "status", "containerStatuses", NULL);

    for (size_t i = 0; i < json_size(list); i++) {
        const struct json *waiting = json_at(json_item(list, i), "state", "waiting", NULL);
        const char *reason = json_str_or(json_get(waiting, "reason"), "");
        const char *message = json_str_or(json_get(waiting, "message"), "");

        if (!*reason || streq(reason, "ContainerCreating"))
            continue;
        strbuf_addf(b, " (%s%s%s", reason, *message ? ": " : "", message);
        add_last_end(b, json_item(list, i));
        strbuf_addc(b, ')');
        return;
    }
}

static bool pod_ready(const struct json *pod)
{
    return pod && !object_deleting(pod) && streq(phase_of(pod), "Running") && condition_true(pod, "Ready") &&
           json_size(json_at(pod, "status", "podIPs", NULL)) > 0;
}

static void add_pod_state(struct strbuf *b, const struct json *pod)
{
    if (!pod) {
        strbuf_adds(b, "Pod does not exist yet");
    } else if (object_deleting(pod)) {
        strbuf_adds(b, "Pod is terminating");
    } else if (pod_ready(pod)) {
        strbuf_adds(b, "Pod is Ready");
    } else if (streq(phase_of(pod), "Running")) {
        strbuf_adds(b, "Pod is Running but not Ready");
        add_waiting_reason(b, pod);
    } else {
        strbuf_addf(b, "Pod is %s", phase_of(pod));
        add_waiting_reason(b, pod);
    }
}

/* "DeadlineExceeded": what the Pod as a whole ended by, when that is not the container's own end. */
static void add_end_of_pod(struct strbuf *b, const struct json *pod)
{
    const char *reason = json_str_or(json_at(pod, "status", "reason", NULL), "");
    const char *message = json_str_or(json_at(pod, "status", "message", NULL), "");

    if (*reason)
        strbuf_addf(b, ": %s%s%s", reason, *message ? ": " : "", message);
}

static void set_ready(struct sandbox_state *s, struct json *conditions)
{
    _cleanup_(strbuf_free) struct strbuf message = {0};

    if (s->errors.len) {
        set(s, conditions, "Ready", "False", s->multiple_pods ? "MultiplePods" : "ReconcilerError", s->errors.data);
        return;
    }
    if (s->suspended) {
        bool there = s->pod || s->foreign_pod;
        set(s, conditions, "Ready", "False", "SandboxSuspended",
            there ? "Sandbox is suspending" : "Sandbox is suspended");
        return;
    }
    if (terminal(s->pod)) {
        strbuf_addf(&message, "Pod has ended: %s", phase_of(s->pod));
        add_end_of_pod(&message, s->pod);
        const struct json *ended =
            json_at(json_item(json_at(s->pod, "status", "containerStatuses", NULL), 0), "state", "terminated", NULL);
        if (ended) {
            const char *why = json_str_or(json_get(ended, "message"), "");
            strbuf_addf(&message, " (%s, exit code %lld%s%s)", json_str_or(json_get(ended, "reason"), "ended"),
                        (long long)json_int_or(json_get(ended, "exitCode"), 0), *why ? ": " : "", why);
        }
        set(s, conditions, "Ready", "False", terminal_reason(s->pod), message.data);
        return;
    }
    add_pod_state(&message, s->pod);
    if (s->service_wanted)
        strbuf_adds(&message, s->service ? "; Service Exists" : "; Service does not exist yet");
    bool ready = pod_ready(s->pod) && (!s->service_wanted || s->service);
    set(s, conditions, "Ready", ready ? "True" : "False", ready ? "DependenciesReady" : "DependenciesNotReady",
        message.data);
}

static struct json *pod_ips(const struct json *pod)
{
    const struct json *list = json_at(pod, "status", "podIPs", NULL);

    if (!json_size(list))
        return NULL;
    struct json *ips = json_array_make();
    for (size_t i = 0; i < json_size(list); i++)
        json_push(ips, json_ref(json_get(json_item(list, i), "ip")));
    return ips;
}

static void patch_status(struct sandbox_state *s, struct json *wanted)
{
    static const char *const fields[] = {"conditions", "service", "serviceFQDN", "selector", "podIPs", "nodeName"};
    const struct json *current = json_get(s->sandbox, "status");
    struct json *patch = json_object_make();

    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        if (json_equal(json_get(wanted, fields[i]), json_get(current, fields[i])))
            continue;
        json_set(patch, fields[i], json_ref(json_get(wanted, fields[i])));
    }
    /* A node name alone is not worth a write: it comes with the change that makes the Sandbox Ready. */
    const struct json *condition = condition_find(json_get(wanted, "conditions"), "Ready");
    bool ready = streq(json_str_or(json_get(condition, "status"), ""), "True");
    json_unref(wanted);
    if (json_size(patch) == 0 || (json_size(patch) == 1 && json_has(patch, "nodeName") && !ready)) {
        json_unref(patch);
        return;
    }
    plan_patch(s->plan, &KUBE_SANDBOXES, object_namespace(s->sandbox), object_name(s->sandbox), "status",
               json_build("{s:o}", "status", patch));
}

static struct json *copy_conditions(const struct sandbox_state *s)
{
    struct json *conditions = json_copy_shallow(conditions_of(s->sandbox));

    return conditions ? conditions : json_array_make();
}

void sandbox_write_status(struct sandbox_state *s)
{
    char hash[SANDBOX_HASH_SIZE];
    struct json *conditions = copy_conditions(s);

    set_suspended(s, conditions);
    set_scheduled(s, conditions);
    if (terminal(s->pod))
        set(s, conditions, "Finished", "True", terminal_reason(s->pod), "Pod has ended");
    else
        (void)condition_remove(conditions, "Finished");
    set_ready(s, conditions);

    sandbox_name_hash(object_name(s->sandbox), hash);
    _cleanup_free_ char *selector = xasprintf("%s=%s", KEY_NAME_HASH, hash);
    _cleanup_free_ char *fqdn =
        s->service ? xasprintf("%s.%s.svc.cluster.local", object_name(s->service), object_namespace(s->sandbox)) : NULL;
    patch_status(s, json_build("{s:o, s:s, s:s, s:s, s:o, s:s}", "conditions", conditions, "service",
                               s->service ? object_name(s->service) : NULL, "serviceFQDN", fqdn, "selector", selector,
                               "podIPs", pod_ips(s->pod), "nodeName",
                               json_str(json_at(s->pod, "spec", "nodeName", NULL))));
}

static struct json *expired_conditions(struct sandbox_state *s)
{
    struct json *conditions = copy_conditions(s);

    set_suspended(s, conditions);
    set(s, conditions, "Ready", "False", "SandboxExpired", "Sandbox has expired");
    (void)condition_remove(conditions, "PodScheduled");
    return conditions;
}

bool sandbox_write_expired(struct sandbox_state *s)
{
    const struct json *ready = condition_find(conditions_of(s->sandbox), "Ready");

    if (streq(json_str_or(json_get(ready, "reason"), ""), "SandboxExpired"))
        return true;
    struct json *status = json_copy_shallow(json_get(s->sandbox, "status"));

    if (!status)
        status = json_object_make();
    json_set(status, "conditions", expired_conditions(s));
    patch_status(s, status);
    return false;
}

void sandbox_reduce_status(struct sandbox_state *s)
{
    patch_status(s, json_build("{s:o}", "conditions", expired_conditions(s)));
}
