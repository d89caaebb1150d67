/*
 * holt-guest as pid 1 of a pid namespace and root of a user namespace that holds KILL, SETUID and SETGID only: what the
 * processes cannot do to it, and that it still can do all to them. Skipped where such namespaces cannot be made.
 */
#include "guest_fixture.h"

#include "base/fdio.h"
#include "base/timeutil.h"
#include "guest/image.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define UID_BASE "0 200000 65536"
#define KEPT_CAPS (1u << CAP_KILL | 1u << CAP_SETUID | 1u << CAP_SETGID)

static bool mount_all(void)
{
    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == 0 &&
           mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620") == 0 &&
           mount("/dev/pts/ptmx", "/dev/ptmx", NULL, MS_BIND, NULL) == 0;
}

static bool drop_caps(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{.effective = KEPT_CAPS, .permitted = KEPT_CAPS}};
    for (int cap = 0; cap <= CAP_LAST_CAP; cap++) {
        if (!(cap < 32 && (KEPT_CAPS & 1u << cap)) && prctl(PR_CAPBSET_DROP, cap) < 0 && errno != EINVAL)
            return false;
    }
    return setresgid(0, 0, 0) == 0 && setresuid(0, 0, 0) == 0 && syscall(SYS_capset, &header, data) == 0 &&
           prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

/* In pid 1: ready tells that it is in its user namespace, go that its ids are mapped. */
static void become_guest(int image, int ready, int go)
{
    static char *const argv[] = {(char *)"holt-guest", NULL}, *const env[] = {(char *)"SECRET=1", NULL};
    char c = 0;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || unshare(CLONE_NEWNS) < 0 || !mount_all() ||
        unshare(CLONE_NEWUSER) < 0 || write(ready, &c, 1) != 1 || read(go, &c, 1) != 1 || !drop_caps())
        _exit(126);
    fexecve(image, argv, env);
    _exit(126);
}

static bool map_ids(pid_t pid)
{
    char path[64];
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "/proc/%d/%cid_map", (int)pid, "ug"[i]);
        if (file_put_at(AT_FDCWD, path, UID_BASE, NULL) < 0)
            return false;
    }
    return true;
}

