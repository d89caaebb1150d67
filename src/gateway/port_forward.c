/*
 * port-forward: connections to ports of a Pod's own loopback, made by its guest. Clients carry many over one session:
 * kubectl and client-go as streams of SPDY/3.1, inside a WebSocket or on the upgraded connection itself; Python and
 * JavaScript as pairs of WebSocket channels, one connection for each port that the request names.
 *
 * Back-pressure. A client that does not read stops the reading of all its connections. A connection whose server inside
 * does not read stops the reading of the client, once PIPE_HIGH_BYTES wait for it: there is no window to close for one
 * stream alone.
 */
#include "gateway/internal.h"

#include "apiserver/api_error.h"
#include "base/hashmap.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"
#include "wire/guest_connect.h"
#include "wire/spdy.h"
#include "wire/websocket.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <sys/socket.h>

#define MESSAGE_MAX_BYTES (4u << 20)
#define LINK_HIGH_BYTES (1u << 20)
#define PIPE_HIGH_BYTES (1u << 20)
#define PORTS_MAX 64 /* in the query */
#define LONE_S 30    /* for the other stream of a pair */

#define PROTOCOL_SPDY "portforward.k8s.io"
#define PROTOCOL_TUNNEL "SPDY/3.1+portforward.k8s.io"
#define PROTOCOL_CHANNELS "v4.channel.k8s.io"

struct forward;

/* One connection. With SPDY its two streams; else its two channels. */
struct pipe {
    struct pipe *next, *prev;
    struct forward *forward;
    uint32_t data, error; /* 0: that stream of SPDY is not there yet */
    char *request_id;     /* SPDY pairs streams by it; NULL once they are */
    struct event *lone;   /* until then */
    uint16_t port;
    struct guest_connect *connecting;
    struct bufferevent *inside;
    struct evbuffer *early;          /* from the client, before the connection stands */
    bool client_over, ended, broken; /* what each side has said last; broken: to be freed in the next turn */
    bool full;                       /* counted in forward->full */
};

struct forward {
    const struct gateway *gateway;
    struct json *pod;
    struct websocket *ws;    /* one of the two */
    struct bufferevent *raw; /* the upgraded connection */
    struct spdy *spdy;       /* NULL: channels */
    struct pipe *pipes;
    struct hashmap lone; /* those of SPDY that wait for their other stream, by request_id */
    struct event *sweep; /* frees what is broken, outside of anyone's callback */
    size_t full;         /* pipes that hold up the client */
    bool paused;         /* the pipes wait for the client */
    bool over;
};

/* The client's side. */

static size_t link_pending(const struct forward *f)
{
    return f->ws ? websocket_pending(f->ws) : evbuffer_get_length(bufferevent_get_output(f->raw));
}

static void read_link(struct forward *f, bool yes)
{
    if (f->ws) {
        websocket_pause(f->ws, !yes);
    } else if (yes) {
        (void)bufferevent_enable(f->raw, EV_READ);
        bufferevent_trigger(f->raw, EV_READ, BEV_TRIG_DEFER_CALLBACKS);
    } else {
        (void)bufferevent_disable(f->raw, EV_READ);
    }
}

static void read_pipes(struct forward *f, bool yes)
{
    f->paused = !yes;
    for (struct pipe *p = f->pipes; p; p = p->next) {
        if (p->inside && !p->ended)
            (void)(yes ? bufferevent_enable(p->inside, EV_READ) : bufferevent_disable(p->inside, EV_READ));
    }
}

static void link_write(void *arg, const void *head, size_t head_len, const void *data, size_t len)
{
    struct forward *f = arg;

    if (f->ws) {
        websocket_send2(f->ws, true, head, head_len, data, len);
    } else {
        (void)bufferevent_write(f->raw, head, head_len);
        (void)bufferevent_write(f->raw, data, len);
    }
    if (link_pending(f) > LINK_HIGH_BYTES && !f->paused)
        read_pipes(f, false);
}

static void link_drained(struct forward *f)
{
    if (f->paused)
        read_pipes(f, true);
}

