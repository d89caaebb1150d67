#include "guest/connection.h"

#include "base/macros.h"
#include "guest/lifecycle.h"
#include "guest/relay.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* Frames of output to one client before others get their turn. */
#define FRAMES_PER_TURN 8
#define READ_MIN 512

static struct connection *connections;

static void connection_close(struct connection *c)
{
    struct connection **at = &connections;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    if (c->process != NULL)
        process_detach(c->process, c);
    watch_close(&c->watch);
    guest_buffer_free(&c->in);
    guest_buffer_free(&c->out);
    free(c);
    if (connections == NULL && lifecycle_is_single())
        lifecycle_abandoned();
}

bool connection_any_busy(void)
{
    for (struct connection *c = connections; c != NULL; c = c->next) {
        if (c->state == CONNECTION_ATTACHED || c->state == CONNECTION_CLOSING || c->state == CONNECTION_LINGER)
            return true;
    }
    return false;
}

/* What to wait for: room to write, frames unless its process has input to take first, and always the client's end. */
static void wait_more(struct connection *c, bool more_to_write)
{
    bool paused = c->state == CONNECTION_ATTACHED && c->process != NULL && process_input_waits(c->process);
    watch_events(&c->watch, (paused ? EPOLLRDHUP : EPOLLIN) | (more_to_write ? EPOLLOUT : 0));
}

/* Writing. */

/* 1: all is written. 0: the socket is full. -1: the client is gone. */
static int flush(struct connection *c)
{
    if (c->out.failed)
        return -1;
    while (guest_buffer_len(&c->out) > 0) {
        ssize_t n = write(c->watch.fd, c->out.data + c->out.start, guest_buffer_len(&c->out));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN ? 0 : -1;
        guest_buffer_consume(&c->out, (size_t)n);
    }
    return 1;
}

/* A frame of output straight from the ring; what the socket does not take is copied, as the ring may move on. */
static int send_output(struct connection *c, int stream)
{
    const struct ring *r = &c->process->streams[stream].ring;
    uint8_t header[GUEST_OUTPUT_HEADER_SIZE];
    struct iovec v[3] = {{.iov_base = header, .iov_len = sizeof(header)}};
    size_t len = ring_peek(r, c->offset[stream], GUEST_OUTPUT_CHUNK, v + 1);
    guest_output_header(header, (enum guest_stream)stream, c->offset[stream], len);
    ssize_t n = writev(c->watch.fd, v, v[2].iov_len > 0 ? 3 : 2);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        n = 0;
    if (n < 0)
        return -1;
    if (n == 0)
        return 0; /* nothing is out yet, so the ring may still overtake */
    c->offset[stream] += len;
    size_t done = (size_t)n;
    for (int i = 0; i < 3; i++) {
        size_t skip = done < v[i].iov_len ? done : v[i].iov_len;
        if (v[i].iov_len > skip)
            guest_buffer_add(&c->out, (uint8_t *)v[i].iov_base + skip, v[i].iov_len - skip);
        done -= skip;
    }
    return guest_buffer_len(&c->out) == 0 && !c->out.failed;
}

/* What the ring dropped before this client took it is told. */
static void tell_gap(struct connection *c, int stream)
{
    const struct ring *r = &c->process->streams[stream].ring;
    uint64_t *offset = &c->offset[stream];
    if (*offset >= r->start)
        return;
    guest_frame_begin(&c->out, GUEST_DROPPED);
    guest_put_number(&c->out, GUEST_TAG_STREAM, (uint64_t)stream);
    guest_put_number(&c->out, GUEST_TAG_BYTES, r->start - *offset);
    guest_frame_end(&c->out);
    *offset = r->start;
}

static void put_started(struct connection *c)
{
    guest_frame_begin(&c->out, GUEST_STARTED);
    guest_put_text(&c->out, GUEST_TAG_ID, c->process->id);
    guest_put_number(&c->out, GUEST_TAG_PID, (uint64_t)c->process->pid);
    guest_frame_end(&c->out);
    c->announced = true;
}

static void put_exit(struct connection *c)
{
    const struct process *p = c->process;
    guest_frame_begin(&c->out, GUEST_EXIT);
    guest_put_number(&c->out, GUEST_TAG_CODE, (uint64_t)p->code);
    guest_put_number(&c->out, GUEST_TAG_SIGNAL, (uint64_t)p->sig);
    guest_put_number(&c->out, GUEST_TAG_FLAGS, p->flags & GUEST_FLAG_TIMED_OUT);
    guest_frame_end(&c->out);
    c->exit_given = true;
    c->state = CONNECTION_CLOSING;
}

