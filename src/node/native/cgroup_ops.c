/* What is done with the control groups of a sandbox while it lives and when it ends; see native.h. */
#include "base/fdio.h"
#include "base/hashmap.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "base/timeutil.h"
#include "node/native/cgroup.h"
#include "node/native/sys.h"

#include <dirent.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>

#define VALUE_MAX 65536
#define PROCS_MAX (4 * 1024 * 1024)
#define RETRY_MSEC 1 /* where the kernel offers no event to wait for */
#define FREEZE_TIMEOUT_MSEC 1000

static int64_t now_ms(void)
{
    return time_monotonic_ns() / NSEC_PER_MSEC;
}

static int read_number(int dir, const char *file, uint64_t *ret, struct error *err)
{
    _cleanup_free_ char *text = NULL;
    int r = file_read_at(dir, file, VALUE_MAX, &text, NULL, err);
    if (r < 0)
        return r;
    text[strcspn(text, "\n")] = '\0';
    if (!parse_u64(text, ret))
        return error_set(err, EBADMSG, "%s holds no number: \"%s\"", file, text);
    return 0;
}

/* text: "key value" lines, cut up. A key that is not there counts 0. */
static int find_keyed(char *text, const char *key, uint64_t *ret, struct error *err)
{
    *ret = 0;
    char *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        const char *value = str_skip_prefix(line, key);
        if (value && *value == ' ' && !parse_u64(value + 1, ret))
            return error_set(err, EBADMSG, "no number for %s: \"%s\"", key, value + 1);
    }
    return 0;
}

static int read_keyed(int dir, const char *file, const char *key, uint64_t *ret, struct error *err)
{
    _cleanup_free_ char *text = NULL;
    int r = file_read_at(dir, file, VALUE_MAX, &text, NULL, err);
    if (r < 0)
        return r;
    r = find_keyed(text, key, ret, err);
    return r < 0 ? error_wrap(err, "%s", file) : 0;
}

/* A file of a controller that is not switched on for us counts as zero. */
static int absent_is_zero(int r, struct error *err)
{
    if (r == -ENOENT) {
        error_clear(err);
        return 0;
    }
    return r;
}

/* Opens the group of c; -1 and 0 in *ret when the sandbox is not in one (native_spec.only_limits). */
static int open_optional(const char *id, enum cgroup_controller c, int *ret, struct error *err)
{
    if (!cgroup_layout_get()->mounts[c])
        return 0;
    int fd = cgroup_open(id, c, err);
    if (fd < 0)
        return absent_is_zero(fd, err);
    *ret = fd;
    return 0;
}

static int read_v1(const char *id, struct native_usage *ret, struct error *err)
{
    _cleanup_close_ int memory = -1, cpuacct = -1, pids = -1;
    int r = open_optional(id, CGROUP_MEMORY, &memory, err);

    if (r == 0)
        r = open_optional(id, CGROUP_CPUACCT, &cpuacct, err);
    if (r == 0)
        r = open_optional(id, CGROUP_PIDS, &pids, err);
    if (r == 0 && memory >= 0)
        r = read_number(memory, "memory.max_usage_in_bytes", &ret->memory_peak_bytes, err);
    if (r == 0 && memory >= 0)
        r = read_number(memory, "memory.usage_in_bytes", &ret->memory_now_bytes, err);
    if (r == 0 && memory >= 0)
        r = read_keyed(memory, "memory.stat", "total_inactive_file", &ret->memory_cache_bytes, err);
    if (r == 0 && memory >= 0)
        r = read_keyed(memory, "memory.oom_control", "oom_kill", &ret->oom_kills, err);
    if (r == 0 && cpuacct >= 0)
        r = read_number(cpuacct, "cpuacct.usage", &ret->cpu_usec, err);
    ret->cpu_usec /= (uint64_t)NSEC_PER_USEC;
    if (r == 0 && pids >= 0)
        r = read_number(pids, "pids.current", &ret->pids_now, err);
    if (r == 0 && memory < 0 && cpuacct < 0 && pids < 0)
        r = error_set(err, ENOENT, "no control group of %s", id);
    return r;
}

