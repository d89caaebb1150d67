/* What a process started in a real holt-guest gets and gives: streams, exits, errors, terminals, attachments. */
#include "guest_fixture.h"

#include "base/memory.h"
#include "base/timeutil.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void test_ping(void **state)
{
    struct guest_fixture *f = *state;
    struct run r = {.f = f};
    struct error err = ERROR_INIT;
    r.client = guest_ping(f->base, fixture_connect(f), &run_callbacks, &r, &err);
    run_wait(&r, 10000);
    assert_true(r.done);
    assert_int_equal(r.pong.version, GUEST_PROTOCOL_VERSION);
    assert_int_equal(r.pong.count, 0);
    run_free(&r);

    struct guest_buffer b = {0};
    struct guest_reply reply;
    int fd = fixture_connect(f);
    assert_int_equal(guest_request_plain(&b, GUEST_PING, &err), 0);
    assert_int_equal(guest_call(fd, &b, 2000, &reply, &err), 0);
    assert_int_equal(reply.type, GUEST_PONG);
    guest_reply_free(&reply);
    guest_buffer_free(&b);
    close(fd);
}

struct script_case {
    const char *script;
    const char *out, *err;
    int code, sig;
};

static void test_scripts(void **state)
{
    static const struct script_case cases[] = {
        {"echo hello", "hello\n", "", 0, 0},
        {"echo out; echo err >&2; exit 7", "out\n", "err\n", 7, 0},
        {"exit 300", "", "", 44, 0},
        {"exit 137", "", "", 137, 0},
        {"kill -SEGV $$", "", "", 139, SIGSEGV},
        {"kill -9 $$", "", "", 137, SIGKILL},
        {"nosuchcmd 2>/dev/null", "", "", 127, 0},
        {"/etc/passwd 2>/dev/null", "", "", 126, 0},
        {"cat; echo end", "end\n", "", 0, 0}, /* nobody sends input: it is /dev/null */
        {"pwd", "/\n", "", 0, 0},
        {"ls /proc/self/fd | tr '\\n' ' '", "0 1 2 3 ", "", 0, 0}, /* 3 is the directory ls reads */
        {"umask; ulimit -Hn >/dev/null; cat /proc/self/status | grep -E 'Sig(Blk|Ign)'",
         "0022\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n", "", 0, 0},
        {"test $(ps -o sid= -p $$) = $$ && test $(ps -o pgid= -p $$) = $$ && echo leader", "leader\n", "", 0, 0},
        {"printf 'a\\0b\\303\\251'", "a", "", 0, 0},
        /* What holds the output open after the exit neither delays the end for long nor is killed by it. */
        {"sleep 3 & echo started", "started\n", "", 0, 0},
        {"(sleep 0.02; echo late) & echo early", "early\nlate\n", "", 0, 0},
    };
    struct guest_fixture *f = *state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        static const char *const env[] = {"PATH=/usr/bin:/bin", NULL};
        struct guest_start_request q = {.env = env};
        struct run r;
        int64_t before = time_monotonic_ns();
        run_sh(f, &r, cases[i].script, &q);
        run_wait(&r, 5000);
        if (!r.exited || strcmp(run_out(&r), cases[i].out) != 0 || strcmp(strbuf_str(&r.out[1]), cases[i].err) != 0 ||
            r.exit.code != cases[i].code || r.exit.sig != cases[i].sig || r.exit.timed_out)
            fail_msg("%s: exit %d (signal %d), out \"%s\", err \"%s\", error %s", cases[i].script, r.exit.code,
                     r.exit.sig, run_out(&r), strbuf_str(&r.out[1]), error_text(&r.error));
        assert_true(r.ended_ns - before < 2500 * NSEC_PER_MSEC);
        run_free(&r);
    }
}

struct failing_case {
    const char *name;
    const char *argv0;
    struct guest_start_request request;
    int code;
    const char *text; /* part of the message */
};

