#include "cli/run_session.h"

#include "base/fdio.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "base/timeutil.h"
#include "cli/run_reaper.h"
#include "node/native/clone.h"
#include "wire/guest_request.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <termios.h>

#define STDIN_CHUNK (64 * 1024)
#define OUTPUT_CHUNK PIPE_BUF /* what a pipe that polls writable takes without blocking */
#define READ_CHUNK (64 * 1024)
#define HOST_TIMEOUT_SLACK_MS 1000 /* the guest keeps the time; a guest that does not is killed this much later */
#define DESTROY_TIMEOUT_MS 10000

struct output {
    int fd;
    bool is_file; /* takes any amount */
    bool broken;  /* nobody reads any more */
    struct guest_buffer pending;
};

struct loop {
    const struct run_session *session;
    const char *id;
    int sock, signals, pidfd;
    struct guest_buffer in, out;
    struct output outputs[GUEST_STREAM_COUNT];
    bool stdin_open;
    bool started, ended;
    int64_t deadline_ns; /* 0 = none */
    int status;
    bool timed_out;
};

static void loop_done(struct loop *l)
{
    guest_buffer_free(&l->in);
    guest_buffer_free(&l->out);
    for (int i = 0; i < GUEST_STREAM_COUNT; i++)
        guest_buffer_free(&l->outputs[i].pending);
    if (l->sock >= 0)
        (void)close(l->sock); /* the sandbox is gone by now */
    if (l->signals >= 0)
        (void)close(l->signals);
    if (l->pidfd >= 0)
        (void)close(l->pidfd); /* init reaps what the reaper has seen to its end */
}

/* Raw mode of the terminal we are on, so that its keys reach the one inside. */
static struct termios saved_terminal;
static bool terminal_is_raw;

static void terminal_raw(void)
{
    struct termios raw;

    if (tcgetattr(STDIN_FILENO, &saved_terminal) < 0)
        return; /* --tty without a terminal: nothing to set */
    raw = saved_terminal;
    cfmakeraw(&raw);
    terminal_is_raw = tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
}

static void terminal_restore(void)
{
    if (terminal_is_raw)
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &saved_terminal); /* there is no other way to bring it back */
    terminal_is_raw = false;
}

static void get_window(uint16_t *rows, uint16_t *cols)
{
    struct winsize w = {0};

    (void)ioctl(STDIN_FILENO, TIOCGWINSZ, &w); /* zeros stand for the default */
    *rows = w.ws_row;
    *cols = w.ws_col;
}

static int queue_start(struct loop *l, struct error *err)
{
    const struct run_session *s = l->session;
    struct guest_start_request request = {
        .argv = (const char *const *)s->argv,
        .env = (const char *const *)s->env,
        .cwd = s->workdir,
        .set_uid = s->user->uid != 0,
        .uid = s->user->uid,
        .set_gid = s->user->uid != 0 || s->user->gid != 0,
        .gid = s->user->gid,
        .groups = s->user->groups,
        .group_count = s->user->group_count,
        .flags = GUEST_FLAG_MAIN | GUEST_FLAG_LOSSLESS | (s->tty ? GUEST_FLAG_TTY : 0) |
                 (s->use_stdin ? GUEST_FLAG_STDIN : 0),
        .timeout_ms = s->timeout_ms,
    };
    if (s->tty)
        get_window(&request.rows, &request.cols);
    return guest_request_start(&l->out, &request, err);
}

static int open_signals(struct error *err)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGQUIT);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    sigaddset(&set, SIGWINCH);
    (void)signal(SIGPIPE, SIG_IGN); /* cannot fail */
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return error_set_errno(err, errno, "block signals");
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd >= 0 ? fd : error_set_errno(err, errno, "open a signal descriptor");
}

static void send_signal(struct loop *l, int sig)
{
    guest_frame_begin(&l->out, GUEST_SIGNAL);
    guest_put_number(&l->out, GUEST_TAG_SIGNAL, (uint64_t)sig);
    guest_put_number(&l->out, GUEST_TAG_SCOPE, GUEST_SCOPE_GROUP);
    guest_frame_end(&l->out);
}

