/*
 * Exec probes. The startup probe comes first; the others begin when it has passed. Liveness and startup failures end
 * the container, which then restarts as its policy says; readiness only moves the Ready condition. A container without
 * probes is started and ready as soon as its process runs.
 */
#include "node/pod_internal.h"

#include "base/memory.h"

#define RING_BYTES 4096 /* a probe's output is not looked at */

struct probe {
    struct pod *pod;
    enum pod_probe_kind kind;
    const struct pod_probe *config;
    int64_t successes, failures; /* in a row */
    struct guest_client *client;
    struct event *timer;
};

struct probes {
    struct probe list[PROBE_COUNT];
};

static void schedule(struct probe *probe, int64_t seconds)
{
    struct timeval tv = {.tv_sec = seconds};

    if (probe->timer)
        (void)evtimer_add(probe->timer, &tv);
}

static void begin(struct probe *probe)
{
    if (probe->config->command)
        schedule(probe, probe->config->initial_delay_s);
}

/* The startup probe has passed, or there is none. */
static void startup_passed(struct pod *p)
{
    struct container_record *c = pod_record(p);
    bool is_init = p->state.current + 1 < p->state.container_count;

    c->started = true;
    c->ready = !is_init && !pod_container(p)->probes[PROBE_READINESS].command;
    begin(&p->probes->list[PROBE_LIVENESS]);
    begin(&p->probes->list[PROBE_READINESS]);
}

/* The container is ended; probes_stop() frees the probe. */
static void give_up(struct probe *probe, const char *what)
{
    struct pod *p = probe->pod;
    _cleanup_free_ char *message =
        xasprintf("container %s failed its %s probe and is restarted", pod_container(p)->name, what);
    int64_t grace = json_int_or(json_at(p->object, "spec", "terminationGracePeriodSeconds", NULL), 30);

    pod_warn(p, "Killing", message);
    pod_ask_to_end(p, grace);
}

static void judge(struct probe *probe, bool success, const char *why)
{
    static const char *const names[] = {"startup", "liveness", "readiness"};
    struct pod *p = probe->pod;
    struct container_record *c = pod_record(p);

    probe->successes = success ? probe->successes + 1 : 0;
    probe->failures = success ? 0 : probe->failures + 1;
    if (!success) {
        _cleanup_free_ char *message = xasprintf("%s probe failed: %s", names[probe->kind], why);
        pod_warn(p, "Unhealthy", message);
    }
    bool passed = success && probe->successes >= probe->config->success_threshold;
    bool failed = !success && probe->failures >= probe->config->failure_threshold;
    if (probe->kind != PROBE_READINESS && failed) {
        give_up(probe, names[probe->kind]);
        pod_step(p);
        return;
    }
    if (probe->kind == PROBE_READINESS && (passed || failed))
        c->ready = passed;
    if (probe->kind == PROBE_STARTUP && passed)
        startup_passed(p);
    else
        schedule(probe, probe->config->period_s);
    pod_step(p);
}

static void on_exited(void *arg, const struct guest_exit *exit)
{
    struct probe *probe = arg;
    _cleanup_free_ char *why = exit->timed_out ? xstrdup("timeout") : xasprintf("exit code %d", exit->code);

    guest_client_free(probe->client);
    probe->client = NULL;
    judge(probe, exit->code == 0 && !exit->timed_out, why);
}

static void on_failed(void *arg, const struct error *err)
{
    struct probe *probe = arg;

    guest_client_free(probe->client);
    probe->client = NULL;
    judge(probe, false, error_text(err));
}

static const struct guest_callbacks probe_callbacks = {.exited = on_exited, .failed = on_failed};

static void on_timer(evutil_socket_t fd UNUSED, short what UNUSED, void *arg)
{
    struct probe *probe = arg;
    const struct guest_start_request request = {.argv = (const char *const *)probe->config->command,
                                                .flags = GUEST_FLAG_INHERIT,
                                                .timeout_ms = (uint64_t)probe->config->timeout_s * 1000,
                                                .ring_bytes = RING_BYTES};
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_free_ char *socket = pod_socket(probe->pod);
    int sock = link_connect(socket, &err);

    if (sock >= 0)
        probe->client = guest_start(probe->pod->node->base, sock, &request, &probe_callbacks, probe, &err);
    if (!probe->client)
        judge(probe, false, error_text(&err));
}

void probes_start(struct pod *p)
{
    const struct pod_container *c = pod_container(p);
    bool any = false;

    for (size_t i = 0; i < PROBE_COUNT; i++)
        any = any || c->probes[i].command;
    if (!any) {
        pod_record(p)->started = true;
        pod_record(p)->ready = p->state.current + 1 == p->state.container_count;
        return;
    }
    probes_stop(p);
    p->probes = xcalloc(1, sizeof(*p->probes));
    for (size_t i = 0; i < PROBE_COUNT; i++) {
        struct probe *probe = &p->probes->list[i];
        *probe = (struct probe){.pod = p, .kind = i, .config = &c->probes[i]};
        if (c->probes[i].command)
            probe->timer = evtimer_new(p->node->base, on_timer, probe);
    }
    if (c->probes[PROBE_STARTUP].command && !pod_record(p)->started)
        begin(&p->probes->list[PROBE_STARTUP]);
    else
        startup_passed(p);
}

void probes_stop(struct pod *p)
{
    if (!p->probes)
        return;
    for (size_t i = 0; i < PROBE_COUNT; i++) {
        struct probe *probe = &p->probes->list[i];
        guest_client_free(probe->client);
        if (probe->timer)
            event_free(probe->timer);
    }
    free(p->probes);
    p->probes = NULL;
}

void probes_follow_spec(struct pod *p)
{
    for (size_t i = 0; p->probes && i < PROBE_COUNT; i++)
        p->probes->list[i].config = &pod_container(p)->probes[i];
}
