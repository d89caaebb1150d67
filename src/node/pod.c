#include "node/pod_internal.h"

#include "base/fdio.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"
#include "node/claims.h"
#include "sandbox/paths.h"

#include <fcntl.h>
#include <inttypes.h>

#define STATE_MAX (1u << 20)
#define REFUSED_MESSAGE_MAX 1000

struct pod *pod_find(struct node *n, const char *uid)
{
    return hashmap_get(&n->pods, uid);
}

void pod_warn(struct pod *p, const char *reason, const char *message)
{
    _cleanup_free_ char *event = xasprintf("%s %s", reason, message);

    if (streq_null(event, p->last_event))
        return;
    free(p->last_event);
    p->last_event = take_ptr(event);
    node_event(p->node, p->object, "Warning", reason, message);
}

void pod_save(struct pod *p)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_free_ char *dir = path_pod_run(p->node->run_dir, p->uid);
    _cleanup_free_ char *path = xasprintf("%s/state.json", dir);
    _cleanup_json_ struct json *v = pod_state_to_json(&p->state);

    json_set_str(v, "namespace", p->ns);
    json_set_str(v, "name", p->name);
    _cleanup_free_ char *text = json_text(v);
    if (file_replace_at(AT_FDCWD, path, text, strlen(text), 0600, &err) < 0)
        log_error("cannot keep the state of a Pod", "pod", p->uid, "error", error_text(&err), NULL);
}

/* Life. */

static void on_timer(evutil_socket_t fd UNUSED, short what UNUSED, void *arg)
{
    pod_step(arg);
}

static void pod_free(struct pod *p)
{
    probes_stop(p);
    pod_drop_connections(p);
    log_file_close(p->log);
    if (p->timer)
        event_free(p->timer);
    hashmap_free(&p->inputs, (void (*)(void *))json_unref);
    pod_spec_clear(&p->spec);
    pod_state_clear(&p->state);
    json_unref(p->object);
    free(p->last_event);
    free(p->ns);
    free(p->name);
    free(p->uid);
    free(p);
}

void pod_detach(struct pod *p)
{
    (void)hashmap_remove(&p->node->pods, p->uid); /* it is p */
    pod_free(p);
}

/* The node ends: what the next one needs is in state.json. */
static void leave(struct pod *p)
{
    struct node *n = p->node;

    pod_detach(p);
    if (!n->pods.count)
        (void)event_base_loopbreak(n->base);
}

static void forget(struct pod *p)
{
    struct node *n = p->node;

    if (!p->files_gone)
        pod_remove_files(p);
    pod_detach(p);
    claims_collect(n->claims); /* it may have been the last to use one that is gone */
    if (n->stopping && !n->pods.count)
        (void)event_base_loopbreak(n->base);
}

/* The state this Pod had when an earlier run of the node kept it; false when there is none. */
static bool load_state(struct pod *p)
{
    _cleanup_free_ char *dir = path_pod_run(p->node->run_dir, p->uid), *text = NULL;
    _cleanup_free_ char *path = xasprintf("%s/state.json", dir);
    _cleanup_error_ struct error err = ERROR_INIT;
    size_t len;

    if (file_read_at(AT_FDCWD, path, STATE_MAX, &text, &len, NULL) < 0)
        return false;
    _cleanup_json_ struct json *v = json_parse(text, len, &err);
    if (v && pod_state_from_json(v, p->spec.container_count, &p->state, &err) == 0)
        return true;
    log_warn("the state of a Pod cannot be read; it starts anew", "pod", p->uid, "error", error_text(&err), NULL);
    return false;
}

/* "Pending" with the reason; a Pod that is refused stays so until it is deleted. */
static void refuse(struct pod *p, const struct error *err)
{
    const char *reason = err->reason ? err->reason : REASON_CONFIG;

    p->refused = true;
    container_set_waiting(pod_record(p), reason, error_text(err));
    pod_warn(p, "Failed", error_text(err));
}