static void take_signals(struct loop *l)
{
    struct signalfd_siginfo info;

    while (read(l->signals, &info, sizeof(info)) == sizeof(info)) {
        if (info.ssi_signo != SIGWINCH) {
            send_signal(l, (int)info.ssi_signo);
        } else if (l->session->tty) {
            uint16_t rows, cols;
            get_window(&rows, &cols);
            guest_frame_begin(&l->out, GUEST_RESIZE);
            guest_put_number(&l->out, GUEST_TAG_ROWS, rows);
            guest_put_number(&l->out, GUEST_TAG_COLS, cols);
            guest_frame_end(&l->out);
        }
    }
}

static void take_stdin(struct loop *l)
{
    char data[STDIN_CHUNK];
    ssize_t n = read(STDIN_FILENO, data, sizeof(data));

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0) {
        guest_frame_bytes(&l->out, GUEST_STDIN, data, (size_t)n);
        return;
    }
    l->stdin_open = false; /* an error is an end as well */
    guest_frame_bytes(&l->out, GUEST_STDIN_EOF, NULL, 0);
}

static int send_queued(struct loop *l, struct error *err)
{
    while (guest_buffer_len(&l->out)) {
        ssize_t n = send(l->sock, l->out.data + l->out.start, guest_buffer_len(&l->out), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EPIPE || errno == ECONNRESET))
            return 0; /* what the guest said before it went is still to be read */
        if (n < 0)
            return error_set_errno(err, errno, "send to the sandbox");
        guest_buffer_consume(&l->out, (size_t)n);
    }
    return l->out.failed ? error_set(err, ENOMEM, "no memory for the sandbox's input") : 0;
}

static void write_output(struct loop *l, struct output *o)
{
    size_t len = guest_buffer_len(&o->pending);
    ssize_t n = write(o->fd, o->pending.data + o->pending.start, o->is_file ? len : MIN(len, OUTPUT_CHUNK));

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n < 0) { /* as the command would have learned, had it written there itself */
        o->broken = true;
        guest_buffer_consume(&o->pending, len);
        send_signal(l, SIGPIPE);
        return;
    }
    guest_buffer_consume(&o->pending, (size_t)n);
}

static bool has_pending_output(const struct loop *l)
{
    return guest_buffer_len(&l->outputs[0].pending) || guest_buffer_len(&l->outputs[1].pending);
}

static void take_error(struct loop *l, const struct guest_reply *reply)
{
    l->status = reply->error.code == ENOENT                                   ? RUN_STATUS_NOT_FOUND
                : reply->error.code == EACCES || reply->error.code == ENOEXEC ? RUN_STATUS_CANNOT_EXECUTE
                                                                              : 125;
    fprintf(stderr, "holt run: %s\n", reply->error.text);
    l->ended = true;
}

static void take_reply(struct loop *l, const struct guest_reply *reply)
{
    switch (reply->type) {
    case GUEST_STARTED:
        l->started = true;
        break;
    case GUEST_STDOUT:
    case GUEST_STDERR: {
        struct output *o = &l->outputs[reply->output.stream];
        if (!o->broken)
            guest_buffer_add(&o->pending, reply->output.data, reply->output.len);
        break;
    }
    case GUEST_DROPPED:
        fprintf(stderr, "holt run: %llu bytes of output were lost\n", (unsigned long long)reply->dropped.bytes);
        break;
    case GUEST_EXIT:
        l->status = reply->exit.timed_out ? RUN_STATUS_TIMEOUT : reply->exit.code;
        l->timed_out = reply->exit.timed_out;
        l->ended = true;
        break;
    case GUEST_ERROR:
        take_error(l, reply);
        break;
    default:
        break; /* none of ours; the parser has refused what no guest may send */
    }
}

static int take_frames(struct loop *l, struct error *err)
{
    while (!l->ended) {
        struct guest_frame frame;
        size_t size;
        int r = guest_frame_parse(l->in.data + l->in.start, guest_buffer_len(&l->in), GUEST_REPLY_MAX, &frame, &size);
        if (r == 0)
            return 0;
        if (r < 0)
            return error_set(err, EPROTO, "the sandbox's first process does not keep to the protocol");
        struct guest_reply reply;
        r = guest_reply_parse(&frame, &reply, err);
        if (r < 0)
            return r;
        take_reply(l, &reply);
        guest_reply_free(&reply);
        guest_buffer_consume(&l->in, size);
    }
    return 0;
}

