/* The child's half of a start; see setup.h. */
#include "base/fdio.h"
#include "base/memory.h"
#include "node/native/ahead.h"
#include "node/native/caps.h"
#include "node/native/cgroup.h"
#include "node/native/clone.h"
#include "node/native/landlock.h"
#include "node/native/mountfd.h"
#include "node/native/netns.h"
#include "node/native/seccomp.h"
#include "node/native/setup.h"
#include "node/native/sys.h"

#include <inttypes.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define GUEST_SOCKET_FD 3
#define HIGH_FD 16 /* descriptors moved here are out of the way of 0 to 3 */
#define DEFAULT_NOFILE 65536
#define GUEST_CAPS (1ull << CAP_KILL | 1ull << CAP_SETGID | 1ull << CAP_SETUID)

struct child {
    const struct setup *setup;
    const int *fds;
    bool in_empty_root;
    bool at_exec; /* all steps were done */
    int result;
    struct error *err; /* the parent's: memory is shared */
};

static int enter_namespaces(const struct setup *s, const int *fds, struct error *err)
{
    int r = cgroup_enter(fds + s->cgroup_procs, s->cgroup_procs_count, err);
    if (r < 0)
        return r;
    /* After the control group was entered, so that it is what the sandbox sees as "/". */
    if (unshare(CLONE_NEWCGROUP) < 0)
        return error_set_errno(err, errno, "create a cgroup namespace");
    if (s->ahead_pidfd >= 0)
        return ahead_enter_mounts(fds[s->ahead_pidfd], fds[s->ahead_done], err);
    if (s->net_ns < 0)
        return netns_lo_up(err);
    if (setns(fds[s->net_ns], CLONE_NEWNET) < 0)
        return error_set_errno(err, errno, "enter the network namespace");
    return 0;
}

static int make_root(const struct setup *s, const int *fds, bool in_empty_root, struct error *err)
{
    umask(0);
    int r = root_make_overlay(s, fds, in_empty_root, err);
    if (r < 0)
        return r;
    _cleanup_close_ int root = open(ROOT_DIR, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return error_set_errno(err, errno, "open the root");
    r = mounts_make(s, fds, root, err);
    if (r == 0)
        r = root_enter(err);
    umask(022);
    return r;
}

static int set_limit(int resource, rlim_t value, struct error *err)
{
    struct rlimit now;

    if (getrlimit(resource, &now) < 0)
        return error_set_errno(err, errno, "read a resource limit");
    /* Raising a hard limit takes a capability that the host's root may lack. */
    value = MIN(value, now.rlim_max);
    struct rlimit limit = {value, value};
    if (setrlimit(resource, &limit) < 0)
        return error_set_errno(err, errno, "set a resource limit");
    return 0;
}

/* Whoever started us may run with priority over everybody; what runs inside must not. */
static int set_scheduler(struct error *err)
{
    struct sched_param none = {0};

    if (syscall(SYS_sched_getscheduler, 0) != SCHED_OTHER && syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, &none) < 0)
        return error_set_errno(err, errno, "leave real-time scheduling");
    return 0;
}

static int set_limits(const struct setup *s, struct error *err)
{
    int r = set_scheduler(err);
    if (r == 0)
        r = set_limit(RLIMIT_NOFILE, s->nofile ? s->nofile : DEFAULT_NOFILE, err);
    if (r == 0)
        r = set_limit(RLIMIT_CORE, 0, err);
    if (r == 0)
        r = set_limit(RLIMIT_RTPRIO, 0, err);
    return r;
}

/* The keys of whoever started us stay behind. A kernel without key rings has none to leave. */
static int leave_keyring(struct error *err)
{
    if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 && errno != ENOSYS)
        return error_set_errno(err, errno, "join a new session keyring");
    return 0;
}

static int confine_files(const struct setup *s, struct error *err)
{
    _cleanup_free_ int *writable = xcalloc(s->mount_count + 2, sizeof(int));
    size_t count = 0;
    int r = 0;
    _cleanup_close_ int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    _cleanup_close_ int dev = open("/dev", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0 || dev < 0)
        return error_set_errno(err, errno, "open the root");

    for (int i = -2; s->read_only_root && r == 0 && i < (int)s->mount_count; i++) {
        const char *path = i == -2 ? "/proc" : i == -1 ? "/tmp" : setup_string(s, s->mounts[i].target);
        if (i >= 0 && !s->mounts[i].writable)
            continue;
        writable[count] = sys_openat2(root, path, O_PATH | O_CLOEXEC, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
        if (writable[count] < 0)
            r = error_set_errno(err, errno, "open %s", path);
        else
            count++;
    }
    if (r == 0)
        r = landlock_confine(root, dev, s->read_only_root, writable, count, err);
    for (size_t i = 0; i < count; i++)
        (void)close(writable[i]); /* O_PATH */
    if (r == -ENOSYS && !s->strict) {
        error_clear(err);
        return 0;
    }
    return r;
}

/* From here on there is no way back to the host's root. */
static int become_sandbox_root(const struct setup *s, const int *fds, struct error *err)
{
    if (setns(fds[s->user_ns], CLONE_NEWUSER) < 0)
        return error_set_errno(err, errno, "enter the user namespace");
    if (sys_setgroups_none() < 0 || sys_setresgid(0) < 0 || sys_setresuid(0) < 0)
        return error_set_errno(err, errno, "become root of the user namespace");
    /* The guest sets users and kills; its children get what the payload is to have. */
    return caps_limit(s->capabilities | GUEST_CAPS, err);
}

/* 0, 1, 2 = /dev/null, 3 = the guest's socket; all else is closed at exec. Returns the guest's program. */
static int arrange_fds(const struct setup *s, const int *fds, struct error *err)
{
    int exe = fcntl(fds[s->guest_exe], F_DUPFD_CLOEXEC, HIGH_FD);
    int sock = fcntl(fds[s->guest_socket], F_DUPFD_CLOEXEC, HIGH_FD);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC | O_NOFOLLOW);

    if (exe < 0 || sock < 0 || null < 0)
        return error_set_errno(err, errno, "arrange the descriptors of the guest");
    for (int fd = 0; fd <= GUEST_SOCKET_FD; fd++) {
        int from = fd == GUEST_SOCKET_FD ? sock : null;
        if (from == fd ? fcntl(fd, F_SETFD, 0) < 0 : dup2(from, fd) < 0)
            return error_set_errno(err, errno, "arrange the descriptors of the guest");
    }
    if (syscall(SYS_close_range, GUEST_SOCKET_FD + 1, ~0u, 4 /* CLOSE_RANGE_CLOEXEC */) < 0)
        return error_set_errno(err, errno, "close the other descriptors");
    return exe;
}

