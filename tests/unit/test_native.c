/*
 * Real sandboxes, made in this process and by a zygote: they run, are limited, frozen, counted, killed and leave
 * nothing. Needs root; skipped without.
 */
#include "test.h"

#include "base/fdio.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "base/strutil.h"
#include "base/timeutil.h"
#include "node/native/cgroup.h"
#include "node/native/clone.h"
#include "node/native/host_image.h"
#include "node/native/idmap.h"
#include "node/native/native.h"
#include "node/native/netns.h"
#include "node/native/uid_range.h"
#include "wire/guest_request.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static char parent_name[64]; /* one of our own: other tests may run beside */
static char work_dir[] = "/tmp/holt-test-native.XXXXXX";
static char *image_dir, *range_dir;
static struct host_image image;
static struct zygote *zygote;
static bool strict = true;

static int setup(void **state UNUSED)
{
    struct error err = ERROR_INIT;

    if (geteuid() != 0)
        return 0;
    assert_non_null(mkdtemp(work_dir));
    image_dir = xasprintf("%s/image", work_dir);
    range_dir = xasprintf("%s/ranges", work_dir);
    (void)snprintf(parent_name, sizeof(parent_name), "holt-unit-%d", getpid());
    native_set_cgroup_parent(parent_name);
    if (host_image_prepare(image_dir, &image, &err) < 0)
        fail_msg("%s", error_text(&err));
    zygote = zygote_start(&err);
    if (!zygote)
        fail_msg("%s", error_text(&err));
    return 0;
}

static int teardown(void **state UNUSED)
{
    if (geteuid() != 0)
        return 0;
    zygote_stop(zygote);
    host_image_done(&image);
    free(image_dir);
    free(range_dir);
    assert_int_equal(remove_tree_at(AT_FDCWD, work_dir, NULL), 0);
    const struct cgroup_layout *l = cgroup_layout_get();
    for (int c = 0; l->version == 1 && c < CGROUP_IO; c++) {
        _cleanup_free_ char *path = xasprintf("%s/%s", l->mounts[c] ? l->mounts[c] : "/nonexistent", parent_name);
        if (l->mounts[c] && rmdir(path) < 0 && errno != ENOENT)
            fail_msg("%s is not empty", path);
    }
    return 0;
}

struct box {
    struct native_sandbox sandbox;
    int sock;
    char id[32];
    uint32_t base;
    int range;
};

