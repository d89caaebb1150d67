/* The host's half of a start; see setup.h. */
#include "base/memory.h"
#include "base/strbuf.h"
#include "base/strutil.h"
#include "guest/image.h"
#include "node/native/ahead.h"
#include "node/native/cgroup.h"
#include "node/native/idmap.h"
#include "node/native/mountfd.h"
#include "node/native/setup.h"
#include "node/native/sys.h"

#include <sys/stat.h>

#define LOWERS_MAX 128
#define MOUNTS_MAX 64
#define HOSTNAME_MAX 63
#define LOWER_ATTRIBUTES (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

/* Collects the block and its descriptors. */
struct builder {
    struct setup *head; /* with room for the mounts; the strings are appended at the end */
    struct strbuf strings;
    size_t strings_offset;
    int *fds;
    bool *owned;
    uint32_t fd_count;
    size_t fd_capacity, owned_capacity;
};

static uint32_t add_fd(struct builder *b, int fd, bool owned)
{
    GROW(b->fds, b->fd_capacity, b->fd_count + 1u);
    GROW(b->owned, b->owned_capacity, b->fd_count + 1u);
    b->fds[b->fd_count] = fd;
    b->owned[b->fd_count] = owned;
    return b->fd_count++;
}

static uint32_t add_string(struct builder *b, const char *s)
{
    uint32_t offset = (uint32_t)(b->strings_offset + b->strings.len);

    strbuf_add(&b->strings, s, strlen(s) + 1);
    return offset;
}

static void builder_done(struct builder *b)
{
    for (uint32_t i = 0; i < b->fd_count; i++)
        if (b->owned[i])
            (void)close(b->fds[i]); /* nothing was written through it */
    free(b->fds);
    free(b->owned);
    free(b->head);
    strbuf_free(&b->strings);
}

/* The image is made once; its mode keeps the guest from being read, traced or dumped by the sandbox it serves. */
static int get_guest_exe(struct error *err)
{
    static int fd = -1;

    if (fd < 0) {
        int made = guest_image_memfd(err);
        if (made < 0)
            return made;
        if (fchmod(made, 0111) < 0) {
            int r = error_set_errno(err, errno, "set the mode of the guest's program");
            (void)close(made);
            return r;
        }
        fd = made;
    }
    return fd;
}