static void emit(struct pipe *p, uint32_t stream, const void *data, size_t len, bool fin)
{
    struct forward *f = p->forward;
    uint8_t channel = (uint8_t)stream;

    if (f->spdy)
        spdy_data(f->spdy, stream, data, len, fin);
    else if (len > 0)
        link_write(f, &channel, 1, data, len);
}

/* Connections. */

static void set_full(struct pipe *p, bool full)
{
    struct forward *f = p->forward;

    if (p->full == full)
        return;
    p->full = full;
    f->full += full ? 1 : (size_t)-1;
    if (f->full == (full ? 1 : 0) && !f->over)
        read_link(f, !full);
}

/* The pipe has both its streams, or will never have. */
static void pipe_paired(struct pipe *p)
{
    if (p->request_id)
        (void)hashmap_remove(&p->forward->lone, p->request_id);
    if (p->lone)
        event_free(take_ptr(p->lone));
    free(take_ptr(p->request_id));
}

static void pipe_free(struct pipe *p)
{
    struct forward *f = p->forward;

    if (p->prev)
        p->prev->next = p->next;
    else
        f->pipes = p->next;
    if (p->next)
        p->next->prev = p->prev;
    set_full(p, false);
    pipe_paired(p);
    if (f->spdy) {
        spdy_own(f->spdy, p->data, NULL);
        spdy_own(f->spdy, p->error, NULL);
    }
    guest_connect_free(p->connecting);
    if (p->inside)
        bufferevent_free(p->inside);
    evbuffer_free(p->early);
    free(p);
}

static void on_sweep(evutil_socket_t fd UNUSED, short what UNUSED, void *arg)
{
    struct forward *f = arg;
    bool left = false;

    for (struct pipe *p = f->pipes, *next; p; p = next) {
        next = p->next;
        left = left || !p->broken;
        if (p->broken)
            pipe_free(p);
    }
    if (!left && !f->spdy && !f->over) { /* channels are not used again */
        f->over = true;
        websocket_close(f->ws, 1000, NULL);
    }
}

static void break_pipe(struct pipe *p)
{
    p->broken = true;
    event_active(p->forward->sweep, EV_TIMEOUT, 0);
}

/* Nothing more comes from inside; text (may be NULL) says why. */
static void end_pipe(struct pipe *p, const char *text)
{
    if (p->ended)
        return;
    p->ended = true;
    emit(p, p->error, text, text ? strlen(text) : 0, true);
    emit(p, p->data, NULL, 0, true);
    if (text || !p->forward->spdy || (p->client_over && evbuffer_get_length(bufferevent_get_output(p->inside)) == 0))
        break_pipe(p);
}

static void on_inside_read(struct bufferevent *bev, void *arg)
{
    struct pipe *p = arg;
    struct evbuffer *in = bufferevent_get_input(bev);
    size_t len = evbuffer_get_length(in);

    if (len == 0 || p->broken)
        return;
    emit(p, p->data, evbuffer_pullup(in, -1), len, false);
    (void)evbuffer_drain(in, len);
}

static void on_inside_written(struct bufferevent *bev, void *arg)
{
    struct pipe *p = arg;

    /* Callbacks are deferred: this one may be about what was written before, such as the request to connect. */
    if (p->broken || evbuffer_get_length(bufferevent_get_output(bev)) > 0)
        return;
    set_full(p, false);
    if (p->client_over)
        (void)shutdown(bufferevent_getfd(bev), SHUT_WR); /* fails only where nobody listens any more */
    if (p->client_over && p->ended)
        break_pipe(p);
}

static void on_inside_event(struct bufferevent *bev, short what, void *arg)
{
    struct pipe *p = arg;

    if (p->broken || !(what & (BEV_EVENT_EOF | BEV_EVENT_ERROR)))
        return;
    on_inside_read(bev, p);
    end_pipe(p, NULL);
    if (what & BEV_EVENT_ERROR)
        break_pipe(p);
}

