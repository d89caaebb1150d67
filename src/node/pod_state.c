/* Keeping a Pod's state over restarts of the node: struct pod_state to JSON and back. */
#include "node/pod_status.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "base/timeutil.h"

void pod_state_init(struct pod_state *s, size_t container_count)
{
    *s = (struct pod_state){.containers = xcalloc(container_count, sizeof(*s->containers)),
                            .container_count = container_count};
}

void container_exit_clear(struct container_exit *e)
{
    free(e->reason);
    free(e->message);
    free(e->id);
    *e = (struct container_exit){0};
}

void pod_state_clear(struct pod_state *s)
{
    for (size_t i = 0; i < s->container_count; i++) {
        struct container_record *c = &s->containers[i];
        free(c->reason);
        free(c->message);
        free(c->id);
        free(c->image_id);
        json_unref(c->resources);
        container_exit_clear(&c->exit);
        container_exit_clear(&c->last);
    }
    free(s->containers);
    free(s->pod_ip);
    free(s->sandbox_id);
    free(s->reason);
    free(s->message);
    *s = (struct pod_state){0};
}

void container_set_waiting(struct container_record *c, const char *reason, const char *message)
{
    char *new_message = message ? xstrdup(message) : NULL, *new_reason = xstrdup(reason);

    free(c->reason);
    free(c->message);
    c->phase = CONTAINER_WAITING;
    c->reason = new_reason;
    c->message = new_message;
    c->ready = c->started = false;
}

static struct json *exit_to_json(const struct container_exit *e)
{
    if (!e->valid)
        return NULL;
    return json_build("{s:i, s:i, s:s, s:s, s:s, s:i, s:i}", "code", (int64_t)e->code, "signal", (int64_t)e->sig,
                      "reason", e->reason, "message", e->message, "id", e->id, "started", e->started_ns, "finished",
                      e->finished_ns);
}

static char *copy_text(const struct json *v, const char *key)
{
    const char *s = json_str(json_get(v, key));

    return s ? xstrdup(s) : NULL;
}

static void exit_from_json(const struct json *v, struct container_exit *ret)
{
    if (!json_is(v, JSON_OBJECT))
        return;
    *ret = (struct container_exit){
        .valid = true,
        .code = (int)json_int_or(json_get(v, "code"), 0),
        .sig = (int)json_int_or(json_get(v, "signal"), 0),
        .reason = copy_text(v, "reason"),
        .message = copy_text(v, "message"),
        .id = copy_text(v, "id"),
        .started_ns = json_int_or(json_get(v, "started"), 0),
        .finished_ns = json_int_or(json_get(v, "finished"), 0),
    };
}

static struct json *container_to_json(const struct container_record *c)
{
    return json_build("{s:i, s:s, s:s, s:i, s:b, s:b, s:i, s:i, s:o, s:o, s:s, s:s, s:i, s:i, s:o}", "phase",
                      (int64_t)c->phase, "reason", c->reason, "message", c->message, "startedAt", c->started_ns,
                      "started", (int)c->started, "ready", (int)c->ready, "restarts", c->restarts, "endsInARow",
                      c->ends_in_a_row, "exit", exit_to_json(&c->exit), "last", exit_to_json(&c->last), "id", c->id,
                      "imageID", c->image_id, "stdoutBase", (int64_t)c->log_base[GUEST_STREAM_STDOUT], "stderrBase",
                      (int64_t)c->log_base[GUEST_STREAM_STDERR], "resources", json_ref(c->resources));
}

static void container_from_json(const struct json *v, struct container_record *c)
{
    int64_t phase = json_int_or(json_get(v, "phase"), CONTAINER_WAITING);

    c->phase = phase == CONTAINER_RUNNING      ? CONTAINER_RUNNING
               : phase == CONTAINER_TERMINATED ? CONTAINER_TERMINATED
                                               : CONTAINER_WAITING;
    c->reason = copy_text(v, "reason");
    c->message = copy_text(v, "message");
    c->started_ns = json_int_or(json_get(v, "startedAt"), 0);
    c->started = json_bool_or(json_get(v, "started"), false);
    c->ready = json_bool_or(json_get(v, "ready"), false);
    c->restarts = json_int_or(json_get(v, "restarts"), 0);
    c->ends_in_a_row = json_int_or(json_get(v, "endsInARow"), 0);
    exit_from_json(json_get(v, "exit"), &c->exit);
    exit_from_json(json_get(v, "last"), &c->last);
    c->id = copy_text(v, "id");
    c->image_id = copy_text(v, "imageID");
    c->resources = json_is(json_get(v, "resources"), JSON_OBJECT) ? json_ref(json_get(v, "resources")) : NULL;
    c->log_base[GUEST_STREAM_STDOUT] = (uint64_t)json_int_or(json_get(v, "stdoutBase"), 0);
    c->log_base[GUEST_STREAM_STDERR] = (uint64_t)json_int_or(json_get(v, "stderrBase"), 0);
    if (c->phase == CONTAINER_TERMINATED && !c->exit.valid)
        c->phase = CONTAINER_WAITING;
}

struct json *pod_state_to_json(const struct pod_state *s)
{
    struct json *containers = json_array_make();