static void test_failing_starts(void **state)
{
    static const char *const empty_path[] = {"PATH=/nowhere", NULL}, *const bad_env[] = {"=x", NULL};
    static const char *const weird_path[] = {"PATH=::/etc/passwd:/bin", NULL};
    static const struct failing_case cases[] = {
        {"missing", "foo", {0}, ENOENT, "executable file not found: foo"},
        {"missing path", "/no/such/foo", {0}, ENOENT, "executable file not found: /no/such/foo"},
        {"not in PATH", "true", {.env = empty_path}, ENOENT, "executable file not found: true"},
        {"not executable", "/etc/passwd", {0}, EACCES, "cannot run /etc/passwd: Permission denied"},
        {"a directory", "/etc", {0}, EACCES, "cannot run /etc"},
        {"odd PATH", "foo", {.env = weird_path}, ENOENT, "not found"},
        {"empty name", "", {0}, ENOENT, "empty"},
        {"bad directory", "true", {.cwd = "/nope2"}, ENOTDIR, "no such directory: /nope2"},
        {"directory is a file", "true", {.cwd = "/etc/passwd"}, ENOTDIR, "no such directory: /etc/passwd"},
        {"directory by descriptor", "true", {.cwd = "/proc/self/fd/3"}, ELOOP, "/proc/self/fd/3"},
        {"directory by link of proc", "true", {.cwd = "/proc/self/root"}, ELOOP, "/proc/self/root"},
        {"bad environment", "true", {.env = bad_env}, EINVAL, "environment"},
        {"bad id", "true", {.id = "a/b"}, EINVAL, "process id"},
        {"user -1", "true", {.set_uid = true, .uid = UINT32_MAX}, EINVAL, "-1"},
    };
    struct guest_fixture *f = *state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *const argv[] = {cases[i].argv0, NULL};
        struct guest_start_request q = cases[i].request;
        struct run r;
        q.argv = argv;
        run_request(f, &r, &q);
        run_wait(&r, 10000);
        if (!r.failed || r.error.code != cases[i].code || strstr(error_text(&r.error), cases[i].text) == NULL)
            fail_msg("%s: %d %s", cases[i].name, r.error.code, error_text(&r.error));
        assert_false(r.started);
        run_free(&r);
    }
    /* None of them is left in the list. */
    struct run list;
    run_list(f, &list);
    assert_string_equal(strbuf_str(&list.list), "");
    run_free(&list);
}

static void test_environment(void **state)
{
    static const char *const env[] = {"A=1", "B=x y", "PATH=/usr/bin:/bin", NULL};
    static const uint32_t groups[] = {7, 9};
    struct guest_fixture *f = *state;
    struct run r;
    struct guest_start_request q = {.env = env, .cwd = "/tmp"};
    run_sh(f, &r, "env | grep -v -e ^PWD -e ^_ -e ^SHLVL -e ^OLDPWD | sort; pwd", &q);
    run_wait(&r, 10000);
    assert_string_equal(run_out(&r), "A=1\nB=x y\nPATH=/usr/bin:/bin\n/tmp\n");
    run_free(&r);

    if (geteuid() != 0)
        return;
    q = (struct guest_start_request){.set_uid = true,
                                     .uid = 1234,
                                     .set_gid = true,
                                     .gid = 2345,
                                     .groups = groups,
                                     .group_count = 2,
                                     .flags = GUEST_FLAG_TTY};
    run_sh(f, &r, "grep -E '^(Uid|Gid|Groups|CapEff|CapPrm)' /proc/self/status; stat -c %u $(tty)", &q);
    run_wait(&r, 10000);
    assert_string_equal(run_out(&r), "Uid:\t1234\t1234\t1234\t1234\r\nGid:\t2345\t2345\t2345\t2345\r\nGroups:\t7 9 \r\n"
                                     "CapPrm:\t0000000000000000\r\nCapEff:\t0000000000000000\r\n1234\r\n");
    run_free(&r);
}

static void test_inherit(void **state)
{
    static const char *const env[] = {"A=main", "B=main", "PATH=/usr/bin:/bin", NULL}, *const own[] = {"B=own", NULL};
    struct guest_fixture *f = *state;
    struct guest_start_request q = {.env = env, .cwd = "/usr", .flags = GUEST_FLAG_MAIN};
    struct run m, r;
    run_sh(f, &m, "sleep 100", &q);
    run_wait_flag(&m, &m.started, 10000);
    q = (struct guest_start_request){.env = own, .flags = GUEST_FLAG_INHERIT};
    run_sh(f, &r, "echo $A $B; pwd", &q);
    run_wait(&r, 10000);
    assert_string_equal(run_out(&r), "main own\n/usr\n");
    run_free(&r);
    q.cwd = "/tmp";
    q.flags = 0;
    run_sh(f, &r, "echo $A $B; pwd", &q);
    run_wait(&r, 10000);
    assert_string_equal(run_out(&r), "own\n/tmp\n");
    run_free(&r);
    run_free(&m);
}

