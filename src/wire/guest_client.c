#include "wire/guest_client.h"

#include "base/memory.h"
#include "base/timeutil.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

struct guest_client {
    struct bufferevent *bev;
    const struct guest_callbacks *callbacks;
    void *arg;
    enum guest_frame_type operation;
    bool started;  /* the answer to start or attach is here */
    bool ended;    /* the last callback was made */
    bool paused;   /* no further callback for now */
    bool entered;  /* inside a callback: freeing waits */
    bool released; /* to be freed when the callback returns */
    bool full;     /* input was queued since drained was last called */
    bool gone;     /* the guest closed its end; frames that came before may still wait here */
};

#define CALL(c, name, ...)                                                                                             \
    do {                                                                                                               \
        if ((c)->callbacks->name != NULL)                                                                              \
            (c)->callbacks->name((c)->arg, ##__VA_ARGS__);                                                             \
    } while (0)

/* Nothing follows: the connection is closed at once, so that an ended client holds no descriptor. */
static void end(struct guest_client *c)
{
    c->ended = true;
    if (c->bev != NULL) {
        bufferevent_free(c->bev);
        c->bev = NULL;
    }
}

static void fail(struct guest_client *c, struct error *err)
{
    end(c);
    CALL(c, failed, err);
    error_clear(err);
}

/* Which answers an operation may get, and when. */
static bool expected(const struct guest_client *c, enum guest_frame_type type)
{
    bool attaches = c->operation == GUEST_START || c->operation == GUEST_ATTACH;
    switch (type) {
    case GUEST_ERROR:
        return true; /* after the start too: the guest ends what it cannot go on with */
    case GUEST_STARTED:
        return attaches && !c->started;
    case GUEST_STDOUT:
    case GUEST_STDERR:
    case GUEST_DROPPED:
    case GUEST_EXIT:
        return attaches && c->started;
    case GUEST_PONG:
        return c->operation == GUEST_PING;
    case GUEST_PROCESS:
        return c->operation == GUEST_LIST;
    case GUEST_DONE:
        return c->operation == GUEST_LIST || c->operation == GUEST_SIGNAL || c->operation == GUEST_SHUTDOWN;
    default:
        return false;
    }
}

static void deliver(struct guest_client *c, const struct guest_reply *r)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    switch (r->type) {
    case GUEST_STARTED:
        c->started = true;
        CALL(c, started, r->started.id, r->started.pid);
        break;
    case GUEST_STDOUT:
    case GUEST_STDERR:
        CALL(c, output, r->output.stream, r->output.offset, r->output.data, r->output.len);
        break;
    case GUEST_DROPPED:
        CALL(c, dropped, r->dropped.stream, r->dropped.bytes);
        break;
    case GUEST_PROCESS:
        CALL(c, process, &r->process);
        break;
    case GUEST_PONG:
        CALL(c, pong, &r->pong);
        if (c->released)
            break;
        end(c);
        CALL(c, done);
        break;
    case GUEST_EXIT:
        end(c);
        CALL(c, exited, &r->exit);
        break;
    case GUEST_ERROR:
        error_set(&err, r->error.code, "%s", r->error.text);
        fail(c, &err);
        break;
    default:
        end(c);
        CALL(c, done);
    }
}

/* One frame from the front of the input. false: not complete yet, or the end. */
static bool take_frame(struct guest_client *c)
{
    struct evbuffer *in = bufferevent_get_input(c->bev);
    _cleanup_error_ struct error err = ERROR_INIT;
    struct guest_frame frame;
    struct guest_reply reply;
    uint8_t header[GUEST_HEADER_SIZE];
    size_t size, len = evbuffer_get_length(in);

    ssize_t n = evbuffer_copyout(in, header, sizeof(header));
    int r = guest_frame_parse(header, n < 0 ? 0 : (size_t)n, GUEST_REPLY_MAX, &frame, &size);
    if (r >= 0 && len < size)
        return false;
    if (r >= 0)
        r = guest_frame_parse(evbuffer_pullup(in, (ev_ssize_t)size), size, GUEST_REPLY_MAX, &frame, &size);
    if (r < 0)
        error_set(&err, EPROTO, "the sandbox broke the guest protocol: bad frame header");
    else if (!expected(c, frame.type))
        error_set(&err, EPROTO, "the sandbox broke the guest protocol: frame of type %d out of order", (int)frame.type);
    else if (guest_reply_parse(&frame, &reply, &err) == 0) {
        deliver(c, &reply);
        guest_reply_free(&reply);
        if (c->bev != NULL)
            evbuffer_drain(in, size);
        return !c->ended;
    }
    fail(c, &err);
    return false;
}

