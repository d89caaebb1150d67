#include "node/native/cgroup.h"

#include "base/fdio.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "base/strutil.h"
#include "node/native/sys.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#define MOUNTINFO_MAX (8 * 1024 * 1024)
#define CONTROLLERS_MAX 4096
#define CPU_PERIOD_USEC 100000u
#define CPU_QUOTA_MIN_USEC 1000u /* the kernel takes no less */
#define V1_SHARES_DEFAULT 1024u
#define V2_WEIGHT_DEFAULT 100u

static struct cgroup_layout layout;
static bool layout_known;
static char *parent_name;
static int parents[CGROUP_CONTROLLER_COUNT] = {-1, -1, -1, -1, -1, -1, -1}; /* PARENT in each mount, O_PATH */

static void forget_parents(void)
{
    for (int c = 0; c < CGROUP_CONTROLLER_COUNT; c++) {
        if (parents[c] >= 0)
            (void)close(parents[c]); /* O_PATH */
        parents[c] = -1;
    }
}

void native_set_cgroup_parent(const char *name)
{
    free(parent_name);
    parent_name = xstrdup(name);
    forget_parents();
}

static const char *get_parent_name(void)
{
    return parent_name ? parent_name : "holt";
}

void cgroup_layout_set(struct cgroup_layout *l)
{
    if (layout_known)
        cgroup_layout_done(&layout);
    layout = l ? *l : (struct cgroup_layout){0};
    layout_known = l != NULL;
    if (l)
        *l = (struct cgroup_layout){0};
    forget_parents();
}

const struct cgroup_layout *cgroup_layout_get(void)
{
    if (layout_known)
        return &layout;

    /* What cannot be read counts as not there: strict sandboxes are refused then, naming the controller. */
    _cleanup_free_ char *mountinfo = NULL, *unified = NULL, *controllers = NULL;
    if (file_read_at(AT_FDCWD, "/proc/self/mountinfo", MOUNTINFO_MAX, &mountinfo, NULL, NULL) == 0) {
        unified = cgroup_layout_find_unified(mountinfo);
        if (unified) {
            _cleanup_free_ char *path = xasprintf("%s/cgroup.controllers", unified);
            (void)file_read_at(AT_FDCWD, path, CONTROLLERS_MAX, &controllers, NULL, NULL);
        }
        cgroup_layout_parse(mountinfo, controllers, &layout);
    }
    layout_known = true;
    return &layout;
}

/* A group of version 1 with rules of its own must not be seen by another instance before it has them. */
static int make_devices_parent(int mount, const char *name, struct error *err)
{
    static const char *const allowed[] = {
        "c 1:3 rwm", "c 1:5 rwm", "c 1:7 rwm",  "c 1:8 rwm", "c 1:9 rwm", /* null zero full random urandom */
        "c 5:0 rwm", "c 5:2 rw",  "c 136:* rw",                           /* tty ptmx pts */
    };
    _cleanup_free_ char *temp = xasprintf("%s.%d.new", name, getpid());

    if (mkdirat(mount, temp, 0755) < 0 && errno != EEXIST)
        return error_set_errno(err, errno, "create control group %s", temp);
    _cleanup_close_ int dir = openat(mount, temp, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return error_set_errno(err, errno, "open control group %s", temp);
    int r = file_put_at(dir, "devices.deny", "a", err);
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(allowed); i++)
        r = file_put_at(dir, "devices.allow", allowed[i], err);
    if (r == 0 && renameat(mount, temp, mount, name) < 0 && errno != EEXIST)
        r = error_set_errno(err, errno, "rename control group %s", temp);
    (void)unlinkat(mount, temp, AT_REMOVEDIR); /* still there only after a failure or when another was first */
    return r;
}

/* Version 2: what a group's children may use is switched on in the group, from the mount point down. */
static void enable_children(int dir)
{
    for (int c = 0; c < CGROUP_CONTROLLER_COUNT; c++) {
        if (!layout.mounts[c] || c == CGROUP_CPUACCT || c == CGROUP_FREEZER || c == CGROUP_DEVICES)
            continue;
        char word[32];
        (void)snprintf(word, sizeof(word), "+%s", cgroup_controller_name((enum cgroup_controller)c));
        /* Refused where processes live beside; the missing file is reported when its limit is set. */
        (void)file_put_at(dir, "cgroup.subtree_control", word, NULL);
    }
}

