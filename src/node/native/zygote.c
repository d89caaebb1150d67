/*
 * The zygote: see native.h. A request is one message of a seqpacket socket: a struct setup and its descriptors. The
 * answer is a struct answer with the pidfd and, after a failure, the text of the error.
 *
 * Sandboxes are made as children of the zygote's parent, so that whoever asked reaps.
 *
 * While there is nothing to do, the zygote makes network namespaces ahead: one costs as much as half a start.
 */
#include "base/fdio.h"
#include "base/memory.h"
#include "node/native/clone.h"
#include "node/native/netns.h"
#include "node/native/setup.h"
#include "node/native/sys.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define MESSAGE_MAX 65536
#define ERROR_TEXT_MAX 1024
#define NETNS_AHEAD 8 /* each takes about 150 KiB of the kernel's memory */

struct zygote {
    pid_t pid;
    int sock;
};

struct answer {
    int32_t pid; /* or -errno */
    char text[ERROR_TEXT_MAX];
};

static void answer(int sock, pid_t pid, int pidfd, const struct error *err)
{
    struct answer a = {.pid = pid};

    if (pid < 0)
        (void)snprintf(a.text, sizeof(a.text), "%s", error_text(err)); /* may be cut */
    /* When the other side is gone there is nobody to tell; the next receive ends the loop. */
    (void)fds_send(sock, &a, sizeof(a), &pidfd, pidfd >= 0, NULL);
}

struct netns_stock {
    int fds[NETNS_AHEAD];
    unsigned count;
};

/* Until the stock is full or a request waits. Failing, the sandbox makes its own and tells. */
static void fill_stock(struct netns_stock *stock, int sock)
{
    while (stock->count < NETNS_AHEAD) {
        struct pollfd p = {.fd = sock, .events = POLLIN};
        int fd = poll(&p, 1, 0) == 0 ? netns_next(NULL) : -1;
        if (fd < 0)
            return;
        stock->fds[stock->count++] = fd;
    }
}

/* fds has room for one more than nfds. */
static void serve_one(int sock, struct setup *s, size_t len, int *fds, size_t nfds, struct netns_stock *stock)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_close_ int pidfd = -1, net_ns = -1;
    int r = setup_check(s, len, nfds, &err);

    if (r == 0 && s->net_ns < 0 && stock->count) {
        net_ns = stock->fds[--stock->count];
        s->net_ns = (int32_t)nfds;
        fds[nfds] = net_ns;
    }
    if (r == 0)
        r = setup_clone(s, fds, true, true, &pidfd, &err);
    answer(sock, r, pidfd, &err);
}

static void zygote_main(int sock)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    int r = 0;

    (void)prctl(PR_SET_NAME, "holt-zygote"); /* for ps only */
    if (unshare(CLONE_NEWNS) < 0)
        r = error_set_errno(&err, errno, "create a mount namespace");
    if (r == 0)
        r = root_leave_host(&err);
    answer(sock, r, -1, &err);
    if (r < 0)
        return;

    void *message = xmalloc(MESSAGE_MAX);
    struct netns_stock stock = {.count = 0};
    for (;;) {
        int fds[FD_PASS_MAX + 1];
        fill_stock(&stock, sock);
        size_t nfds = 0;
        error_clear(&err);
        ssize_t n = fds_recv(sock, message, MESSAGE_MAX, fds, FD_PASS_MAX, &nfds, &err);
        if (n == 0 || n == -ECONNRESET)
            return;
        if (n < 0) { /* out of descriptors, say */
            answer(sock, (pid_t)n, -1, &err);
            continue;
        }
        serve_one(sock, message, (size_t)n, fds, nfds, &stock);
        for (size_t i = 0; i < nfds; i++)
            (void)close(fds[i]); /* the child has its own */
    }
}

/* The zygote keeps its end of the socket and nothing else of the process it was forked from. */
static void keep_only(int *sock)
{
    if (*sock != 3 && dup3(*sock, 3, O_CLOEXEC) < 0)
        _exit(1);
    *sock = 3;
    (void)syscall(SYS_close_range, 4, ~0u, 0); /* the kernels that have it are the ones we run on */
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; null >= 0 && fd < 2; fd++)
        (void)dup2(null, fd);
    if (null > 3)
        (void)close(null);
}

static int receive_answer(struct zygote *z, int *ret_pidfd, struct error *err)
{
    struct answer a;
    size_t nfds = 0;
    int pidfd = -1;
    ssize_t n = fds_recv(z->sock, &a, sizeof(a), &pidfd, 1, &nfds, err);

    if (n == 0 || n == -ECONNRESET)
        return error_set(err, ESRCH, "the zygote has ended");
    if (n < 0)
        return (int)n;
    *ret_pidfd = nfds ? pidfd : -1;
    if ((size_t)n != sizeof(a)) {
        if (nfds)
            (void)close(pidfd);
        return error_set(err, EBADMSG, "the zygote's answer is damaged");
    }
    a.text[sizeof(a.text) - 1] = '\0';
    return a.pid < 0 ? error_set(err, -a.pid, "%s", a.text) : a.pid;
}

struct zygote *zygote_start(struct error *err)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        error_set_errno(err, errno, "create the zygote's socket");
        return NULL;
    }
    pid_t pid = fork();
    if (pid == 0) {
        keep_only(&pair[1]);
        zygote_main(pair[1]);
        _exit(0);
    }
    int code = errno;
    (void)close(pair[1]); /* the child's end */
    if (pid < 0) {
        (void)close(pair[0]);
        error_set_errno(err, code, "fork the zygote");
        return NULL;
    }
    struct zygote *z = xcalloc(1, sizeof(*z));
    *z = (struct zygote){.pid = pid, .sock = pair[0]};
    int none = -1;
    if (receive_answer(z, &none, err) < 0) {
        error_wrap(err, "start the zygote");
        zygote_stop(z);
        return NULL;
    }
    return z;
}

static int send_request(struct zygote *z, const struct setup_plan *plan, struct error *err)
{
    if (plan->setup->size > MESSAGE_MAX)
        return error_set(err, E2BIG, "the description of the sandbox is longer than %d bytes", MESSAGE_MAX);
    int r = fds_send(z->sock, plan->setup, plan->setup->size, plan->fds, plan->setup->fd_count, err);
    return r == -EPIPE || r == -ECONNRESET ? error_set(err, ESRCH, "the zygote has ended") : r;
}

int zygote_spawn(struct zygote *z, const struct native_spec *spec, struct native_sandbox *ret, struct error *err)
{
    _cleanup_(setup_plan_done) struct setup_plan plan = {0};
    int r = setup_prepare(spec, &plan, err);
    if (r < 0)
        return error_wrap(err, "prepare sandbox %s", spec->id ? spec->id : "");

    int pidfd = -1;
    r = send_request(z, &plan, err);
    if (r == 0)
        r = receive_answer(z, &pidfd, err);
    if (r < 0) {
        if (pidfd >= 0)
            clone_reap(pidfd);
        (void)native_destroy(spec->id, 1000, NULL); /* the failure above is what counts */
        return error_wrap(err, "start sandbox %s", spec->id);
    }
    *ret = (struct native_sandbox){.pid = r, .pidfd = pidfd};
    return 0;
}

void zygote_stop(struct zygote *z)
{
    if (!z)
        return;
    (void)close(z->sock); /* it ends when it sees this */
    while (waitpid(z->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    free(z);
}
