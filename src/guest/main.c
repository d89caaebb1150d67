/*
 * holt-guest: the first process of a sandbox. It reaps, runs what the host asks for, and keeps the output.
 *
 * Contract of the start. Descriptor 3 is a unix stream socket: listening, and every connection is an operation of
 * wire/guest_frame.h; or connected, and it carries one operation, a process started by it is the main one, and the
 * guest ends with it or when the connection is lost. There is no environment. The argument, when there is one, is a
 * mask of capabilities in hexadecimal: processes get no others. The file system, the namespaces, the limits and the
 * guest's own capabilities are as the maker of the sandbox left them; KILL, SETUID and SETGID are used. /proc,
 * /dev/null, /dev/ptmx and a devpts are needed.
 *
 * Nothing inside the sandbox can stop it: as pid 1 it gets no signal it has no handler for, it is not dumpable, so it
 * is not traced or read, and no input from inside is parsed but /proc.
 */
#include "guest/connection.h"
#include "guest/lifecycle.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SOCKET_FD 3
#define ACCEPT_AGAIN_MS 50
#define EXIT_BAD_START 125

static struct watch listener = WATCH_NONE;
static struct watch children = WATCH_NONE;
static struct timer accept_timer;
static bool nothing_to_reap = true;

static void child_ended(struct watch *w, uint32_t events)
{
    (void)events;
    struct signalfd_siginfo info;
    while (read(w->fd, &info, sizeof(info)) > 0) /* they are merged anyway: waitpid tells which */
        ;
    nothing_to_reap = process_reap_all();
}

static void accept_again(struct timer *t)
{
    (void)t;
    watch_events(&listener, EPOLLIN);
}

static void accept_connection(struct watch *w, uint32_t events)
{
    (void)events;
    int fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0)
        fd = connection_open(fd) ? fd : -1;
    else if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
        return;
    if (fd < 0) { /* no descriptors or no memory: the queue would wake us at once, again and again */
        watch_events(w, 0);
        timer_set(&accept_timer, ACCEPT_AGAIN_MS, accept_again);
    }
}

static bool open_sockets(void)
{
    int listening = 0;
    socklen_t len = sizeof(listening);
    int flags = fcntl(SOCKET_FD, F_GETFL);
    if (flags < 0 || getsockopt(SOCKET_FD, SOL_SOCKET, SO_ACCEPTCONN, &listening, &len) < 0 ||
        fcntl(SOCKET_FD, F_SETFL, flags | O_NONBLOCK) < 0 || fcntl(SOCKET_FD, F_SETFD, FD_CLOEXEC) < 0)
        return false;
    if (listening)
        return watch_open(&listener, SOCKET_FD, EPOLLIN, accept_connection);
    lifecycle_single();
    return connection_open(SOCKET_FD);
}

static bool watch_children(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    if (sigprocmask(SIG_SETMASK, &set, NULL) < 0)
        return false;
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd >= 0 && watch_open(&children, fd, EPOLLIN, child_ended);
}

static bool prepare(void)
{
    if (prctl(PR_SET_DUMPABLE, 0) < 0)
        return false;
    (void)syscall(SYS_close_range, SOCKET_FD + 1, ~0u, 0); /* an emulated kernel may lack it; all are close-on-exec */
    /*
     * Children inherit what is ignored. By the system call itself: the C library keeps 32 to 34 for its own use and
     * would not touch them. SIGKILL and SIGSTOP refuse.
     */
    static const unsigned long defaults[4]; /* handler SIG_DFL, no flags, no restorer, empty mask */
    for (int sig = 1; sig < _NSIG; sig++)
        (void)syscall(SYS_rt_sigaction, sig, defaults, NULL, sizeof(defaults[0]));
    (void)signal(SIGPIPE, SIG_IGN);
    if (getpid() != 1)
        (void)prctl(PR_SET_CHILD_SUBREAPER, 1); /* else orphans come to us anyway */
    for (int fd; (fd = open("/dev/null", O_RDWR)) >= 0;) {
        if (fd > 2) { /* 0 to 2 are there, so that no pipe of a process gets their numbers */
            (void)close(fd);
            break;
        }
    }
    spawn_raise_files();
    return chdir("/") == 0 && loop_init() && watch_children() && open_sockets();
}

int main(int argc, char **argv)
{
    int code = 0;
    if (argc > 1)
        spawn_limit_caps(strtoull(argv[1], NULL, 16));
    if (!prepare())
        return EXIT_BAD_START;
    do
        loop_turn();
    while (!lifecycle_over(nothing_to_reap && process_count_running() == 0, &code));
    return code;
}
