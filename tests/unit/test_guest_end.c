/* How things end in a real holt-guest: timeouts, lost clients, the main process, shutdown, and pid 1 of a namespace. */
#include "guest_fixture.h"

#include "base/memory.h"
#include "base/timeutil.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The processes of this run of the test, told from those of another. */
static char mark[32], mark_entry[64];
static const char *const marked[] = {mark_entry, "PATH=/usr/bin:/bin", NULL};

/* Fails unless the processes of the test are count within timeout_ms. */
static void expect_marked(struct guest_fixture *f, int count, int timeout_ms)
{
    int64_t deadline = time_monotonic_ns() + timeout_ms * NSEC_PER_MSEC;
    int now;
    while ((now = count_marked(mark)) != count && time_monotonic_ns() < deadline)
        fixture_turn(f, 5);
    if (now != count)
        fail_msg("%d processes instead of %d", now, count);
}

static void test_timeout(void **state)
{
    static const struct {
        const char *script;
        int processes;
    } cases[] = {
        {"sleep 100", 1},
        {"sleep 100 & sleep 100", 3},
        {"trap '' TERM HUP INT; sleep 100 & wait", 2},
        {"setsid sleep 100 & sleep 100", 3},
        {"(setsid sh -c 'sleep 100 & sleep 100 & exec setsid sleep 100' &) ; sleep 100", 5},
        {"(env -i HOLT_TEST=$HOLT_TEST setsid /bin/sh -c '(setsid /bin/sleep 100 &)' &); sleep 100", 3},
        {"kill -STOP $$", 1},
    };
    struct guest_fixture *f = *state;
    struct run other;
    run_sh(f, &other, "(setsid sleep 100 &); sleep 100", &(struct guest_start_request){.env = marked});
    expect_marked(f, 3, 5000);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct run r;
        int64_t before = time_monotonic_ns();
        run_sh(f, &r, cases[i].script, &(struct guest_start_request){.env = marked, .timeout_ms = 1000});
        run_wait_flag(&r, &r.started, 900);
        if (cases[i].processes > 1)
            expect_marked(f, 3 + cases[i].processes, 900);
        run_wait(&r, 3000);
        long long ms = (r.ended_ns - before) / NSEC_PER_MSEC;
        if (!r.exit.timed_out || r.exit.code != 137 || ms < 990 || ms > 1900)
            fail_msg("%s: code %d after %lld ms", cases[i].script, r.exit.code, ms);
        expect_marked(f, 3, 5000); /* none of it is left, and the other command is untouched */
        run_free(&r);
    }
    guest_client_signal(other.client, SIGKILL, GUEST_SCOPE_TREE);
    run_wait(&other, 10000);
    assert_false(other.exit.timed_out);
    run_free(&other);
    expect_marked(f, 0, 5000);

    /* A process that ends in time leaves what it started alone. */
    run_sh(f, &other, "(setsid sleep 100 >/dev/null 2>&1 &)",
           &(struct guest_start_request){.env = marked, .timeout_ms = 200, .id = "daemon"});
    run_wait(&other, 10000);
    assert_int_equal(other.exit.code, 0);
    run_free(&other);
    fixture_turn(f, 300);
    expect_marked(f, 1, 0);
    /* It still belongs to the tree of the command. */
    struct error err = ERROR_INIT;
    other = (struct run){.f = f};
    other.client =
        guest_signal(f->base, fixture_connect(f), "daemon", SIGKILL, GUEST_SCOPE_TREE, &run_callbacks, &other, &err);
    run_wait(&other, 10000);
    assert_true(other.done);
    run_free(&other);
    expect_marked(f, 0, 5000);
}

/* Guests that see each other's processes, as one inside a sandbox of another does, tell them apart. */
static void test_two_guests(void **state)
{
    struct guest_fixture *f = *state, second;
    struct run r, s;
    fixture_start(&second, true, NULL);
    run_sh(f, &r, "(setsid sleep 100 &); sleep 100", &(struct guest_start_request){.env = marked});
    expect_marked(f, 3, 5000);
    run_sh(&second, &s, "(setsid sleep 100 &); sleep 100",
           &(struct guest_start_request){.env = marked, .timeout_ms = 500});
    run_wait(&s, 10000);
    assert_true(s.exit.timed_out);
    expect_marked(f, 3, 5000);
    run_free(&s);
    fixture_stop(&second);
    expect_marked(f, 3, 0);
    run_free(&r);
}