static int usage_v1(const char *id, struct native_usage *ret, struct error *err)
{
    struct error local = ERROR_INIT; /* absent_is_zero() clears it, and err may be NULL */

    return read_v1(id, ret, &local) < 0 ? error_move(err, &local) : 0;
}

static int usage_v2(const char *id, struct native_usage *ret, struct error *err)
{
    struct error local = ERROR_INIT; /* absent_is_zero() clears it, and err may be NULL */
    _cleanup_close_ int dir = cgroup_open(id, CGROUP_PIDS, err);
    if (dir < 0)
        return dir;

    int r = absent_is_zero(read_number(dir, "memory.current", &ret->memory_now_bytes, &local), &local);
    if (r == 0)
        r = absent_is_zero(read_keyed(dir, "memory.stat", "inactive_file", &ret->memory_cache_bytes, &local), &local);
    if (r == 0)
        r = absent_is_zero(read_number(dir, "memory.peak", &ret->memory_peak_bytes, &local), &local);
    if (r == 0)
        r = absent_is_zero(read_keyed(dir, "memory.events", "oom_kill", &ret->oom_kills, &local), &local);
    if (r == 0)
        r = absent_is_zero(read_keyed(dir, "cpu.stat", "usage_usec", &ret->cpu_usec, &local), &local);
    if (r == 0)
        r = absent_is_zero(read_number(dir, "pids.current", &ret->pids_now, &local), &local);
    return r < 0 ? error_move(err, &local) : 0;
}

int native_usage(const char *id, struct native_usage *ret, struct error *err)
{
    struct native_usage usage = {0};
    int version = cgroup_layout_get()->version;

    if (version == 0)
        return error_set(err, ENOTSUP, "this machine has no control groups");
    int r = version == 2 ? usage_v2(id, &usage, err) : usage_v1(id, &usage, err);
    if (r == 0)
        *ret = usage;
    return r;
}

int native_pids(const char *id, uint64_t *ret, struct error *err)
{
    _cleanup_close_ int dir = cgroup_open(id, CGROUP_PIDS, err);

    return dir < 0 ? dir : read_number(dir, "pids.current", ret, err);
}

struct pid_list {
    pid_t *pids;
    size_t count, capacity;
};

static void pid_list_done(struct pid_list *l)
{
    free(l->pids);
}

static int read_procs(int dir, struct pid_list *ret, struct error *err)
{
    _cleanup_free_ char *text = NULL;
    int r = file_read_at(dir, "cgroup.procs", PROCS_MAX, &text, NULL, err);
    if (r < 0)
        return r;
    ret->count = 0;
    char *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        uint64_t pid;
        if (!parse_u64(line, &pid) || pid == 0) /* 0: outside our own pid namespace */
            continue;
        GROW(ret->pids, ret->capacity, ret->count + 1);
        ret->pids[ret->count++] = (pid_t)pid;
    }
    return 0;
}

static bool has_pid(const struct pid_list *l, pid_t pid)
{
    for (size_t i = 0; i < l->count; i++)
        if (l->pids[i] == pid)
            return true;
    return false;
}

/*
 * Kills what is in the group now. A number read from the list may have been given to a stranger by the time it is
 * used; a pidfd pins the process, and a second look at the list tells whether it is ours.
 * Returns a pidfd of one that was killed (to wait for), -1 when the group is empty.
 */
static int kill_members(int dir, int *ret_pidfd, struct error *err)
{
    _cleanup_(pid_list_done) struct pid_list first = {0}, second = {0};
    _cleanup_free_ int *pidfds = NULL;
    int r = read_procs(dir, &first, err);

    *ret_pidfd = -1;
    if (r < 0 || first.count == 0)
        return r;
    pidfds = xcalloc(first.count, sizeof(*pidfds));
    for (size_t i = 0; i < first.count; i++)
        pidfds[i] = (int)syscall(SYS_pidfd_open, first.pids[i], 0);
    r = read_procs(dir, &second, err);
    for (size_t i = 0; i < first.count; i++) {
        if (pidfds[i] < 0)
            continue; /* gone already */
        if (r == 0 && has_pid(&second, first.pids[i])) {
            (void)syscall(SYS_pidfd_send_signal, pidfds[i], SIGKILL, NULL, 0); /* fails only when it is gone */
            if (*ret_pidfd < 0) {
                *ret_pidfd = pidfds[i];
                continue;
            }
        }
        (void)close(pidfds[i]);
    }
    return r;
}

