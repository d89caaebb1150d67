/*
 * `holt up`: the supervisor. Starts control, node and egress, starts again what ends, says when all is ready, and stops
 * them when asked. It holds no state: killed, its children end too (and sandboxes go on); started again, everything is
 * taken up where it was.
 */
#include "cli/cli.h"
#include "cli/ready.h"
#include "cli/up_prepare.h"

#include "base/fdio.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "base/timeutil.h"

#include <event2/event.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define RESTART_MIN_NS (100 * NSEC_PER_MSEC)
#define RESTART_MAX_NS (5 * NSEC_PER_SEC)
/* A process that has run this long has earned a quick restart. */
#define RESTART_RESET_NS (30 * NSEC_PER_SEC)
#define STOP_TIMEOUT_S 20
/* With the sandboxes: the usual grace of a Pod, and time to take them away. */
#define STOP_SANDBOXES_TIMEOUT_S 60
/* What cannot start in this time is not tried again: something has to be done about it. Until then it may be a
 * predecessor that has not quite ended. */
#define START_TIMEOUT_NS (3 * NSEC_PER_SEC)
#define DEFAULT_RUN_DIR "/run/holt"

static const int handled[] = {SIGCHLD, SIGTERM, SIGINT}; /* signals */

struct supervisor;

struct child {
    struct supervisor *up;
    const char *name;
    char **argv;
    bool unprivileged; /* runs as the supervisor's --user */
    pid_t pid;         /* 0 = not running */
    bool ready;
    int64_t started_ns, delay_ns;
    struct event *restart;
    struct event *ready_event; /* the pipe it writes to when ready, and while it is alive */
    int ready_pipe;
    struct event *hang; /* armed while it is ready */
};

enum { CHILD_CONTROL, CHILD_NODE, CHILD_EGRESS, CHILD_COUNT };

struct supervisor {
    struct event_base *base;
    struct child children[CHILD_COUNT];
    struct event *signals[ARRAY_LEN(handled)];
    struct event *stop_timer;
    struct event *wait_listener;
    int wait_socket;
    int *waiting; /* connections of `holt wait` */
    size_t waiting_count, waiting_capacity;
    struct up_config o;
    int64_t ready_fd;
    int64_t hang_timeout_ns; /* 0 = nobody looks */
    int64_t started_ns;
    bool stop_sandboxes, announced, stopping, failed;
};

static void start(struct child *c);

static bool all_ready(const struct supervisor *up)
{
    for (size_t i = 0; i < CHILD_COUNT; i++)
        if (!up->children[i].ready)
            return false;
    return true;
}

/* Tells everyone who asked. Only the first time is printed. */
static void announce(struct supervisor *up)
{
    if (!all_ready(up))
        return;
    for (size_t i = 0; i < up->waiting_count; i++) {
        (void)fd_write_all(up->waiting[i], "ready\n", 6); /* who left does not need to know */
        (void)close(up->waiting[i]);
    }
    up->waiting_count = 0;
    if (up->announced)
        return;
    up->announced = true;
    (void)printf("holt is ready at %s: kubectl --kubeconfig %s get sandboxes\n", up->o.server, up->o.admin_config);
    (void)fflush(stdout);
    if (up->ready_fd > 0) {
        (void)fd_write_all((int)up->ready_fd, "ready\n", 6);
        (void)close((int)up->ready_fd);
        up->ready_fd = 0;
    }
}

static void on_restart(evutil_socket_t fd UNUSED, short what UNUSED, void *arg)
{
    start(arg);
}

static void schedule_restart(struct child *c)
{
    struct timeval tv = {.tv_sec = c->delay_ns / NSEC_PER_SEC, .tv_usec = c->delay_ns % NSEC_PER_SEC / 1000};

    (void)evtimer_add(c->restart, &tv);
    c->delay_ns = MIN(c->delay_ns * 2, RESTART_MAX_NS);
}

static void close_ready_pipe(struct child *c)
{
    if (c->ready_event)
        event_free(c->ready_event);
    c->ready_event = NULL;
    if (c->ready_pipe >= 0)
        (void)close(c->ready_pipe);
    c->ready_pipe = -1;
}

/* Its loop has stood still for long; what it has begun is safe, and its successor takes everything up. */
static void on_hang(evutil_socket_t fd UNUSED, short what UNUSED, void *arg)
{
    struct child *c = arg;

    if (!c->pid || c->up->stopping)
        return;
    log_error("process does not answer any more, ending it", "process", c->name, NULL);
    (void)kill(c->pid, SIGKILL);
}