/* Output from the rings to the socket. As flush; *ret_more when it stopped for the sake of others. */
static int send_attached(struct connection *c, bool *ret_more)
{
    int r = 1;
    *ret_more = false;
    if (!c->process->started)
        return 1;
    if (!c->announced)
        put_started(c);
    for (int frames = 0; r > 0; frames++) {
        for (int i = 0; i < GUEST_STREAM_COUNT; i++)
            tell_gap(c, i);
        r = flush(c);
        bool some = false;
        for (int i = 0; i < GUEST_STREAM_COUNT && r > 0; i++) {
            if (c->offset[i] == c->process->streams[i].ring.end)
                continue;
            some = true;
            r = send_output(c, i);
        }
        if (!some)
            break;
        *ret_more = r > 0 && frames + 1 == FRAMES_PER_TURN;
        if (*ret_more)
            break;
    }
    process_unthrottle(c->process);
    return r;
}

static void written(struct connection *c)
{
    struct process *p = c->process;
    /* A client that saw the main process end closes; only then the sandbox may go, as it takes the answer along. */
    if (c->exit_given && (p->flags & GUEST_FLAG_MAIN)) {
        c->state = CONNECTION_LINGER;
        wait_more(c, false);
        return;
    }
    if (c->exit_given)
        process_told(p);
    connection_close(c);
}

void connection_pump(struct connection *c)
{
    bool more = false;
    int r = flush(c);
    if (r > 0 && c->state == CONNECTION_ATTACHED) {
        r = send_attached(c, &more);
        if (r > 0 && !more && c->process->finished && c->announced) {
            put_exit(c);
            r = flush(c);
        }
    }
    if (r < 0)
        connection_close(c);
    else if (r > 0 && c->state == CONNECTION_CLOSING)
        written(c);
    else if (c->state == CONNECTION_LINGER)
        wait_more(c, false);
    else
        wait_more(c, r == 0 || more);
}

/* Answers. */

static void put_error(struct connection *c, int code, const char *text)
{
    guest_frame_begin(&c->out, GUEST_ERROR);
    guest_put_number(&c->out, GUEST_TAG_CODE, (uint64_t)code);
    guest_put_text(&c->out, GUEST_TAG_TEXT, text != NULL ? text : strerror(code));
    guest_frame_end(&c->out);
    c->state = CONNECTION_CLOSING;
}

static void put_done(struct connection *c)
{
    guest_frame_begin(&c->out, GUEST_DONE);
    guest_frame_end(&c->out);
    c->state = CONNECTION_CLOSING;
}

void connection_failed(struct connection *c, const struct failure *why)
{
    process_detach(c->process, c);
    put_error(c, why->code, why->text);
    connection_pump(c);
}

void connection_finish_shutdown(void)
{
    for (struct connection *c = connections, *next; c != NULL; c = next) {
        next = c->next;
        if (c->state == CONNECTION_SHUTDOWN) {
            put_done(c);
            connection_pump(c);
        }
    }
}

/* Requests. */

static void request_ping(struct connection *c)
{
    guest_frame_begin(&c->out, GUEST_PONG);
    guest_put_number(&c->out, GUEST_TAG_VERSION, GUEST_PROTOCOL_VERSION);
    guest_put_number(&c->out, GUEST_TAG_COUNT, process_count_running());
    guest_frame_end(&c->out);
    c->state = CONNECTION_CLOSING;
}

static void request_list(struct connection *c)
{
    for (const struct process *p = process_first(); p != NULL; p = p->next) {
        if (!p->started)
            continue;
        guest_frame_begin(&c->out, GUEST_PROCESS);
        guest_put_text(&c->out, GUEST_TAG_ID, p->id);
        guest_put_number(&c->out, GUEST_TAG_PID, (uint64_t)p->pid);
        guest_put_number(&c->out, GUEST_TAG_FLAGS, p->flags);
        guest_put_number(&c->out, GUEST_TAG_STARTED_MS, (uint64_t)p->started_ms);
        if (p->flags & GUEST_FLAG_EXITED) {
            guest_put_number(&c->out, GUEST_TAG_CODE, (uint64_t)p->code);
            guest_put_number(&c->out, GUEST_TAG_SIGNAL, (uint64_t)p->sig);
        }
        guest_buffer_add(&c->out, p->args.data + p->args.start, guest_buffer_len(&p->args));
        guest_frame_end(&c->out);
    }
    put_done(c);
}