static void leave(struct guest_client *c)
{
    c->entered = false;
    if (c->released)
        guest_client_free(c);
}

static void take_frames(struct guest_client *c)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    c->entered = true;
    while (!c->paused && !c->ended && take_frame(c))
        ;
    if (c->gone && !c->paused && !c->ended) {
        error_set(&err, ECONNRESET, "the sandbox closed the connection");
        fail(c, &err);
    }
    leave(c);
}

static void on_read(struct bufferevent *bev UNUSED, void *arg)
{
    take_frames(arg);
}

static void on_write(struct bufferevent *bev UNUSED, void *arg)
{
    struct guest_client *c = arg;
    if (!c->full)
        return;
    c->full = false;
    c->entered = true;
    CALL(c, drained);
    leave(c);
}

static void on_event(struct bufferevent *bev UNUSED, short what, void *arg)
{
    struct guest_client *c = arg;
    /* When only writing fails, what the guest said before, such as the exit code, is still to be read. */
    if (!(what & BEV_EVENT_READING))
        return;
    c->gone = true;
    take_frames(c);
}

/* Takes fd and the request. */
static struct guest_client *client_new(struct event_base *base, int fd, enum guest_frame_type operation,
                                       struct guest_buffer *request, const struct guest_callbacks *callbacks, void *arg,
                                       struct error *err)
{
    _cleanup_close_ int owned = fd;
    if (evutil_make_socket_nonblocking(fd) < 0) {
        error_set_errno(err, errno, "connection to the sandbox");
        return NULL;
    }
    struct bufferevent *bev = bufferevent_socket_new(base, fd, BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS);
    if (bev == NULL) {
        error_set(err, ENOMEM, "connection to the sandbox: no memory");
        return NULL;
    }
    (void)take_fd(owned); /* the bufferevent's now */
    struct guest_client *c = xcalloc(1, sizeof(*c));
    *c = (struct guest_client){.bev = bev, .callbacks = callbacks, .arg = arg, .operation = operation};
    bufferevent_setcb(bev, on_read, on_write, on_event, c);
    bufferevent_setwatermark(bev, EV_READ, 0, GUEST_REPLY_MAX + GUEST_HEADER_SIZE);
    bufferevent_setwatermark(bev, EV_WRITE, GUEST_CLIENT_LOW, 0);
    (void)bufferevent_set_max_single_read(bev, GUEST_REPLY_MAX);
    (void)bufferevent_set_max_single_write(bev, GUEST_REPLY_MAX);
    bufferevent_write(bev, request->data + request->start, guest_buffer_len(request));
    bufferevent_enable(bev, EV_READ | EV_WRITE);
    return c;
}

static struct guest_client *client_make(struct event_base *base, int fd, enum guest_frame_type operation, int encoded,
                                        struct guest_buffer *request, const struct guest_callbacks *callbacks,
                                        void *arg, struct error *err)
{
    struct guest_client *c = NULL;
    if (encoded < 0)
        (void)close(fd);
    else
        c = client_new(base, fd, operation, request, callbacks, arg, err);
    guest_buffer_free(request);
    return c;
}