static void parse_spec(struct pod *p)
{
    _cleanup_error_ struct error err = ERROR_INIT;

    if (pod_spec_parse(p->object, &p->node->pod_options, &p->spec, &err) == 0)
        return;
    /* Enough of a spec to tell the refusal with. */
    const struct json *spec = json_get(p->object, "spec");
    size_t count = json_size(json_get(spec, "initContainers")) + 1;
    pod_spec_clear(&p->spec);
    p->spec = (struct pod_spec){.pod = json_ref(p->object), .container_count = count, .fs_group = -1};
    p->spec.containers = xcalloc(count, sizeof(*p->spec.containers));
    pod_state_init(&p->state, count);
    p->state.start_ns = time_now_ns();
    refuse(p, &err);
}

static void take_address(struct pod *p)
{
    struct address_pool *pool = &p->node->addresses;
    const char *reported = json_str_at(p->object, "status", "podIP", NULL);

    if (p->state.pod_ip)
        return; /* taken when the node started */
    if (reported && address_pool_take_this(pool, reported))
        p->state.pod_ip = xstrdup(reported);
    else
        p->state.pod_ip = address_pool_take(pool);
}

static struct pod *pod_new(struct node *n, struct json *object)
{
    struct pod *p = xcalloc(1, sizeof(*p));

    p->node = n;
    p->object = json_ref(object);
    p->ns = xstrdup(object_namespace(object));
    p->name = xstrdup(object_name(object));
    p->uid = xstrdup(object_uid(object));
    p->timer = evtimer_new(n->base, on_timer, p);
    (void)hashmap_put(&n->pods, p->uid, p); /* it was not there */
    parse_spec(p);
    if (p->refused)
        return p;
    if (load_state(p)) {
        pod_adopt(p);
    } else {
        pod_state_from_status(object, p->spec.container_count, time_now_ns(), &p->state);
        p->has_exited = pod_record(p)->phase == CONTAINER_TERMINATED && !p->state.phase;
        for (char **w = p->spec.warnings; w && *w; w++)
            node_event(n, object, "Warning", "Unsupported", *w);
    }
    if (!p->state.phase)
        take_address(p);
    return p;
}

/*
 * What may change of a Pod that runs: limits apply at once, another image ends the container and starts it again, the
 * rest (deadline, grace period) is read from the object when it matters.
 */
static void take_changes(struct pod *p)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    struct pod_spec spec;
    bool running = p->sandbox == SANDBOX_STARTING || p->sandbox == SANDBOX_RUNNING;

    if (p->refused || pod_spec_parse(p->object, &p->node->pod_options, &spec, &err) < 0 ||
        spec.container_count != p->spec.container_count) {
        pod_warn(p, "Failed", err.code ? error_text(&err) : "the Pod changed in a way this node cannot follow");
        return;
    }
    struct pod_spec old = p->spec;
    p->spec = spec;
    const struct pod_container *was = &old.containers[p->state.current], *is = pod_container(p);
    if (running)
        pod_follow_resources(p, &was->limits);
    if (running && !streq(was->image, is->image)) {
        node_event(p->node, p->object, "Normal", "Killing", "the container's image changed; it is started again");
        p->replace = true;
    }
    p->not_before_ns = streq(was->image, is->image) ? p->not_before_ns : 0;
    probes_follow_spec(p);
    pod_spec_clear(&old);
}

/* Another Pod of the same name: the old one was deleted while nobody looked. */
static void replace_namesake(struct node *n, const struct json *object)
{
    for (struct hashmap_iter it = {0}; hashmap_next(&n->pods, &it);) {
        struct pod *p = it.value;
        if (!streq(p->uid, object_uid(object)) && streq(p->name, object_name(object)) &&
            streq(p->ns, object_namespace(object))) {
            pod_gone(n, p->uid);
            return;
        }
    }
}

void pod_update(struct node *n, struct json *object)
{
    const char *uid = object_uid(object);

    if (!path_component_ok(uid) || !path_component_ok(object_namespace(object)) ||
        !path_component_ok(object_name(object))) {
        log_error("a Pod whose identity is no file name is ignored", "name", object_name(object), NULL);
        return;
    }
    struct pod *p = pod_find(n, uid);
    if (!p) {
        replace_namesake(n, object);
        p = pod_new(n, object);
    } else {
        bool changed = !json_equal(json_get(p->object, "spec"), json_get(object, "spec"));
        json_unref(p->object);
        p->object = json_ref(object);
        if (changed)
            take_changes(p);
    }
    pod_step(p);
}