static void on_ready(evutil_socket_t fd, short what UNUSED, void *arg)
{
    struct child *c = arg;
    struct timeval patience = {.tv_sec = c->up->hang_timeout_ns / NSEC_PER_SEC,
                               .tv_usec = c->up->hang_timeout_ns % NSEC_PER_SEC / 1000};
    char buf[64];
    ssize_t n = read(fd, buf, sizeof(buf));

    if (n <= 0) {
        if (n == 0 || (errno != EAGAIN && errno != EINTR))
            close_ready_pipe(c);
        return;
    }
    if (c->up->hang_timeout_ns)
        (void)evtimer_add(c->hang, &patience);
    if (c->ready)
        return;
    c->ready = true;
    if (c == &c->up->children[CHILD_CONTROL])
        start(&c->up->children[CHILD_NODE]); /* it would only find the door closed before */
    announce(c->up);
}

static void exec_child(const struct child *c, int ready_write, pid_t parent)
{
    const struct supervisor *up = c->up;
    sigset_t none;

    /* Until here signals are blocked: the supervisor's handlers would take them for its own, and nobody would end. */
    for (size_t i = 0; i < ARRAY_LEN(handled); i++)
        (void)signal(handled[i], SIG_DFL);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (c->unprivileged && up->o.uid &&
        (setgroups(0, NULL) < 0 || setresgid(up->o.gid, up->o.gid, up->o.gid) < 0 ||
         setresuid(up->o.uid, up->o.uid, up->o.uid) < 0))
        _exit(EXIT_HOLT_FAILED);
    if (c->unprivileged) {
        (void)umask(077); /* the store has every Secret */
        (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) /* the supervisor ended before prctl */
        _exit(1);
    if (dup2(ready_write, 3) < 0)
        _exit(EXIT_HOLT_FAILED);
    if (ready_write != 3)
        (void)close(ready_write);
    (void)fcntl(3, F_SETFD, 0);
    (void)close_range(4, ~0u, 0);
    (void)execv("/proc/self/exe", c->argv);
    _exit(EXIT_HOLT_FAILED);
}

static void start(struct child *c)
{
    int pipe_fds[2];

    if (c->up->stopping || c->pid)
        return;
    if (pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK) < 0) {
        log_error("cannot make a pipe", "error", strerror(errno), NULL);
        schedule_restart(c);
        return;
    }
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, &before);
    pid_t parent = getpid(), pid = fork();
    int code = errno;
    if (pid == 0)
        exec_child(c, pipe_fds[1], parent);
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    (void)close(pipe_fds[1]);
    if (pid < 0) {
        log_error("cannot fork", "process", c->name, "error", strerror(code), NULL);
        (void)close(pipe_fds[0]);
        schedule_restart(c);
        return;
    }
    c->pid = pid;
    c->started_ns = time_monotonic_ns();
    c->ready_pipe = pipe_fds[0];
    c->ready_event = event_new(c->up->base, c->ready_pipe, EV_READ | EV_PERSIST, on_ready, c);
    if (!c->ready_event || event_add(c->ready_event, NULL) < 0)
        abort();
}

static bool any_running(const struct supervisor *up)
{
    for (size_t i = 0; i < CHILD_COUNT; i++)
        if (up->children[i].pid)
            return true;
    return false;
}

static void kill_all(struct supervisor *up, int signal_number)
{
    for (size_t i = 0; i < CHILD_COUNT; i++)
        if (up->children[i].pid)
            (void)kill(up->children[i].pid, signal_number); /* our own unreaped child: the pid is still its */
}

/* Whether it has never come up, and by its own word never will. */
static bool hopeless(const struct child *c, int status)
{
    return !c->up->announced && !c->ready && WIFEXITED(status) &&
           time_monotonic_ns() - c->up->started_ns > START_TIMEOUT_NS;
}

static void begin_stop(struct supervisor *up);

