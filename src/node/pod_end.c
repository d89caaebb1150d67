/* The end of a sandbox: asking, killing, its cause, and what is left of it. */
#include "node/pod_internal.h"

#include "base/fdio.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/strutil.h"
#include "node/blank.h"
#include "node/native/uid_range.h"
#include "sandbox/paths.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>

#define MESSAGE_MAX 4096 /* of the termination message */
#define TAIL_BYTES 2048  /* of the log, as such */
#define TAIL_LINES 80
#define STOP_MARGIN_NS (2 * NSEC_PER_SEC) /* for the guest, which kills by itself, before the node does */
#define KILL_RETRY_NS NSEC_PER_SEC
#define DESTROY_TIMEOUT_MS 5000
#define CLEAN_RETRY_S 1
#define KILLED_CODE 137

void pod_drop_connections(struct pod *p)
{
    link_free(p->link);
    p->link = NULL;
    guest_client_free(p->stopper);
    p->stopper = NULL;
}

/* Asking. */

static void forget_stopper(struct pod *p)
{
    guest_client_free(p->stopper);
    p->stopper = NULL;
}

/* Its answer does not matter: the link tells the end, and the clock the lack of one. */
static void on_shutdown_done(void *arg)
{
    forget_stopper(arg);
}

static void on_shutdown_failed(void *arg, const struct error *err UNUSED)
{
    forget_stopper(arg);
}

static const struct guest_callbacks shutdown_callbacks = {.done = on_shutdown_done, .failed = on_shutdown_failed};

static void send_shutdown(struct pod *p)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_free_ char *socket = pod_socket(p);
    int64_t left_ns = p->stop_deadline_ns - STOP_MARGIN_NS - time_now_ns();
    int fd = link_connect(socket, &err), sig = p->state.stop_signal;

    if (fd >= 0 && sig && sig != SIGTERM) {
        /* The guest ends its main process by SIGTERM; for another signal it is the node that loses patience. */
        p->stop_deadline_ns -= STOP_MARGIN_NS;
        p->stopper =
            guest_signal(p->node->base, fd, GUEST_MAIN_ID, sig, GUEST_SCOPE_PROCESS, &shutdown_callbacks, p, &err);
    } else if (fd >= 0) {
        p->stopper = guest_shutdown(p->node->base, fd, (uint64_t)(MAX(left_ns, 0) / NSEC_PER_MSEC), &shutdown_callbacks,
                                    p, &err);
    }
    if (!p->stopper)
        pod_kill(p);
}

static void on_pre_stop_exited(void *arg, const struct guest_exit *exit)
{
    struct pod *p = arg;

    if (exit->code)
        pod_warn(p, "FailedPreStopHook", "the preStop command failed");
    forget_stopper(p);
    send_shutdown(p);
}

static void on_pre_stop_failed(void *arg, const struct error *err)
{
    struct pod *p = arg;

    pod_warn(p, "FailedPreStopHook", error_text(err));
    forget_stopper(p);
    send_shutdown(p);
}

static const struct guest_callbacks pre_stop_callbacks = {.exited = on_pre_stop_exited, .failed = on_pre_stop_failed};

/* The hook's time is part of the grace period. */
static bool run_pre_stop(struct pod *p, int64_t grace_s)
{
    const struct pod_container *c = pod_container(p);
    const struct guest_start_request request = {
        .argv = (const char *const *)c->pre_stop, .flags = GUEST_FLAG_INHERIT, .timeout_ms = (uint64_t)grace_s * 1000};
    _cleanup_free_ char *socket = pod_socket(p);

    if (!c->pre_stop || p->sandbox != SANDBOX_RUNNING)
        return false;
    int fd = link_connect(socket, NULL);
    if (fd >= 0)
        p->stopper = guest_start(p->node->base, fd, &request, &pre_stop_callbacks, p, NULL);
    return p->stopper != NULL;
}

void pod_ask_to_end(struct pod *p, int64_t grace_s)
{
    p->stop_deadline_ns = time_now_ns() + grace_s * NSEC_PER_SEC + STOP_MARGIN_NS;
    probes_stop(p);
    if (!run_pre_stop(p, grace_s))
        send_shutdown(p);
    p->sandbox = SANDBOX_STOPPING;
}