/* The process between: makes the namespace, reports the exit code of pid 1 as its own. */
static void run_namespace(int sock, int image)
{
    int ready[2], go[2], status;
    char c = 0;
    int high = fcntl(sock, F_DUPFD_CLOEXEC, 20), exe = fcntl(image, F_DUPFD_CLOEXEC, 20);
    if (pipe2(ready, O_CLOEXEC) < 0 || pipe2(go, O_CLOEXEC) < 0 || unshare(CLONE_NEWPID) < 0)
        _exit(126);
    pid_t pid = fork();
    if (pid == 0) {
        int ready_fd = fcntl(ready[1], F_DUPFD_CLOEXEC, 20);
        int go_fd = fcntl(go[0], F_DUPFD_CLOEXEC, 20);
        close(go[1]);
        if (dup2(high, 3) != 3)
            _exit(126);
        become_guest(exe, ready_fd, go_fd);
    }
    close(ready[1]);
    close(sock);
    if (read(ready[0], &c, 1) != 1 || !map_ids(pid) || write(go[1], &c, 1) != 1)
        _exit(126);
    (void)waitpid(pid, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static int setup(void **state)
{
    struct guest_fixture *f = calloc(1, sizeof(*f));
    *f = (struct guest_fixture){.base = event_base_new(), .path = "/tmp/holt-test-guest-XXXXXX"};
    (void)signal(SIGPIPE, SIG_IGN);
    assert_non_null(mkdtemp(f->path));
    f->dir = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int sock = unix_listen_at(f->dir, "guest.sock", 512, NULL);
    int image = guest_image_memfd(NULL);
    assert_true(sock >= 0 && image >= 0);
    f->pid = fork();
    if (f->pid == 0)
        run_namespace(sock, image);
    close(sock);
    close(image);
    fixture_turn(f, 100);
    if (waitpid(f->pid, NULL, WNOHANG) == f->pid)
        f->pid = 0;
    *state = f;
    return 0;
}

static bool available(const struct guest_fixture *f)
{
    if (f->pid == 0)
        skip();
    return true;
}

static void test_attacks(void **state)
{
    static const struct {
        const char *script;
        const char *out;
    } cases[] = {
        {"cut -d' ' -f4 /proc/$$/stat", "1\n"}, /* its parent is pid 1 */
        {"kill -9 1; kill -STOP 1; kill -TERM 1; kill -HUP 1; kill -CHLD 1; kill -PIPE 1; echo sent", "sent\n"},
        {"cat /proc/1/environ 2>&1 | tr '\\0' ' ' | grep -c -e SECRET", "0\n"},
        {"readlink /proc/1/fd/3 || echo no", "no\n"},
        {"(: < /proc/1/fd/0) 2>/dev/null || echo no", "no\n"},
        {"ls /proc/1/root/ >/dev/null 2>&1 || echo no", "no\n"},
        {"(: > /proc/1/exe) 2>/dev/null || echo no", "no\n"},
        {"head -c1 /proc/1/mem >/dev/null 2>&1 || echo no", "no\n"},
        {"ls -l /proc/self/exe >/dev/null && grep -h -e CapInh -e CapBnd -e CapAmb -e NoNewPrivs /proc/self/status",
         "CapInh:\t0000000000000000\nCapBnd:\t00000000000000e0\nCapAmb:\t0000000000000000\nNoNewPrivs:\t1\n"},
        {"id -u; id -g; id -G", "0\n0\n0\n"},
    };
    struct guest_fixture *f = *state;
    if (!available(f))
        return;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct run r;
        run_sh(f, &r, cases[i].script, &(struct guest_start_request){.set_uid = i == 9, .set_gid = i == 9});
        run_wait(&r, 10000);
        if (strcmp(run_out(&r), cases[i].out) != 0)
            fail_msg("%s: \"%s\" \"%s\" %s", cases[i].script, run_out(&r), strbuf_str(&r.out[1]), error_text(&r.error));
        run_free(&r);
    }
}

static void test_other_users(void **state)
{
    struct guest_fixture *f = *state;
    struct run r;
    if (!available(f))
        return;
    /* The tree of another user is found by its mark and killed, with the terminal its own. */
    struct guest_start_request q = {
        .set_uid = true, .uid = 1000, .set_gid = true, .gid = 1000, .timeout_ms = 1000, .flags = GUEST_FLAG_TTY};
    run_sh(f, &r, "stat -c %u $(tty); (env -i setsid /bin/sh -c '(setsid /bin/sleep 77 &)' &); sleep 77", &q);
    run_wait(&r, 10000);
    assert_true(r.exit.timed_out);
    assert_string_equal(run_out(&r), "1000\r\n");
    run_free(&r);
    run_sh(f, &r, "for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline | grep '^/bin/sleep 77'; done; echo looked",
           NULL);
    run_wait(&r, 10000);
    assert_string_equal(run_out(&r), "looked\n");
    run_free(&r);
    q = (struct guest_start_request){.set_uid = true, .uid = 70000};
    run_sh(f, &r, "true", &q);
    run_wait(&r, 10000);
    assert_int_equal(r.error.code, EINVAL); /* no such user in the range */
    assert_non_null(strstr(error_text(&r.error), "cannot set its user"));
    run_free(&r);
}

static void test_end(void **state)
{
    struct guest_fixture *f = *state;
    struct run r;
    if (!available(f))
        return;
    run_sh(f, &r,
           "(setsid sleep 100 &); i=0; while [ $i -lt 300 ]; do (true &); i=$((i+1)); done; sleep 0.1\n"
           "grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l; exit 44",
           &(struct guest_start_request){.flags = GUEST_FLAG_MAIN});
    run_wait(&r, 10000);
    assert_string_equal(run_out(&r), "0\n");
    assert_int_equal(r.exit.code, 44);
    run_free(&r);
    assert_int_equal(fixture_wait_guest(f, 10000), 44);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_attacks, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_other_users, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_end, setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
