/* System calls and constants of newer kernels than the C library's headers know. Thin: -1 and errno, as in libc. */
#pragma once

#include "base/macros.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/types.h>

#ifndef __GLIBC__ /* musl has neither the constants nor the functions */
#include <linux/mount.h>

static inline int fsopen(const char *type, unsigned flags)
{
    return (int)syscall(SYS_fsopen, type, flags);
}

static inline int fsconfig(int fs, unsigned command, const char *key, const void *value, int aux)
{
    return (int)syscall(SYS_fsconfig, fs, command, key, value, aux);
}

static inline int fsmount(int fs, unsigned flags, unsigned attributes)
{
    return (int)syscall(SYS_fsmount, fs, flags, attributes);
}

static inline int open_tree(int dirfd, const char *path, unsigned flags)
{
    return (int)syscall(SYS_open_tree, dirfd, path, flags);
}

static inline int move_mount(int from, const char *from_path, int to, const char *to_path, unsigned flags)
{
    return (int)syscall(SYS_move_mount, from, from_path, to, to_path, flags);
}

static inline int mount_setattr(int dirfd, const char *path, unsigned flags, struct mount_attr *attr, size_t size)
{
    return (int)syscall(SYS_mount_setattr, dirfd, path, flags, attr, size);
}
#endif

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