/* Returns 0 at the end of the stream, 1 otherwise. */
static int receive(struct loop *l, struct error *err)
{
    if (!guest_buffer_reserve(&l->in, READ_CHUNK))
        return error_set(err, ENOMEM, "no memory for the sandbox's output");
    ssize_t n = recv(l->sock, l->in.data + l->in.end, READ_CHUNK, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 1;
    if (n < 0 && errno != ECONNRESET)
        return error_set_errno(err, errno, "receive from the sandbox");
    if (n <= 0)
        return 0;
    l->in.end += (size_t)n;
    int r = take_frames(l, err);
    return r < 0 ? r : 1;
}

static int poll_timeout(const struct loop *l)
{
    if (!l->deadline_ns)
        return -1;
    int64_t left = (l->deadline_ns - time_monotonic_ns()) / NSEC_PER_MSEC + 1;
    return (int)MAX(MIN(left, INT_MAX), 0);
}

enum { POLL_SOCK, POLL_SIGNALS, POLL_STDIN, POLL_STDOUT, POLL_STDERR, POLL_COUNT };

/* Until the command's end is known, or the sandbox has gone. */
static int serve(struct loop *l, struct error *err)
{
    while (!l->ended) {
        bool output = has_pending_output(l), input = guest_buffer_len(&l->out) > 0;
        struct pollfd p[POLL_COUNT] = {
            [POLL_SOCK] = {.fd = l->sock, .events = (short)((output ? 0 : POLLIN) | (input ? POLLOUT : 0))},
            [POLL_SIGNALS] = {.fd = l->signals, .events = POLLIN},
            [POLL_STDIN] = {.fd = l->stdin_open && guest_buffer_len(&l->out) < STDIN_CHUNK ? STDIN_FILENO : -1,
                            .events = POLLIN},
            [POLL_STDOUT] = {.fd = guest_buffer_len(&l->outputs[0].pending) ? STDOUT_FILENO : -1, .events = POLLOUT},
            [POLL_STDERR] = {.fd = guest_buffer_len(&l->outputs[1].pending) ? STDERR_FILENO : -1, .events = POLLOUT},
        };
        int n = poll(p, POLL_COUNT, poll_timeout(l));
        if (n < 0 && errno != EINTR)
            return error_set_errno(err, errno, "poll");
        if (l->deadline_ns && time_monotonic_ns() >= l->deadline_ns) {
            l->status = RUN_STATUS_TIMEOUT;
            l->timed_out = l->ended = true;
            break;
        }
        if (n <= 0)
            continue;
        if (p[POLL_SIGNALS].revents)
            take_signals(l);
        for (int i = 0; i < GUEST_STREAM_COUNT; i++)
            if (p[POLL_STDOUT + i].revents)
                write_output(l, &l->outputs[i]);
        if (p[POLL_STDIN].revents)
            take_stdin(l);
        int r = send_queued(l, err);
        if (r == 0 && !output && p[POLL_SOCK].revents & (POLLIN | POLLHUP | POLLERR)) {
            r = receive(l, err);
            if (r == 0)
                return 0;
        }
        if (r < 0)
            return r;
    }
    return 0;
}

/* What came before the end is shown, however slowly it is read. */
static void flush_output(struct loop *l)
{
    for (int i = 0; i < GUEST_STREAM_COUNT; i++) {
        struct output *o = &l->outputs[i];
        while (guest_buffer_len(&o->pending) && !l->timed_out) {
            struct pollfd p = {.fd = o->fd, .events = POLLOUT};
            if (poll(&p, 1, -1) == 1)
                write_output(l, o);
        }
    }
}

static void tell_size(char *out, size_t size, uint64_t bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB"};
    unsigned u = 0;
    double value = (double)bytes;

    for (; value >= 1024 && u + 1 < ARRAY_LEN(units); u++)
        value /= 1024;
    (void)snprintf(out, size, u ? "%.1f %s" : "%.0f %s", value, units[u]);
}

/* Why it ended, when that is not the command's own doing. */
static void tell_cause(struct loop *l)
{
    struct native_usage usage = {0};

    if (l->timed_out)
        fprintf(stderr, "holt run: the time limit of %.3g s is over; all processes were killed\n",
                (double)l->session->timeout_ms / 1000);
    if (!l->session->memory_limit || native_usage(l->id, &usage, NULL) < 0 || !usage.oom_kills)
        return;
    char limit[32], peak[32];
    tell_size(limit, sizeof(limit), l->session->memory_limit);
    tell_size(peak, sizeof(peak), usage.memory_peak_bytes);
    fprintf(stderr, "holt run: out of memory: the kernel killed %llu process(es) at the limit of %s (peak %s)\n",
            (unsigned long long)usage.oom_kills, limit, peak);
    if (!l->ended) { /* the guest itself was the victim */
        l->ended = true;
        l->status = 128 + SIGKILL;
    }
}

static void set_output(struct output *o, int fd)
{
    struct stat st;

    o->fd = fd;
    o->is_file = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    o->broken = fcntl(fd, F_GETFD) < 0; /* started with it closed */
}

/* Whether anything but the guest still runs, or may. */
static bool others_run(const struct loop *l)
{
    uint64_t pids;

    return native_pids(l->id, &pids, NULL) < 0 || pids != 1;
}

/*
 * The end of the first process is the end of all. When it is the only one left, its going is of no interest to the
 * caller: the reaper sees to the rest, which is some hundred microseconds of taking mounts apart. Otherwise nothing may
 * run any more when we return.
 */
static int end_sandbox(struct loop *l, struct error *err)
{
    bool wait = !l->ended || l->timed_out || others_run(l);

    (void)syscall(SYS_pidfd_send_signal, l->pidfd, SIGKILL, NULL, 0); /* fails when it is gone */
    if (!wait)
        return 0;
    clone_reap(l->pidfd);
    l->pidfd = -1;
    return native_destroy(l->id, DESTROY_TIMEOUT_MS, err);
}

static int serve_and_end(struct loop *l, struct error *err)
{
    int r = serve(l, err);

    if (r == 0)
        flush_output(l);
    terminal_restore();
    if (r == 0)
        tell_cause(l);
    if (r == 0 && !l->ended)
        r = error_set(err, ECONNRESET, "the sandbox ended unexpectedly");
    int end = end_sandbox(l, r < 0 ? NULL : err);
    return r < 0 ? r : end < 0 ? end : l->status;
}

static int start(struct loop *l, struct native_spec *spec, struct error *err)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return error_set_errno(err, errno, "create the sandbox's socket");
    _cleanup_close_ int guest_end = pair[1];
    l->sock = pair[0];
    spec->guest_socket = guest_end;
    int r = send_queued(l, err); /* so that the guest finds it when it looks */
    struct native_sandbox sandbox;
    if (r == 0)
        r = native_spawn(spec, &sandbox, err);
    if (r < 0)
        return r;
    l->pidfd = sandbox.pidfd;
    r = run_reaper_start(l->id, l->pidfd, l->session->range, err);
    if (r < 0)
        (void)end_sandbox(l, NULL); /* the failure above is what counts */
    return r;
}

int run_session(const struct run_session *session, struct native_spec *spec, struct error *err)
{
    _cleanup_(loop_done) struct loop loop = {
        .session = session, .id = spec->id, .sock = -1, .signals = -1, .pidfd = -1, .stdin_open = session->use_stdin};

    for (int i = 0; i < GUEST_STREAM_COUNT; i++)
        set_output(&loop.outputs[i], STDOUT_FILENO + i);
    int r = queue_start(&loop, err);
    if (r < 0)
        return r;
    loop.signals = open_signals(err);
    if (loop.signals < 0)
        return loop.signals;
    r = start(&loop, spec, err);
    if (r < 0)
        return r;
    if (session->timeout_ms)
        loop.deadline_ns = time_monotonic_ns() + (int64_t)(session->timeout_ms + HOST_TIMEOUT_SLACK_MS) * NSEC_PER_MSEC;
    if (session->tty)
        terminal_raw();
    return serve_and_end(&loop, err);
}