static int put_state(const char *id, bool frozen, struct error *err)
{
    const struct cgroup_layout *l = cgroup_layout_get();

    if (l->version == 2) {
        _cleanup_close_ int dir = cgroup_open(id, CGROUP_PIDS, err);
        return dir < 0 ? dir : file_put_at(dir, "cgroup.freeze", frozen ? "1" : "0", err);
    }
    _cleanup_close_ int dir = cgroup_open(id, CGROUP_FREEZER, err);
    return dir < 0 ? dir : file_put_at(dir, "freezer.state", frozen ? "FROZEN" : "THAWED", err);
}

static int is_frozen(const char *id, bool *ret, struct error *err)
{
    if (cgroup_layout_get()->version == 2) {
        uint64_t value;
        _cleanup_close_ int dir = cgroup_open(id, CGROUP_PIDS, err);
        int r = dir < 0 ? dir : read_keyed(dir, "cgroup.events", "frozen", &value, err);
        *ret = r == 0 && value;
        return r;
    }
    _cleanup_free_ char *text = NULL;
    _cleanup_close_ int dir = cgroup_open(id, CGROUP_FREEZER, err);
    int r = dir < 0 ? dir : file_read_at(dir, "freezer.state", VALUE_MAX, &text, NULL, err);
    *ret = r == 0 && str_skip_prefix(text, "FROZEN");
    return r;
}

int native_freeze(const char *id, bool frozen, struct error *err)
{
    int64_t deadline = now_ms() + FREEZE_TIMEOUT_MSEC;

    int r = put_state(id, frozen, err);
    while (r == 0) {
        bool now;
        r = is_frozen(id, &now, err);
        if (r < 0 || now == frozen)
            break;
        if (now_ms() >= deadline) {
            (void)put_state(id, false, NULL); /* half frozen helps nobody */
            r = error_set(err, ETIMEDOUT, "processes do not stop within %d ms", FREEZE_TIMEOUT_MSEC);
            break;
        }
        (void)poll(NULL, 0, RETRY_MSEC);
    }
    return r < 0 ? error_wrap(err, "%s %s", frozen ? "freeze" : "thaw", id) : 0;
}

/* Frozen processes do not die before they are thawed (version 1). */
static void thaw_to_kill(const char *id)
{
    (void)put_state(id, false, NULL); /* there may be no freezer for it */
}

int native_kill(const char *id, struct error *err)
{
    struct error local = ERROR_INIT;
    _cleanup_close_ int dir = cgroup_open(id, CGROUP_CONTROLLER_COUNT, &local);
    if (dir == -ENOENT) {
        error_clear(&local);
        return 0;
    }
    if (dir < 0)
        return error_move(err, &local);
    if (cgroup_layout_get()->version == 2 && file_put_at(dir, "cgroup.kill", "1", NULL) == 0)
        return 0;
    /* The guest is among them; with it the kernel kills its whole pid namespace and no process can be made in it. */
    int pidfd;
    int r = kill_members(dir, &pidfd, err);
    if (pidfd >= 0)
        (void)close(pidfd);
    thaw_to_kill(id);
    return r < 0 ? error_wrap(err, "kill the processes of %s", id) : 0;
}

static int wait_empty_v2(int dir, int64_t deadline, struct error *err)
{
    _cleanup_close_ int events = openat(dir, "cgroup.events", O_RDONLY | O_CLOEXEC);
    if (events < 0)
        return error_set_errno(err, errno, "open cgroup.events");
    for (;;) {
        char text[256]; /* two short lines; reading them arms the event */
        ssize_t n = pread(events, text, sizeof(text) - 1, 0);
        if (n < 0)
            return error_set_errno(err, errno, "read cgroup.events");
        text[n] = '\0';
        uint64_t populated;
        int r = find_keyed(text, "populated", &populated, err);
        if (r < 0 || !populated)
            return r;
        int64_t left = deadline - now_ms();
        if (left <= 0)
            return error_set(err, ETIMEDOUT, "processes are still there");
        struct pollfd p = {.fd = events, .events = POLLPRI};
        (void)poll(&p, 1, (int)MIN(left, 1000)); /* the next round looks again whatever it says */
    }
}