/* Starts a sandbox whose main process is sh -c script. */
static void box_start(struct box *b, const char *name, const char *script, bool by_zygote,
                      const struct native_limits *limits, const char *upper)
{
    struct error err = ERROR_INIT;
    uint32_t slot;
    int pair[2];

    (void)snprintf(b->id, sizeof(b->id), "%s", name);
    b->range = uid_range_hold(range_dir, &b->base, &slot, &err);
    assert_true(b->range >= 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    const char *lowers[] = {image.skeleton};
    struct native_spec spec = {
        .id = b->id,
        .hostname = "box",
        .uid_base = b->base,
        .lowers = lowers,
        .lower_count = 1,
        .upper_dir = upper,
        .mounts = image.mounts,
        .mount_count = image.mount_count,
        .guest_socket = pair[1],
        .capabilities = native_default_caps(),
        .strict = strict,
    };
    if (limits)
        spec.limits = *limits;
    if ((by_zygote ? zygote_spawn(zygote, &spec, &b->sandbox, &err) : native_spawn(&spec, &b->sandbox, &err)) < 0)
        fail_msg("%s", error_text(&err));
    (void)close(pair[1]);
    b->sock = pair[0];

    const char *const argv[] = {"sh", "-c", script, NULL};
    struct guest_start_request request = {.argv = argv, .flags = GUEST_FLAG_MAIN | GUEST_FLAG_LOSSLESS};
    struct guest_buffer out = {0};
    assert_int_equal(guest_request_start(&out, &request, &err), 0);
    assert_int_equal(fd_write_all(b->sock, out.data + out.start, guest_buffer_len(&out)), 0);
    guest_buffer_free(&out);
}

/* Reads until the end of the main process; its output in *text (malloc'd). Returns the code, -1 when it was cut off. */
static int box_wait(struct box *b, char **text)
{
    struct guest_buffer in = {0};
    struct strbuf out = {0};
    int code = -1;

    for (bool more = true; more && code < 0;) {
        assert_true(guest_buffer_reserve(&in, 65536));
        struct pollfd p = {.fd = b->sock, .events = POLLIN};
        if (poll(&p, 1, 20000) != 1)
            fail_msg("the sandbox says nothing for 20 s");
        ssize_t n = read(b->sock, in.data + in.end, 65536);
        more = n > 0;
        in.end += n > 0 ? (size_t)n : 0;
        struct guest_frame frame;
        size_t size;
        while (guest_frame_parse(in.data + in.start, guest_buffer_len(&in), GUEST_REPLY_MAX, &frame, &size) == 1) {
            struct guest_reply reply;
            struct error err = ERROR_INIT;
            assert_int_equal(guest_reply_parse(&frame, &reply, &err), 0);
            if (reply.type == GUEST_STDOUT || reply.type == GUEST_STDERR)
                strbuf_add(&out, reply.output.data, reply.output.len);
            if (reply.type == GUEST_ERROR)
                fail_msg("%s", reply.error.text);
            if (reply.type == GUEST_EXIT)
                code = reply.exit.code;
            guest_reply_free(&reply);
            guest_buffer_consume(&in, size);
        }
    }
    guest_buffer_free(&in);
    char *s = strbuf_detach(&out);
    if (text)
        *text = s;
    else
        free(s);
    return code;
}

static void box_end(struct box *b)
{
    struct error err = ERROR_INIT;

    (void)close(b->sock);
    if (native_destroy(b->id, 5000, &err) < 0)
        fail_msg("%s", error_text(&err));
    clone_reap(b->sandbox.pidfd);
    (void)close(b->range);
    char **ids = native_list(&err);
    for (char **i = ids; *i; i++)
        assert_string_not_equal(*i, b->id);
    strv_free(ids);
}

#define NEED_ROOT()                                                                                                    \
    if (geteuid() != 0) {                                                                                              \
        skip();                                                                                                        \
        return;                                                                                                        \
    }

static void test_runs(void **state UNUSED)
{
    NEED_ROOT();
    for (int by_zygote = 0; by_zygote < 2; by_zygote++) {
        struct box b;
        _cleanup_free_ char *text = NULL;
        box_start(&b, "runs", "hostname; id -u; cut -d' ' -f5 /proc/self/mountinfo | sort | tr '\\n' ' '; exit 42",
                  by_zygote, NULL, NULL);
        assert_int_equal(box_wait(&b, &text), 42);
        assert_non_null(strstr(text, "box\n0\n"));
        assert_non_null(strstr(text, "/ /dev /dev/pts /dev/shm /proc "));
        assert_null(strstr(text, "/tmp"));
        assert_null(strstr(text, work_dir));
        box_end(&b);
    }
}

static void test_upper_on_disk(void **state UNUSED)
{
    NEED_ROOT();
    _cleanup_free_ char *upper = xasprintf("%s/upper", work_dir);
    _cleanup_free_ char *file = xasprintf("%s/upper/etc/made", upper);
    _cleanup_free_ char *program = xasprintf("%s/upper1/local/made", upper);
    assert_int_equal(mkdir(upper, 0700), 0);
    for (int round = 0; round < 2; round++) {
        struct box b;
        _cleanup_free_ char *text = NULL;
        box_start(&b, "disk", "cat /etc/made /usr/local/made; echo x > /etc/made; echo y > /usr/local/made", true, NULL,
                  upper);
        assert_int_equal(box_wait(&b, &text), 0);
        if (round)
            assert_string_equal(text, "x\ny\n");
        struct stat st;
        assert_int_equal(stat(file, &st), 0);
        assert_int_equal(st.st_uid, b.base);
        assert_int_equal(stat(program, &st), 0);
        box_end(&b);
    }
}

static void test_usage_and_memory_limit(void **state UNUSED)
{
    NEED_ROOT();
    struct native_limits limits = {.memory_bytes = 32 << 20};
    struct native_usage usage;
    struct error err = ERROR_INIT;
    struct box b;

    box_start(&b, "memory", "python3 -c 'b=bytearray(1<<28)'", true, &limits, NULL);
    assert_int_equal(box_wait(&b, NULL), 137);
    assert_int_equal(native_usage(b.id, &usage, &err), 0);
    assert_true(usage.oom_kills >= 1);
    assert_true(usage.memory_peak_bytes <= limits.memory_bytes && usage.memory_peak_bytes > (24 << 20));
    assert_true(usage.cpu_usec > 0);
    box_end(&b);
}

static uint64_t count(const char *id)
{
    struct native_usage usage;

    assert_int_equal(native_usage(id, &usage, NULL), 0);
    return usage.cpu_usec;
}

static void test_freeze(void **state UNUSED)
{
    NEED_ROOT();
    struct error err = ERROR_INIT;
    struct box b;

    box_start(&b, "freeze", "while :; do :; done", true, NULL, NULL);
    (void)poll(NULL, 0, 100);
    if (native_freeze(b.id, true, &err) < 0)
        fail_msg("%s", error_text(&err));
    uint64_t before = count(b.id);
    (void)poll(NULL, 0, 100);
    assert_true(count(b.id) - before < 5000);
    assert_int_equal(native_freeze(b.id, false, &err), 0);
    before = count(b.id);
    (void)poll(NULL, 0, 200);
    assert_true(count(b.id) - before > 20000);
    assert_int_equal(native_freeze(b.id, true, &err), 0);
    box_end(&b); /* frozen processes die too */
}

static void test_fork_bomb_ends(void **state UNUSED)
{
    NEED_ROOT();
    struct native_limits limits = {.pids = 64};
    struct native_usage usage;
    struct box b;

    /* The shell that may not fork any more ends; what it started stays, so the crowd stands at the limit. */
    box_start(&b, "bomb", "(while :; do sleep 100 & done); exec sleep 100", true, &limits, NULL);
    uint64_t most = 0;
    for (int i = 0; i < 2000 && most < 60; i++) {
        (void)poll(NULL, 0, 5);
        assert_int_equal(native_usage(b.id, &usage, NULL), 0);
        most = MAX(most, usage.pids_now);
        assert_true(usage.pids_now <= 64);
    }
    box_end(&b);
    assert_true(most >= 60);
}

/* The version 2 tree of a hybrid machine has no controllers, but freezes, kills and tells when a group is empty. */
static void test_cgroup_version_2(void **state UNUSED)
{
    NEED_ROOT();
    const struct cgroup_layout *found = cgroup_layout_get();
    if (!found->unified || found->version == 2)
        skip();
    struct cgroup_layout layout = {.version = 2, .unified = xstrdup(found->unified)};
    _cleanup_free_ char *parent = xasprintf("%s/%s", found->unified, parent_name);
    struct error err = ERROR_INIT;

    cgroup_layout_set(&layout);
    strict = false;
    for (int by_zygote = 0; by_zygote < 2; by_zygote++) {
        struct box b;
        box_start(&b, "v2", "echo ready; setsid sleep 100 & sleep 100", by_zygote, NULL, NULL);
        char c;
        assert_int_equal(recv(b.sock, &c, 1, MSG_PEEK), 1);
        assert_int_equal(native_freeze(b.id, true, &err), 0);
        assert_int_equal(native_freeze(b.id, false, &err), 0);
        assert_int_equal(native_freeze(b.id, true, &err), 0);
        struct native_usage usage;
        assert_int_equal(native_usage(b.id, &usage, &err), 0);
        char **ids = native_list(&err);
        assert_int_equal(strv_len(ids), 1);
        strv_free(ids);
        box_end(&b);
    }
    assert_int_equal(rmdir(parent), 0);
    strict = true;
    cgroup_layout_set(NULL);
}

static void test_limits_change(void **state UNUSED)
{
    NEED_ROOT();
    struct native_limits limits = {.memory_bytes = 64 << 20, .cpu_millis = 500, .pids = 50};
    struct error err = ERROR_INIT;
    struct box b;

    box_start(&b, "change", "sleep 100", false, &limits, NULL);
    struct native_limits other = {.memory_bytes = 256 << 20, .cpu_millis = 2000, .pids = 500, .cpu_weight = 50};
    if (native_set_limits(b.id, &other, &err) < 0)
        fail_msg("%s", error_text(&err));
    if (native_set_limits(b.id, &limits, &err) < 0) /* down again */
        fail_msg("%s", error_text(&err));
    struct native_limits none = {0};
    if (native_set_limits(b.id, &none, &err) < 0)
        fail_msg("%s", error_text(&err));
    box_end(&b);
}

static void test_destroy_is_idempotent(void **state UNUSED)
{
    NEED_ROOT();
    struct error err = ERROR_INIT;

    assert_int_equal(native_destroy("never-was", 100, &err), 0);
    assert_int_equal(native_kill("never-was", &err), 0);
}

static void test_refusals(void **state UNUSED)
{
    NEED_ROOT();
    struct native_sandbox s;
    const char *lowers[] = {"/nonexistent"}, *good[] = {image.skeleton};
    struct native_mount over_proc = {.kind = NATIVE_MOUNT_TMPFS, .target = "/proc/x"};
    struct native_mount dots = {.kind = NATIVE_MOUNT_TMPFS, .target = "/a/../b"};
    struct native_mount missing = {.kind = NATIVE_MOUNT_BIND, .source = "/nonexistent", .target = "/a"};
    struct native_mount device = {.kind = NATIVE_MOUNT_BIND, .source = "/dev/null", .target = "/a"};
    const struct {
        struct native_spec spec;
        const char *says;
    } cases[] = {
        {{.id = "Bad_Id", .uid_base = UID_RANGE_FIRST, .lowers = good, .lower_count = 1}, "no id"},
        {{.id = "", .uid_base = UID_RANGE_FIRST, .lowers = good, .lower_count = 1}, "no id"},
        {{.id = "ok", .uid_base = 0, .lowers = good, .lower_count = 1}, "not allowed"},
        {{.id = "ok", .uid_base = UID_RANGE_FIRST, .lowers = lowers, .lower_count = 1}, "/nonexistent"},
        {{.id = "ok", .uid_base = UID_RANGE_FIRST, .lowers = good, .lower_count = 0}, "layers"},
        {{.id = "ok",
          .uid_base = UID_RANGE_FIRST,
          .lowers = good,
          .lower_count = 1,
          .mounts = &over_proc,
          .mount_count = 1},
         "lies in /proc"},
        {{.id = "ok", .uid_base = UID_RANGE_FIRST, .lowers = good, .lower_count = 1, .mounts = &dots, .mount_count = 1},
         "\"..\""},
        {{.id = "ok",
          .uid_base = UID_RANGE_FIRST,
          .lowers = good,
          .lower_count = 1,
          .mounts = &missing,
          .mount_count = 1},
         "No such file"},
        {{.id = "ok",
          .uid_base = UID_RANGE_FIRST,
          .lowers = good,
          .lower_count = 1,
          .mounts = &device,
          .mount_count = 1},
         "neither a directory nor a file"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_error_ struct error err = ERROR_INIT;
        struct native_spec spec = cases[i].spec;
        spec.guest_socket = 0;
        assert_true(native_spawn(&spec, &s, &err) < 0);
        if (!strstr(error_text(&err), cases[i].says))
            fail_msg("case %zu: %s", i, error_text(&err));
    }
    char **ids = native_list(NULL);
    assert_int_equal(strv_len(ids), 0);
    strv_free(ids);
}

static void test_zygote_death(void **state UNUSED)
{
    NEED_ROOT();
    _cleanup_error_ struct error err = ERROR_INIT;
    struct zygote *z = zygote_start(&err);
    assert_non_null(z);
    zygote_stop(z);
    /* One that was killed: every request says so. */
    z = zygote_start(&err);
    assert_non_null(z);
    assert_int_equal(kill(*(pid_t *)z, SIGKILL), 0); /* pid is its first member */
    const char *lowers[] = {image.skeleton};
    struct native_spec spec = {.id = "late", .uid_base = UID_RANGE_FIRST, .lowers = lowers, .lower_count = 1};
    struct native_sandbox s;
    assert_int_equal(zygote_spawn(z, &spec, &s, &err), -ESRCH);
    assert_int_equal(zygote_spawn(z, &spec, &s, &err), -ESRCH);
    zygote_stop(z);
}

static void test_many_at_once(void **state UNUSED)
{
    NEED_ROOT();
    enum { COUNT = 20 };
    struct box boxes[COUNT];

    for (int i = 0; i < COUNT; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "many-%d", i);
        box_start(&boxes[i], name, "cat /proc/self/uid_map; sleep 100", i % 2, NULL, NULL);
        for (int k = 0; k < i; k++)
            assert_int_not_equal(boxes[k].base, boxes[i].base);
    }
    char **ids = native_list(NULL);
    assert_int_equal(strv_len(ids), COUNT);
    strv_free(ids);
    for (int i = 0; i < COUNT; i++)
        box_end(&boxes[i]);
}

static void test_pooled_netns(void **state UNUSED)
{
    NEED_ROOT();
    struct error err = ERROR_INIT;
    int fd = netns_open(&err);
    struct stat a, b;

    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &a), 0);
    assert_int_equal(stat("/proc/self/ns/net", &b), 0);
    assert_true(a.st_ino != b.st_ino);
    (void)close(fd);
}