void pod_kill(struct pod *p)
{
    _cleanup_error_ struct error err = ERROR_INIT;

    if (native_kill(p->state.sandbox_id, &err) < 0)
        log_warn("cannot kill a sandbox; trying again", "sandbox", p->state.sandbox_id, "error", error_text(&err),
                 NULL);
    probes_stop(p);
    p->killed = true;
    p->stop_deadline_ns = time_now_ns() + KILL_RETRY_NS;
    p->sandbox = SANDBOX_STOPPING;
}

/* The cause. */

static char *read_message_file(const struct pod *p)
{
    _cleanup_free_ char *data = path_pod_data(p->node->data_dir, p->uid);
    _cleanup_free_ char *path = xasprintf("%s/" POD_MESSAGE, data);
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    char text[MESSAGE_MAX + 1];
    ssize_t n = fd < 0 ? -1 : pread(fd, text, MESSAGE_MAX, 0);

    return n > 0 ? xstrndup(text, (size_t)n) : NULL;
}

/* The container's last words; bytes that are no UTF-8 would make the status unreadable. */
static char *last_words(const struct pod *p, int code)
{
    const struct pod_container *c = pod_container(p);
    _cleanup_free_ char *words = read_message_file(p);

    if (!words && code && c->message_from_logs) {
        _cleanup_free_ char *dir = path_container_logs(p->node->data_dir, p->ns, p->name, p->uid, c->name);
        words = log_tail(dir, p->state.containers[p->state.current].restarts, TAIL_BYTES, TAIL_LINES);
    }
    if (!words || !*words)
        return NULL;
    _cleanup_json_ struct json *check = json_string(words);
    _cleanup_free_ char *text = json_text(check);
    _cleanup_json_ struct json *again = json_parse(text, strlen(text), NULL);
    if (!again)
        for (char *w = words; *w; w++)
            if ((unsigned char)*w > 126)
                *w = '?';
    return take_ptr(words);
}

static void describe_oom(const struct pod *p, const struct native_usage *usage, struct container_exit *e)
{
    uint64_t limit = pod_container(p)->limits.memory_bytes;

    e->reason = xstrdup("OOMKilled");
    e->message = xasprintf("the memory limit of %" PRIu64 " bytes was reached (peak %" PRIu64 " bytes)", limit,
                           usage->memory_peak_bytes);
}

static void terminate(struct pod *p, struct container_exit e)
{
    struct container_record *c = pod_record(p);

    e.valid = true;
    e.finished_ns = time_now_ns();
    e.started_ns = c->phase == CONTAINER_RUNNING ? c->started_ns : p->adopted ? pod_told_start_ns(p) : e.finished_ns;
    e.id = c->id ? xstrdup(c->id) : NULL;
    container_exit_clear(&c->exit);
    c->exit = e;
    c->phase = CONTAINER_TERMINATED;
    c->ready = c->started = false;
    p->state.sandbox = false;
    p->has_exited = true;
    p->sandbox = SANDBOX_ENDED;
    pod_save(p);
}

void pod_ended(struct pod *p, const struct guest_exit *exit)
{
    struct native_usage usage = {0};
    struct container_exit e = {.code = exit ? exit->code : KILLED_CODE, .sig = exit ? exit->sig : 0};

    pod_drop_connections(p);
    probes_stop(p);
    if (p->adopted && pod_record(p)->phase == CONTAINER_WAITING && !pod_begun(p)) {
        /* The node went away before it told the guest what to run. */
        p->sandbox = SANDBOX_ENDED;
        p->state.sandbox = false;
        pod_step(p);
        return;
    }
    (void)native_usage(p->state.sandbox_id, &usage, NULL); /* without it the cause is just less clear */
    if (usage.oom_kills && e.code == KILLED_CODE) {
        describe_oom(p, &usage, &e);
        e.sig = SIGKILL;
        pod_warn(p, "OOMKilled", e.message);
    } else if (!exit && p->killed) {
        e.reason = xstrdup("Error");
        e.sig = SIGKILL;
    } else if (!exit) {
        e.reason = xstrdup("ContainerStatusUnknown");
        e.message = xstrdup("the sandbox ended without telling its exit code");
    } else {
        e.reason = xstrdup(e.code ? "Error" : "Completed");
    }
    char *words = last_words(p, e.code);
    if (words) {
        free(e.message);
        e.message = words;
    }
    terminate(p, e);
    pod_step(p);
}

void pod_not_started(struct pod *p, int code, const char *message)
{
    pod_drop_connections(p);
    pod_warn(p, "Failed", message);
    terminate(
        p, (struct container_exit){.code = code, .reason = xstrdup("ContainerCannotRun"), .message = xstrdup(message)});
    pod_step(p);
}

