#include "guest/process_io.h"

#include "base/macros.h"
#include "guest/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

/* musl knows the others. */
#ifndef TIOCGPTPEER
#define TIOCGPTPEER _IO('T', 0x41)
#endif

#define DEFAULT_ROWS 24
#define DEFAULT_COLS 80
/* A pipe holds at most this (fs.pipe-max-size): what comes later was written after the exit. */
#define AFTER_EXIT_MAX (1024 * 1024)
#define DRAIN_READS 64

static void output_ready(struct watch *w, uint32_t events);

static void close_fd(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

static int set_nonblocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? errno : 0;
}

static void input_ready(struct watch *w, uint32_t events);

static int watch_output(struct process *p, enum guest_stream stream, int fd)
{
    struct stream *s = &p->streams[stream];
    return watch_open(&s->watch, fd, EPOLLIN, output_ready) ? 0 : errno;
}

static int open_output(struct process *p, enum guest_stream stream)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return errno;
    p->spawn.stdio[1 + stream] = ends[1];
    int code = set_nonblocking(ends[0]); /* not the child's end, which programs expect to block */
    if (code == 0)
        code = watch_output(p, stream, ends[0]);
    if (code != 0)
        (void)close(ends[0]);
    return code;
}

static int open_input(struct process *p)
{
    if (!(p->flags & GUEST_FLAG_STDIN)) {
        p->spawn.stdio[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        return p->spawn.stdio[0] < 0 ? errno : 0;
    }
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return errno;
    p->spawn.stdio[0] = ends[0];
    int code = set_nonblocking(ends[1]);
    if (code == 0 && !watch_open(&p->input, ends[1], 0, input_ready))
        code = errno;
    if (code != 0)
        (void)close(ends[1]);
    return code;
}

static int open_terminal(struct process *p, uint32_t rows, uint32_t cols)
{
    int unlocked = 0;
    int *stdio = p->spawn.stdio;
    /* The terminal belongs to the user of the process, who may want to open it by name. */
    if (p->spawn.set_uid)
        (void)setfsuid(p->spawn.uid);
    int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    if (p->spawn.set_uid)
        (void)setfsuid(geteuid());
    if (master < 0)
        return errno;
    int code = watch_output(p, GUEST_STREAM_STDOUT, master);
    if (code != 0) {
        (void)close(master);
        return code;
    }
    if (ioctl(master, TIOCSPTLCK, &unlocked) < 0)
        return errno;
    stdio[0] = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (stdio[0] < 0)
        return errno;
    stdio[1] = fcntl(stdio[0], F_DUPFD_CLOEXEC, 3);
    stdio[2] = fcntl(stdio[0], F_DUPFD_CLOEXEC, 3);
    /* A second descriptor, so that reading and writing are watched apart. */
    int writing = fcntl(master, F_DUPFD_CLOEXEC, 3);
    if (stdio[1] < 0 || stdio[2] < 0 || writing < 0 || !watch_open(&p->input, writing, 0, input_ready)) {
        code = errno;
        close_fd(&writing);
        return code;
    }
    process_resize(p, rows, cols);
    return 0;
}

int process_io_open(struct process *p, uint32_t rows, uint32_t cols)
{
    if (p->flags & GUEST_FLAG_TTY)
        return open_terminal(p, rows, cols);
    int code = open_input(p);
    if (code == 0)
        code = open_output(p, GUEST_STREAM_STDOUT);
    if (code == 0)
        code = open_output(p, GUEST_STREAM_STDERR);
    return code;
}

void process_io_close_child(struct process *p)
{
    for (int i = 0; i < 3; i++)
        close_fd(&p->spawn.stdio[i]);
}

void process_io_close_input(struct process *p)
{
    watch_close(&p->input);
    guest_buffer_free(&p->pending);
}

void process_io_close(struct process *p)
{
    process_io_close_input(p);
    for (int i = 0; i < GUEST_STREAM_COUNT; i++) {
        watch_close(&p->streams[i].watch);
        ring_drop(&p->streams[i].ring);
    }
}

void process_resize(struct process *p, uint32_t rows, uint32_t cols)
{
    struct winsize size = {.ws_row = (unsigned short)(rows == 0 || rows > UINT16_MAX ? DEFAULT_ROWS : rows),
                           .ws_col = (unsigned short)(cols == 0 || cols > UINT16_MAX ? DEFAULT_COLS : cols)};
    int fd = p->streams[GUEST_STREAM_STDOUT].watch.fd;
    if ((p->flags & GUEST_FLAG_TTY) && fd >= 0)
        (void)ioctl(fd, TIOCSWINSZ, &size); /* of a terminal that is there, it succeeds */
}

/* Output. */

/* How many bytes may be read without taking anything from the one client that must lose nothing. */
static size_t readable(const struct stream *s)
{
    const struct connection *c = s->process->clients;
    if (c == NULL || c->next_client != NULL || !c->lossless)
        return GUEST_OUTPUT_CHUNK;
    uint64_t offset = c->offset[s - s->process->streams];
    if (offset < s->ring.start)
        offset = s->ring.start;
    uint64_t room = s->ring.max - (s->ring.end - offset);
    return room < GUEST_OUTPUT_CHUNK ? (size_t)room : GUEST_OUTPUT_CHUNK;
}

/* Nobody is told any more: the writers shall neither block nor die. Bytes read, 0 at the end, or -errno. */
static int discard(int fd)
{
    char scratch[4096];
    ssize_t n = read(fd, scratch, sizeof(scratch));
    return n < 0 ? -errno : (int)n;
}

/* One read. true when there may be more. */
static bool stream_read(struct stream *s)
{
    struct process *p = s->process;
    size_t limit = p->finished ? 0 : readable(s);
    if (!p->finished && limit == 0) {
        s->throttled = true;
        watch_events(&s->watch, 0);
        return false;
    }
    int n = p->finished ? discard(s->watch.fd) : ring_read(&s->ring, s->watch.fd, limit);
    if (n == -ENOMEM)
        n = discard(s->watch.fd);
    if (n == -EAGAIN || n == -EINTR)
        return false;
    if (n <= 0) { /* the end; of a terminal that nobody has open it is EIO */
        watch_close(&s->watch);
        return false;
    }
    if (p->flags & GUEST_FLAG_EXITED)
        s->after_exit += (uint32_t)n;
    return true;
}

static void pump_clients(struct process *p)
{
    for (struct connection *c = p->clients, *next; c != NULL; c = next) {
        next = c->next_client;
        connection_pump(c);
    }
}

static void output_ready(struct watch *w, uint32_t events)
{
    (void)events; /* an end or error shows when reading */
    struct stream *s = container_of(w, struct stream, watch);
    struct process *p = s->process;
    bool some = stream_read(s);
    if (p->finished) {
        if (s->watch.fd < 0)
            process_stream_ended(p);
        return;
    }
    if (some && p->started)
        pump_clients(p); /* may end their attachment, not the process */
    if (s->watch.fd < 0)
        process_stream_ended(p);
}

void process_io_drain(struct process *p)
{
    for (int i = 0; i < GUEST_STREAM_COUNT; i++) {
        struct stream *s = &p->streams[i];
        for (int reads = 0; reads < DRAIN_READS && s->watch.fd >= 0 && !s->throttled && stream_read(s); reads++)
            ;
    }
}

bool process_io_held(const struct process *p)
{
    for (int i = 0; i < GUEST_STREAM_COUNT; i++) {
        const struct stream *s = &p->streams[i];
        if (s->watch.fd >= 0 && s->throttled && s->after_exit < AFTER_EXIT_MAX)
            return true;
    }
    return false;
}

bool process_io_ended(const struct process *p)
{
    return p->streams[0].watch.fd < 0 && p->streams[1].watch.fd < 0;
}

void process_unthrottle(struct process *p)
{
    for (int i = 0; i < GUEST_STREAM_COUNT; i++) {
        struct stream *s = &p->streams[i];
        if (s->throttled && (p->finished || readable(s) > 0)) {
            s->throttled = false;
            watch_events(&s->watch, EPOLLIN);
        }
    }
}

/* Input. */

/* The end of the input: of a terminal, its end-of-file character; the line discipline makes an end of it. */
static void end_input(struct process *p)
{
    struct termios t;
    if (p->flags & GUEST_FLAG_TTY) {
        if (tcgetattr(p->input.fd, &t) == 0 && (t.c_lflag & ICANON))
            (void)write(p->input.fd, &t.c_cc[VEOF], 1); /* a full terminal is one that nobody reads */
        p->input_ends = false;
    } else {
        process_io_close_input(p);
    }
}

static void write_pending(struct process *p)
{
    while (guest_buffer_len(&p->pending) > 0) {
        ssize_t n = write(p->input.fd, p->pending.data + p->pending.start, guest_buffer_len(&p->pending));
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            watch_events(&p->input, EPOLLOUT);
            return;
        }
        if (n < 0) { /* it does not read any more: its right, and no error of the client */
            process_io_close_input(p);
            return;
        }
        guest_buffer_consume(&p->pending, (size_t)n);
    }
    watch_events(&p->input, 0);
    if (p->input_ends)
        end_input(p);
}

static void input_ready(struct watch *w, uint32_t events)
{
    (void)events;
    struct process *p = container_of(w, struct process, input);
    write_pending(p);
    if (process_input_waits(p))
        return;
    for (struct connection *c = p->clients, *next; c != NULL; c = next) {
        next = c->next_client;
        connection_resume(c);
    }
}

bool process_input_waits(const struct process *p)
{
    return guest_buffer_len(&p->pending) > 0;
}

void process_input(struct process *p, const void *data, size_t len)
{
    if (p->input.fd < 0 || p->input_ends)
        return;
    bool waits = process_input_waits(p);
    guest_buffer_add(&p->pending, data, len);
    if (p->pending.failed)
        process_io_close_input(p); /* without memory the process sees an end rather than a gap */
    else if (!waits)
        write_pending(p);
}

void process_input_end(struct process *p)
{
    if (p->input.fd < 0)
        return;
    if (process_input_waits(p))
        p->input_ends = true;
    else
        end_input(p);
}