    for (size_t i = 0; i < s->container_count; i++)
        json_push(containers, container_to_json(&s->containers[i]));
    return json_build("{s:o, s:i, s:i, s:s, s:s, s:s, s:s, s:s, s:i, s:i}", "containers", containers, "current",
                      (int64_t)s->current, "start", s->start_ns, "podIP", s->pod_ip, "phase", s->phase, "reason",
                      s->reason, "message", s->message, "sandbox", s->sandbox_id, "uidBase", (int64_t)s->uid_base,
                      "stopSignal", (int64_t)s->stop_signal);
}

int pod_state_from_json(const struct json *v, size_t container_count, struct pod_state *ret, struct error *err)
{
    const struct json *containers = json_get(v, "containers");
    int64_t current = json_int_or(json_get(v, "current"), -1);
    const char *phase = json_str_or(json_get(v, "phase"), "");

    if (json_size(containers) != container_count || current < 0 || (uint64_t)current >= container_count)
        return error_set(err, EINVAL, "state.json is of another Pod or version");
    pod_state_init(ret, container_count);
    for (size_t i = 0; i < container_count; i++)
        container_from_json(json_item(containers, i), &ret->containers[i]);
    ret->current = (size_t)current;
    ret->start_ns = json_int_or(json_get(v, "start"), 0);
    ret->pod_ip = copy_text(v, "podIP");
    ret->phase = streq(phase, "Succeeded") ? "Succeeded" : streq(phase, "Failed") ? "Failed" : NULL;
    ret->reason = copy_text(v, "reason");
    ret->message = copy_text(v, "message");
    ret->sandbox_id = copy_text(v, "sandbox");
    ret->uid_base = (uint32_t)json_int_or(json_get(v, "uidBase"), 0);
    ret->stop_signal = (int)json_int_or(json_get(v, "stopSignal"), 0);
    return 0;
}

static int64_t parse_time(const struct json *v, int64_t fallback)
{
    int64_t ns;

    return json_str(v) && time_parse_rfc3339(json_str(v), &ns) ? ns : fallback;
}

static void exit_from_status(const struct json *terminated, int64_t now_ns, struct container_exit *ret)
{
    if (!json_is(terminated, JSON_OBJECT))
        return;
    *ret = (struct container_exit){
        .valid = true,
        .code = (int)json_int_or(json_get(terminated, "exitCode"), 0),
        .sig = (int)json_int_or(json_get(terminated, "signal"), 0),
        .reason = copy_text(terminated, "reason"),
        .message = copy_text(terminated, "message"),
        .id = copy_text(terminated, "containerID"),
        .started_ns = parse_time(json_get(terminated, "startedAt"), now_ns),
        .finished_ns = parse_time(json_get(terminated, "finishedAt"), now_ns),
    };
}

/* What was running when the machine went down. */
static void lose_container(const struct json *running, int64_t now_ns, struct container_record *c)
{
    c->phase = CONTAINER_TERMINATED;
    c->exit = (struct container_exit){
        .valid = true,
        .code = 137,
        .reason = xstrdup("ContainerStatusUnknown"),
        .message = xstrdup("the sandbox was gone when the node came back: the machine was restarted"),
        .id = c->id ? xstrdup(c->id) : NULL,
        .started_ns = parse_time(json_get(running, "startedAt"), now_ns),
        .finished_ns = now_ns,
    };
}

static const struct json *find_status(const struct json *list, const char *name)
{
    for (size_t i = 0; i < json_size(list); i++)
        if (streq(json_str_or(json_get(json_item(list, i), "name"), ""), name))
            return json_item(list, i);
    return NULL;
}

static void container_from_status(const struct json *status, int64_t now_ns, struct container_record *c)
{
    const struct json *state = json_get(status, "state"), *running = json_get(state, "running");

    c->restarts = json_int_or(json_get(status, "restartCount"), 0);
    c->id = copy_text(status, "containerID");
    exit_from_status(json_at(status, "lastState", "terminated", NULL), now_ns, &c->last);
    exit_from_status(json_get(state, "terminated"), now_ns, &c->exit);
    if (c->exit.valid)
        c->phase = CONTAINER_TERMINATED;
    else if (running)
        lose_container(running, now_ns, c);
}

void pod_state_from_status(const struct json *pod, size_t container_count, int64_t now_ns, struct pod_state *ret)
{
    const struct json *spec = json_get(pod, "spec"), *status = json_get(pod, "status");
    const char *phase = json_str_or(json_get(status, "phase"), "");
    size_t init = container_count - 1;

    pod_state_init(ret, container_count);
    for (size_t i = 0; i < container_count; i++) {
        const struct json *container =
            i < init ? json_item(json_get(spec, "initContainers"), i) : json_item(json_get(spec, "containers"), 0);
        container_from_status(find_status(json_get(status, i < init ? "initContainerStatuses" : "containerStatuses"),
                                          json_str_or(json_get(container, "name"), "")),
                              now_ns, &ret->containers[i]);
    }
    while (ret->current < init && ret->containers[ret->current].exit.valid &&
           ret->containers[ret->current].exit.code == 0)
        ret->current++;
    ret->start_ns = parse_time(json_get(status, "startTime"), now_ns);
    ret->phase = streq(phase, "Succeeded") ? "Succeeded" : streq(phase, "Failed") ? "Failed" : NULL;
    ret->reason = copy_text(status, "reason");
    ret->message = copy_text(status, "message");
}