/* Copies the mount of a host path; no component may be a link, so that a path checked by policy is the path used. */
static int clone_host_path(const char *path, uint64_t attributes, int user_ns, bool *ret_is_file, struct error *err)
{
    _cleanup_close_ int source =
        sys_openat2(AT_FDCWD, path, O_PATH | O_CLOEXEC, RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
    struct stat st;

    if (source < 0)
        return error_set_errno(err, errno, errno == ELOOP ? "open %s (it leads over a symbolic link)" : "open %s",
                               path);
    if (fstat(source, &st) < 0)
        return error_set_errno(err, errno, "stat %s", path);
    if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
        return error_set(err, EINVAL, "%s is neither a directory nor a file", path);
    *ret_is_file = !S_ISDIR(st.st_mode);
    int fd = mountfd_clone(source, "", attributes, user_ns, err);
    return fd < 0 ? error_wrap(err, "%s", path) : fd;
}

static int add_lower(struct builder *b, const char *path, int user_ns, struct error *err)
{
    bool is_file;
    int fd = clone_host_path(path, LOWER_ATTRIBUTES, user_ns, &is_file, err);

    if (fd < 0)
        return fd;
    add_fd(b, fd, true);
    return is_file ? error_set(err, ENOTDIR, "lower %s is not a directory", path) : 0;
}

static uint64_t default_bytes(uint64_t asked, const struct native_limits *limits, uint64_t otherwise)
{
    if (asked)
        return asked;
    return limits->memory_bytes ? MAX(limits->memory_bytes / 2, 65536) : otherwise;
}

/* Absolute, without "." and "..", and not among what the runtime itself mounts. */
static int check_target(const char *target, struct error *err)
{
    static const char *const reserved[] = {"/proc", "/sys"};

    if (target[0] != '/' || target[1] == '\0')
        return error_set(err, EINVAL, "mount target \"%s\" is not an absolute path below /", target);
    for (const char *part = target; *part; part += strcspn(part, "/")) {
        part += strspn(part, "/");
        size_t len = strcspn(part, "/");
        if ((len == 1 && part[0] == '.') || (len == 2 && part[0] == '.' && part[1] == '.'))
            return error_set(err, EINVAL, "mount target \"%s\" has a \".\" or \"..\" in it", target);
    }
    for (size_t i = 0; i < ARRAY_LEN(reserved); i++) {
        const char *rest = str_skip_prefix(target, reserved[i]);
        if (rest && (*rest == '\0' || *rest == '/'))
            return error_set(err, EINVAL, "mount target \"%s\" lies in %s", target, reserved[i]);
    }
    if (streq(target, "/dev") || streq(target, "/dev/"))
        return error_set(err, EINVAL, "nothing can be mounted over /dev");
    return 0;
}

static int add_mount(struct builder *b, struct setup_mount *to, const struct native_spec *spec,
                     const struct native_mount *m, int user_ns, struct error *err)
{
    bool is_file = false;
    int r = check_target(m->target, err);
    if (r < 0)
        return r;

    uint64_t attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (m->read_only ? MOUNT_ATTR_RDONLY : 0) |
                          (m->no_exec ? MOUNT_ATTR_NOEXEC : 0);
    *to = (struct setup_mount){.target = add_string(b, m->target),
                               .fd = b->fd_count,
                               .writable = !m->read_only,
                               .attributes = (uint32_t)attributes};
    switch (m->kind) {
    case NATIVE_MOUNT_TMPFS:
        to->kind = SETUP_MOUNT_TMPFS;
        to->size_bytes = default_bytes(m->size_bytes, &spec->limits, NATIVE_DEFAULT_TMPFS);
        to->mode = m->mode ? m->mode : 0755;
        return 0;
    case NATIVE_MOUNT_BIND: {
        to->kind = SETUP_MOUNT_ATTACH;
        _cleanup_close_ int owner_ns = m->idmap && m->owner ? idmap_open_owner(spec->uid_base, m->owner, err) : -1;
        if (m->idmap && m->owner && owner_ns < 0)
            return owner_ns;
        int map = !m->idmap ? -1 : m->owner ? owner_ns : user_ns;
        int fd = clone_host_path(m->source, attributes, map, &is_file, err);
        if (fd < 0)
            return fd;
        add_fd(b, fd, true);
        to->fd_count = 1;
        to->is_file = is_file;
        return 0;
    }
    case NATIVE_MOUNT_OVERLAY:
        to->kind = SETUP_MOUNT_OVERLAY;
        to->fd_count = 1;
        to->writable = !m->read_only && !spec->read_only_root;
        return add_lower(b, m->source, user_ns, err);
    }
    return error_set(err, EINVAL, "unknown kind of mount");
}

/* Directories of the upper on a disk; index 0 is the root's, the others belong to the overlay mounts in order. */
static int make_upper_dirs(int dir, unsigned count, uid_t uid, struct error *err)
{
    for (unsigned i = 0; i < 2 * count; i++) {
        _cleanup_free_ char *name =
            i < 2 ? xasprintf("%s", i % 2 ? "work" : "upper") : xasprintf("%s%u", i % 2 ? "work" : "upper", i / 2);
        if (mkdirat(dir, name, 0755) < 0 && errno != EEXIST)
            return error_set_errno(err, errno, "create %s", name);
        if (fchownat(dir, name, uid, uid, AT_SYMLINK_NOFOLLOW) < 0)
            return error_set_errno(err, errno, "set the owner of %s", name);
    }
    return 0;
}

static int add_upper(struct builder *b, const struct native_spec *spec, struct error *err)
{
    unsigned overlays = 1;
    for (size_t i = 0; i < spec->mount_count; i++)
        overlays += spec->mounts[i].kind == NATIVE_MOUNT_OVERLAY;

    _cleanup_close_ int dir =
        sys_openat2(AT_FDCWD, spec->upper_dir, O_PATH | O_DIRECTORY | O_CLOEXEC, RESOLVE_NO_SYMLINKS);
    if (dir < 0)
        return error_set_errno(err, errno, "open %s", spec->upper_dir);
    int r = make_upper_dirs(dir, overlays, spec->uid_base, err);
    if (r < 0)
        return error_wrap(err, "%s", spec->upper_dir);
    int fd = mountfd_clone(dir, "", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, -1, err);
    if (fd < 0)
        return error_wrap(err, "%s", spec->upper_dir);
    b->head->upper = (int32_t)add_fd(b, fd, true);
    return 0;
}

static int add_cgroups(struct builder *b, const struct native_spec *spec, struct error *err)
{
    struct cgroup_entry entry;
    int r = cgroup_create(spec->id, &spec->limits, spec->only_limits, spec->strict, &entry, err);
    if (r < 0)
        return r;
    b->head->cgroup_procs = b->fd_count;
    b->head->cgroup_procs_count = (uint32_t)entry.procs_count;
    for (size_t i = 0; i < entry.procs_count; i++)
        add_fd(b, entry.procs[i], true);
    if (entry.dir >= 0)
        b->head->cgroup_dir = (int32_t)add_fd(b, entry.dir, true);
    return 0;
}

static int check_spec(const struct native_spec *spec, struct error *err)
{
    size_t len = spec->id ? strlen(spec->id) : 0;

    if (len == 0 || len > HOSTNAME_MAX || strspn(spec->id, "abcdefghijklmnopqrstuvwxyz0123456789-") != len)
        return error_set(err, EINVAL, "\"%s\" is no id of a sandbox", spec->id ? spec->id : "");
    if (spec->lower_count == 0 || spec->lower_count > LOWERS_MAX)
        return error_set(err, EINVAL, "a root has 1 to %d layers, not %zu", LOWERS_MAX, spec->lower_count);
    if (spec->mount_count > MOUNTS_MAX)
        return error_set(err, E2BIG, "more than %d mounts", MOUNTS_MAX);
    if (spec->hostname && strlen(spec->hostname) > HOSTNAME_MAX)
        return error_set(err, ENAMETOOLONG, "host name %s is longer than %d characters", spec->hostname, HOSTNAME_MAX);
    return 0;
}

/* The order matters: what can be refused comes before what has to be undone. */
static int build(struct builder *b, const struct native_spec *spec, struct error *err)
{
    struct setup *s = b->head;
    int exe = get_guest_exe(err);
    if (exe < 0)
        return exe;
    int user_ns = idmap_get(spec->uid_base, err);
    if (user_ns < 0)
        return user_ns;
    s->guest_exe = add_fd(b, exe, false);
    s->guest_socket = add_fd(b, spec->guest_socket, false);
    s->user_ns = add_fd(b, user_ns, false);
    s->net_ns = spec->net_ns > 0 ? (int32_t)add_fd(b, spec->net_ns, false) : -1;
    if (spec->ahead && spec->ahead->pidfd >= 0) {
        s->ahead_pidfd = (int32_t)add_fd(b, spec->ahead->pidfd, false);
        s->ahead_done = (int32_t)add_fd(b, spec->ahead->done, false);
    }
    s->net_sysctls = s->net_ns < 0 && s->ahead_pidfd < 0;
    s->hostname = add_string(b, spec->hostname ? spec->hostname : spec->id);

    s->lowers = b->fd_count;
    s->lower_count = (uint32_t)spec->lower_count;
    for (size_t i = 0; i < spec->lower_count; i++) {
        int r = add_lower(b, spec->lowers[i], user_ns, err);
        if (r < 0)
            return error_wrap(err, "image layer");
    }
    for (size_t i = 0; i < spec->mount_count; i++) {
        int r = add_mount(b, &s->mounts[i], spec, &spec->mounts[i], user_ns, err);
        if (r < 0)
            return error_wrap(err, "volume for %s", spec->mounts[i].target);
    }
    int r = spec->upper_dir ? add_upper(b, spec, err) : 0;
    if (r < 0)
        return error_wrap(err, "upper directory");
    return add_cgroups(b, spec, err);
}

int setup_prepare(const struct native_spec *spec, struct setup_plan *ret, struct error *err)
{
    _cleanup_(builder_done) struct builder b = {0};
    int r = check_spec(spec, err);
    if (r < 0)
        return r;

    b.strings_offset = sizeof(*b.head) + spec->mount_count * sizeof(b.head->mounts[0]);
    b.head = xcalloc(1, b.strings_offset);
    *b.head = (struct setup){
        .uid_base = spec->uid_base,
        .upper = -1,
        .net_ns = -1,
        .cgroup_dir = -1,
        .ahead_pidfd = -1,
        .ahead_done = -1,
        .upper_bytes = default_bytes(spec->upper_bytes, &spec->limits, NATIVE_DEFAULT_UPPER),
        .capabilities = spec->capabilities,
        .nofile = spec->limits.nofile,
        .read_only_root = spec->read_only_root,
        .strict = spec->strict,
        .mount_count = (uint32_t)spec->mount_count,
    };
    r = build(&b, spec, err);
    if (r < 0)
        return r;

    struct setup *whole = xmalloc(b.strings_offset + b.strings.len);
    memcpy(whole, b.head, b.strings_offset);
    memcpy((char *)whole + b.strings_offset, b.strings.data, b.strings.len);
    whole->size = (uint32_t)(b.strings_offset + b.strings.len);
    whole->fd_count = b.fd_count;
    *ret = (struct setup_plan){.setup = whole, .fds = take_ptr(b.fds), .owned = take_ptr(b.owned)};
    b.fd_count = 0;
    return 0;
}

void setup_plan_done(struct setup_plan *plan)
{
    if (!plan->setup)
        return;
    for (uint32_t i = 0; i < plan->setup->fd_count; i++)
        if (plan->owned[i])
            (void)close(plan->fds[i]); /* nothing was written through it */
    free(plan->setup);
    free(plan->fds);
    free(plan->owned);
    *plan = (struct setup_plan){0};
}

int setup_check(const struct setup *s, size_t len, size_t nfds, struct error *err)
{
    if (len < sizeof(*s) || s->size != len || s->fd_count != nfds || s->mount_count > MOUNTS_MAX ||
        sizeof(*s) + s->mount_count * sizeof(s->mounts[0]) > len || ((const char *)s)[len - 1] != '\0')
        return error_set(err, EBADMSG, "the request to the zygote is damaged");
    return 0;
}
