/*
 * exec and attach over SPDY/3.1: a stream for each of stdin, stdout, stderr, errors and resizes, all opened by the
 * client. The process starts when those are there that it needs.
 */
#include "gateway/exec.h"

#include "apiserver/api_error.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "base/strutil.h"
#include "wire/spdy.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>

#define STREAMS_S 30           /* for the client to open its streams */
#define LINGER_S 5             /* for it to close the connection, once it has got everything */
#define READ_BYTES (64u << 10) /* at a time */
#define RESIZE_MAX_BYTES 1024  /* of one message */

#define STREAMS (EXEC_RESIZE + 1)

struct spdy_link {
    struct exec_link link;
    struct bufferevent *bev;
    struct spdy *spdy;
    struct event *timer;
    uint32_t streams[STREAMS]; /* by channel; 0: not there */
    struct strbuf early;       /* stdin from before the beginning */
    struct strbuf size;        /* a message of the resize stream that is not whole */
    int version;
    bool begun, early_eof, paused, finished, broken;
};

static const char *const types[STREAMS] = {"stdin", "stdout", "stderr", "error", "resize"};

static void link_free(struct spdy_link *l)
{
    exec_session_gone(l->link.session);
    spdy_free(l->spdy);
    bufferevent_free(l->bev);
    event_free(l->timer);
    strbuf_free(&l->early);
    strbuf_free(&l->size);
    free(l);
}

static void set_timer(struct spdy_link *l, int seconds)
{
    struct timeval tv = {.tv_sec = seconds};

    (void)evtimer_add(l->timer, &tv);
}

/* To the client. */

static size_t pending(const struct exec_link *link)
{
    return evbuffer_get_length(bufferevent_get_output(container_of(link, const struct spdy_link, link)->bev));
}

static void send_stream(struct exec_link *link, enum exec_channel channel, const void *data, size_t len)
{
    struct spdy_link *l = container_of(link, struct spdy_link, link);

    spdy_data(l->spdy, l->streams[channel], data, len, false);
}

static void pause_client(struct exec_link *link, bool pause)
{
    struct spdy_link *l = container_of(link, struct spdy_link, link);

    l->paused = pause;
    if (pause) {
        (void)bufferevent_disable(l->bev, EV_READ);
    } else {
        (void)bufferevent_enable(l->bev, EV_READ);
        bufferevent_trigger(l->bev, EV_READ, BEV_TRIG_DEFER_CALLBACKS);
    }
}

/*
 * The client closes when it has seen the end of the error stream. Until then what it sends is read and dropped: to
 * close with input unread would take from it what it has not read yet.
 */
static void finish(struct exec_link *link, const struct json *status)
{
    struct spdy_link *l = container_of(link, struct spdy_link, link);
    _cleanup_free_ char *text = exec_last_words(status, l->version);

    spdy_data(l->spdy, l->streams[EXEC_STDOUT], NULL, 0, true);
    spdy_data(l->spdy, l->streams[EXEC_STDERR], NULL, 0, true);
    spdy_data(l->spdy, l->streams[EXEC_ERROR], text, text ? strlen(text) : 0, true);
    spdy_goaway(l->spdy);
    l->finished = true;
    pause_client(link, false);
}

static const struct exec_link_ops ops = {
    .send = send_stream, .pending = pending, .pause = pause_client, .finish = finish};

static void on_timer(evutil_socket_t fd UNUSED, short what UNUSED, void *arg)
{
    link_free(arg);
}

/* From the client. */

static void begin(struct spdy_link *l)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    struct exec_session *s = l->link.session;

    for (enum exec_channel c = EXEC_STDIN; c < EXEC_RESIZE; c++)
        if (exec_session_wants(s, c) && !l->streams[c])
            return;
    l->begun = true;
    (void)evtimer_del(l->timer);
    if (exec_session_begin(s, &err) < 0) {
        exec_session_fail(s, &err);
        return;
    }
    exec_session_stdin(s, strbuf_str(&l->early), l->early.len);
    strbuf_free(&l->early);
    if (l->early_eof)
        exec_session_stdin_eof(s);
}

static void stdin_data(struct spdy_link *l, const void *data, size_t len, bool fin)
{
    if (l->begun) {
        exec_session_stdin(l->link.session, data, len);
        if (fin)
            exec_session_stdin_eof(l->link.session);
        return;
    }
    l->broken = l->early.len + len > EXEC_INPUT_HIGH_BYTES;
    if (!l->broken)
        strbuf_add(&l->early, data, len);
    l->early_eof = fin;
}

