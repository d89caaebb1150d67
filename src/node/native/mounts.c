/* What is mounted inside a root; see setup.h. */
#include "base/memory.h"
#include "base/strutil.h"
#include "node/native/mountfd.h"
#include "node/native/netns.h"
#include "node/native/setup.h"
#include "node/native/sys.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define TTY_GROUP 5
#define DEV_BYTES "65536"
#define PTS_MAX "256" /* terminals of a sandbox; the kernel has a few thousand for all */

static const struct {
    const char *name;
    unsigned major, minor;
} devices[] = {
    {"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0},
};

static const struct {
    const char *name, *target;
} dev_links[] = {
    {"fd", "/proc/self/fd"},       {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"},
    {"stderr", "/proc/self/fd/2"}, {"ptmx", "pts/ptmx"},
};

/* Below /proc. They belong to the host's root, which no id of the sandbox is; this is one more wall before them. */
static const char *const proc_read_only[] = {"bus", "fs", "irq", "sys"};
static const char *const proc_masked_files[] = {
    "interrupts",    "kallsyms",    "kcore",         "key-users",  "keys",        "kmsg",
    "latency_stats", "sched_debug", "sysrq-trigger", "timer_list", "timer_stats",
};
static const char *const proc_masked_dirs[] = {"acpi", "asound", "scsi"};

/* Directories of the scratch; opened for copying their mount. */
static int make_scratch_dir(const char *name, mode_t mode, uid_t uid, uint64_t attributes, struct error *err)
{
    if (mkdir(name, 0700) < 0)
        return error_set_errno(err, errno, "create %s", name);
    if (chown(name, uid, uid) < 0 || chmod(name, mode) < 0)
        return error_set_errno(err, errno, "set owner and mode of %s", name);
    return mountfd_clone(AT_FDCWD, name, attributes, -1, err);
}

static int attach_at(int mount, int root, const char *path, bool no_links, uid_t uid, struct error *err)
{
    _cleanup_close_ int target = mountfd_target(root, path, false, no_links, uid, err);

    return target < 0 ? target : mountfd_attach(mount, target, err);
}

static int make_dev_nodes(int dev, uid_t uid, struct error *err)
{
    for (size_t i = 0; i < ARRAY_LEN(devices); i++) {
        const char *name = devices[i].name;
        if (mknodat(dev, name, S_IFCHR | 0666, makedev(devices[i].major, devices[i].minor)) < 0)
            return error_set_errno(err, errno, "create /dev/%s", name);
        if (fchownat(dev, name, uid, uid, AT_SYMLINK_NOFOLLOW) < 0)
            return error_set_errno(err, errno, "set the owner of /dev/%s", name);
    }
    for (size_t i = 0; i < ARRAY_LEN(dev_links); i++)
        if (symlinkat(dev_links[i].target, dev, dev_links[i].name) < 0)
            return error_set_errno(err, errno, "create /dev/%s", dev_links[i].name);
    if (mkdirat(dev, "pts", 0755) < 0 || mkdirat(dev, "shm", 0755) < 0)
        return error_set_errno(err, errno, "create directories of /dev");
    return 0;
}

static int make_pts(int dev, uid_t uid, struct error *err)
{
    char gid[16];

    (void)snprintf(gid, sizeof(gid), "%u", uid + TTY_GROUP);
    const char *const options[] = {"newinstance", NULL,   "max", PTS_MAX, "ptmxmode", "0666",
                                   "mode",        "0620", "gid", gid,     NULL};
    _cleanup_close_ int pts = mountfd_new("devpts", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, options, err);
    if (pts < 0)
        return pts;
    if (move_mount(pts, "", dev, "pts", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return error_set_errno(err, errno, "attach /dev/pts");
    return 0;
}

/* A fresh file system, so that nothing in the image can take the place of a device. */
static int make_dev(int root, uid_t uid, struct error *err)
{
    char owner[16];

    (void)snprintf(owner, sizeof(owner), "%u", uid);
    const char *const options[] = {"size", DEV_BYTES, "nr_inodes", "64",  "mode", "0755",
                                   "uid",  owner,     "gid",       owner, NULL};
    _cleanup_close_ int dev = mountfd_new("tmpfs", MOUNT_ATTR_NOSUID, options, err);
    if (dev < 0)
        return dev;
    int r = attach_at(dev, root, "/dev", true, uid, err);
    if (r < 0)
        return r;
    r = make_dev_nodes(dev, uid, err);
    if (r < 0)
        return r;
    r = make_pts(dev, uid, err);
    if (r < 0)
        return r;
    _cleanup_close_ int shm =
        make_scratch_dir("shm", 01777, uid, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, err);
    if (shm < 0)
        return shm;
    if (move_mount(shm, "", dev, "shm", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return error_set_errno(err, errno, "attach /dev/shm");
    return 0;
}

/* What this kernel does not have needs no cover. */
static int cover_proc(int proc, const char *name, const char *scratch_source, struct error *err)
{
    struct stat st;
    if (fstatat(proc, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : error_set_errno(err, errno, "stat /proc/%s", name);
    if (S_ISREG(st.st_mode) && st.st_uid == 0 && !(st.st_mode & S_IRWXO))
        return 0; /* for the host's root alone, as a mask would be */
    _cleanup_close_ int target = openat(proc, name, O_PATH | O_CLOEXEC | O_NOFOLLOW);
    if (target < 0)
        return error_set_errno(err, errno, "open /proc/%s", name);
    uint64_t attributes = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
    _cleanup_close_ int cover = scratch_source ? mountfd_clone(AT_FDCWD, scratch_source, attributes, -1, err)
                                               : mountfd_clone(proc, name, attributes, -1, err);
    if (cover < 0)
        return cover;
    int r = mountfd_attach(cover, target, err);
    return r < 0 ? error_wrap(err, "cover /proc/%s", name) : 0;
}

static int cover_all(int proc, const char *const *names, size_t count, const char *scratch_source, struct error *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < count; i++)
        r = cover_proc(proc, names[i], scratch_source, err);
    return r;
}

/* "masked" cannot be opened by the sandbox: mode 0, and the owner is the host's root. */
static int make_masks(struct error *err)
{
    _cleanup_close_ int file = open("masked", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0);
    if (file < 0)
        return error_set_errno(err, errno, "create the mask for files");
    if (mkdir("empty", 0555) < 0)
        return error_set_errno(err, errno, "create the mask for directories");
    return 0;
}

static int make_proc(const struct setup *s, int root, struct error *err)
{
    _cleanup_close_ int proc = mountfd_new("proc", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, NULL, err);
    if (proc < 0)
        return proc;
    int r = attach_at(proc, root, "/proc", true, s->uid_base, err);
    if (r == 0 && s->net_sysctls)
        r = netns_sysctls(proc, err);
    if (r == 0)
        r = cover_all(proc, proc_read_only, ARRAY_LEN(proc_read_only), NULL, err);
    if (r == 0)
        r = cover_all(proc, proc_masked_files, ARRAY_LEN(proc_masked_files), "masked", err);
    if (r == 0)
        r = cover_all(proc, proc_masked_dirs, ARRAY_LEN(proc_masked_dirs), "empty", err);
    return r;
}

static int make_sys(int root, uid_t uid, struct error *err)
{
    _cleanup_close_ int sys = mountfd_clone(
        AT_FDCWD, "empty", MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, -1, err);

    return sys < 0 ? sys : attach_at(sys, root, "/sys", true, uid, err);
}

static int make_tmp(int root, uid_t uid, struct error *err)
{
    _cleanup_close_ int tmp = make_scratch_dir("tmp", 01777, uid, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, err);

    return tmp < 0 ? tmp : attach_at(tmp, root, "/tmp", false, uid, err);
}

static int make_tmpfs(const struct setup *s, const struct setup_mount *m, struct error *err)
{
    char size[24], mode[8], owner[16];

    (void)snprintf(size, sizeof(size), "%" PRIu64, m->size_bytes);
    (void)snprintf(mode, sizeof(mode), "%04o", m->mode & 07777);
    (void)snprintf(owner, sizeof(owner), "%u", s->uid_base);
    const char *const options[] = {"size", size, "mode", mode, "uid", owner, "gid", owner, NULL};
    return mountfd_new("tmpfs", m->attributes, options, err);
}

/* Owned by the caller. */
static int open_source(const struct setup *s, const int *fds, const struct setup_mount *m, unsigned *overlays,
                       struct error *err)
{
    switch ((enum setup_mount_kind)m->kind) {
    case SETUP_MOUNT_ATTACH: {
        int fd = fcntl(fds[m->fd], F_DUPFD_CLOEXEC, 3);
        return fd >= 0 ? fd : error_set_errno(err, errno, "duplicate a descriptor");
    }
    case SETUP_MOUNT_TMPFS:
        return make_tmpfs(s, m, err);
    case SETUP_MOUNT_OVERLAY: {
        int fd = root_make_layer(s, fds, m, ++*overlays, err);
        int r = fd < 0 || m->writable ? 0 : mountfd_set(fd, MOUNT_ATTR_RDONLY, err);
        if (r < 0) {
            (void)close(fd); /* O_PATH */
            return r;
        }
        return fd;
    }
    }
    return error_set(err, EINVAL, "unknown kind of mount %u", m->kind);
}

int mounts_make(const struct setup *s, const int *fds, int root, struct error *err)
{
    int r = make_masks(err);
    if (r == 0)
        r = make_proc(s, root, err);
    if (r == 0)
        r = make_dev(root, s->uid_base, err);
    if (r == 0)
        r = make_sys(root, s->uid_base, err);
    if (r == 0 && s->read_only_root)
        r = make_tmp(root, s->uid_base, err);

    unsigned overlays = 0;
    for (uint32_t i = 0; r == 0 && i < s->mount_count; i++) {
        const struct setup_mount *m = &s->mounts[i];
        const char *path = setup_string(s, m->target);
        _cleanup_close_ int source = open_source(s, fds, m, &overlays, err);
        if (source < 0)
            return error_wrap(err, "mount %s", path);
        _cleanup_close_ int target = mountfd_target(root, path, m->is_file, false, s->uid_base, err);
        r = target < 0 ? target : mountfd_attach(source, target, err);
        if (r < 0)
            return error_wrap(err, "mount %s", path);
    }
    if (r == 0 && s->read_only_root)
        r = mountfd_set(root, MOUNT_ATTR_RDONLY, err);
    return r;
}
