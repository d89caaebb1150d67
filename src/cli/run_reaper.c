#include "cli/run_reaper.h"

#include "node/native/cgroup.h"
#include "node/native/clone.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>

#define REMOVE_TRIES 5000 /* of a millisecond each */

static struct {
    char id[64];
    int parent, guest, range;
    int groups[CGROUP_CONTROLLER_COUNT]; /* where the groups are */
    size_t group_count;
} watched;

/* The last process leaves its group a moment after its end is announced. */
static void remove_groups(void)
{
    int left = REMOVE_TRIES;

    for (size_t i = 0; i < watched.group_count; i++)
        while (unlinkat(watched.groups[i], watched.id, AT_REMOVEDIR) < 0 && errno == EBUSY && left-- > 0)
            (void)poll(NULL, 0, 1);
}

/*
 * While the first process lives, its memory is used by it, errno included: until the poll returns only system calls
 * that succeed are made. After that there is no other user of the memory. The first process may have been killed at any
 * instruction, in the middle of an allocation too: nothing here allocates. Descriptors are those of the start: what the
 * first process opened later is not ours.
 */
static int wait_and_clean(void *arg UNUSED)
{
    (void)setsid(); /* whoever kills the process group does not mean us */
    (void)syscall(SYS_close_range, 0, 2, 0);
    struct pollfd p = {.fd = watched.parent, .events = POLLIN};
    while (poll(&p, 1, -1) != 1)
        ;
    (void)syscall(SYS_pidfd_send_signal, watched.guest, SIGKILL, NULL, 0); /* fails when it is gone: good */
    p.fd = watched.guest;
    (void)poll(&p, 1, -1);
    remove_groups();
    (void)close(watched.range); /* the last holder: now the ids may be used again */
    return 0;
}

int run_reaper_start(const char *id, int guest, int range, struct error *err)
{
    int self = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (self < 0)
        return error_set_errno(err, errno, "open a descriptor of this process");
    (void)snprintf(watched.id, sizeof(watched.id), "%s", id); /* the first process's stack will be gone */
    watched.parent = self;
    watched.guest = guest;
    watched.range = range;
    watched.group_count = cgroup_parents(watched.groups);
    int r = clone_beside(0, wait_and_clean, NULL, NULL, err);
    (void)close(self); /* the reaper has its own copy */
    return r < 0 ? error_wrap(err, "start the reaper") : 0;
}
