/* `holt wait`: returns when a `holt up` with the same run directory is ready. Waits on its socket, not by asking again.
 */
#include "cli/cli.h"

#include "base/fdio.h"
#include "base/memory.h"
#include "base/timeutil.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>

/* Milliseconds until the deadline, for poll(2); -1 = no deadline. */
static int left_ms(int64_t deadline_ns)
{
    if (!deadline_ns)
        return -1;
    int64_t left = deadline_ns - time_monotonic_ns();

    return left <= 0 ? 0 : (int)MIN(left / NSEC_PER_MSEC + 1, 1 << 30);
}

/* 1 = ready, 0 = the supervisor went away or time is up. */
static int wait_on_socket(int sock, int64_t deadline_ns)
{
    struct pollfd p = {.fd = sock, .events = POLLIN};
    char buf[8];

    return poll(&p, 1, left_ms(deadline_ns)) == 1 && read(sock, buf, sizeof(buf)) > 0;
}

int cmd_wait(int argc, char **argv)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    const char *run_dir = "/run/holt";
    int64_t timeout_ns = 60 * NSEC_PER_SEC;
    const struct option options[] = {
        {"run-dir", 0, OPTION_STRING, &run_dir, "DIR", "That of the holt to wait for (/run/holt)"},
        {"timeout", 0, OPTION_DURATION, &timeout_ns, "T", "Give up after that long (60s)"},
    };
    int rest;

    if (options_parse("holt wait [OPTIONS]\n\nWaits until a `holt up` that was started is ready; status 1 when it is "
                      "not in time.",
                      options, ARRAY_LEN(options), argc, argv, &rest, &err) < 0)
        return fail(EXIT_USAGE, &err);
    int64_t deadline = time_monotonic_ns() + timeout_ns;
    _cleanup_close_ int dir = mkdirs_at(AT_FDCWD, run_dir, 0755, &err);
    _cleanup_close_ int notify = inotify_init1(IN_CLOEXEC);
    if (dir < 0)
        return fail(EXIT_HOLT_FAILED, &err);
    if (notify < 0 || inotify_add_watch(notify, run_dir, IN_CREATE | IN_MOVED_TO) < 0)
        return failf(EXIT_HOLT_FAILED, "watch %s: %m", run_dir);
    while (left_ms(deadline) > 0) {
        _cleanup_close_ int sock = unix_connect_at(dir, "up.sock", NULL);
        if (sock >= 0 && wait_on_socket(sock, deadline))
            return 0;
        /* Not started yet, or started anew: its socket will appear. */
        struct pollfd p = {.fd = notify, .events = POLLIN};
        char events[4096];
        if (poll(&p, 1, left_ms(deadline)) == 1)
            (void)!read(notify, events, sizeof(events));
    }
    return failf(1, "no holt became ready in time with --run-dir %s", run_dir);
}