static void attach(struct connection *c, struct process *p, uint32_t flags)
{
    c->state = CONNECTION_ATTACHED;
    c->takes_input = flags & GUEST_FLAG_STDIN;
    c->lossless = flags & GUEST_FLAG_LOSSLESS;
    process_attach(p, c);
}

static void request_start(struct connection *c, const struct guest_frame *frame, const struct guest_fields *fields)
{
    struct failure why = {0};
    struct process *p = process_start(frame, fields, &why);
    if (p != NULL)
        attach(c, p, (uint32_t)guest_number(fields, GUEST_TAG_FLAGS, 0));
    else
        put_error(c, why.code, why.text);
    failure_clear(&why);
}

static struct process *find_process(struct connection *c, const struct guest_fields *fields)
{
    const struct guest_value *id = &fields->value[GUEST_TAG_ID];
    struct process *p = guest_has(fields, GUEST_TAG_ID) ? process_find((const char *)id->data, id->len) : NULL;
    if (p == NULL)
        put_error(c, ESRCH, "no process with this id");
    return p;
}

static void request_attach(struct connection *c, const struct guest_fields *fields)
{
    struct process *p = find_process(c, fields);
    if (p == NULL)
        return;
    c->offset[GUEST_STREAM_STDOUT] = guest_number(fields, GUEST_TAG_STDOUT_OFFSET, 0);
    c->offset[GUEST_STREAM_STDERR] = guest_number(fields, GUEST_TAG_STDERR_OFFSET, 0);
    for (int i = 0; i < GUEST_STREAM_COUNT; i++) {
        if (c->offset[i] > p->streams[i].ring.end)
            c->offset[i] = p->streams[i].ring.end;
    }
    attach(c, p, (uint32_t)guest_number(fields, GUEST_TAG_FLAGS, 0));
}

/* 0 or errno. */
static int read_signal(const struct guest_fields *fields, int *ret_sig, enum guest_scope *ret_scope)
{
    uint64_t sig = guest_number(fields, GUEST_TAG_SIGNAL, 0), scope = guest_number(fields, GUEST_TAG_SCOPE, 0);
    if (sig == 0 || sig >= (uint64_t)_NSIG || scope > GUEST_SCOPE_TREE)
        return EINVAL;
    *ret_sig = (int)sig;
    *ret_scope = (enum guest_scope)scope;
    return 0;
}

static void request_signal(struct connection *c, const struct guest_fields *fields)
{
    const struct guest_value *id = &fields->value[GUEST_TAG_ID];
    enum guest_scope scope;
    int sig;
    int code = read_signal(fields, &sig, &scope);
    if (code != 0) {
        put_error(c, code, "no such signal or scope");
        return;
    }
    if (guest_has(fields, GUEST_TAG_ID) && id->len == 1 && id->data[0] == GUEST_ID_ALL[0]) {
        lifecycle_signal_all(sig);
        put_done(c);
        return;
    }
    struct process *p = find_process(c, fields);
    if (p == NULL)
        return;
    code = process_signal(p, sig, scope);
    if (code == 0)
        put_done(c);
    else
        put_error(c, code, code == ESRCH ? "the process has ended" : NULL);
}

/* The relay goes on with the socket; what follows the request belongs to it. */
static void request_connect(struct connection *c, const struct guest_frame *frame, const struct guest_fields *fields)
{
    const uint8_t *early = frame->payload + frame->len, *end = c->in.data + c->in.end;
    int code = relay_open(c->watch.fd, guest_number(fields, GUEST_TAG_PORT, 0), early, (size_t)(end - early));
    if (code != 0) {
        put_error(c, code, NULL);
        return;
    }
    c->in.end = (size_t)(early - c->in.data);
    c->state = CONNECTION_CLOSING;
}

