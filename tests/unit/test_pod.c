/* The state machine of Pods, the restart back-off, and the log files. */
#include "test.h"

#include "base/fdio.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "base/strutil.h"
#include "base/timeutil.h"
#include "node/address_pool.h"
#include "node/log_file.h"
#include "node/pod_machine.h"
#include "sandbox/paths.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>

#define S NSEC_PER_SEC

static void test_decide(void **state UNUSED)
{
    static const struct {
        const char *what;
        struct pod_facts facts;
        enum pod_action action;
        int64_t wake_s;
    } cases[] = {
        {"new Pod", {.inputs_ready = true}, POD_START},
        {"inputs missing", {0}, POD_FETCH},
        {"inputs on their way", {.inputs_pending = true}, POD_WAIT},
        {"inputs wait for the back-off", {.not_before_ns = 130 * S}, POD_WAIT, 130},
        {"inputs on their way, deadline", {.inputs_pending = true, .deadline_ns = 300 * S}, POD_WAIT, 300},
        {"refused", {.inputs_ready = true, .refused = true}, POD_WAIT},
        {"refused and past its deadline", {.refused = true, .deadline_ns = 90 * S}, POD_FAIL},
        {"backing off", {.inputs_ready = true, .not_before_ns = 130 * S}, POD_WAIT, 130},
        {"backing off, deadline earlier",
         {.inputs_ready = true, .not_before_ns = 130 * S, .deadline_ns = 120 * S},
         POD_WAIT,
         120},
        {"back-off over", {.inputs_ready = true, .not_before_ns = 100 * S}, POD_START},
        {"deleted before it began", {.inputs_ready = true, .deleting = true}, POD_DELETE},
        {"deleted while refused", {.refused = true, .deleting = true}, POD_DELETE},
        {"object gone", {.gone = true}, POD_FORGET},
        {"gone and deleting", {.gone = true, .deleting = true}, POD_FORGET},

        {"starting", {.sandbox = SANDBOX_STARTING}, POD_WAIT},
        {"running", {.sandbox = SANDBOX_RUNNING}, POD_WAIT},
        {"running with a deadline", {.sandbox = SANDBOX_RUNNING, .deadline_ns = 300 * S}, POD_WAIT, 300},
        {"past the deadline", {.sandbox = SANDBOX_RUNNING, .deadline_ns = 100 * S, .grace_s = 30}, POD_STOP},
        {"evicted", {.sandbox = SANDBOX_RUNNING, .failed_outside = true, .grace_s = 0}, POD_KILL},
        {"deleted", {.sandbox = SANDBOX_RUNNING, .deleting = true, .grace_s = 30}, POD_STOP},
        {"deleted while starting", {.sandbox = SANDBOX_STARTING, .deleting = true, .grace_s = 30}, POD_STOP},
        {"deleted with grace 0", {.sandbox = SANDBOX_RUNNING, .deleting = true}, POD_KILL},
        {"running, object gone", {.sandbox = SANDBOX_RUNNING, .gone = true, .grace_s = 30}, POD_KILL},
        {"stopping",
         {.sandbox = SANDBOX_STOPPING, .deleting = true, .grace_s = 30, .stop_deadline_ns = 120 * S},
         POD_WAIT,
         120},
        {"stopping, patience over",
         {.sandbox = SANDBOX_STOPPING, .deleting = true, .grace_s = 30, .stop_deadline_ns = 100 * S},
         POD_KILL},
        {"stopping, then deleted at once",
         {.sandbox = SANDBOX_STOPPING, .deleting = true, .grace_s = 0, .stop_deadline_ns = 120 * S},
         POD_KILL},
        {"stopping, object gone", {.sandbox = SANDBOX_STOPPING, .gone = true, .stop_deadline_ns = 120 * S}, POD_KILL},
        {"killed",
         {.sandbox = SANDBOX_STOPPING, .killed = true, .gone = true, .stop_deadline_ns = 101 * S},
         POD_WAIT,
         101},
        {"killed in vain",
         {.sandbox = SANDBOX_STOPPING, .killed = true, .gone = true, .stop_deadline_ns = 90 * S},
         POD_KILL},
        {"ended", {.sandbox = SANDBOX_ENDED, .gone = true}, POD_CLEAN},
        {"cleaning", {.sandbox = SANDBOX_CLEANING, .gone = true}, POD_WAIT},

        {"exit 0, Always", {.has_exited = true, .inputs_ready = true}, POD_RESTART},
        {"exit 1, Always", {.has_exited = true, .exit_code = 1}, POD_RESTART},
        {"exit 0, OnFailure", {.has_exited = true, .restart_policy = RESTART_ON_FAILURE}, POD_FINISH},
        {"exit 1, OnFailure", {.has_exited = true, .exit_code = 1, .restart_policy = RESTART_ON_FAILURE}, POD_RESTART},
        {"exit 0, Never", {.has_exited = true, .restart_policy = RESTART_NEVER}, POD_FINISH},
        {"exit 3, Never", {.has_exited = true, .exit_code = 3, .restart_policy = RESTART_NEVER}, POD_FINISH},
        {"exit while deleting", {.has_exited = true, .deleting = true}, POD_DELETE},
        {"exit past the deadline", {.has_exited = true, .deadline_ns = 100 * S}, POD_FAIL},
        {"exit after eviction", {.has_exited = true, .failed_outside = true}, POD_FAIL},
        {"init exit 0", {.has_exited = true, .is_init = true}, POD_NEXT},
        {"init exit 0, Never", {.has_exited = true, .is_init = true, .restart_policy = RESTART_NEVER}, POD_NEXT},
        {"init exit 1, Always", {.has_exited = true, .is_init = true, .exit_code = 1}, POD_RESTART},
        {"init exit 1, OnFailure",
         {.has_exited = true, .is_init = true, .exit_code = 1, .restart_policy = RESTART_ON_FAILURE},
         POD_RESTART},
        {"init exit 1, Never",
         {.has_exited = true, .is_init = true, .exit_code = 1, .restart_policy = RESTART_NEVER},
         POD_FINISH},
        {"another image", {.sandbox = SANDBOX_RUNNING, .replace = true, .grace_s = 30}, POD_STOP},
        {"another image, ended", {.has_exited = true, .replace = true, .restart_policy = RESTART_NEVER}, POD_RESTART},
        {"finished", {.finished = true, .inputs_ready = true}, POD_WAIT},
        {"finished, then deleted", {.finished = true, .deleting = true}, POD_DELETE},
        {"finished, deadline does not matter", {.finished = true, .deadline_ns = 100 * S}, POD_WAIT},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct pod_facts facts = cases[i].facts;
        facts.now_ns = 100 * S;
        struct pod_decision d = pod_decide(&facts);
        if (d.action != cases[i].action || d.wake_ns != cases[i].wake_s * S)
            fail_msg("%s: %s at %lld", cases[i].what, pod_action_name(d.action), (long long)(d.wake_ns / S));
    }
}

