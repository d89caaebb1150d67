#include "node/native/ahead.h"

#include "node/native/clone.h"
#include "node/native/netns.h"
#include "node/native/setup.h"
#include "node/native/sys.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>

struct helper {
    pid_t parent;
    int done_write;
};

/* False: the other side learns it from our end. */
static bool tell(const struct helper *h, int r)
{
    return write(h->done_write, &r, sizeof(r)) == sizeof(r) && r == 0;
}

static int make_mounts(void)
{
    return unshare(CLONE_NEWNS) < 0 ? -errno : root_leave_host(NULL);
}

static int make_net(int proc)
{
    if (unshare(CLONE_NEWNET) < 0)
        return -errno;
    int r = netns_lo_up(NULL);
    return r < 0 ? r : netns_sysctls(proc, NULL);
}

/* Shares memory and descriptors with its parent, so it allocates nothing: see clone_beside(). */
static int helper_main(void *arg)
{
    const struct helper *h = arg;

    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != h->parent)
        return 1;
    _cleanup_close_ int proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (!tell(h, proc < 0 ? -errno : make_mounts()) || !tell(h, make_net(proc)))
        return 1;
    for (;;)
        (void)poll(NULL, 0, -1); /* the namespaces are entered by way of this process */
}

void ahead_start(struct ahead *ahead)
{
    static struct helper helper; /* outlives this call */
    int ends[2];

    *ahead = AHEAD_NONE;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return;
    helper = (struct helper){.parent = getpid(), .done_write = ends[1]};
    if (clone_beside(CLONE_FILES, helper_main, &helper, &ahead->pidfd, NULL) < 0) {
        (void)close(ends[0]);
        (void)close(ends[1]);
        return;
    }
    ahead->done = ends[0];
    ahead->done_write = ends[1];
}

/* The next step's result; the helper may have been killed. */
static int wait_step(int pidfd, int done)
{
    struct pollfd p[] = {{.fd = done, .events = POLLIN}, {.fd = pidfd, .events = POLLIN}};
    int result;

    while (poll(p, 2, -1) < 0 && errno == EINTR)
        ;
    if (!(p[0].revents & POLLIN))
        return -ESRCH;
    return read(done, &result, sizeof(result)) == sizeof(result) ? result : -EIO;
}

static int enter(int pidfd, int done, int kind, const char *what, struct error *err)
{
    int r = wait_step(pidfd, done);

    if (r < 0)
        return error_set_errno(err, -r, "create a %s namespace", what);
    return setns(pidfd, kind) < 0 ? error_set_errno(err, errno, "enter the %s namespace", what) : 0;
}

int ahead_enter_mounts(int pidfd, int done, struct error *err)
{
    return enter(pidfd, done, CLONE_NEWNS, "mount", err);
}

int ahead_enter_net(int pidfd, int done, struct error *err)
{
    return enter(pidfd, done, CLONE_NEWNET, "network", err);
}

void ahead_end(struct ahead *ahead)
{
    if (ahead->pidfd < 0)
        return;
    clone_idle_end(ahead->pidfd);
    (void)close(ahead->done);
    (void)close(ahead->done_write);
    *ahead = AHEAD_NONE;
}