static void test_input(void **state)
{
    struct guest_fixture *f = *state;
    struct guest_start_request q = {.flags = GUEST_FLAG_STDIN};
    struct run r;
    run_sh(f, &r, "cat; echo end", &q);
    guest_client_stdin(r.client, "hello\n", 6); /* sent before the answer to the start is there */
    run_wait_text(&r, GUEST_STREAM_STDOUT, "hello\n", 10000);
    guest_client_stdin_eof(r.client);
    run_wait(&r, 10000);
    assert_string_equal(run_out(&r), "hello\nend\n");
    run_free(&r);

    /* More than pipe and socket hold, to a reader that starts late. */
    size_t size = 3 * 1024 * 1024 + 17;
    char *data = xmalloc(size);
    for (size_t i = 0; i < size; i++)
        data[i] = (char)(i % 251);
    run_sh(f, &r, "sleep 0.2; cat", &(struct guest_start_request){.flags = GUEST_FLAG_STDIN | GUEST_FLAG_LOSSLESS});
    guest_client_stdin(r.client, data, size);
    guest_client_stdin_eof(r.client);
    assert_true(guest_client_pending(r.client) > 0);
    run_wait(&r, 10000);
    assert_int_equal(r.out[0].len, size);
    assert_memory_equal(r.out[0].data, data, size);
    run_free(&r);

    /* A process that does not want it ends all the same, and its end is told. */
    run_sh(f, &r, "exit 3", &q);
    guest_client_stdin(r.client, data, size);
    run_wait(&r, 5000);
    assert_true(r.exited);
    assert_int_equal(r.exit.code, 3);
    run_free(&r);
    free(data);

    /* Input for a process without is against the protocol. */
    run_sh(f, &r, "sleep 5", NULL);
    guest_client_stdin(r.client, "x", 1);
    run_wait(&r, 10000);
    assert_true(r.failed);
    assert_int_equal(r.error.code, EPROTO);
    run_free(&r);
}

static void test_signals(void **state)
{
    static const struct {
        enum guest_scope scope;
        const char *out;
    } cases[] = {
        {GUEST_SCOPE_PROCESS, "ready\nparent\n"},
        {GUEST_SCOPE_GROUP, "ready\nchild\nparent\n"},
        {GUEST_SCOPE_TREE, "ready\nchild\nparent\n"},
    };
    static const char script[] = "trap 'wait; echo parent; exit 5' USR1\n"
                                 "(trap 'echo child; exit' USR1; for i in 1 2 3 4 5 6; do sleep 0.15; done) &\n"
                                 "sleep 0.05; echo ready; while :; do sleep 0.02; done";
    struct guest_fixture *f = *state;
    struct error err = ERROR_INIT;
    for (size_t i = 0; i < 2 * ARRAY_LEN(cases); i++) {
        struct run r, s = {.f = f};
        run_sh(f, &r, script, NULL);
        run_wait_text(&r, GUEST_STREAM_STDOUT, "ready\n", 10000);
        if (i % 2 == 0) {
            guest_client_signal(r.client, SIGUSR1, cases[i / 2].scope);
        } else {
            s.client =
                guest_signal(f->base, fixture_connect(f), r.id, SIGUSR1, cases[i / 2].scope, &run_callbacks, &s, &err);
            run_wait(&s, 10000);
            assert_true(s.done);
            run_free(&s);
        }
        run_wait(&r, 10000);
        assert_string_equal(run_out(&r), cases[i / 2].out);
        assert_int_equal(r.exit.code, 5);
        run_free(&r);
    }
    struct run s = {.f = f};
    s.client = guest_signal(f->base, fixture_connect(f), "nobody", SIGUSR1, 0, &run_callbacks, &s, &err);
    run_wait(&s, 10000);
    assert_true(s.failed);
    assert_int_equal(s.error.code, ESRCH);
    run_free(&s);
    s.f = f;
    s.client = guest_signal(f->base, fixture_connect(f), "nobody", 99, 0, &run_callbacks, &s, &err);
    run_wait(&s, 10000);
    assert_int_equal(s.error.code, EINVAL);
    run_free(&s);
}