/* Makes idle children and leaves them at once; 0 when all of them end. They come to this process. */
static int leave_idle_children(void)
{
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
        return 1;
    for (int i = 0; i < 200; i++) {
        int pidfd, status;
        pid_t pid = fork();
        if (pid == 0)
            _exit(clone_idle(0, &pidfd, NULL) > 0 ? 0 : 1);
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
            return 2;
    }
    int64_t deadline = time_monotonic_ns() + 20 * NSEC_PER_SEC;
    pid_t left;
    while ((left = waitpid(-1, NULL, WNOHANG | __WALL)) >= 0 && time_monotonic_ns() < deadline)
        (void)poll(NULL, 0, left ? 0 : 1);
    return left == -1 ? 0 : 3;
}

/* An idle child that has not asked to die with its parent yet, when that dies, ends all the same. */
static void test_orphaned_idle(void **state UNUSED)
{
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0)
        _exit(leave_idle_children());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void test_ranges(void **state UNUSED)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    char dir[] = "/tmp/holt-test-ranges.XXXXXX";
    uint32_t a, b, c, slot;

    assert_non_null(mkdtemp(dir));
    int first = uid_range_hold(dir, &a, &slot, &err), second = uid_range_hold(dir, &b, &slot, &err);
    assert_true(first >= 0 && second >= 0 && a != b);
    assert_int_equal(a % NATIVE_UID_RANGE, 0);
    (void)close(first);
    first = uid_range_hold(dir, &c, &slot, &err);
    assert_int_equal(c, a); /* free again without being told */

    assert_int_equal(uid_range_claim(dir, "pod one", &b, &err), 0);
    assert_int_equal(uid_range_claim(dir, "pod two", &c, &err), 0);
    assert_true(b != c && b > a);
    assert_int_equal(uid_range_release(dir, b, &err), 0);
    assert_int_equal(uid_range_release(dir, b, &err), 0);
    assert_int_equal(uid_range_release(dir, 12345, &err), -EINVAL);
    assert_int_equal(uid_range_release(dir, c, &err), 0);
    (void)close(first);
    (void)close(second);
    assert_int_equal(remove_tree_at(AT_FDCWD, dir, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs),
        cmocka_unit_test(test_upper_on_disk),
        cmocka_unit_test(test_usage_and_memory_limit),
        cmocka_unit_test(test_freeze),
        cmocka_unit_test(test_fork_bomb_ends),
        cmocka_unit_test(test_cgroup_version_2),
        cmocka_unit_test(test_limits_change),
        cmocka_unit_test(test_destroy_is_idempotent),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_zygote_death),
        cmocka_unit_test(test_many_at_once),
        cmocka_unit_test(test_pooled_netns),
        cmocka_unit_test(test_orphaned_idle),
        cmocka_unit_test(test_ranges),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