static void test_hangup(void **state)
{
    struct guest_fixture *f = *state;
    struct run r;
    struct guest_start_request q = {.env = marked, .flags = GUEST_FLAG_HUP_ON_CLOSE};
    /* One that obeys. */
    run_sh(f, &r, "sleep 100 & sleep 100", &q);
    expect_marked(f, 3, 5000);
    run_free(&r);
    expect_marked(f, 0, 5000);
    /* One that does not, with a child in the group and one that left it. */
    run_sh(f, &r, "trap '' HUP; setsid sleep 101 & sleep 100 & while :; do wait; done", &q);
    expect_marked(f, 3, 5000);
    run_wait_flag(&r, &r.started, 1000);
    run_free(&r);
    fixture_turn(f, 1000);
    expect_marked(f, 3, 0);
    expect_marked(f, 1, 5000);
    /* Without the flag, or with another client there, nothing happens. */
    struct run a;
    q.id = "shared";
    run_sh(f, &r, "exec sleep 100", &q);
    run_wait_flag(&r, &r.started, 1000);
    run_attach(f, &a, "shared", 0, 0, 0);
    run_wait_flag(&a, &a.started, 1000);
    run_free(&r);
    fixture_turn(f, 200);
    expect_marked(f, 2, 0);
    run_free(&a);
    expect_marked(f, 1, 5000);
    struct error err = ERROR_INIT;
    a = (struct run){.f = f};
    a.client = guest_signal(f->base, fixture_connect(f), GUEST_ID_ALL, SIGKILL, 0, &run_callbacks, &a, &err);
    run_wait(&a, 10000);
    assert_true(a.done);
    run_free(&a);
    expect_marked(f, 0, 5000);
    /* A terminal. */
    run_sh(f, &r, "sleep 100; sleep 100",
           &(struct guest_start_request){.env = marked, .flags = GUEST_FLAG_HUP_ON_CLOSE | GUEST_FLAG_TTY});
    expect_marked(f, 2, 5000);
    run_free(&r);
    expect_marked(f, 0, 5000);
}

static void test_main(void **state)
{
    struct guest_fixture *f = *state;
    struct run r, other, second;
    struct guest_start_request q = {.env = marked, .flags = GUEST_FLAG_MAIN, .id = "main"};
    run_sh(f, &r, "(setsid sleep 100 &); echo up; sleep 0.3; echo bye; exit 42", &q);
    run_wait_text(&r, GUEST_STREAM_STDOUT, "up\n", 2000);
    run_sh(f, &other, "echo other; sleep 100", &(struct guest_start_request){.env = marked});
    q.id = "second";
    run_sh(f, &second, "true", &q);
    run_wait(&second, 10000);
    assert_int_equal(second.error.code, EEXIST);
    run_free(&second);
    run_wait(&r, 10000);
    assert_int_equal(r.exit.code, 42);
    assert_string_equal(run_out(&r), "up\nbye\n");
    run_wait(&other, 10000);
    assert_int_equal(other.exit.sig, SIGKILL);
    assert_string_equal(run_out(&other), "other\n");
    run_free(&r);
    run_free(&other);
    assert_int_equal(fixture_wait_guest(f, 10000), 42);
    expect_marked(f, 0, 0);
}

static void test_main_untold(void **state)
{
    struct guest_fixture *f = *state;
    struct run r;
    struct guest_start_request q = {.flags = GUEST_FLAG_MAIN, .id = "main"};
    run_sh(f, &r, "echo last words; sleep 0.2; exit 5", &q);
    run_wait_flag(&r, &r.started, 1000);
    run_free(&r);
    assert_int_equal(fixture_wait_guest(f, 700), -1); /* it waits for someone to come */
    run_sh(f, &r, "true", NULL);
    run_wait(&r, 10000);
    assert_int_equal(r.error.code, ESHUTDOWN);
    run_free(&r);
    run_attach(f, &r, "main", 0, 0, 0);
    run_wait(&r, 10000);
    assert_string_equal(run_out(&r), "last words\n");
    assert_int_equal(r.exit.code, 5);
    run_free(&r);
    assert_int_equal(fixture_wait_guest(f, 10000), 5);
}

static long long shut_down(struct guest_fixture *f, uint64_t grace_ms)
{
    struct run s = {.f = f};
    struct error err = ERROR_INIT;
    int64_t before = time_monotonic_ns();
    s.client = guest_shutdown(f->base, fixture_connect(f), grace_ms, &run_callbacks, &s, &err);
    run_wait(&s, (int)grace_ms + 3000);
    assert_true(s.done);
    run_free(&s);
    return (time_monotonic_ns() - before) / NSEC_PER_MSEC;
}

struct shutdown_case {
    const char *name;
    const char *script;
    uint32_t flags;
    int code, sig;
    int grace_ms, min_ms, max_ms;
};