static void ended(struct child *c, int status)
{
    _cleanup_free_ char *how =
        WIFSIGNALED(status) ? xasprintf("signal %d", WTERMSIG(status)) : xasprintf("status %d", WEXITSTATUS(status));

    bool give_up = !c->up->stopping && hopeless(c, status);

    c->pid = 0;
    c->ready = false;
    (void)evtimer_del(c->hang);
    close_ready_pipe(c);
    if (give_up) {
        log_error("giving up", "process", c->name, "how", how, NULL);
        c->up->failed = true;
        begin_stop(c->up);
        return;
    }
    if (c->up->stopping) {
        if (c == &c->up->children[CHILD_NODE])
            kill_all(c->up, SIGTERM);
        if (!any_running(c->up))
            (void)event_base_loopbreak(c->up->base);
        return;
    }
    log_warn("process ended, starting it again", "process", c->name, "how", how, NULL);
    if (time_monotonic_ns() - c->started_ns > RESTART_RESET_NS)
        c->delay_ns = RESTART_MIN_NS;
    schedule_restart(c);
}

static void on_child(evutil_socket_t fd UNUSED, short what UNUSED, void *arg)
{
    struct supervisor *up = arg;
    int status;

    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        for (size_t i = 0; i < CHILD_COUNT; i++)
            if (up->children[i].pid == pid)
                ended(&up->children[i], status);
}

static void on_stop_timeout(evutil_socket_t fd UNUSED, short what UNUSED, void *arg)
{
    struct supervisor *up = arg;

    log_warn("processes did not end in time, killing them", NULL);
    kill_all(up, SIGKILL);
}

static void begin_stop(struct supervisor *up)
{
    struct timeval tv = {.tv_sec = up->stop_sandboxes ? STOP_SANDBOXES_TIMEOUT_S : STOP_TIMEOUT_S};

    if (up->stopping)
        return;
    up->stopping = true;
    /* SIGUSR1 tells the node to end its sandboxes first; the others go after it, so that they hear of it. */
    if (up->stop_sandboxes && up->children[CHILD_NODE].pid)
        (void)kill(up->children[CHILD_NODE].pid, SIGUSR1);
    else
        kill_all(up, SIGTERM);
    (void)evtimer_add(up->stop_timer, &tv);
    if (!any_running(up))
        (void)event_base_loopbreak(up->base);
}

static void on_stop(evutil_socket_t fd UNUSED, short what UNUSED, void *arg)
{
    begin_stop(arg);
}

static void on_wait(evutil_socket_t fd, short what UNUSED, void *arg)
{
    struct supervisor *up = arg;
    int conn = accept4(fd, NULL, NULL, SOCK_CLOEXEC);

    if (conn < 0)
        return;
    GROW(up->waiting, up->waiting_capacity, up->waiting_count + 1);
    up->waiting[up->waiting_count++] = conn;
    announce(up);
}

static char **arguments(const char *first, ...)
{
    char **v = NULL;
    va_list ap;

    va_start(ap, first);
    for (const char *s = first; s; s = va_arg(ap, const char *))
        v = strv_append(v, xstrdup(s));
    va_end(ap);
    return v;
}

/* Instances keep apart by the control group of their sandboxes, which goes with the run directory. */
static char *cgroup_parent(const char *run_dir)
{
    _cleanup_free_ char *real = realpath(run_dir, NULL);

    return !real || streq(real, DEFAULT_RUN_DIR) ? xstrdup("holt") : xasprintf("holt-%08x", fnv1a32(real));
}

static void add_option(struct child *c, const char *option, const char *value)
{
    if (value) {
        c->argv = strv_append(c->argv, xstrdup(option));
        c->argv = strv_append(c->argv, xstrdup(value));
    }
}