/* Kills again until nothing is left: a process in creation escapes the first list. */
static int wait_empty_v1(const char *id, int dir, int64_t deadline, struct error *err)
{
    for (;;) {
        _cleanup_close_ int pidfd = -1;
        int r = kill_members(dir, &pidfd, err);
        if (r < 0 || pidfd < 0)
            return r;
        thaw_to_kill(id);
        int64_t left = deadline - now_ms();
        if (left <= 0)
            return error_set(err, ETIMEDOUT, "processes are still there");
        struct pollfd p = {.fd = pidfd, .events = POLLIN};
        (void)poll(&p, 1, (int)MIN(left, 1000)); /* the next round looks again whatever it says */
    }
}

/* The last process leaves its group a moment after its end is announced. */
static int remove_when_left(const char *id, int64_t deadline, struct error *err)
{
    for (;;) {
        struct error local = ERROR_INIT;
        int r = cgroup_remove(id, &local);
        if (r != -EBUSY || now_ms() >= deadline)
            return r < 0 ? error_move(err, &local) : 0;
        error_clear(&local);
        (void)poll(NULL, 0, RETRY_MSEC);
    }
}

int native_destroy(const char *id, int timeout_ms, struct error *err)
{
    int64_t deadline = now_ms() + timeout_ms;

    if (cgroup_layout_get()->version == 0)
        return 0;
    int r = native_kill(id, err);
    if (r < 0)
        return r;
    struct error local = ERROR_INIT;
    _cleanup_close_ int dir = cgroup_open(id, CGROUP_CONTROLLER_COUNT, &local);
    if (dir < 0 && dir != -ENOENT)
        return error_move(err, &local);
    error_clear(&local);
    if (dir >= 0) {
        r = cgroup_layout_get()->version == 2 ? wait_empty_v2(dir, deadline, err)
                                              : wait_empty_v1(id, dir, deadline, err);
        if (r < 0)
            return error_wrap(err, "stop %s", id);
    }
    r = remove_when_left(id, deadline, err);
    return r < 0 ? error_wrap(err, "clean up %s", id) : 0;
}

static void close_dir(DIR **d)
{
    if (*d)
        (void)closedir(*d); /* read only */
}

/* Adds what is below one controller's parent to the set. */
static int list_controller(enum cgroup_controller c, struct hashmap *ids, struct error *err)
{
    _cleanup_close_ int parent = cgroup_open(".", c, err);
    if (parent < 0)
        return parent;
    int fd = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    _cleanup_(close_dir) DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d)
        return error_set_errno(err, errno, "list the control groups of sandboxes");
    for (;;) {
        errno = 0;
        struct dirent *e = readdir(d);
        if (!e && errno)
            return error_set_errno(err, errno, "list the control groups of sandboxes");
        if (!e)
            return 0;
        if (e->d_type == DT_DIR && e->d_name[0] != '.')
            (void)hashmap_put(ids, e->d_name, ids); /* a set */
    }
}

/* All controllers: whoever was killed while making or removing a sandbox has left groups in some of them only. */
char **native_list(struct error *err)
{
    const struct cgroup_layout *l = cgroup_layout_get();
    struct hashmap set = {0};
    size_t n = 0;
    int r = 0;

    for (int c = 0; r == 0 && l->version && c < CGROUP_CONTROLLER_COUNT; c++)
        if (c != CGROUP_DEVICES && c != CGROUP_IO && (l->version == 2 ? c == CGROUP_PIDS : l->mounts[c] != NULL))
            r = list_controller((enum cgroup_controller)c, &set, err);
    _cleanup_strv_ char **ids = xcalloc(set.count + 1, sizeof(*ids));
    for (struct hashmap_iter it = {0}; hashmap_next(&set, &it);)
        ids[n++] = xstrdup(it.key);
    hashmap_free(&set, NULL);
    return r < 0 ? NULL : take_ptr(ids);
}
