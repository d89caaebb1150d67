/* System calls and constants of newer kernels than the C library's headers know. Thin: -1 and errno, as in libc. */
#pragma once

#include "base/macros.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/types.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif
#ifndef CLONE_CLEAR_SIGHAND
#define CLONE_CLEAR_SIGHAND 0x100000000ULL
#endif
#ifndef CLONE_INTO_CGROUP
#define CLONE_INTO_CGROUP 0x200000000ULL
#endif

static inline int sys_openat2(int dirfd, const char *path, int flags, unsigned long long resolve)
{
    struct open_how how = {.flags = (unsigned)flags, .resolve = resolve};
    return (int)syscall(SYS_openat2, dirfd, path, &how, sizeof(how));
}

/*
 * The C library's versions of these change every thread of the process; a child that shares its parent's memory
 * (clone.h) must change itself alone.
 */
static inline int sys_setresuid(uid_t uid)
{
    return (int)syscall(SYS_setresuid, uid, uid, uid);
}

static inline int sys_setresgid(gid_t gid)
{
    return (int)syscall(SYS_setresgid, gid, gid, gid);
}

static inline int sys_setgroups_none(void)
{
    return (int)syscall(SYS_setgroups, (size_t)0, NULL);
}