static void test_restart_delay(void **state UNUSED)
{
    static const int64_t seconds[] = {0, 0, 10, 20, 40, 80, 160, 300, 300};

    for (size_t i = 0; i < ARRAY_LEN(seconds); i++)
        assert_int_equal(restart_delay_ns((int64_t)i), seconds[i] * S);
    assert_int_equal(restart_delay_ns(INT64_MAX), 300 * S);
}

static void test_paths(void **state UNUSED)
{
    static const struct {
        const char *s;
        bool ok;
    } cases[] = {{"a", true},    {"a.b-c_D9", true}, {"", false},   {".", false},   {"..", false},      {"...", true},
                 {"a/b", false}, {"a b", false},     {NULL, false}, {"a\n", false}, {"\xc3\xa9", false}};

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_int_equal(path_component_ok(cases[i].s), cases[i].ok);
    _cleanup_free_ char *log = path_container_log("/d", "ns", "p", "u", "main", 3);
    assert_string_equal(log, "/d/logs/ns_p_u/main/3.log");
}

static void test_addresses(void **state UNUSED)
{
    struct address_pool *pool = xcalloc(1, sizeof(*pool));
    size_t count = 0;

    assert_true(address_pool_take_this(pool, "10.88.0.3"));
    assert_false(address_pool_take_this(pool, "10.88.0.3"));
    static const char *const others[] = {"10.88.0.0", "10.88.0.1", "10.88.255.255", "10.89.0.2", "x", "", "::1", NULL};
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        assert_false(address_pool_take_this(pool, others[i]));
    _cleanup_free_ char *first = address_pool_take(pool), *second = address_pool_take(pool);
    assert_string_equal(first, "10.88.0.2");
    assert_string_equal(second, "10.88.0.4"); /* .3 is taken */
    address_pool_release(pool, first);
    _cleanup_free_ char *third = address_pool_take(pool);
    assert_string_equal(third, "10.88.0.5"); /* not the one just released */
    for (char *a; (a = address_pool_take(pool)); count++)
        free(a);
    assert_int_equal(count, 65536 - 3 - 3); /* .0.0, .0.1, .255.255 never; three are taken above */
    address_pool_release(pool, "10.88.7.7");
    address_pool_release(pool, NULL);
    _cleanup_free_ char *last = address_pool_take(pool);
    assert_string_equal(last, "10.88.7.7");
    free(pool);
}