static void on_connected(void *arg, struct bufferevent *bev)
{
    struct pipe *p = arg;

    p->connecting = NULL;
    p->inside = bev;
    bufferevent_setcb(bev, on_inside_read, on_inside_written, on_inside_event, p);
    bufferevent_setwatermark(bev, EV_READ, 0, LINK_HIGH_BYTES);
    (void)bufferevent_enable(bev, p->forward->paused ? EV_WRITE : EV_READ | EV_WRITE);
    (void)bufferevent_write_buffer(bev, p->early);
    if (evbuffer_get_length(bufferevent_get_output(bev)) == 0)
        on_inside_written(bev, p);
    if (evbuffer_get_length(bufferevent_get_input(bev)))
        bufferevent_trigger(bev, EV_READ, BEV_TRIG_DEFER_CALLBACKS);
}

static void refuse_pipe(struct pipe *p, const struct error *err)
{
    _cleanup_free_ char *text = xasprintf(
        "error forwarding port %u to pod %s, uid %s: failed to connect to localhost:%u inside the sandbox: %s", p->port,
        object_name(p->forward->pod), object_uid(p->forward->pod), p->port, error_text(err));

    end_pipe(p, text);
}

static void on_connect_failed(void *arg, const struct error *err)
{
    struct pipe *p = arg;

    p->connecting = NULL;
    refuse_pipe(p, err);
}

static void connect_pipe(struct pipe *p)
{
    static const struct guest_connect_callbacks callbacks = {.connected = on_connected, .failed = on_connect_failed};
    _cleanup_error_ struct error err = ERROR_INIT;
    int fd = gateway_connect_guest(p->forward->gateway, p->forward->pod, &err);

    if (fd >= 0)
        p->connecting = guest_connect(p->forward->gateway->base, fd, p->port, &callbacks, p, &err);
    if (!p->connecting)
        refuse_pipe(p, &err);
}

static struct pipe *pipe_new(struct forward *f, uint16_t port)
{
    struct pipe *p = xcalloc(1, sizeof(*p));

    p->forward = f;
    p->port = port;
    p->early = evbuffer_new();
    if (!p->early)
        abort();
    p->next = f->pipes;
    if (p->next)
        p->next->prev = p;
    f->pipes = p;
    return p;
}

static void pipe_input(struct pipe *p, const void *data, size_t len, bool fin)
{
    struct evbuffer *out = p->inside ? bufferevent_get_output(p->inside) : p->early;

    if (p->broken)
        return;
    if (len > 0)
        (void)evbuffer_add(out, data, len);
    p->client_over = p->client_over || fin;
    if (evbuffer_get_length(out) > PIPE_HIGH_BYTES)
        set_full(p, true);
    if (fin && p->inside && evbuffer_get_length(out) == 0)
        on_inside_written(p->inside, p);
}

/* SPDY. */

static void on_lone(evutil_socket_t fd UNUSED, short what UNUSED, void *arg)
{
    struct pipe *p = arg;

    spdy_reset(p->forward->spdy, p->data ? p->data : p->error, SPDY_CANCEL);
    pipe_free(p);
}

/* The pipe that a stream of this request belongs to; NULL: it has one like it. */
static struct pipe *pair_pipe(struct forward *f, const char *id, uint16_t port, bool is_data)
{
    struct pipe *p = hashmap_get(&f->lone, id);
    struct timeval patience = {.tv_sec = LONE_S};

    if (p)
        return (is_data ? p->data : p->error) || p->port != port ? NULL : p;
    p = pipe_new(f, port);
    p->request_id = xstrdup(id);
    p->lone = evtimer_new(f->gateway->base, on_lone, p);
    if (!p->lone)
        abort();
    (void)evtimer_add(p->lone, &patience);
    (void)hashmap_put(&f->lone, id, p);
    return p;
}

static void on_open(void *arg, uint32_t stream, const struct http_headers *headers, bool fin)
{
    struct forward *f = arg;
    const char *type = http_headers_get(headers, "streamtype"), *id = http_headers_get(headers, "requestid");
    const char *port_text = http_headers_get(headers, "port");
    int64_t port = 0;
    struct pipe *p = NULL;
    bool is_data = type && streq(type, "data");

    if (type && (is_data || streq(type, "error")) && id && port_text && parse_i64(port_text, &port) && port >= 1 &&
        port <= UINT16_MAX)
        p = pair_pipe(f, id, (uint16_t)port, is_data);
    if (!p) {
        spdy_reset(f->spdy, stream, SPDY_PROTOCOL_ERROR);
        return;
    }
    *(is_data ? &p->data : &p->error) = stream;
    spdy_own(f->spdy, stream, p);
    spdy_reply(f->spdy, stream);
    if (is_data && fin)
        p->client_over = true;
    if (p->data && p->error) {
        pipe_paired(p);
        connect_pipe(p);
    }
}