static int reset_signals(struct error *err)
{
    /* Ignored signals stay ignored across exec; handlers were reset by clone. */
    for (int sig = 1; sig < 32; sig++)
        if (sig != SIGKILL && sig != SIGSTOP)
            (void)signal(sig, SIG_DFL); /* cannot fail for these */
    sigset_t none;
    sigemptyset(&none);
    if (sigprocmask(SIG_SETMASK, &none, NULL) < 0)
        return error_set_errno(err, errno, "unblock signals");
    return 0;
}

static int run_steps(struct child *c)
{
    const struct setup *s = c->setup;
    const char *hostname = setup_string(s, s->hostname);
    struct error *err = c->err;

    int r = enter_namespaces(s, c->fds, err);
    if (r == 0)
        r = make_root(s, c->fds, c->in_empty_root || s->ahead_pidfd >= 0, err);
    if (r == 0 && s->ahead_pidfd >= 0)
        r = ahead_enter_net(c->fds[s->ahead_pidfd], c->fds[s->ahead_done], err);
    if (r == 0 && sethostname(hostname, strlen(hostname)) < 0)
        r = error_set_errno(err, errno, "set the host name");
    if (r == 0)
        r = set_limits(s, err);
    if (r == 0)
        r = leave_keyring(err);
    if (r == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        r = error_set_errno(err, errno, "set no_new_privs");
    if (r < 0)
        return r;
    int exe = arrange_fds(s, c->fds, err);
    if (exe < 0)
        return exe;
    r = confine_files(s, err);
    if (r == 0)
        r = reset_signals(err);
    if (r == 0)
        r = become_sandbox_root(s, c->fds, err);
    if (r == 0)
        r = seccomp_install(err);
    if (r < 0)
        return r;

    char name[] = "holt-guest", caps[2 * sizeof(s->capabilities) + 1];
    char *argv[] = {name, caps, NULL}, *envp[] = {NULL};
    (void)snprintf(caps, sizeof(caps), "%" PRIx64, s->capabilities); /* fits */
    c->at_exec = true;
    syscall(SYS_execveat, exe, "", argv, envp, AT_EMPTY_PATH);
    return error_set_errno(err, errno, "start the guest");
}

static int child_main(void *arg)
{
    struct child *c = arg;

    c->result = run_steps(c);
    return 1;
}

pid_t setup_clone(const struct setup *s, const int *fds, bool in_empty_root, bool as_sibling, int *ret_pidfd,
                  struct error *err)
{
    struct error local = ERROR_INIT;
    struct child child = {.setup = s, .fds = fds, .in_empty_root = in_empty_root, .err = err ? err : &local};
    struct clone_request request = {
        .flags = CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWTIME | (s->ahead_pidfd < 0 ? CLONE_NEWNS : 0) |
                 (s->net_ns < 0 && s->ahead_pidfd < 0 ? CLONE_NEWNET : 0) | (as_sibling ? CLONE_PARENT : 0) |
                 (s->cgroup_dir >= 0 ? CLONE_INTO_CGROUP : 0),
        .cgroup = s->cgroup_dir >= 0 ? fds[s->cgroup_dir] : -1,
        .fn = child_main,
        .arg = &child,
    };

    *ret_pidfd = -1;
    int dumpable = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0);
    pid_t pid = clone_and_wait_exec(&request, ret_pidfd, child.err);
    /* Taking on the ids of the sandbox has made the shared memory, that is ours, undumpable. */
    if (dumpable == 1)
        (void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* for debuggers only */
    if (pid > 0 && child.result == 0 && !child.at_exec)
        child.result = error_set(child.err, ECANCELED,
                                 "the first process was killed while it was set up (is the memory limit too small?)");
    int r = pid < 0 ? (int)pid : child.result;
    error_clear(&local);
    return r < 0 ? r : pid;
}