void pod_gone(struct node *n, const char *uid)
{
    struct pod *p = pod_find(n, uid);

    if (!p)
        return;
    p->gone = true;
    pod_step(p);
}

void pods_retry(struct node *n)
{
    _cleanup_strv_ char **uids = NULL;

    for (struct hashmap_iter it = {0}; hashmap_next(&n->pods, &it);) {
        struct pod *p = it.value;
        if (p->sandbox == SANDBOX_NONE && p->failures)
            uids = strv_append(uids, xstrdup(p->uid));
    }
    for (char **uid = uids; uid && *uid; uid++) {
        struct pod *p = pod_find(n, *uid);
        if (!p)
            continue;
        p->not_before_ns = 0;
        pod_step(p);
    }
}

void pod_stop_for_shutdown(struct pod *p)
{
    p->shutdown = true;
    pod_step(p);
}

bool pod_has_sandbox(const struct pod *p)
{
    return p->sandbox != SANDBOX_NONE;
}

/* Steps. */

static int64_t grace_seconds(const struct pod *p)
{
    const struct json *deletion = json_at(p->object, "metadata", "deletionGracePeriodSeconds", NULL);
    int64_t spec = json_int_or(json_at(p->object, "spec", "terminationGracePeriodSeconds", NULL), 30);

    return MAX(deletion ? json_int_or(deletion, spec) : spec, 0);
}

static struct pod_facts facts_of(const struct pod *p)
{
    int64_t active = json_int_or(json_at(p->object, "spec", "activeDeadlineSeconds", NULL), 0);
    const struct container_record *c = &p->state.containers[p->state.current];

    return (struct pod_facts){
        .now_ns = time_now_ns(),
        .gone = p->gone,
        .deleting = object_deleting(p->object) || p->shutdown,
        .grace_s = grace_seconds(p),
        .refused = p->refused,
        .replace = p->replace,
        .finished = p->state.phase != NULL,
        .failed_outside = p->failed_outside,
        .deadline_ns = active > 0 ? p->state.start_ns + active * NSEC_PER_SEC : 0,
        .restart_policy = p->spec.restart_policy,
        .sandbox = p->sandbox,
        .stop_deadline_ns = p->stop_deadline_ns,
        .killed = p->killed,
        .is_init = p->state.current + 1 < p->state.container_count,
        .has_exited = p->has_exited,
        .exit_code = c->exit.code,
        .inputs_ready = p->inputs_ready,
        .inputs_pending = p->inputs_pending != 0,
        .not_before_ns = p->not_before_ns,
    };
}

static void set_pod_reason(struct pod *p, const char *reason, const char *message)
{
    free(p->state.reason);
    free(p->state.message);
    p->state.reason = xstrdup(reason);
    p->state.message = xstrdup(message);
}

void pod_evict(struct pod *p, const char *message)
{
    p->failed_outside = true;
    set_pod_reason(p, "Evicted", message);
    pod_warn(p, "Evicted", message);
    pod_step(p);
}

static void note_deadline(struct pod *p, const struct pod_facts *f)
{
    if (!f->failed_outside && f->deadline_ns && f->now_ns >= f->deadline_ns) {
        p->failed_outside = true;
        set_pod_reason(p, "DeadlineExceeded", "Pod was active on the node longer than the specified deadline");
    }
}

static void finish(struct pod *p, const char *phase)
{
    struct container_record *c = pod_record(p);

    p->state.phase = phase;
    p->has_exited = false;
    if (c->phase == CONTAINER_WAITING && streq(phase, "Failed"))
        container_set_waiting(c, "ContainerCreating", "the Pod ended before the container ran");
    pod_save(p);
}

static void next_container(struct pod *p)
{
    p->has_exited = false;
    p->state.current++;
    p->not_before_ns = 0;
    p->failures = 0;
    container_set_waiting(pod_record(p), "PodInitializing", NULL);
    pod_save(p);
}