static void test_terminal(void **state)
{
    struct guest_fixture *f = *state;
    struct guest_start_request q = {.flags = GUEST_FLAG_TTY | GUEST_FLAG_STDIN, .rows = 30, .cols = 100};
    struct run r;
    run_sh(f, &r, "trap 'stty size' WINCH; stty -echo; stty size; tty; while :; do sleep 0.02; done", &q);
    run_wait_text(&r, GUEST_STREAM_STDOUT, "30 100\r\n/dev/pts/", 10000);
    int64_t before = time_monotonic_ns();
    guest_client_resize(r.client, 50, 132);
    run_wait_text(&r, GUEST_STREAM_STDOUT, "50 132\r\n", 10000);
    assert_true(time_monotonic_ns() - before < 2000 * NSEC_PER_MSEC);
    guest_client_stdin(r.client, "\003", 1); /* Ctrl-C reaches the foreground group */
    run_wait(&r, 10000);
    assert_int_equal(r.exit.sig, SIGINT);
    assert_true(r.bytes[GUEST_STREAM_STDERR] == 0);
    run_free(&r);

    q.rows = q.cols = 0;
    run_sh(f, &r, "stty size; cat; echo end", &q);
    guest_client_stdin(r.client, "line\n", 5);
    guest_client_stdin_eof(r.client);
    run_wait(&r, 10000);
    assert_string_equal(run_out(&r) + strlen(run_out(&r)) - 11, "line\r\nend\r\n");
    assert_non_null(strstr(run_out(&r), "24 80\r\n"));
    run_free(&r);
}

static void test_attach(void **state)
{
    struct guest_fixture *f = *state;
    struct guest_start_request q = {.id = "job", .flags = GUEST_FLAG_STDIN};
    struct run r, a, b;
    run_sh(f, &r, "echo one; echo two >&2; read x; echo got $x; exit 4", &q);
    run_wait_text(&r, GUEST_STREAM_STDOUT, "one\n", 10000);
    run_wait_text(&r, GUEST_STREAM_STDERR, "two\n", 10000);

    /* A second one with the same id is refused. */
    run_sh(f, &a, "true", &q);
    run_wait(&a, 10000);
    assert_int_equal(a.error.code, EEXIST);
    run_free(&a);

    run_free(&r); /* goes away; the process does not */
    run_attach(f, &a, "job", 0, 0, GUEST_FLAG_STDIN);
    run_attach(f, &b, "job", 2, GUEST_OFFSET_END, 0);
    b.next[GUEST_STREAM_STDERR] = 4; /* where the end is */
    run_wait_text(&a, GUEST_STREAM_STDOUT, "one\n", 10000);
    run_wait_text(&a, GUEST_STREAM_STDERR, "two\n", 10000);
    run_wait_text(&b, GUEST_STREAM_STDOUT, "e\n", 10000);
    guest_client_stdin(a.client, "it\n", 3);
    run_wait(&a, 10000);
    run_wait(&b, 10000);
    assert_string_equal(a.id, "job");
    assert_string_equal(run_out(&a), "one\ngot it\n");
    assert_string_equal(run_out(&b), "e\ngot it\n");
    assert_string_equal(strbuf_str(&b.out[1]), "");
    assert_int_equal(a.exit.code, 4);
    assert_int_equal(b.exit.code, 4);
    run_free(&a);
    run_free(&b);

    /* Its record answers afterwards. */
    run_attach(f, &a, "job", 4, 0, 0);
    run_wait(&a, 10000);
    assert_string_equal(run_out(&a), "got it\n");
    assert_string_equal(strbuf_str(&a.out[1]), "two\n");
    assert_int_equal(a.exit.code, 4);
    run_free(&a);
    run_list(f, &a);
    assert_string_equal(strbuf_str(&a.list), "job exited sh\n");
    run_free(&a);
    run_attach(f, &a, "other", 0, 0, 0);
    run_wait(&a, 10000);
    assert_int_equal(a.error.code, ESRCH);
    run_free(&a);
}

