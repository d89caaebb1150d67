/* Landlock alone, without the other walls: each denial is seen to be its own, by the same act before and outside. */
#include "test.h"

#include "base/fdio.h"
#include "base/macros.h"
#include "node/native/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>

static char root_path[] = "/tmp/holt-test-landlock.XXXXXX";
static int root;

static int setup(void **state UNUSED)
{
    assert_non_null(mkdtemp(root_path));
    root = open(root_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_true(root >= 0);
    assert_int_equal(mkdirat(root, "dev", 0755), 0);
    assert_int_equal(mkdirat(root, "open", 0755), 0);
    assert_int_equal(mkdirat(root, "shut", 0755), 0);
    return 0;
}

static int teardown(void **state UNUSED)
{
    (void)close(root);
    assert_int_equal(remove_tree_at(AT_FDCWD, root_path, NULL), 0);
    return 0;
}

/* Runs fn in a child that is confined; 0 when fn returns 0, else what it returns. */
static int confined(bool read_only, int (*fn)(void *arg), void *arg)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        int dev = openat(root, "dev", O_PATH | O_DIRECTORY | O_CLOEXEC);
        int open_dir = openat(root, "open", O_PATH | O_DIRECTORY | O_CLOEXEC);
        struct error err = ERROR_INIT;
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
            landlock_confine(root, dev, read_only, &open_dir, 1, &err) < 0)
            _exit(100);
        _exit(fn(arg));
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int create(const char *path)
{
    int fd = openat(root, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

    if (fd < 0)
        return -errno;
    (void)close(fd);
    return 0;
}

static int write_where_allowed(void *arg UNUSED)
{
    return create("open/file") ? 1 : 0;
}

static int write_elsewhere(void *arg UNUSED)
{
    return create("shut/file") == -EACCES && create("file") == -EACCES ? 0 : 1;
}

static int write_outside(void *arg UNUSED)
{
    int fd = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    return fd < 0 && errno == EACCES ? 0 : 1;
}

static int make_device(void *arg UNUSED)
{
    if (mknodat(root, "open/null", S_IFCHR | 0666, makedev(1, 3)) == 0 || errno != EACCES)
        return 1;
    return mkfifoat(root, "open/fifo", 0666) < 0;
}

static int change_mounts(void *arg UNUSED)
{
    return mount("none", root_path, "tmpfs", 0, NULL) < 0 && errno == EPERM ? 0 : 1;
}

static int send_signal(void *arg)
{
    return kill(*(pid_t *)arg, SIGCONT) < 0 && errno == EPERM && kill(getpid(), 0) == 0 ? 0 : 1;
}

static int connect_abstract(void *arg)
{
    const struct sockaddr_un *address = arg;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    return connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 && errno == EPERM ? 0 : 1;
}

static int rename_across(void *arg UNUSED)
{
    if (mkdirat(root, "open/a", 0755) < 0 || mkdirat(root, "open/b", 0755) < 0 || create("open/a/f") < 0)
        return 1;
    return renameat(root, "open/a/f", root, "open/b/f") < 0;
}

#define NEED_LANDLOCK(abi)                                                                                             \
    if (landlock_abi() < (abi)) {                                                                                      \
        skip();                                                                                                        \
        return;                                                                                                        \
    }

static void test_read_only_root(void **state UNUSED)
{
    NEED_LANDLOCK(1);
    assert_int_equal(create("shut/before"), 0);
    assert_int_equal(confined(true, write_where_allowed, NULL), 0);
    assert_int_equal(confined(true, write_elsewhere, NULL), 0);
    assert_int_equal(confined(false, write_outside, NULL), 0);
}

static void test_writable_root(void **state UNUSED)
{
    NEED_LANDLOCK(2);
    assert_int_equal(confined(false, write_where_allowed, NULL), 0);
    assert_int_equal(confined(false, rename_across, NULL), 0);
}

static void test_devices_and_mounts(void **state UNUSED)
{
    NEED_LANDLOCK(1);
    if (geteuid() == 0) {
        assert_int_equal(mknodat(root, "null", S_IFCHR | 0666, makedev(1, 3)), 0);
        assert_int_equal(confined(false, change_mounts, NULL), 0);
    }
    assert_int_equal(confined(false, make_device, NULL), 0);
}

static void test_scopes(void **state UNUSED)
{
    NEED_LANDLOCK(6);
    pid_t self = getpid();
    assert_int_equal(confined(false, send_signal, &self), 0);

    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "holt-test-%d", getpid());
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0),
        twin = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(listener, 4), 0);
    assert_int_equal(connect(twin, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(confined(false, connect_abstract, &address), 0);
    (void)close(listener);
    (void)close(twin);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read_only_root),
        cmocka_unit_test(test_writable_root),
        cmocka_unit_test(test_devices_and_mounts),
        cmocka_unit_test(test_scopes),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