/* The ended run becomes the one before; the next begins at once or after the back-off. */
static void prepare_restart(struct pod *p)
{
    struct container_record *c = pod_record(p);
    int64_t ran_ns = c->exit.finished_ns - c->exit.started_ns;

    if (p->replace)
        c->ends_in_a_row = 0; /* it did not end by itself */
    else
        c->ends_in_a_row = ran_ns >= RESTART_RESET_S * NSEC_PER_SEC ? 1 : c->ends_in_a_row + 1;
    p->replace = false;
    int64_t delay = restart_delay_ns(c->ends_in_a_row);
    p->not_before_ns = delay ? c->exit.finished_ns + delay : 0;
    container_exit_clear(&c->last);
    c->last = c->exit;
    c->exit = (struct container_exit){0};
    c->restarts++;
    memset(c->log_base, 0, sizeof(c->log_base));
    p->has_exited = false;
    if (delay) {
        _cleanup_free_ char *message =
            xasprintf("back-off %" PRId64 "s restarting failed container=%s pod=%s_%s(%s)",
                      (int64_t)(delay / NSEC_PER_SEC), pod_container(p)->name, p->name, p->ns, p->uid);
        container_set_waiting(c, "CrashLoopBackOff", message);
        pod_warn(p, "BackOff", message);
    } else {
        container_set_waiting(c, "ContainerCreating", NULL);
    }
    p->inputs_ready = false;
    pod_save(p);
}

/* False: the Pod is no more. */
static bool act(struct pod *p, const struct pod_facts *f, enum pod_action action)
{
    switch (action) {
    case POD_FETCH:
        pod_fetch_inputs(p);
        break;
    case POD_START:
        pod_start(p);
        break;
    case POD_STOP:
        note_deadline(p, f);
        pod_ask_to_end(p, f->grace_s);
        break;
    case POD_KILL:
        note_deadline(p, f);
        pod_kill(p);
        break;
    case POD_CLEAN:
        pod_clean(p);
        break;
    case POD_NEXT:
        next_container(p);
        break;
    case POD_RESTART:
        prepare_restart(p);
        break;
    case POD_FINISH:
        finish(p, f->exit_code ? "Failed" : "Succeeded");
        break;
    case POD_FAIL:
        note_deadline(p, f);
        finish(p, "Failed");
        break;
    case POD_DELETE:
        if (p->shutdown && !object_deleting(p->object)) {
            leave(p);
            return false;
        }
        if (!p->files_gone)
            pod_remove_files(p);
        pod_delete_object(p);
        break;
    case POD_FORGET:
        forget(p);
        return false;
    case POD_WAIT:
        break;
    }
    return true;
}

static void set_timer(struct pod *p, int64_t wake_ns)
{
    const int64_t others[] = {p->patch_retry_ns, p->sandbox == SANDBOX_STARTING ? p->start_told_ns : 0};
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        if (others[i])
            wake_ns = wake_ns ? MIN(wake_ns, others[i]) : others[i];
    if (!wake_ns) {
        (void)evtimer_del(p->timer);
        return;
    }
    int64_t left = MAX(wake_ns - time_now_ns(), 0) + NSEC_PER_MSEC; /* not before the time has come */
    struct timeval tv = {.tv_sec = left / NSEC_PER_SEC, .tv_usec = left % NSEC_PER_SEC / 1000};
    (void)evtimer_add(p->timer, &tv);
}

void pod_step(struct pod *p)
{
    struct pod_decision d = {.action = POD_WAIT};

    if (p->stepping) { /* an action led here: look again when it is done */
        p->step_again = true;
        return;
    }
    p->stepping = true;
    do {
        struct pod_facts f = facts_of(p);
        p->step_again = false;
        d = pod_decide(&f);
        if (d.action == POD_DELETE && p->files_gone && (!p->delete_again || f.now_ns < p->patch_retry_ns))
            d = (struct pod_decision){.action = POD_WAIT}; /* done; the object's end is all that is missing */
        if (!act(p, &f, d.action))
            return;
    } while (d.action != POD_WAIT || p->step_again);
    p->stepping = false;
    pod_report(p);
    set_timer(p, d.wake_ns);
}