static void define_children(struct supervisor *up, const char *node_config)
{
    _cleanup_free_ char *cgroup = cgroup_parent(up->o.run_dir);
    struct child *c = up->children;

    _cleanup_free_ char *gid = xasprintf("%u", (unsigned)up->o.gid), *keys = xasprintf("%s/control", up->o.data_dir);

    c[CHILD_CONTROL] = (struct child){.name = "control", .unprivileged = true};
    c[CHILD_CONTROL].argv = arguments("holt", "control", "--data-dir", up->o.data_dir, "--run-dir", up->o.run_dir,
                                      "--listen", up->o.listen, "--keys", keys, "--durability", up->o.durability,
                                      "--node-name", up->o.node_name, "--ready-fd", "3", "--alive", NULL);
    add_option(&c[CHILD_CONTROL], "--secrets-keys", up->o.secrets_keys);
    add_option(&c[CHILD_CONTROL], "--audit-log", up->o.audit_log);
    add_option(&c[CHILD_CONTROL], "--audit-policy", up->o.audit_policy);
    c[CHILD_NODE] = (struct child){.name = "node"};
    c[CHILD_NODE].argv = arguments("holt", "node", "--kubeconfig", node_config, "--data-dir", up->o.data_dir,
                                   "--run-dir", up->o.run_dir, "--node-name", up->o.node_name, "--group", gid,
                                   "--cgroup-parent", cgroup, "--ready-fd", "3", "--alive", NULL);
    for (char **prefix = up->o.host_paths; prefix && *prefix; prefix++)
        add_option(&c[CHILD_NODE], "--allow-host-path", *prefix);
    if (up->o.dir_images)
        c[CHILD_NODE].argv = strv_append(c[CHILD_NODE].argv, xstrdup("--allow-dir-images"));
    c[CHILD_EGRESS] = (struct child){.name = "egress", .unprivileged = true};
    c[CHILD_EGRESS].argv = arguments("holt", "egress", "--run-dir", up->o.run_dir, "--ready-fd", "3", "--alive", NULL);
    for (size_t i = 0; i < CHILD_COUNT; i++) {
        c[i].up = up;
        c[i].ready_pipe = -1;
        c[i].delay_ns = RESTART_MIN_NS;
        c[i].restart = evtimer_new(up->base, on_restart, &c[i]);
        c[i].hang = evtimer_new(up->base, on_hang, &c[i]);
        if (!c[i].restart || !c[i].hang)
            abort();
    }
}