/* Log files. */

struct fixture {
    char dir[32];
    char *logs;
};

static int setup(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));

    memcpy(f->dir, "/tmp/holt-log-XXXXXX", 21);
    if (!mkdtemp(f->dir))
        return -1;
    f->logs = xasprintf("%s/a/b", f->dir);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    int r = remove_tree_at(AT_FDCWD, f->dir, NULL);

    free(f->logs);
    free(f);
    return r;
}

static char *read_log(const struct fixture *f, const char *name)
{
    _cleanup_free_ char *path = xasprintf("%s/%s", f->logs, name);
    char *text = NULL;

    assert_int_equal(file_read_at(AT_FDCWD, path, 64u << 20, &text, NULL, NULL), 0);
    return text;
}

static struct log_file *reopen(const struct fixture *f, struct log_file *old, int64_t restart, bool keep_base)
{
    uint64_t base[GUEST_STREAM_COUNT] = {0};

    for (size_t i = 0; old && keep_base && i < GUEST_STREAM_COUNT; i++)
        base[i] = log_file_base(old, i);
    log_file_close(old);
    struct log_file *l = log_file_open(f->logs, restart, base, (gid_t)-1, NULL);
    assert_non_null(l);
    return l;
}

#define T0 "1970-01-01T00:00:01.000000000Z "

static void test_log_lines(void **state)
{
    struct fixture *f = *state;
    struct log_file *l = reopen(f, NULL, 0, false);

    assert_int_equal(log_file_write(l, GUEST_STREAM_STDOUT, 0, "a\nb", 3, S, NULL), 0);
    assert_int_equal(log_file_write(l, GUEST_STREAM_STDERR, 0, "err\n", 4, S, NULL), 0);
    assert_int_equal(log_file_write(l, GUEST_STREAM_STDOUT, 3, "c\n\n", 3, S, NULL), 0);
    /* Known already, in part known already, and a gap. */
    assert_int_equal(log_file_write(l, GUEST_STREAM_STDOUT, 0, "a\nb", 3, S, NULL), 0);
    assert_int_equal(log_file_write(l, GUEST_STREAM_STDOUT, 4, "\n\nx\n", 4, S, NULL), 0);
    assert_int_equal(log_file_write(l, GUEST_STREAM_STDOUT, 108, "y\n", 2, S, NULL), 0);
    log_file_dropped(l, GUEST_STREAM_STDERR, 7, S);
    _cleanup_free_ char *text = read_log(f, "0.log");
    assert_string_equal(text,
                        T0 "stdout F a\n" T0 "stdout P b\n" T0 "stderr F err\n" T0 "stdout F c\n" T0 "stdout F \n" T0
                           "stdout F x\n" T0 "stdout F:dropped=100 [100 bytes of output were dropped]\n" T0
                           "stdout F y\n" T0 "stderr F:dropped=7 [7 bytes of output were dropped]\n");
    assert_int_equal(log_file_offset(l, GUEST_STREAM_STDOUT), 110);
    assert_int_equal(log_file_offset(l, GUEST_STREAM_STDERR), 11);

    /* The same offsets from the file alone, also when a crash cut the last line. */
    _cleanup_free_ char *path = xasprintf("%s/0.log", f->logs);
    int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    assert_int_equal(fd_write_all(fd, T0 "stdout F half", 44), 0);
    (void)close(fd);
    l = reopen(f, l, 0, true);
    assert_int_equal(log_file_offset(l, GUEST_STREAM_STDOUT), 110);
    assert_int_equal(log_file_offset(l, GUEST_STREAM_STDERR), 11);
    assert_int_equal(log_file_write(l, GUEST_STREAM_STDOUT, 110, "z", 1, S, NULL), 0);
    _cleanup_free_ char *tail = log_tail(f->logs, 0, 100, 80), *two = log_tail(f->logs, 0, 100, 2),
                        *four = log_tail(f->logs, 0, 4, 80), *none = log_tail(f->logs, 9, 4, 80);
    assert_string_equal(tail, "a\nberr\nc\n\nx\ny\nz");
    assert_string_equal(two, "y\nz");
    assert_string_equal(four, "\ny\nz");
    assert_string_equal(none, "");
    log_file_close(l);
}