struct guest_client *guest_start(struct event_base *base, int fd, const struct guest_start_request *request,
                                 const struct guest_callbacks *callbacks, void *arg, struct error *err)
{
    struct guest_buffer b = {0};
    int r = guest_request_start(&b, request, err);
    return client_make(base, fd, GUEST_START, r, &b, callbacks, arg, err);
}

struct guest_client *guest_attach(struct event_base *base, int fd, const char *id, uint64_t stdout_offset,
                                  uint64_t stderr_offset, uint32_t flags, const struct guest_callbacks *callbacks,
                                  void *arg, struct error *err)
{
    struct guest_buffer b = {0};
    int r = guest_request_attach(&b, id, stdout_offset, stderr_offset, flags, err);
    return client_make(base, fd, GUEST_ATTACH, r, &b, callbacks, arg, err);
}

struct guest_client *guest_signal(struct event_base *base, int fd, const char *id, int sig, enum guest_scope scope,
                                  const struct guest_callbacks *callbacks, void *arg, struct error *err)
{
    struct guest_buffer b = {0};
    int r = guest_request_signal(&b, id, sig, scope, err);
    return client_make(base, fd, GUEST_SIGNAL, r, &b, callbacks, arg, err);
}

struct guest_client *guest_list(struct event_base *base, int fd, const struct guest_callbacks *callbacks, void *arg,
                                struct error *err)
{
    struct guest_buffer b = {0};
    int r = guest_request_plain(&b, GUEST_LIST, err);
    return client_make(base, fd, GUEST_LIST, r, &b, callbacks, arg, err);
}

struct guest_client *guest_ping(struct event_base *base, int fd, const struct guest_callbacks *callbacks, void *arg,
                                struct error *err)
{
    struct guest_buffer b = {0};
    int r = guest_request_plain(&b, GUEST_PING, err);
    return client_make(base, fd, GUEST_PING, r, &b, callbacks, arg, err);
}

struct guest_client *guest_shutdown(struct event_base *base, int fd, uint64_t grace_ms,
                                    const struct guest_callbacks *callbacks, void *arg, struct error *err)
{
    struct guest_buffer b = {0};
    int r = guest_request_shutdown(&b, grace_ms, err);
    return client_make(base, fd, GUEST_SHUTDOWN, r, &b, callbacks, arg, err);
}

void guest_client_free(struct guest_client *client)
{
    if (client == NULL)
        return;
    if (client->entered) {
        client->released = true;
        end(client);
        return;
    }
    end(client);
    free(client);
}

static void send_buffer(struct guest_client *c, struct guest_buffer *b)
{
    if (c->bev != NULL && !b->failed)
        bufferevent_write(c->bev, b->data + b->start, guest_buffer_len(b));
    guest_buffer_free(b);
}

void guest_client_stdin(struct guest_client *client, const void *data, size_t len)
{
    /* Frames of moderate size: the guest takes input in pieces of a frame. */
    for (const uint8_t *p = data; len > 0;) {
        size_t n = MIN(len, GUEST_OUTPUT_CHUNK);
        struct guest_buffer b = {0};
        guest_frame_bytes(&b, GUEST_STDIN, p, n);
        send_buffer(client, &b);
        p += n;
        len -= n;
    }
    client->full = true;
}

void guest_client_stdin_eof(struct guest_client *client)
{
    struct guest_buffer b = {0};
    guest_frame_bytes(&b, GUEST_STDIN_EOF, NULL, 0);
    send_buffer(client, &b);
}

void guest_client_resize(struct guest_client *client, uint16_t rows, uint16_t cols)
{
    struct guest_buffer b = {0};
    guest_frame_begin(&b, GUEST_RESIZE);
    guest_put_number(&b, GUEST_TAG_ROWS, rows);
    guest_put_number(&b, GUEST_TAG_COLS, cols);
    guest_frame_end(&b);
    send_buffer(client, &b);
}