static int listen_for_wait(struct supervisor *up, struct error *err)
{
    _cleanup_close_ int dir = open(up->o.run_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return error_set_errno(err, errno, "open %s", up->o.run_dir);
    up->wait_socket = unix_listen_at(dir, "up.sock", 16, err);
    if (up->wait_socket < 0)
        return up->wait_socket;
    up->wait_listener = event_new(up->base, up->wait_socket, EV_READ | EV_PERSIST, on_wait, up);
    return up->wait_listener && event_add(up->wait_listener, NULL) == 0 ? 0 : error_set(err, ENOMEM, "make an event");
}

static void watch_signals(struct supervisor *up)
{
    for (size_t i = 0; i < ARRAY_LEN(handled); i++)
        up->signals[i] = evsignal_new(up->base, handled[i], handled[i] == SIGCHLD ? on_child : on_stop, up);
    up->stop_timer = evtimer_new(up->base, on_stop_timeout, up);
    for (size_t i = 0; i < ARRAY_LEN(up->signals); i++)
        if (!up->signals[i] || evsignal_add(up->signals[i], NULL) < 0)
            abort();
    (void)signal(SIGPIPE, SIG_IGN);
}

static void release(struct supervisor *up)
{
    for (size_t i = 0; i < CHILD_COUNT; i++) {
        strv_free(up->children[i].argv);
        event_free(up->children[i].restart);
        event_free(up->children[i].hang);
    }
    for (size_t i = 0; i < ARRAY_LEN(up->signals); i++)
        event_free(up->signals[i]);
    event_free(up->stop_timer);
    event_free(up->wait_listener);
    (void)close(up->wait_socket);
    free(up->waiting);
    free(up->o.admin_config);
    free(up->o.server);
    event_base_free(up->base);
}

int cmd_up(int argc, char **argv)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_free_ char *node_name = up_node_name(), *node_config = NULL;
    struct supervisor up = {.o.data_dir = "/var/lib/holt",
                            .o.run_dir = DEFAULT_RUN_DIR,
                            .o.listen = "127.0.0.1:6443",
                            .o.durability = "full",
                            .o.node_name = node_name,
                            .hang_timeout_ns = 60 * NSEC_PER_SEC};
    const struct option options[] = {
        {"data-dir", 0, OPTION_STRING, &up.o.data_dir, "DIR", "What must survive a reboot (/var/lib/holt)"},
        {"run-dir", 0, OPTION_STRING, &up.o.run_dir, "DIR", "Run-time state (/run/holt)"},
        {"listen", 0, OPTION_STRING, &up.o.listen, "ADDR:PORT", "Where the API is served (127.0.0.1:6443)"},
        {"kubeconfig", 0, OPTION_STRING, &up.o.kubeconfig, "FILE",
         "Write the admin's kubeconfig there (DATA-DIR/admin.kubeconfig)"},
        {"durability", 0, OPTION_STRING, &up.o.durability, "MODE", "full: survive power loss; normal: survive a crash"},
        {"secrets-keys", 0, OPTION_STRING, &up.o.secrets_keys, "FILE",
         "Keys that Secrets are encrypted with on disk (DATA/control/secrets.keys)"},
        {"audit-log", 0, OPTION_STRING, &up.o.audit_log, "FILE", "Audit log (DATA/control/audit.log), or none"},
        {"audit-policy", 0, OPTION_STRING, &up.o.audit_policy, "FILE", "What is recorded: an audit.k8s.io/v1 Policy"},
        {"allow-host-path", 0, OPTION_LIST, &up.o.host_paths, "PREFIX",
         "Allow hostPath volumes there; may be repeated"},
        {"allow-dir-images", 0, OPTION_FLAG, &up.o.dir_images, NULL, "Allow images that are directories (dir:PATH)"},
        {"node-name", 0, OPTION_STRING, &up.o.node_name, "NAME", "Name of this machine's Node"},
        {"user", 0, OPTION_STRING, &up.o.user, "NAME",
         "Whom the API server runs as (" UP_DEFAULT_USER ", if there is one)"},
        {"ready-fd", 0, OPTION_INT, &up.ready_fd, "N", "Write \"ready\" to this descriptor when ready"},
        {"hang-timeout", 0, OPTION_DURATION, &up.hang_timeout_ns, "TIME",
         "End and restart a process of holt that has not answered for so long (60s)"},
        {"stop-sandboxes", 0, OPTION_FLAG, &up.stop_sandboxes, NULL, "End all sandboxes when holt is stopped"},
    };
    int rest;

    if (options_parse("holt up [OPTIONS]\n\n"
                      "Starts the API server, the node and the egress proxy, keeps them running, and prints one line "
                      "when all are ready.\n"
                      "SIGTERM or Ctrl-C ends them; sandboxes go on, and the next `holt up` finds them again.",
                      options, ARRAY_LEN(options), argc, argv, &rest, &err) < 0)
        return fail(EXIT_USAGE, &err);
    if (rest < argc)
        return failf(EXIT_USAGE, "holt up takes no argument \"%s\"", argv[rest]);
    if (!streq(up.o.durability, "full") && !streq(up.o.durability, "normal"))
        return failf(EXIT_USAGE, "--durability: \"%s\" is neither full nor normal", up.o.durability);
    if (up.hang_timeout_ns && up.hang_timeout_ns < 2 * READY_BEAT_S * NSEC_PER_SEC)
        return failf(EXIT_USAGE, "--hang-timeout: at least %d s, or 0 for none", 2 * READY_BEAT_S);
    if (up_check_listen(up.o.listen, &err) < 0)
        return fail(EXIT_USAGE, &err);
    if (geteuid() != 0)
        return failf(EXIT_USAGE, "holt up needs root; \"holt run\" is for one sandbox without a server");
    if (up.ready_fd > 0)
        (void)fcntl((int)up.ready_fd, F_SETFD, FD_CLOEXEC);

    log_setup("up", LOG_LEVEL_INFO);
    _cleanup_close_ int lock = up_lock_dir("--run-dir", up.o.run_dir, 0755, &err);
    _cleanup_close_ int data_lock = lock < 0 ? -1 : up_lock_dir("--data-dir", up.o.data_dir, 0711, &err);
    _cleanup_free_ char *data_dir = data_lock < 0 ? NULL : realpath(up.o.data_dir, NULL);
    up.o.data_dir = data_dir ? data_dir : up.o.data_dir; /* it is told to people, who may be elsewhere */
    if (data_lock < 0 || up_check_free(up.o.listen, &err) < 0 || up_find_user(&up.o, &err) < 0 ||
        up_prepare(&up.o, &node_config, &err) < 0)
        return fail(EXIT_HOLT_FAILED, &err);
    up.base = event_base_new();
    if (!up.base || listen_for_wait(&up, &err) < 0)
        return fail(EXIT_HOLT_FAILED, &err);
    watch_signals(&up);
    define_children(&up, node_config);
    up.started_ns = time_monotonic_ns();
    start(&up.children[CHILD_CONTROL]);
    start(&up.children[CHILD_EGRESS]);
    (void)event_base_dispatch(up.base);
    bool failed = up.failed;
    release(&up);
    strv_free(up.o.host_paths);
    return failed ? failf(EXIT_HOLT_FAILED, "holt could not be started") : 0;
}