/* Resident memory of the guest, in KiB. */
static long guest_memory(const struct guest_fixture *f)
{
    char path[64], line[256];
    long kib = -1;
    snprintf(path, sizeof(path), "/proc/%d/status", (int)f->pid);
    FILE *s = fopen(path, "re");
    assert_non_null(s);
    while (fgets(line, sizeof(line), s) != NULL)
        (void)sscanf(line, "VmRSS: %ld kB", &kib);
    fclose(s);
    return kib;
}

static void test_flood(void **state)
{
    struct guest_fixture *f = *state;
    struct run r;
    /* Without a reader the process is not held up, the guest does not grow, and a late client learns what it missed. */
    run_sh(f, &r, "yes | head -c 50000000; echo done >&2; sleep 60", NULL);
    r.keep = false;
    run_wait_flag(&r, &r.started, 10000);
    guest_client_pause(r.client);
    struct run a;
    run_attach(f, &a, r.id, GUEST_OFFSET_END, 0, 0);
    guest_client_free(a.client);
    run_attach(f, &a, r.id, 0, 0, 0);
    a.keep = true;
    run_wait_text(&a, GUEST_STREAM_STDERR, "done\n", 10000);
    assert_true(guest_memory(f) < 2048);
    guest_client_resume(r.client);
    guest_client_signal(r.client, SIGKILL, GUEST_SCOPE_TREE);
    run_wait(&r, 5000);
    run_wait(&a, 5000);
    assert_true(r.dropped[0] > 40000000);
    assert_true(r.dropped[0] + r.bytes[0] == 50000000);
    assert_true(a.dropped[0] + a.bytes[0] == 50000000);
    assert_true(r.dropped[1] == 0 && r.bytes[1] == 5);
    run_free(&a);
    run_free(&r);
}

static void test_ring_size(void **state)
{
    struct guest_fixture *f = *state;
    struct run r;
    run_sh(f, &r, "seq 100000; echo done >&2; sleep 60",
           &(struct guest_start_request){.ring_bytes = 5000, .id = "seq"});
    run_wait_text(&r, GUEST_STREAM_STDERR, "done\n", 5000);
    guest_client_signal(r.client, SIGKILL, GUEST_SCOPE_TREE);
    run_wait(&r, 10000);
    run_free(&r);
    run_attach(f, &r, "seq", 0, 0, 0);
    run_wait(&r, 10000);
    assert_int_equal(r.dropped[0] + r.bytes[0], 588895);
    assert_int_equal(r.bytes[0], 8192);
    assert_string_equal(run_out(&r) + 8192 - 14, "\n99999\n100000\n");
    run_free(&r);
}

static uint32_t checksum(uint32_t sum, const char *p, size_t len)
{
    for (size_t i = 0; i < len; i++)
        sum = (sum ^ (uint8_t)p[i]) * 16777619u;
    return sum;
}