static int open_parent_v2(const char *mount, struct error *err)
{
    _cleanup_free_ char *path = xstrdup(get_parent_name());
    _cleanup_close_ int dir = open(mount, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return error_set_errno(err, errno, "open %s", mount);

    char *save = NULL;
    for (char *part = strtok_r(path, "/", &save); part; part = strtok_r(NULL, "/", &save)) {
        enable_children(dir);
        if (mkdirat(dir, part, 0755) < 0 && errno != EEXIST)
            return error_set_errno(err, errno, "create control group %s in %s", part, mount);
        int next = openat(dir, part, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (next < 0)
            return error_set_errno(err, errno, "open control group %s in %s", part, mount);
        (void)close(dir); /* O_PATH */
        dir = next;
    }
    enable_children(dir);
    return take_fd(dir);
}

static int open_parent_v1(const char *mount, enum cgroup_controller c, struct error *err)
{
    _cleanup_close_ int root = open(mount, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return error_set_errno(err, errno, "open %s", mount);
    int fd = openat(root, get_parent_name(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 || errno != ENOENT)
        return fd >= 0 ? fd : error_set_errno(err, errno, "open control group %s/%s", mount, get_parent_name());
    if (c != CGROUP_DEVICES)
        return mkdirs_at(root, get_parent_name(), 0755, err);
    int r = make_devices_parent(root, get_parent_name(), err);
    if (r < 0)
        return r;
    fd = openat(root, get_parent_name(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    return fd >= 0 ? fd : error_set_errno(err, errno, "open control group %s/%s", mount, get_parent_name());
}

/* PARENT in the hierarchy of c, made when missing. Borrowed; -ENOENT when the machine has no such controller. */
static int get_parent(enum cgroup_controller c, struct error *err)
{
    const struct cgroup_layout *l = cgroup_layout_get();
    const char *mount = l->version == 2 ? l->unified : l->mounts[c];

    if (!mount || l->version == 0)
        return error_set(err, ENOENT, "the %s controller of control groups is not there", cgroup_controller_name(c));
    int slot = l->version == 2 ? 0 : (int)c;
    if (parents[slot] < 0) {
        int fd = l->version == 2 ? open_parent_v2(mount, err) : open_parent_v1(mount, c, err);
        if (fd < 0)
            return fd;
        parents[slot] = fd;
    }
    return parents[slot];
}

size_t cgroup_parents(int fds[CGROUP_CONTROLLER_COUNT])
{
    size_t count = 0;

    for (int c = 0; c < CGROUP_CONTROLLER_COUNT; c++)
        if (parents[c] >= 0)
            fds[count++] = parents[c];
    return count;
}

void native_remove_cgroup_parent(void)
{
    const struct cgroup_layout *l = cgroup_layout_get();

    forget_parents();
    for (int c = 0; c < CGROUP_CONTROLLER_COUNT; c++) {
        const char *mount = l->version == 2 ? l->unified : l->mounts[c];
        _cleanup_close_ int dir = mount ? open(mount, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
        if (dir >= 0)
            (void)unlinkat(dir, get_parent_name(), AT_REMOVEDIR); /* busy while sandboxes go on */
    }
}

int cgroup_open(const char *id, enum cgroup_controller c, struct error *err)
{
    const struct cgroup_layout *l = cgroup_layout_get();

    if (c == CGROUP_CONTROLLER_COUNT)
        c = l->version == 2 || l->mounts[CGROUP_PIDS] ? CGROUP_PIDS : CGROUP_MEMORY;
    int parent = get_parent(c, err);
    if (parent < 0)
        return parent;
    int fd = openat(parent, id, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return error_set_errno(err, errno, "open control group %s of %s", cgroup_controller_name(c), id);
    return fd;
}

static int put_number(int dir, const char *file, uint64_t value, struct error *err)
{
    char text[24];

    (void)snprintf(text, sizeof(text), "%" PRIu64, value);
    return file_put_at(dir, file, text, err);
}

/* 0 means no limit. */
static int put_limit(int dir, const char *file, uint64_t value, const char *unlimited, struct error *err)
{
    return value ? put_number(dir, file, value, err) : file_put_at(dir, file, unlimited, err);
}

static uint64_t cpu_quota_usec(uint64_t millis)
{
    return MAX(millis * (CPU_PERIOD_USEC / 1000), CPU_QUOTA_MIN_USEC);
}

static int limit_memory_v1(int dir, const struct native_limits *l, bool fresh, struct error *err)
{
    if (fresh && !l->memory_bytes)
        return 0;
    /* memory+swap may never be below memory, so the order depends on the direction: lift both first. */
    if (!fresh && faccessat(dir, "memory.memsw.limit_in_bytes", F_OK, 0) == 0) {
        int r = file_put_at(dir, "memory.memsw.limit_in_bytes", "-1", err);
        if (r < 0)
            return r;
    }
    int r = put_limit(dir, "memory.limit_in_bytes", l->memory_bytes, "-1", err);
    if (r < 0 || !l->memory_bytes)
        return r;
    r = put_number(dir, "memory.memsw.limit_in_bytes", l->memory_bytes + l->swap_bytes, err);
    if (r == -ENOENT) { /* swap is not accounted on this kernel, or there is none */
        error_clear(err);
        return 0;
    }
    return r;
}

static int limit_cpu_v1(int dir, const struct native_limits *l, bool fresh, struct error *err)
{
    int r = 0;

    if (l->cpu_millis)
        r = put_number(dir, "cpu.cfs_quota_us", cpu_quota_usec(l->cpu_millis), err);
    else if (!fresh)
        r = file_put_at(dir, "cpu.cfs_quota_us", "-1", err);
    if (r == 0 && (l->cpu_weight || !fresh))
        r = put_number(
            dir, "cpu.shares",
            l->cpu_weight ? MAX(l->cpu_weight * V1_SHARES_DEFAULT / V2_WEIGHT_DEFAULT, 2) : V1_SHARES_DEFAULT, err);
    return r;
}

static int limit_v2(int dir, enum cgroup_controller c, const struct native_limits *l, struct error *err)
{
    char text[64];
    int r;

    switch (c) {
    case CGROUP_MEMORY:
        r = put_limit(dir, "memory.max", l->memory_bytes, "max", err);
        if (r < 0)
            return r;
        r = l->memory_bytes ? put_number(dir, "memory.swap.max", l->swap_bytes, err)
                            : file_put_at(dir, "memory.swap.max", "max", err);
        if (r == -ENOENT) { /* a kernel without swap */
            error_clear(err);
            r = 0;
        }
        return r;
    case CGROUP_PIDS:
        return put_number(dir, "pids.max", l->pids ? l->pids : NATIVE_DEFAULT_PIDS, err);
    case CGROUP_CPU:
        if (l->cpu_millis)
            (void)snprintf(text, sizeof(text), "%" PRIu64 " %u", cpu_quota_usec(l->cpu_millis), CPU_PERIOD_USEC);
        else
            (void)snprintf(text, sizeof(text), "max %u", CPU_PERIOD_USEC);
        r = file_put_at(dir, "cpu.max", text, err);
        return r < 0 ? r : put_number(dir, "cpu.weight", l->cpu_weight ? l->cpu_weight : V2_WEIGHT_DEFAULT, err);
    default:
        return 0;
    }
}

static int apply_limits(int dir, enum cgroup_controller c, const struct native_limits *l, bool fresh, struct error *err)
{
    if (layout.version == 2)
        return limit_v2(dir, c, l, err);
    switch (c) {
    case CGROUP_MEMORY:
        return limit_memory_v1(dir, l, fresh, err);
    case CGROUP_PIDS:
        return put_number(dir, "pids.max", l->pids ? l->pids : NATIVE_DEFAULT_PIDS, err);
    case CGROUP_CPU:
        return limit_cpu_v1(dir, l, fresh, err);
    default:
        return 0;
    }
}

/* Whether a limit of l is enforced by c. */
static bool is_limited(enum cgroup_controller c, const struct native_limits *l)
{
    return c == CGROUP_PIDS || (c == CGROUP_MEMORY && l->memory_bytes) ||
           (c == CGROUP_CPU && (l->cpu_millis || l->cpu_weight));
}

static int make_group(int parent, const char *id, bool *ret_fresh, struct error *err)
{
    *ret_fresh = mkdirat(parent, id, 0755) == 0;
    if (!*ret_fresh && errno != EEXIST)
        return error_set_errno(err, errno, "create control group %s", id);
    int dir = openat(parent, id, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return dir >= 0 ? dir : error_set_errno(err, errno, "open control group %s", id);
}

/*
 * The file by which the child moves itself in, by writing "0". It is `tasks`, where a process that moves its own only
 * thread takes no lock; `cgroup.procs` would wait 10 to 20 ms for an RCU grace period.
 */
static int open_tasks(int dir, struct cgroup_entry *entry, struct error *err)
{
    int fd = openat(dir, "tasks", O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return error_set_errno(err, errno, "open tasks");
    entry->procs[entry->procs_count++] = fd;
    return 0;
}

static int create_v1(const char *id, const struct native_limits *limits, bool only_limits, struct cgroup_entry *entry,
                     struct error *err)
{
    for (int c = 0; c < CGROUP_IO; c++) {
        enum cgroup_controller controller = (enum cgroup_controller)c;
        if (!layout.mounts[c] || (only_limits && !is_limited(controller, limits)))
            continue;
        int parent = get_parent(controller, err);
        if (parent < 0)
            return parent;
        if (controller == CGROUP_DEVICES) { /* the same rules for all: one group */
            int r = open_tasks(parent, entry, err);
            if (r < 0)
                return r;
            continue;
        }
        bool fresh;
        _cleanup_close_ int dir = make_group(parent, id, &fresh, err);
        if (dir < 0)
            return dir;
        int r = apply_limits(dir, controller, limits, fresh, err);
        if (r == 0)
            r = open_tasks(dir, entry, err);
        if (r < 0)
            return error_wrap(err, "%s control group of %s", cgroup_controller_name(controller), id);
    }
    return 0;
}

static int create_v2(const char *id, const struct native_limits *limits, bool only_limits, struct cgroup_entry *entry,
                     struct error *err)
{
    int parent = get_parent(CGROUP_PIDS, err);
    if (parent < 0)
        return parent;
    bool fresh;
    entry->dir = make_group(parent, id, &fresh, err);
    if (entry->dir < 0)
        return entry->dir;
    for (int c = 0; c < CGROUP_CONTROLLER_COUNT; c++) {
        enum cgroup_controller controller = (enum cgroup_controller)c;
        if (!layout.mounts[c] || (only_limits && !is_limited(controller, limits)))
            continue;
        int r = apply_limits(entry->dir, controller, limits, fresh, err);
        if (r < 0)
            return error_wrap(err, "%s limit of control group %s", cgroup_controller_name(controller), id);
    }
    return 0;
}

int cgroup_create(const char *id, const struct native_limits *limits, bool only_limits, bool strict,
                  struct cgroup_entry *ret, struct error *err)
{
    const struct cgroup_layout *l = cgroup_layout_get();
    struct cgroup_entry entry = CGROUP_ENTRY_INIT;

    for (int c = 0; strict && c < CGROUP_CONTROLLER_COUNT; c++)
        if (is_limited((enum cgroup_controller)c, limits) && !l->mounts[c])
            return error_set(err, ENOTSUP, "the %s controller of control groups is not there: its limit cannot be kept",
                             cgroup_controller_name((enum cgroup_controller)c));
    if (l->version == 0) {
        *ret = entry;
        return 0;
    }
    int (*create)(const char *, const struct native_limits *, bool, struct cgroup_entry *, struct error *) =
        l->version == 2 ? create_v2 : create_v1;
    int r = create(id, limits, only_limits, &entry, err);
    if (r == -ENOENT) { /* someone took the empty parent away */
        cgroup_entry_done(&entry);
        forget_parents();
        error_clear(err);
        r = create(id, limits, only_limits, &entry, err);
    }
    if (r < 0) {
        cgroup_entry_done(&entry);
        (void)cgroup_remove(id, NULL); /* the failure above is what counts */
        return r;
    }
    *ret = entry;
    return 0;
}

void cgroup_entry_done(struct cgroup_entry *entry)
{
    for (size_t i = 0; i < entry->procs_count; i++)
        (void)close(entry->procs[i]); /* nothing was buffered */
    if (entry->dir >= 0)
        (void)close(entry->dir);
    *entry = (struct cgroup_entry)CGROUP_ENTRY_INIT;
}

int cgroup_enter(const int *procs, size_t count, struct error *err)
{
    for (size_t i = 0; i < count; i++)
        if (write(procs[i], "0", 1) < 0)
            return error_set_errno(err, errno, "enter a control group");
    return 0;
}

int native_set_limits(const char *id, const struct native_limits *limits, struct error *err)
{
    const struct cgroup_layout *l = cgroup_layout_get();

    for (int c = 0; c < CGROUP_CONTROLLER_COUNT; c++) {
        enum cgroup_controller controller = (enum cgroup_controller)c;
        if (!is_limited(controller, limits) && controller != CGROUP_MEMORY && controller != CGROUP_CPU)
            continue;
        if (!l->mounts[c]) {
            if (is_limited(controller, limits))
                return error_set(err, ENOTSUP, "the %s controller of control groups is not there",
                                 cgroup_controller_name(controller));
            continue;
        }
        _cleanup_close_ int dir = cgroup_open(id, controller, err);
        if (dir < 0)
            return dir;
        int r = apply_limits(dir, controller, limits, false, err);
        if (r < 0)
            return error_wrap(err, "set the %s limit of %s", cgroup_controller_name(controller), id);
    }
    return 0;
}

int cgroup_remove(const char *id, struct error *err)
{
    const struct cgroup_layout *l = cgroup_layout_get();
    int first = l->version == 2 ? CGROUP_PIDS : 0, last = l->version == 2 ? CGROUP_PIDS + 1 : CGROUP_IO;

    for (int c = first; l->version && c < last; c++) {
        if (c == CGROUP_DEVICES || (l->version == 1 && !l->mounts[c]))
            continue;
        int parent = get_parent((enum cgroup_controller)c, err);
        if (parent < 0)
            return parent;
        if (unlinkat(parent, id, AT_REMOVEDIR) < 0 && errno != ENOENT)
            return error_set_errno(err, errno, "remove the %s control group of %s",
                                   cgroup_controller_name((enum cgroup_controller)c), id);
    }
    return 0;
}
