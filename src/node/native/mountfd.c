#include "node/native/mountfd.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "node/native/sys.h"

#include <sys/stat.h>

int mountfd_new(const char *type, uint64_t attributes, const char *const *options, struct error *err)
{
    _cleanup_close_ int fs = fsopen(type, FSOPEN_CLOEXEC);
    if (fs < 0)
        return error_set_errno(err, errno, "open file system %s", type);
    for (; options && *options; options += 2)
        if (fsconfig(fs, options[1] ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG, options[0], options[1], 0) < 0)
            return error_set_errno(err, errno, "set option %s of %s", options[0], type);
    if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return error_set_errno(err, errno, "create %s", type);
    int fd = fsmount(fs, FSMOUNT_CLOEXEC, (unsigned)attributes);
    return fd >= 0 ? fd : error_set_errno(err, errno, "mount %s", type);
}

int mountfd_clone(int dirfd, const char *path, uint64_t attributes, int user_ns, struct error *err)
{
    _cleanup_close_ int fd =
        open_tree(dirfd, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW);
    if (fd < 0)
        return error_set_errno(err, errno, "copy the mount of %s", *path ? path : "a directory");
    struct mount_attr attr = {
        .attr_set = attributes | (user_ns >= 0 ? MOUNT_ATTR_IDMAP : 0),
        .userns_fd = user_ns >= 0 ? (uint64_t)user_ns : 0,
    };
    if (mount_setattr(fd, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
        return error_set_errno(err, errno, user_ns >= 0 ? "map the owners of %s" : "set the attributes of %s",
                               *path ? path : "a mount");
    return take_fd(fd);
}

int mountfd_attach(int mount, int target, struct error *err)
{
    if (move_mount(mount, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
        return error_set_errno(err, errno, "attach a mount");
    return 0;
}

int mountfd_set(int mount, uint64_t attributes, struct error *err)
{
    struct mount_attr attr = {.attr_set = attributes};

    if (mount_setattr(mount, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
        return error_set_errno(err, errno, "set the attributes of a mount");
    return 0;
}

static int make_entry(int parent, const char *name, bool is_file, uid_t uid, struct error *err)
{
    if (is_file) {
        _cleanup_close_ int fd = openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
        if (fd < 0)
            return error_set_errno(err, errno, "create mount point %s", name);
    } else if (mkdirat(parent, name, 0755) < 0) {
        return error_set_errno(err, errno, "create mount point %s", name);
    }
    if (fchownat(parent, name, uid, uid, AT_SYMLINK_NOFOLLOW) < 0)
        return error_set_errno(err, errno, "set the owner of mount point %s", name);
    return 0;
}

int mountfd_target(int root, const char *path, bool is_file, bool no_links, uid_t uid, struct error *err)
{
    uint64_t resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | (no_links ? RESOLVE_NO_SYMLINKS : 0);
    int fd = sys_openat2(root, path, O_PATH | O_CLOEXEC, resolve);
    if (fd >= 0)
        return fd;
    if (errno != ENOENT)
        return error_set_errno(err, errno, "open mount point %s", path);

    /* Component by component; each prefix is resolved anew from the root, so that links mean what they mean inside. */
    _cleanup_free_ char *prefix = xstrdup(path);
    _cleanup_close_ int parent = fcntl(root, F_DUPFD_CLOEXEC, 3);
    if (parent < 0)
        return error_set_errno(err, errno, "duplicate a descriptor");
    for (char *start = prefix; *start;) {
        start += strspn(start, "/");
        if (!*start)
            break;
        char *end = start + strcspn(start, "/");
        char *rest = end + strspn(end, "/");
        bool last = !*rest;
        char saved = *end;
        *end = '\0';
        int next = sys_openat2(root, prefix, O_PATH | O_CLOEXEC, resolve);
        if (next < 0 && errno == ENOENT) {
            int r = make_entry(parent, start, last && is_file, uid, err);
            if (r < 0)
                return r;
            next = sys_openat2(root, prefix, O_PATH | O_CLOEXEC, resolve);
        }
        if (next < 0)
            return error_set_errno(err, errno, "open mount point %s", prefix);
        *end = saved;
        (void)close(parent); /* O_PATH */
        parent = next;
        start = end;
    }
    return take_fd(parent);
}