static void test_log_rotation(void **state)
{
    struct fixture *f = *state;
    struct log_file *l = reopen(f, NULL, 2, false);
    char block[65536];
    uint64_t offset = 0;
    int rotations = 0;

    memset(block, 'x', sizeof(block));
    for (size_t i = 127; i < sizeof(block); i += 128)
        block[i] = '\n';
    while (rotations < 4) {
        bool rotated;
        assert_int_equal(log_file_write(l, GUEST_STREAM_STDOUT, offset, block, sizeof(block), S, &rotated), 0);
        offset += sizeof(block);
        rotations += rotated;
    }
    struct stat st;
    _cleanup_free_ char *first = xasprintf("%s/2.log.1", f->logs), *second = xasprintf("%s/2.log.2", f->logs),
                        *third = xasprintf("%s/2.log.3", f->logs);
    assert_int_equal(stat(first, &st), 0);
    assert_true(st.st_size >= LOG_FILE_MAX && st.st_size < LOG_FILE_MAX + 2 * 65536);
    assert_int_equal(st.st_mode & 07777, 0640);
    assert_int_equal(stat(second, &st), 0);
    assert_int_equal(stat(third, &st), -1);
    l = reopen(f, l, 2, true);
    assert_int_equal(log_file_offset(l, GUEST_STREAM_STDOUT), offset);
    /* Later runs remove the logs of earlier ones, but for the last. */
    l = reopen(f, l, 3, false);
    assert_int_equal(stat(first, &st), 0);
    l = reopen(f, l, 4, false);
    assert_int_equal(stat(first, &st), -1);
    log_file_close(l);
}

static void test_log_full_disk(void **state)
{
    struct fixture *f = *state;
    struct log_file *l = reopen(f, NULL, 0, false);
    struct rlimit old, small = {.rlim_cur = 100, .rlim_max = RLIM_INFINITY};

    assert_int_equal(log_file_write(l, GUEST_STREAM_STDOUT, 0, "one\n", 4, S, NULL), 0);
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small.rlim_max = old.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_true(log_file_write(l, GUEST_STREAM_STDOUT, 4, "two, which is longer than what is left of the room\n", 51, S,
                               NULL) < 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(log_file_write(l, GUEST_STREAM_STDOUT, 55, "three\n", 6, S, NULL), 0);
    _cleanup_free_ char *text = read_log(f, "0.log");
    assert_string_equal(text, T0 "stdout F one\n" T0 "stdout F:dropped=51 [51 bytes of output were dropped]\n" T0
                                 "stdout F three\n");
    log_file_close(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decide),
        cmocka_unit_test(test_restart_delay),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test_setup_teardown(test_log_lines, setup, teardown),
        cmocka_unit_test_setup_teardown(test_log_rotation, setup, teardown),
        cmocka_unit_test_setup_teardown(test_log_full_disk, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
