#include "node/native/netns.h"

#include "base/fdio.h"
#include "base/memory.h"
#include "node/native/clone.h"
#include "node/native/native.h"
#include "node/native/sys.h"

#include <net/if.h>
#include <sched.h>
#include <stdio.h>
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

int netns_sysctls(int proc, uint32_t uid_base, struct error *err)
{
    char range[32];

    int r = file_put_at(proc, "sys/net/ipv4/ip_unprivileged_port_start", "0", err);
    if (r < 0)
        return r;
    (void)snprintf(range, sizeof(range), "%u %u", uid_base, uid_base + NATIVE_UID_RANGE - 1);
    return file_put_at(proc, "sys/net/ipv4/ping_group_range", range, err);
}

struct netns_child {
    int fd;
    int result;
    struct error *err;
};

static int make_netns(void *arg)
{
    struct netns_child *c = arg;

    c->result = netns_lo_up(c->err);
    if (c->result < 0)
        return 1;
    c->fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC); /* lands in the parent: the table is shared */
    if (c->fd < 0)
        c->result = error_set_errno(c->err, errno, "open the network namespace");
    return 0;
}

int netns_open(struct error *err)
{
    struct netns_child child = {.fd = -1, .err = err};
    struct clone_request request = {.flags = CLONE_NEWNET | CLONE_FILES, .fn = make_netns, .arg = &child};
    int pidfd;

    if (clone_and_wait_exec(&request, &pidfd, err) < 0)
        return error_wrap(err, "create a network namespace");
    clone_reap(pidfd);
    return child.result < 0 ? child.result : child.fd;
}