/* What is left. */

struct cleaning {
    struct node *node;
    char *uid, *sandbox_id, *root, *trash;
    struct error err;
};

static void clean_work(void *arg)
{
    struct cleaning *c = arg;

    if (native_destroy(c->sandbox_id, DESTROY_TIMEOUT_MS, &c->err) < 0)
        return;
    if (rename(c->root, c->trash) < 0 && errno != ENOENT) {
        (void)error_set_errno(&c->err, errno, "move %s away", c->root);
        return;
    }
    /* Restarts need not wait for it; what a crash leaves in the trash is removed by the next sweep. */
}

static void on_clean_again(evutil_socket_t fd UNUSED, short what UNUSED, void *arg);

static void cleaning_free(struct cleaning *c)
{
    free(c->uid);
    free(c->sandbox_id);
    free(c->root);
    free(c->trash);
    error_clear(&c->err);
    free(c);
}

static void remove_trash_work(void *arg)
{
    struct cleaning *c = arg;

    (void)remove_tree_at(AT_FDCWD, c->trash, &c->err); /* reported below */
}

static void remove_trash_done(void *arg)
{
    struct cleaning *c = arg;

    if (c->err.code)
        log_warn("cannot remove what is left of a sandbox; trying again at the next sweep", "path", c->trash, "error",
                 error_text(&c->err), NULL);
    cleaning_free(c);
}

static void clean_done(void *arg)
{
    struct cleaning *c = arg;
    struct pod *p = pod_find(c->node, c->uid);
    struct timeval tv = {.tv_sec = CLEAN_RETRY_S};

    if (c->err.code) {
        log_warn("cannot remove a sandbox; trying again", "sandbox", c->sandbox_id, "error", error_text(&c->err), NULL);
        if (event_base_once(c->node->base, -1, EV_TIMEOUT, on_clean_again, c, &tv) < 0)
            cleaning_free(c); /* the sweep finds it */
        return;
    }
    jobs_run(c->node->jobs, remove_trash_work, remove_trash_done, c);
    if (!p || p->sandbox != SANDBOX_CLEANING)
        return;
    free(p->state.sandbox_id);
    p->state.sandbox_id = NULL;
    p->state.sandbox = false;
    p->sandbox = SANDBOX_NONE;
    p->killed = false;
    pod_save(p);
    pod_step(p);
}

static void on_clean_again(evutil_socket_t fd UNUSED, short what UNUSED, void *arg)
{
    struct cleaning *c = arg;

    error_clear(&c->err);
    jobs_run(c->node->jobs, clean_work, clean_done, c);
}

void pod_clean(struct pod *p)
{
    struct cleaning *c = xcalloc(1, sizeof(*c));
    _cleanup_free_ char *data = path_pod_data(p->node->data_dir, p->uid), *unique = random_hex(8);

    pod_drop_connections(p);
    *c = (struct cleaning){.node = p->node,
                           .uid = xstrdup(p->uid),
                           .sandbox_id = xstrdup(p->state.sandbox_id),
                           .root = xasprintf("%s/" POD_ROOT, data),
                           .trash = xasprintf("%s/trash/%s", p->node->data_dir, unique)};
    p->sandbox = SANDBOX_CLEANING;
    jobs_run(p->node->jobs, clean_work, clean_done, c);
}

void pod_remove_files(struct pod *p)
{
    struct node *n = p->node;
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_free_ char *data = path_pod_data(n->data_dir, p->uid), *run = path_pod_run(n->run_dir, p->uid);
    _cleanup_free_ char *logs = path_pod_logs(n->data_dir, p->ns, p->name, p->uid);

    log_file_close(p->log);
    p->log = NULL;
    node_trash(n, data);
    node_trash(n, logs);
    /* Small, and holds secrets: at once. */
    int r = remove_tree_at(AT_FDCWD, run, &err);
    if (r == 0 && p->state.uid_base)
        r = uid_range_release(UID_RANGE_DIR, p->state.uid_base, &err);
    if (r < 0)
        log_warn("cannot remove all of a Pod; trying again at the next sweep", "pod", p->uid, "error", error_text(&err),
                 NULL);
    p->state.uid_base = 0;
    address_pool_release(&n->addresses, p->state.pod_ip);
    p->files_gone = true;
}
