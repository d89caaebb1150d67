/* The root of a sandbox; see setup.h. */
#include "base/memory.h"
#include "base/strbuf.h"
#include "node/native/mountfd.h"
#include "node/native/setup.h"
#include "node/native/sys.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#define LAYER_NAME_SIZE 24
#define BYTES_PER_INODE 4096 /* how many files a tmpfs may hold for its size */
#define INODES_MIN 1024

/*
 * What lies below the root, covered by it. It holds the upper directories of a root in memory, the sources of /dev/shm,
 * /tmp and the masks, so one size limits them all; and the layers, which stay mounted: taking a mount off waits for
 * every processor. Nothing leads there from inside, and who got there all the same could not enter: it belongs to the
 * host's root alone.
 */
static int make_scratch(uint64_t bytes, struct error *err)
{
    char size[24], inodes[24];

    (void)snprintf(size, sizeof(size), "%" PRIu64, bytes);
    (void)snprintf(inodes, sizeof(inodes), "%" PRIu64, MAX(bytes / BYTES_PER_INODE, INODES_MIN));
    const char *const options[] = {"size", size, "nr_inodes", inodes, "mode", "0700", NULL};
    return mountfd_new("tmpfs", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, options, err);
}

static int cover_root(int mount, struct error *err)
{
    if (move_mount(mount, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return error_set_errno(err, errno, "mount the scratch root");
    if (fchdir(mount) < 0)
        return error_set_errno(err, errno, "enter the scratch root");
    return 0;
}

/* The mount that cover_root() has just put on top becomes the root, and the host's mounts are gone for good. */
static int pivot(struct error *err)
{
    /* The old root comes to lie over the new one, and is taken off with all that is below it. */
    if (syscall(SYS_pivot_root, ".", ".") < 0)
        return error_set_errno(err, errno, "pivot_root");
    if (umount2(".", MNT_DETACH) < 0)
        return error_set_errno(err, errno, "detach the host's root");
    if (chdir("/") < 0)
        return error_set_errno(err, errno, "chdir to the new root");
    return 0;
}

/* Nothing that is mounted from here on may show up on the host. */
static int make_private(struct error *err)
{
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return error_set_errno(err, errno, "make the mounts private");
    return 0;
}

int root_leave_host(struct error *err)
{
    const char *const options[] = {"size", "4096", "nr_inodes", "2", "mode", "0555", NULL};
    int r = make_private(err);
    if (r < 0)
        return r;
    _cleanup_close_ int empty = mountfd_new(
        "tmpfs", MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, options, err);
    if (empty < 0)
        return empty;
    r = cover_root(empty, err);
    return r < 0 ? r : pivot(err);
}

static int make_owned_dir(const char *path, uid_t uid, struct error *err)
{
    if (mkdir(path, 0755) < 0)
        return error_set_errno(err, errno, "create %s", path);
    if (chown(path, uid, uid) < 0)
        return error_set_errno(err, errno, "set the owner of %s", path);
    return 0;
}

/* Attaches the lowers at names without a character that the option string would have to escape. */
static int attach_lowers(const int *fds, unsigned count, unsigned index, struct strbuf *options, struct error *err)
{
    for (unsigned i = 0; i < count; i++) {
        char name[LAYER_NAME_SIZE];
        (void)snprintf(name, sizeof(name), "%u-%u", index, i);
        if (mkdir(name, 0700) < 0)
            return error_set_errno(err, errno, "create %s", name);
        if (move_mount(fds[i], "", AT_FDCWD, name, MOVE_MOUNT_F_EMPTY_PATH) < 0)
            return error_set_errno(err, errno, "attach lower directory %u", i);
        strbuf_addf(options, "%s%s", i ? ":" : "lowerdir=", name);
    }
    return 0;
}

/* With an upper that the mapped root does not own the kernel mounts read-only and says nothing. */
static int check_writable(const char *target, struct error *err)
{
    struct statvfs st;

    if (statvfs(target, &st) < 0)
        return error_set_errno(err, errno, "look at the overlay");
    if (st.f_flag & ST_RDONLY)
        return error_set(err, EROFS,
                         "the kernel has made the overlay read-only: the owner of its upper directory is wrong");
    return 0;
}

/* index 0 is the root; the directories of the others carry their number. */
static int mount_overlay(const struct setup *s, const int *lowers, unsigned count, unsigned index, const char *target,
                         struct error *err)
{
    _cleanup_(strbuf_free) struct strbuf options = {0};
    char upper[LAYER_NAME_SIZE], work[LAYER_NAME_SIZE];
    const char *base = s->upper >= 0 ? "disk/" : "";

    (void)snprintf(upper, sizeof(upper), index ? "%supper%u" : "%supper", base, index);
    (void)snprintf(work, sizeof(work), index ? "%swork%u" : "%swork", base, index);
    if (s->upper < 0) { /* on a disk they have been made by the host side */
        int r = make_owned_dir(upper, s->uid_base, err);
        if (r == 0)
            r = make_owned_dir(work, s->uid_base, err);
        if (r < 0)
            return r;
    }
    int r = attach_lowers(lowers, count, index, &options, err);
    if (r < 0)
        return r;
    /* Extended attributes of an image must not lead elsewhere. */
    strbuf_addf(&options, ",upperdir=%s,workdir=%s,redirect_dir=nofollow,metacopy=off,index=off", upper, work);
    if (mkdir(target, 0755) < 0)
        return error_set_errno(err, errno, "create %s", target);
    if (mount("overlay", target, "overlay", MS_NODEV | MS_NOSUID, strbuf_str(&options)) < 0)
        return error_set_errno(err, errno, "mount overlay");
    return check_writable(target, err);
}

int root_make_overlay(const struct setup *s, const int *fds, bool in_empty_root, struct error *err)
{
    int r = in_empty_root ? 0 : make_private(err);
    if (r < 0)
        return r;
    _cleanup_close_ int scratch = make_scratch(s->upper_bytes, err);
    if (scratch < 0)
        return scratch;
    r = cover_root(scratch, err);
    if (r < 0)
        return r;
    if (in_empty_root && chroot(".") < 0)
        return error_set_errno(err, errno, "chroot to the scratch root");
    r = in_empty_root ? 0 : pivot(err);
    if (r < 0)
        return r;
    if (s->upper >= 0) {
        if (mkdir("disk", 0700) < 0)
            return error_set_errno(err, errno, "create disk");
        if (move_mount(fds[s->upper], "", AT_FDCWD, "disk", MOVE_MOUNT_F_EMPTY_PATH) < 0)
            return error_set_errno(err, errno, "attach the upper directory");
    }
    return mount_overlay(s, fds + s->lowers, s->lower_count, 0, ROOT_DIR, err);
}

int root_make_layer(const struct setup *s, const int *fds, const struct setup_mount *m, unsigned index,
                    struct error *err)
{
    char target[LAYER_NAME_SIZE];

    (void)snprintf(target, sizeof(target), "m%u", index);
    int r = mount_overlay(s, fds + m->fd, m->fd_count, index, target, err);
    if (r < 0)
        return r;
    int fd = open_tree(AT_FDCWD, target, OPEN_TREE_CLOEXEC);
    return fd >= 0 ? fd : error_set_errno(err, errno, "open %s", target);
}

int root_enter(struct error *err)
{
    if (chdir(ROOT_DIR) < 0)
        return error_set_errno(err, errno, "chdir to the root");
    if (mount(".", "/", NULL, MS_MOVE, NULL) < 0)
        return error_set_errno(err, errno, "move the root");
    if (chroot(".") < 0)
        return error_set_errno(err, errno, "chroot");
    if (chdir("/") < 0)
        return error_set_errno(err, errno, "chdir to /");
    return 0;
}
