#include "node/native/idmap.h"

#include "base/fdio.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "node/native/clone.h"
#include "node/native/native.h"
#include "node/native/sys.h"

#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>

/* Lines "ID-OF-THE-MOUNT OUTSIDE COUNT". */
static char *make_map(uint32_t base, uint32_t owner)
{
    struct strbuf map = {0};

    if (owner == 0) {
        strbuf_addf(&map, "0 %u %u\n", base, NATIVE_UID_RANGE);
        return strbuf_detach(&map);
    }
    if (owner > 1)
        strbuf_addf(&map, "1 %u %u\n", base + 1, MIN(owner, NATIVE_UID_RANGE) - 1);
    strbuf_addf(&map, "%u %u 1\n", owner, base);
    if (owner + 1 < NATIVE_UID_RANGE)
        strbuf_addf(&map, "%u %u %u\n", owner + 1, base + owner + 1, NATIVE_UID_RANGE - owner - 1);
    return strbuf_detach(&map);
}

static int write_maps(int proc, uint32_t base, uint32_t owner, struct error *err)
{
    _cleanup_free_ char *map = make_map(base, owner);
    int r = file_put_at(proc, "uid_map", map, err);
    return r < 0 ? r : file_put_at(proc, "gid_map", map, err);
}

/*
 * The kernel counts what a user has (inotify instances, pending signals, locked memory…) also for whoever made his user
 * namespace. Made by root, all namespaces would share root's limits, and one sandbox could use them up; so each is made
 * by its own first id. Capabilities are kept across the change.
 */
static pid_t clone_as_owner(uint32_t base, int *ret_pidfd, struct error *err)
{
    int end_signal = 0;
    pid_t parent = getppid();
    (void)prctl(PR_GET_PDEATHSIG, &end_signal, 0, 0, 0); /* cannot fail */
    int bits = prctl(PR_GET_SECUREBITS, 0, 0, 0, 0), dumpable = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0);

    if (bits < 0 || prctl(PR_SET_SECUREBITS, bits | SECBIT_NO_SETUID_FIXUP, 0, 0, 0) < 0)
        return error_set_errno(err, errno, "keep capabilities across a change of user");
    pid_t pid;
    if (syscall(SYS_setresuid, -1, base, -1) < 0) {
        pid = error_set_errno(err, errno, "become user %u", base);
    } else {
        pid = clone_idle(CLONE_NEWUSER, ret_pidfd, err);
        if (syscall(SYS_setresuid, -1, 0, -1) < 0)
            abort(); /* root was the real user and capabilities are kept: going on as another would be worse */
    }
    (void)prctl(PR_SET_SECUREBITS, bits, 0, 0, 0); /* as they were */
    if (dumpable == 1)
        (void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* for debuggers only; the change of user has cleared it */
    /* Likewise the wish to end with the parent, who may be gone by now. */
    if (end_signal && (prctl(PR_SET_PDEATHSIG, end_signal, 0, 0, 0) < 0 || getppid() != parent))
        (void)raise(end_signal);
    return pid;
}

int idmap_open(uint32_t base, struct error *err)
{
    return idmap_open_owner(base, 0, err);
}

int idmap_open_owner(uint32_t base, uint32_t owner, struct error *err)
{
    if (base < NATIVE_UID_RANGE || base > UINT32_MAX - NATIVE_UID_RANGE || owner == UINT32_MAX)
        return error_set(err, EINVAL, "user id range at %u is not allowed", base);

    int pidfd;
    pid_t pid = clone_as_owner(base, &pidfd, err);
    if (pid < 0)
        return error_wrap(err, "create a user namespace");

    char path[32];
    (void)snprintf(path, sizeof(path), "/proc/%d", pid);
    _cleanup_close_ int proc = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int r = proc < 0 ? error_set_errno(err, errno, "open %s", path) : write_maps(proc, base, owner, err);
    int fd = -1;
    if (r == 0) {
        fd = openat(proc, "ns/user", O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            r = error_set_errno(err, errno, "open the user namespace");
    }
    clone_idle_end(pidfd);
    return r < 0 ? r : fd;
}

static struct {
    uint32_t base;
    int fd;
} cache[IDMAP_CACHE_SIZE];
static unsigned cache_used, cache_next;

int idmap_get(uint32_t base, struct error *err)
{
    for (unsigned i = 0; i < cache_used; i++)
        if (cache[i].base == base)
            return cache[i].fd;
    int fd = idmap_open(base, err);
    if (fd < 0)
        return fd;
    unsigned slot = cache_next++ % IDMAP_CACHE_SIZE;
    if (slot < cache_used)
        (void)close(cache[slot].fd); /* a namespace descriptor: nothing to flush */
    else
        cache_used++;
    cache[slot].base = base;
    cache[slot].fd = fd;
    return fd;
}