static void on_data(void *arg UNUSED, void *owner, uint32_t stream, const void *data, size_t len, bool fin)
{
    struct pipe *p = owner;

    if (p && stream == p->data)
        pipe_input(p, data, len, fin);
}

static void on_reset(void *arg UNUSED, void *owner, uint32_t stream)
{
    struct pipe *p = owner;

    if (p && stream == p->data)
        break_pipe(p);
}

static const struct spdy_callbacks spdy_callbacks = {
    .open = on_open, .data = on_data, .reset = on_reset, .write = link_write};

static void forward_free(struct forward *f)
{
    f->over = true;
    while (f->pipes)
        pipe_free(f->pipes);
    hashmap_free(&f->lone, NULL);
    spdy_free(f->spdy);
    event_free(f->sweep);
    if (f->raw)
        bufferevent_free(f->raw);
    json_unref(f->pod);
    free(f);
}

/* WebSocket: SPDY inside, where borders of messages mean nothing, or channels. */

static void on_message(void *arg, struct websocket *ws, bool binary UNUSED, const char *data, size_t len)
{
    struct forward *f = arg;
    _cleanup_error_ struct error err = ERROR_INIT;

    if (f->over || len == 0)
        return;
    if (f->spdy) {
        if (spdy_feed(f->spdy, data, len, &err) < 0) {
            f->over = true;
            websocket_close(ws, 1002, error_text(&err));
        }
        return;
    }
    for (struct pipe *p = f->pipes; p; p = p->next)
        if (p->data == (uint8_t)data[0])
            pipe_input(p, data + 1, len - 1, false);
}

static void on_closed(void *arg, struct websocket *ws UNUSED, int code UNUSED)
{
    struct forward *f = arg;

    f->over = true;
    forward_free(f);
}

static void on_drained(void *arg, struct websocket *ws UNUSED)
{
    link_drained(arg);
}

static const struct websocket_callbacks ws_callbacks = {
    .message = on_message, .closed = on_closed, .drained = on_drained};

/* SPDY on the connection itself. */

static void on_raw_read(struct bufferevent *bev, void *arg)
{
    struct forward *f = arg;
    _cleanup_error_ struct error err = ERROR_INIT;
    struct evbuffer *in = bufferevent_get_input(bev);

    while (!f->full && evbuffer_get_length(in) > 0) {
        size_t n = evbuffer_get_contiguous_space(in);
        if (spdy_feed(f->spdy, evbuffer_pullup(in, (ev_ssize_t)n), n, &err) < 0) {
            forward_free(f);
            return;
        }
        (void)evbuffer_drain(in, n);
    }
}

static void on_raw_written(struct bufferevent *bev UNUSED, void *arg)
{
    link_drained(arg);
}

static void on_raw_event(struct bufferevent *bev UNUSED, short what, void *arg)
{
    if (what & (BEV_EVENT_EOF | BEV_EVENT_ERROR))
        forward_free(arg);
}

static void accept_raw(struct forward *f, struct http_request *req)
{
    http_add_header(req, "Connection", "Upgrade");
    http_add_header(req, "Upgrade", "SPDY/3.1");
    http_add_header(req, "X-Stream-Protocol-Version", PROTOCOL_SPDY);
    f->raw = http_take_over(req, 101);
    if (!f->raw) {
        forward_free(f);
        return;
    }
    bufferevent_setcb(f->raw, on_raw_read, on_raw_written, on_raw_event, f);
    bufferevent_setwatermark(f->raw, EV_READ, 0, PIPE_HIGH_BYTES);
    (void)bufferevent_enable(f->raw, EV_READ | EV_WRITE);
    bufferevent_trigger(f->raw, EV_READ, BEV_TRIG_DEFER_CALLBACKS); /* what came with the head */
}