static void on_open(void *arg, uint32_t stream, const struct http_headers *headers, bool fin)
{
    struct spdy_link *l = arg;
    const char *type = http_headers_get(headers, "streamtype");
    enum exec_channel c = EXEC_STDIN;

    while (c < STREAMS && (!type || !streq(type, types[c])))
        c++;
    if (c == STREAMS || l->streams[c] || !exec_session_wants(l->link.session, c)) {
        spdy_reset(l->spdy, stream, SPDY_PROTOCOL_ERROR);
        return;
    }
    l->streams[c] = stream;
    spdy_reply(l->spdy, stream);
    if (c == EXEC_STDIN && fin)
        l->early_eof = true;
    if (!l->begun)
        begin(l);
}

/* Messages are JSON texts one after the other, cut anywhere: each ends with its brace. */
static void resize_data(struct spdy_link *l, const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (l->size.len == RESIZE_MAX_BYTES)
            l->broken = true;
        else
            strbuf_add(&l->size, data + i, 1);
        if (data[i] != '}')
            continue;
        exec_session_resize(l->link.session, strbuf_str(&l->size), l->size.len);
        strbuf_free(&l->size);
    }
}

static void on_data(void *arg, void *owner UNUSED, uint32_t stream, const void *data, size_t len, bool fin)
{
    struct spdy_link *l = arg;

    if (stream == l->streams[EXEC_STDIN])
        stdin_data(l, data, len, fin);
    else if (stream == l->streams[EXEC_RESIZE])
        resize_data(l, data, len);
}

/* No more of stdin will come; the others are the client's loss, the codec drops what goes to them. */
static void on_reset(void *arg, void *owner UNUSED, uint32_t stream)
{
    struct spdy_link *l = arg;

    if (stream == l->streams[EXEC_STDIN])
        stdin_data(l, NULL, 0, true);
}

static void write_out(void *arg, const void *head, size_t head_len, const void *data, size_t len)
{
    struct spdy_link *l = arg;

    (void)bufferevent_write(l->bev, head, head_len);
    (void)bufferevent_write(l->bev, data, len);
}

static const struct spdy_callbacks spdy_callbacks = {
    .open = on_open, .data = on_data, .reset = on_reset, .write = write_out};

/* The connection. */

static void on_read(struct bufferevent *bev, void *arg)
{
    struct spdy_link *l = arg;
    struct evbuffer *in = bufferevent_get_input(bev);

    while (!l->paused && !l->broken && evbuffer_get_length(in) > 0) {
        size_t n = MIN(evbuffer_get_contiguous_space(in), (size_t)READ_BYTES);
        if (!l->finished && spdy_feed(l->spdy, evbuffer_pullup(in, (ev_ssize_t)n), n, NULL) < 0)
            l->broken = true;
        (void)evbuffer_drain(in, n);
    }
    if (l->broken)
        link_free(l);
}

static void on_written(struct bufferevent *bev UNUSED, void *arg)
{
    struct spdy_link *l = arg;

    exec_session_drained(l->link.session);
    if (l->finished)
        set_timer(l, LINGER_S);
}

static void on_event(struct bufferevent *bev UNUSED, short what, void *arg)
{
    if (what & (BEV_EVENT_EOF | BEV_EVENT_ERROR))
        link_free(arg);
}

const char *exec_choose_spdy(const struct http_request *req)
{
    static const char *const spoken[] = {"v5.channel.k8s.io", "v4.channel.k8s.io", "v3.channel.k8s.io",
                                         "v2.channel.k8s.io", "channel.k8s.io"};
    const char *field = "X-Stream-Protocol-Version";

    for (size_t k = 0; k < ARRAY_LEN(spoken); k++)
        if (http_headers_has_token(http_request_headers(req), field, spoken[k]))
            return spoken[k];
    return http_header(req, field) ? NULL : "channel.k8s.io";
}

void exec_accept_spdy(struct exec_session *s, const struct gateway *g, struct http_request *req, const char *protocol)
{
    struct spdy_link *l = xcalloc(1, sizeof(*l));

    http_add_header(req, "Connection", "Upgrade");
    http_add_header(req, "Upgrade", "SPDY/3.1");
    http_add_header(req, "X-Stream-Protocol-Version", protocol);
    l->bev = http_take_over(req, 101);
    if (!l->bev) {
        exec_session_gone(s);
        free(l);
        return;
    }
    l->link.ops = &ops;
    l->version = exec_protocol_version(protocol);
    l->spdy = spdy_new(&spdy_callbacks, l);
    l->timer = evtimer_new(g->base, on_timer, l);
    if (!l->timer)
        abort();
    exec_session_bind(s, &l->link);
    set_timer(l, STREAMS_S);
    bufferevent_setcb(l->bev, on_read, on_written, on_event, l);
    bufferevent_setwatermark(l->bev, EV_READ, 0, EXEC_INPUT_HIGH_BYTES);
    (void)bufferevent_enable(l->bev, EV_READ | EV_WRITE);
    bufferevent_trigger(l->bev, EV_READ, BEV_TRIG_DEFER_CALLBACKS); /* what came with the head */
}