static void test_shutdown(void **state)
{
    (void)state;
    static const struct shutdown_case cases[] = {
        {"obedient main", "trap 'echo term; exit 3' TERM; (setsid sleep 100 &); echo up; while :; do sleep 0.02; done",
         GUEST_FLAG_MAIN, 3, 0, 5000, 0, 3000},
        {"stubborn main", "trap '' TERM; echo up; while :; do sleep 0.1; done", GUEST_FLAG_MAIN, 137, SIGKILL, 600, 600,
         4000},
        {"no main", "trap 'echo term; exit 4' TERM; echo up; while :; do sleep 0.02; done", 0, 4, 0, 5000, 0, 3000},
        {"no main, stubborn", "trap '' TERM; echo up; while :; do sleep 0.1; done", 0, 137, SIGKILL, 600, 600, 4000},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct guest_fixture f;
        struct run r;
        fixture_start(&f, true, NULL);
        run_sh(&f, &r, cases[i].script, &(struct guest_start_request){.env = marked, .flags = cases[i].flags});
        run_wait_text(&r, GUEST_STREAM_STDOUT, "up\n", 2000);
        long long ms = shut_down(&f, (uint64_t)cases[i].grace_ms);
        run_wait(&r, 10000);
        if (!r.exited || r.exit.code != cases[i].code || r.exit.sig != cases[i].sig || ms < cases[i].min_ms ||
            ms > cases[i].max_ms)
            fail_msg("%s: code %d, %lld ms, %s", cases[i].name, r.exit.code, ms, error_text(&r.error));
        run_free(&r);
        assert_int_equal(fixture_wait_guest(&f, 10000), cases[i].flags != 0 ? cases[i].code : 0);
        expect_marked(&f, 0, 5000);
        fixture_stop(&f);
    }
    struct guest_fixture f;
    fixture_start(&f, true, NULL);
    assert_true(shut_down(&f, 5000) < 3000); /* nothing runs: there is nothing to wait for */
    assert_int_equal(fixture_wait_guest(&f, 10000), 0);
    fixture_stop(&f);
}

static struct guest_client *single_start(struct guest_fixture *f, struct run *r, const char *script)
{
    const char *const argv[] = {"sh", "-c", script, NULL};
    struct error err = ERROR_INIT;
    int fd;
    fixture_start(f, false, &fd);
    *r = (struct run){.f = f, .keep = true};
    struct guest_start_request q = {.argv = argv, .env = marked};
    return guest_start(f->base, fd, &q, &run_callbacks, r, &err);
}

static void test_single(void **state)
{
    (void)state;
    struct guest_fixture f;
    struct run r;
    r.client = single_start(&f, &r, "echo hi; (setsid sleep 100 &); exit 6");
    run_wait(&r, 10000);
    assert_string_equal(run_out(&r), "hi\n");
    assert_int_equal(r.exit.code, 6);
    run_free(&r);
    assert_int_equal(fixture_wait_guest(&f, 10000), 6);
    expect_marked(&f, 0, 5000);
    fixture_stop(&f);

    /* The client is lost: everything is. */
    r.client = single_start(&f, &r, "trap '' HUP TERM; (setsid sleep 100 &); echo up; sleep 100; sleep 100");
    run_wait_text(&r, GUEST_STREAM_STDOUT, "up\n", 2000);
    run_free(&r);
    assert_true(fixture_wait_guest(&f, 10000) >= 0);
    expect_marked(&f, 0, 5000);
    fixture_stop(&f);

    /* Also while it forks. */
    r.client = single_start(&f, &r, "echo up; i=0; while [ $i -lt 300 ]; do sleep 100 & i=$((i+1)); done; wait");
    run_wait_text(&r, GUEST_STREAM_STDOUT, "up\n", 2000);
    run_free(&r);
    assert_true(fixture_wait_guest(&f, 10000) >= 0);
    expect_marked(&f, 0, 0);
    fixture_stop(&f);

    /* The start fails. */
    int fd;
    struct error err = ERROR_INIT;
    static const char *const argv[] = {"nosuch", NULL};
    struct guest_start_request q = {.argv = argv};
    fixture_start(&f, false, &fd);
    r = (struct run){.f = &f};
    r.client = guest_start(f.base, fd, &q, &run_callbacks, &r, &err);
    run_wait(&r, 10000);
    assert_int_equal(r.error.code, ENOENT);
    run_free(&r);
    assert_int_equal(fixture_wait_guest(&f, 10000), 127);
    fixture_stop(&f);
}

static void test_orphans(void **state)
{
    struct guest_fixture *f = *state;
    struct run r;
    char path[64];
    run_sh(f, &r, "i=0; while [ $i -lt 1000 ]; do (true &); i=$((i+1)); done; echo made", NULL);
    run_wait(&r, 30000);
    assert_string_equal(run_out(&r), "made\n");
    run_free(&r);
    fixture_turn(f, 200);
    /* None of them is left as a zombie. */
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)f->pid, (int)f->pid);
    FILE *s = fopen(path, "re");
    assert_non_null(s);
    assert_int_equal(fgetc(s), EOF);
    fclose(s);
}

int main(void)
{
    snprintf(mark, sizeof(mark), "guest-end-%d", (int)getpid());
    snprintf(mark_entry, sizeof(mark_entry), "HOLT_TEST=%s", mark);
#define T(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        T(test_timeout),
        T(test_two_guests),
        T(test_hangup),
        T(test_main),
        T(test_main_untold),
        cmocka_unit_test(test_shutdown),
        cmocka_unit_test(test_single),
        T(test_orphans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