/* The request. */

/* Ports of the query, repeated or separated by commas, as pipes. */
static int read_ports(struct forward *f, const struct http_request *req, struct error *err)
{
    size_t count = 0;
    const char *text;

    for (size_t i = 0; (text = http_query_n(req, "ports", i)); i++) {
        for (const char *s = text; *s; s += strspn(s, ",")) {
            size_t len = strcspn(s, ",");
            _cleanup_free_ char *one = xstrndup(s, len);
            int64_t port;
            if (!parse_i64(one, &port) || port < 1 || port > UINT16_MAX)
                return error_set_field(err, EINVAL, "ports", "\"%s\" is not a port from 1 to 65535", one);
            if (count == PORTS_MAX)
                return error_set_field(err, EINVAL, "ports", "more than %d ports", PORTS_MAX);
            struct pipe *p = pipe_new(f, (uint16_t)port);
            p->data = (uint32_t)(2 * count);
            p->error = p->data + 1;
            count++;
            s += len;
        }
    }
    return count ? 0 : error_set_field(err, EINVAL, "ports", "name at least one port");
}

/* Each channel begins with its port. */
static void begin_channels(struct forward *f)
{
    for (struct pipe *p = f->pipes; p; p = p->next) {
        uint8_t port[2] = {(uint8_t)p->port, (uint8_t)(p->port >> 8)};
        emit(p, p->data, port, sizeof(port), false);
        emit(p, p->error, port, sizeof(port), false);
    }
    for (struct pipe *p = f->pipes; p; p = p->next)
        connect_pipe(p);
}

static const char *choose_protocol(const struct http_request *req)
{
    static const char *const spoken[] = {PROTOCOL_TUNNEL, PROTOCOL_CHANNELS};

    for (size_t i = 0;; i++) {
        _cleanup_free_ char *offered = websocket_offered(req, i);
        if (!offered)
            return NULL;
        for (size_t k = 0; k < ARRAY_LEN(spoken); k++)
            if (streq(offered, spoken[k]))
                return spoken[k];
    }
}

void gateway_port_forward(void *arg, const struct stream_target *target, struct http_request *req)
{
    const struct gateway *g = arg;
    _cleanup_error_ struct error err = ERROR_INIT;
    const struct http_headers *headers = http_request_headers(req);
    bool spdy = http_headers_has_token(headers, "Upgrade", "SPDY/3.1");
    const char *protocol = websocket_requested(req) ? choose_protocol(req) : NULL;

    if (gateway_check_guest(g, target->pod, &err) < 0) {
        gateway_refuse_error(req, &err);
        return;
    }
    if (spdy ? !http_headers_has_token(headers, "X-Stream-Protocol-Version", PROTOCOL_SPDY) : !protocol) {
        http_add_header(req, "X-Accepted-Stream-Protocol-Versions", PROTOCOL_SPDY);
        gateway_refuse(req, status_bad_request("port-forward is served over SPDY/3.1 with " PROTOCOL_SPDY
                                               " and over WebSocket with " PROTOCOL_TUNNEL " or " PROTOCOL_CHANNELS));
        return;
    }
    struct forward *f = xcalloc(1, sizeof(*f));
    bool channels = !spdy && streq(protocol, PROTOCOL_CHANNELS);
    f->gateway = g;
    f->pod = json_ref(target->pod);
    f->sweep = event_new(g->base, -1, 0, on_sweep, f);
    if (!f->sweep)
        abort();
    if (!channels) {
        f->spdy = spdy_new(&spdy_callbacks, f);
    } else if (read_ports(f, req, &err) < 0) {
        forward_free(f);
        gateway_refuse(req, status_bad_request("%s", error_text(&err)));
        return;
    }
    if (spdy) {
        accept_raw(f, req);
        return;
    }
    f->ws = websocket_accept(req, protocol, MESSAGE_MAX_BYTES, &ws_callbacks, f);
    if (!f->ws)
        forward_free(f);
    else if (channels)
        begin_channels(f);
}
