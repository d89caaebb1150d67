#include "node/native/netns.h"

#include "base/fdio.h"
#include "node/native/clone.h"
#include "node/native/sys.h"

#include <linux/sockios.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

int netns_lo_up(struct error *err)
{
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    _cleanup_close_ int sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0); /* any family carries this ioctl */

    if (sock < 0)
        return error_set_errno(err, errno, "create a socket");
    if (ioctl(sock, SIOCSIFFLAGS, &request) < 0)
        return error_set_errno(err, errno, "bring lo up");
    return 0;
}

int netns_next(struct error *err)
{
    if (unshare(CLONE_NEWNET) < 0)
        return error_set_errno(err, errno, "create a network namespace");
    int r = netns_lo_up(err);
    if (r < 0)
        return r;
    _cleanup_close_ int sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (sock < 0)
        return error_set_errno(err, errno, "create a socket");
    int fd = ioctl(sock, SIOCGSKNS); /* the namespace that a socket is of */
    if (fd < 0)
        return error_set_errno(err, errno, "open the network namespace");
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0) {
        int code = errno;
        (void)close(fd);
        return error_set_errno(err, code, "open the network namespace");
    }
    return fd;
}

int netns_sysctls(int proc, struct error *err)
{
    int r = file_put_at(proc, "sys/net/ipv4/ip_unprivileged_port_start", "0", err);

    return r < 0 ? r : file_put_at(proc, "sys/net/ipv4/ping_group_range", "0 2147483647", err);
}

/* In a process of its own that shares descriptors with the caller. */
static int make_netns(struct error *err)
{
    int r = netns_lo_up(err);
    if (r < 0)
        return r;
    _cleanup_close_ int proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (proc < 0)
        return error_set_errno(err, errno, "open /proc");
    r = netns_sysctls(proc, err);
    if (r < 0)
        return r;
    int fd = openat(proc, "self/ns/net", O_RDONLY | O_CLOEXEC);
    return fd >= 0 ? fd : error_set_errno(err, errno, "open the network namespace");
}

struct netns_child {
    int result;
    struct error *err;
};

static int netns_child(void *arg)
{
    struct netns_child *c = arg;

    c->result = make_netns(c->err);
    return 0;
}

int netns_open(struct error *err)
{
    struct netns_child child = {.result = -ECANCELED, .err = err};
    struct clone_request request = {.flags = CLONE_NEWNET | CLONE_FILES, .fn = netns_child, .arg = &child};
    int pidfd;

    if (clone_and_wait_exec(&request, &pidfd, err) < 0)
        return error_wrap(err, "create a network namespace");
    clone_reap(pidfd);
    return child.result;
}