void guest_client_signal(struct guest_client *client, int sig, enum guest_scope scope)
{
    struct guest_buffer b = {0};
    guest_frame_begin(&b, GUEST_SIGNAL);
    guest_put_number(&b, GUEST_TAG_SIGNAL, (uint64_t)sig);
    guest_put_number(&b, GUEST_TAG_SCOPE, scope);
    guest_frame_end(&b);
    send_buffer(client, &b);
}

size_t guest_client_pending(const struct guest_client *client)
{
    return client->bev == NULL ? 0 : evbuffer_get_length(bufferevent_get_output(client->bev));
}

void guest_client_pause(struct guest_client *client)
{
    client->paused = true;
    if (client->bev != NULL)
        bufferevent_disable(client->bev, EV_READ);
}

void guest_client_resume(struct guest_client *client)
{
    if (!client->paused)
        return;
    client->paused = false;
    if (client->bev == NULL)
        return;
    bufferevent_enable(client->bev, EV_READ);
    /* Frames that were read before the pause would wait for the next byte otherwise. */
    bufferevent_trigger(client->bev, EV_READ, BEV_TRIG_IGNORE_WATERMARKS | BEV_TRIG_DEFER_CALLBACKS);
}

/* Waits until the descriptor is ready or the deadline is there. */
static int wait_ready(int fd, short events, int64_t deadline, struct error *err)
{
    for (;;) {
        int64_t left = deadline - time_monotonic_ns();
        if (left <= 0)
            return error_set(err, ETIMEDOUT, "the sandbox does not answer");
        struct pollfd p = {.fd = fd, .events = events};
        int r = poll(&p, 1, (int)(left / NSEC_PER_MSEC) + 1);
        if (r > 0)
            return 0;
        if (r < 0 && errno != EINTR)
            return error_set_errno(err, errno, "wait for the sandbox");
    }
}

static int send_all(int fd, const struct guest_buffer *request, int64_t deadline, struct error *err)
{
    for (size_t sent = request->start; sent < request->end;) {
        int r = wait_ready(fd, POLLOUT, deadline, err);
        if (r < 0)
            return r;
        ssize_t n = send(fd, request->data + sent, request->end - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return error_set_errno(err, errno, "send to the sandbox");
        if (n > 0)
            sent += (size_t)n;
    }
    return 0;
}

int guest_call(int fd, const struct guest_buffer *request, int timeout_ms, struct guest_reply *ret, struct error *err)
{
    int64_t deadline = time_monotonic_ns() + timeout_ms * NSEC_PER_MSEC;
    _cleanup_(guest_buffer_free) struct guest_buffer in = {0};
    struct guest_frame frame;
    size_t size;

    int r = send_all(fd, request, deadline, err);
    while (r == 0 &&
           (r = guest_frame_parse(in.data + in.start, guest_buffer_len(&in), GUEST_REPLY_MAX, &frame, &size)) == 0) {
        size_t need = size - guest_buffer_len(&in);
        r = wait_ready(fd, POLLIN, deadline, err);
        if (r < 0)
            return r;
        if (!guest_buffer_reserve(&in, need))
            return error_set(err, ENOMEM, "no memory for an answer of the sandbox");
        ssize_t n = recv(fd, in.data + in.end, need, MSG_DONTWAIT);
        if (n == 0)
            return error_set(err, ECONNRESET, "the sandbox closed the connection");
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return error_set_errno(err, errno, "read from the sandbox");
        in.end += n > 0 ? (size_t)n : 0;
    }
    if (r == -EPROTO)
        return error_set(err, EPROTO, "the sandbox broke the guest protocol: bad frame header");
    if (r < 0 || (r = guest_reply_parse(&frame, ret, err)) < 0)
        return r;
    if (ret->type == GUEST_ERROR)
        r = error_set(err, ret->error.code, "%s", ret->error.text);
    else if (ret->type == GUEST_STDOUT || ret->type == GUEST_STDERR) /* borrows from the buffer that goes away here */
        r = error_set(err, EPROTO, "the sandbox broke the guest protocol: output out of order");
    else
        return 0;
    guest_reply_free(ret);
    return r;
}
