/* The columns of pods: READY, STATUS and RESTARTS are what people look at first, and have a rule of their own. */
#include "apiserver/table.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "base/timeutil.h"
#include "kube/object.h"

struct summary {
    int64_t ready, total, restarts;
    int64_t last_restart_ns; /* 0 = none */
    char *reason;
};

static void set_reason(struct summary *s, char *taken)
{
    free(s->reason);
    s->reason = taken;
}

static bool filled(const struct json *v)
{
    return json_str(v) && *json_str(v);
}

/* Sidecars: init containers that keep running. */
static bool restartable(const struct json *spec, const char *name)
{
    const struct json *inits = json_get(spec, "initContainers");

    for (size_t i = 0; i < json_size(inits); i++)
        if (streq(json_str_or(json_get(json_item(inits, i), "name"), ""), name))
            return streq(json_str_or(json_get(json_item(inits, i), "restartPolicy"), ""), "Always");
    return false;
}

static void count_restarts(struct summary *s, const struct json *container)
{
    int64_t finished;
    const char *at = json_str(json_at(container, "lastState", "terminated", "finishedAt", NULL));

    s->restarts += json_int_or(json_get(container, "restartCount"), 0);
    if (at && time_parse_rfc3339(at, &finished))
        s->last_restart_ns = MAX(s->last_restart_ns, finished);
}

/* "Signal:9" or "ExitCode:1", prefixed. */
static char *exit_reason(const struct json *terminated, const char *prefix)
{
    int64_t signal_number = json_int_or(json_get(terminated, "signal"), 0);

    if (filled(json_get(terminated, "reason")))
        return xasprintf("%s%s", prefix, json_str(json_get(terminated, "reason")));
    if (signal_number)
        return xasprintf("%sSignal:%lld", prefix, (long long)signal_number);
    return xasprintf("%sExitCode:%lld", prefix, (long long)json_int_or(json_get(terminated, "exitCode"), 0));
}

/* Returns whether the pod is still in its init containers. */
static bool init_containers(struct summary *s, const struct json *pod)
{
    const struct json *statuses = json_at(pod, "status", "initContainerStatuses", NULL), *spec = json_get(pod, "spec");
    size_t total = json_size(json_get(spec, "initContainers"));

    for (size_t i = 0; i < json_size(statuses); i++) {
        const struct json *c = json_item(statuses, i), *state = json_get(c, "state");
        const struct json *terminated = json_get(state, "terminated"), *waiting = json_get(state, "waiting");
        bool sidecar = restartable(spec, json_str_or(json_get(c, "name"), ""));
        count_restarts(s, c);
        if (terminated && json_int_or(json_get(terminated, "exitCode"), 0) == 0)
            continue;
        if (sidecar && json_bool_or(json_get(c, "started"), false)) {
            s->ready += json_bool_or(json_get(c, "ready"), false);
            continue;
        }
        if (terminated)
            set_reason(s, exit_reason(terminated, "Init:"));
        else if (filled(json_get(waiting, "reason")) &&
                 !streq(json_str(json_get(waiting, "reason")), "PodInitializing"))
            set_reason(s, xasprintf("Init:%s", json_str(json_get(waiting, "reason"))));
        else
            set_reason(s, xasprintf("Init:%zu/%zu", i, total));
        return true;
    }
    return false;
}

static void containers(struct summary *s, const struct json *pod)
{
    const struct json *statuses = json_at(pod, "status", "containerStatuses", NULL);
    bool running = false;

    for (size_t i = json_size(statuses); i-- > 0;) {
        const struct json *c = json_item(statuses, i), *state = json_get(c, "state");
        const struct json *waiting = json_get(state, "waiting"), *terminated = json_get(state, "terminated");
        count_restarts(s, c);
        if (filled(json_get(waiting, "reason"))) {
            set_reason(s, xstrdup(json_str(json_get(waiting, "reason"))));
        } else if (terminated) {
            set_reason(s, exit_reason(terminated, ""));
        } else if (json_bool_or(json_get(c, "ready"), false) && json_get(state, "running")) {
            running = true;
            s->ready++;
        }
    }
    if (streq(s->reason, "Completed") && running)
        set_reason(s, xstrdup(condition_true(pod, "Ready") ? "Running" : "NotReady"));
}

static void summarise(const struct json *pod, struct summary *s)
{
    const struct json *status = json_get(pod, "status"), *spec = json_get(pod, "spec");
    const char *phase = json_str_or(json_get(status, "phase"), "Unknown");
    const struct json *scheduled = condition_find(json_get(status, "conditions"), "PodScheduled");
    const struct json *inits = json_get(spec, "initContainers");

    set_reason(s, xstrdup(filled(json_get(status, "reason")) ? json_str(json_get(status, "reason")) : phase));
    s->total = (int64_t)json_size(json_get(spec, "containers"));
    for (size_t i = 0; i < json_size(inits); i++)
        s->total += streq(json_str_or(json_get(json_item(inits, i), "restartPolicy"), ""), "Always");
    if (streq(json_str_or(json_get(scheduled, "reason"), ""), "SchedulingGated"))
        set_reason(s, xstrdup("SchedulingGated"));
    if (!init_containers(s, pod) || condition_true(pod, "Initialized"))
        containers(s, pod);
    if (!object_deleting(pod))
        return;
    if (streq(json_str_or(json_get(status, "reason"), ""), "NodeLost"))
        set_reason(s, xstrdup("Unknown"));
    else if (!streq(phase, "Succeeded") && !streq(phase, "Failed"))
        set_reason(s, xstrdup("Terminating"));
}

static char *restarts_text(const struct summary *s, int64_t now_ns)
{
    char age[64];

    if (s->restarts == 0 || s->last_restart_ns == 0)
        return xasprintf("%lld", (long long)s->restarts);
    duration_text(now_ns - s->last_restart_ns, age, sizeof(age));
    return xasprintf("%lld (%s ago)", (long long)s->restarts, age);
}

static char *gates_text(const struct json *pod)
{
    const struct json *gates = json_at(pod, "spec", "readinessGates", NULL);
    size_t met = 0;

    if (json_size(gates) == 0)
        return xstrdup("<none>");
    for (size_t i = 0; i < json_size(gates); i++)
        met += condition_true(pod, json_str_or(json_get(json_item(gates, i), "conditionType"), ""));
    return xasprintf("%zu/%zu", met, json_size(gates));
}

struct json *table_pod_cell(const char *column, const struct json *pod, int64_t now_ns)
{
    struct summary s = {0};
    _cleanup_free_ char *text = NULL;

    summarise(pod, &s);
    if (streq(column, "Ready"))
        text = xasprintf("%lld/%lld", (long long)s.ready, (long long)s.total);
    else if (streq(column, "Status"))
        text = xstrdup(s.reason);
    else if (streq(column, "Restarts"))
        text = restarts_text(&s, now_ns);
    else if (streq(column, "Readiness Gates"))
        text = gates_text(pod);
    free(s.reason);
    return text ? json_string(text) : NULL;
}

const char *table_pod_reason(const struct json *pod)
{
    const char *phase = json_str_or(json_at(pod, "status", "phase", NULL), "");

    return streq(phase, "Succeeded") || streq(phase, "Failed") ? phase : NULL;
}
