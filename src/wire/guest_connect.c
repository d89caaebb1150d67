#include "wire/guest_connect.h"

#include "base/memory.h"
#include "wire/guest_request.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/util.h>

struct guest_connect {
    struct bufferevent *bev;
    const struct guest_connect_callbacks *cb;
    void *arg;
};

void guest_connect_free(struct guest_connect *c)
{
    if (!c)
        return;
    if (c->bev)
        bufferevent_free(c->bev);
    free(c);
}

static void fail(struct guest_connect *c, const struct error *err)
{
    bufferevent_free(take_ptr(c->bev));
    c->cb->failed(c->arg, err);
    free(c);
}

/* 1: *frame is whole. 0: more is to come. */
static int peek(struct evbuffer *in, struct guest_frame *frame, size_t *ret_size)
{
    size_t have = evbuffer_get_length(in), head = MIN(have, (size_t)GUEST_HEADER_SIZE);
    int r = guest_frame_parse(evbuffer_pullup(in, (ev_ssize_t)head), head, GUEST_REPLY_MAX, frame, ret_size);

    if (r != 0 || have < *ret_size)
        return r;
    return guest_frame_parse(evbuffer_pullup(in, (ev_ssize_t)*ret_size), *ret_size, GUEST_REPLY_MAX, frame, ret_size);
}

static void on_read(struct bufferevent *bev, void *arg)
{
    struct guest_connect *c = arg;
    _cleanup_error_ struct error err = ERROR_INIT;
    struct guest_reply reply = {0};
    struct guest_frame frame;
    size_t size;
    int r = peek(bufferevent_get_input(bev), &frame, &size);

    if (r == 0)
        return;
    if (r < 0)
        (void)error_set(&err, EPROTO, "the sandbox broke the guest protocol: bad frame header");
    else if (guest_reply_parse(&frame, &reply, &err) == 0 && reply.type == GUEST_ERROR && reply.error.code == EPROTO)
        (void)error_set(&err, EPROTO, "this sandbox was started by an older holt, which has no ports; start it anew");
    else if (reply.type == GUEST_ERROR)
        (void)error_set(&err, reply.error.code, "%s", reply.error.text);
    else if (reply.type != GUEST_DONE && !err.code)
        (void)error_set(&err, EPROTO, "the sandbox broke the guest protocol: answer out of order");
    guest_reply_free(&reply);
    if (err.code) {
        fail(c, &err);
        return;
    }
    (void)evbuffer_drain(bufferevent_get_input(bev), size);
    bufferevent_setcb(bev, NULL, NULL, NULL, NULL);
    (void)bufferevent_disable(bev, EV_READ);
    c->cb->connected(c->arg, take_ptr(c->bev));
    free(c);
}

static void on_event(struct bufferevent *bev UNUSED, short what UNUSED, void *arg)
{
    _cleanup_error_ struct error err = ERROR_INIT;

    (void)error_set(&err, ECONNRESET, "the sandbox closed the connection");
    fail(arg, &err);
}

struct guest_connect *guest_connect(struct event_base *base, int fd, uint16_t port,
                                    const struct guest_connect_callbacks *cb, void *arg, struct error *err)
{
    struct guest_buffer request = {0};
    _cleanup_close_ int owned = fd;

    if (guest_request_connect(&request, port, err) < 0)
        return NULL;
    struct guest_connect *c = xcalloc(1, sizeof(*c));
    (void)evutil_make_socket_nonblocking(fd); /* does not fail for a socket */
    *c = (struct guest_connect){
        .bev = bufferevent_socket_new(base, fd, BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS), .cb = cb, .arg = arg};
    if (!c->bev)
        abort();
    (void)take_fd(owned);
    bufferevent_setcb(c->bev, on_read, NULL, on_event, c);
    (void)bufferevent_write(c->bev, request.data + request.start, guest_buffer_len(&request));
    (void)bufferevent_enable(c->bev, EV_READ | EV_WRITE);
    guest_buffer_free(&request);
    return c;
}