static bool handle_request(struct connection *c, const struct guest_frame *frame)
{
    struct guest_fields fields;
    if (guest_fields_parse(frame, &fields) < 0)
        return false;
    switch (frame->type) {
    case GUEST_PING:
        request_ping(c);
        return true;
    case GUEST_START:
        request_start(c, frame, &fields);
        return true;
    case GUEST_ATTACH:
        request_attach(c, &fields);
        return true;
    case GUEST_LIST:
        request_list(c);
        return true;
    case GUEST_SIGNAL:
        request_signal(c, &fields);
        return true;
    case GUEST_CONNECT:
        request_connect(c, frame, &fields);
        return true;
    case GUEST_SHUTDOWN:
        c->state = CONNECTION_SHUTDOWN;
        lifecycle_shutdown(guest_number(&fields, GUEST_TAG_GRACE_MS, 0));
        return true;
    default:
        return false;
    }
}

static bool handle_attached(struct connection *c, const struct guest_frame *frame)
{
    struct guest_fields fields;
    enum guest_scope scope;
    int sig;
    if (frame->type == GUEST_STDIN) {
        if (c->takes_input)
            process_input(c->process, frame->payload, frame->len);
        return c->takes_input;
    }
    if (guest_fields_parse(frame, &fields) < 0)
        return false;
    switch (frame->type) {
    case GUEST_STDIN_EOF:
        if (c->takes_input)
            process_input_end(c->process);
        return c->takes_input;
    case GUEST_RESIZE:
        process_resize(c->process, (uint32_t)guest_number(&fields, GUEST_TAG_ROWS, 0),
                       (uint32_t)guest_number(&fields, GUEST_TAG_COLS, 0));
        return true;
    case GUEST_SIGNAL:
        if (read_signal(&fields, &sig, &scope) != 0)
            return false;
        (void)process_signal(c->process, sig, scope); /* it may have ended already: its end is on the way */
        return true;
    default:
        return false;
    }
}

static bool handle_frame(struct connection *c, const struct guest_frame *frame)
{
    switch (c->state) {
    case CONNECTION_REQUEST:
        return handle_request(c, frame);
    case CONNECTION_ATTACHED:
        return handle_attached(c, frame);
    case CONNECTION_SHUTDOWN:
        return false;
    default: /* what crossed our answer */
        return true;
    }
}

/* Takes whole frames from the input, then writes what they caused. */
static void handle_frames(struct connection *c)
{
    struct guest_frame frame;
    size_t size;
    int r = 1;
    while (!(c->state == CONNECTION_ATTACHED && process_input_waits(c->process))) {
        r = guest_frame_parse(c->in.data + c->in.start, guest_buffer_len(&c->in), GUEST_PAYLOAD_MAX, &frame, &size);
        if (r > 0 && !handle_frame(c, &frame))
            r = -EPROTO;
        if (r <= 0)
            break;
        guest_buffer_consume(&c->in, size);
    }
    if (r < 0) {
        guest_buffer_free(&c->in);
        if (c->process != NULL)
            process_detach(c->process, c);
        put_error(c, EPROTO, "frame that is not of the guest protocol, or not expected here");
    }
    connection_pump(c);
}

void connection_resume(struct connection *c)
{
    handle_frames(c);
}

/* How much to ask for: the rest of the frame that has begun. */
static size_t wanted(const struct connection *c)
{
    struct guest_frame frame;
    size_t size;
    size_t have = guest_buffer_len(&c->in);
    int r = guest_frame_parse(c->in.data + c->in.start, have, GUEST_PAYLOAD_MAX, &frame, &size);
    return r == 0 && size - have > READ_MIN ? size - have : READ_MIN;
}

static void connection_ready(struct watch *w, uint32_t events)
{
    struct connection *c = container_of(w, struct connection, watch);
    if (!(events & EPOLLIN) && (events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP))) {
        connection_close(c);
        return;
    }
    if (!(events & EPOLLIN)) {
        connection_pump(c);
        return;
    }
    if (!guest_buffer_reserve(&c->in, wanted(c))) {
        connection_close(c);
        return;
    }
    ssize_t n = read(w->fd, c->in.data + c->in.end, c->in.size - c->in.end);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        /* A client that closed after the end read it; one that broke off did not. */
        if (c->state == CONNECTION_LINGER && n == 0)
            process_told(c->process);
        connection_close(c);
        return;
    }
    c->in.end += (size_t)n;
    handle_frames(c);
}

bool connection_open(int fd)
{
    struct connection *c = calloc(1, sizeof(*c));
    if (c == NULL || !watch_open(&c->watch, fd, EPOLLIN, connection_ready)) {
        free(c);
        (void)close(fd);
        return false;
    }
    c->next = connections;
    connections = c;
    return true;
}