static void test_lossless(void **state)
{
    enum { SIZE = 50 * 1024 * 1024 };
    struct guest_fixture *f = *state;
    _cleanup_free_ char *path = xasprintf("%s/big", f->path);
    _cleanup_free_ char *script = xasprintf("cat %s; exit 9", path);
    char *data = xmalloc(SIZE);
    uint32_t x = 1;
    for (size_t i = 0; i < SIZE; i++) {
        x = x * 1664525u + 1013904223u;
        data[i] = (char)(x >> 24);
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_int_equal(write(fd, data, SIZE), SIZE);
    close(fd);
    uint32_t sum = checksum(2166136261u, data, SIZE);
    free(data);

    struct run r;
    int64_t before = time_monotonic_ns();
    run_sh(f, &r, script, &(struct guest_start_request){.flags = GUEST_FLAG_LOSSLESS});
    run_wait_flag(&r, &r.started, 10000);
    guest_client_pause(r.client); /* a slow start: far more than the ring is waiting */
    fixture_turn(f, 300);
    before += 300 * NSEC_PER_MSEC;
    guest_client_resume(r.client);
    run_wait(&r, 30000);
    print_message("50 MiB lossless: %lld ms\n", (long long)((r.ended_ns - before) / NSEC_PER_MSEC));
    assert_int_equal(r.dropped[0], 0);
    assert_int_equal(r.out[0].len, SIZE);
    assert_int_equal(checksum(2166136261u, r.out[0].data, r.out[0].len), sum);
    assert_int_equal(r.exit.code, 9);
    run_free(&r);

    /* When the client goes, the process goes on. */
    run_sh(f, &r, "yes | head -c 5000000; echo over >&2",
           &(struct guest_start_request){.id = "left", .flags = GUEST_FLAG_LOSSLESS});
    run_wait_flag(&r, &r.started, 10000);
    guest_client_pause(r.client);
    fixture_turn(f, 100);
    run_free(&r);
    run_attach(f, &r, "left", 0, 0, 0);
    run_wait(&r, 5000);
    assert_true(r.bytes[0] + r.dropped[0] == 5000000);
    assert_string_equal(strbuf_str(&r.out[1]), "over\n");
    run_free(&r);
}

static void test_parallel(void **state)
{
    enum { COUNT = 300 };
    struct guest_fixture *f = *state;
    struct run *runs = xcalloc(COUNT, sizeof(*runs));
    for (int i = 0; i < COUNT; i++) {
        char script[64];
        snprintf(script, sizeof(script), "echo %d; exit %d", i, i % 50);
        run_sh(f, &runs[i], script, NULL);
    }
    for (int i = 0; i < COUNT; i++) {
        char out[16];
        snprintf(out, sizeof(out), "%d\n", i);
        run_wait(&runs[i], 30000);
        if (!runs[i].exited || strcmp(run_out(&runs[i]), out) != 0 || runs[i].exit.code != i % 50)
            fail_msg("%d: %d %s %s", i, runs[i].exit.code, run_out(&runs[i]), error_text(&runs[i].error));
        run_free(&runs[i]);
    }
    free(runs);
    /* Ended ones are listed, within the limit. */
    struct run list;
    size_t lines = 0;
    run_list(f, &list);
    for (const char *p = strbuf_str(&list.list); *p != 0; p++)
        lines += *p == '\n';
    assert_int_equal(lines, 256);
    run_free(&list);
}

static void test_garbage(void **state)
{
    static const struct {
        const char *name;
        const char *bytes;
        size_t len;
    } cases[] = {
        {"text", "GET / HTTP/1.1\r\n\r\n", 18},
        {"huge", "\xff\xff\xff\xff\x02\0\0\0", 8},
        {"type 0", "\0\0\0\0\0\0\0\0", 8},
        {"reserved", "\0\0\0\0\x01\0\0\x01", 8},
        {"an answer", "\0\0\0\0\x12\0\0\0", 8},
        {"input first", "\x01\0\0\0\x07\0\0\0x", 9},
        {"start without fields", "\0\0\0\0\x02\0\0\0", 8},
        {"start with a bad field", "\x07\0\0\0\x02\0\0\0\x02\0\xff\0\0\0a", 15},
    };
    struct guest_fixture *f = *state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct error err = ERROR_INIT;
        struct guest_reply reply;
        struct guest_buffer b = {0};
        guest_buffer_add(&b, cases[i].bytes, cases[i].len);
        int fd = fixture_connect(f);
        int r = guest_call(fd, &b, 2000, &reply, &err);
        char rest;
        if (r != -EPROTO || strstr(error_text(&err), "not of the guest protocol") == NULL)
            fail_msg("%s: %d %s", cases[i].name, r, error_text(&err));
        if (read(fd, &rest, 1) > 0)
            fail_msg("%s: the connection is open", cases[i].name);
        guest_buffer_free(&b);
        error_clear(&err);
        close(fd);
    }
    test_ping(state);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        T(test_ping),      T(test_scripts),  T(test_failing_starts), T(test_environment), T(test_inherit),
        T(test_input),     T(test_signals),  T(test_terminal),       T(test_attach),      T(test_flood),
        T(test_ring_size), T(test_lossless), T(test_parallel),       T(test_garbage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
