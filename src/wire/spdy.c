#include "wire/spdy.h"

#include "base/memory.h"
#include "base/strbuf.h"
#include "wire/http.h"

#define HEAD 8
#define FLAG_FIN 1
#define STREAM_MASK 0x7fffffffu
#define LENGTH_MASK 0xffffffu

enum frame_type { SYN_STREAM = 1, SYN_REPLY, RST_STREAM, SETTINGS, PING = 6, GOAWAY, HEADERS, WINDOW_UPDATE };

struct stream {
    uint32_t id;
    bool in_over, out_over;
    void *owner;
};

struct spdy {
    const struct spdy_callbacks *cb;
    void *arg;
    struct spdy_inflater *inflater;
    struct stream *streams; /* by id, rising */
    size_t count, capacity;
    uint32_t last;         /* the newest stream of the client */
    bool replied;          /* the compressed stream of ours has begun */
    struct strbuf control; /* a head, or a control frame, that is not whole yet */
    uint32_t data_stream;  /* of the data frame that is being received */
    size_t data_left;
    bool in_data, data_fin;
};

struct spdy *spdy_new(const struct spdy_callbacks *cb, void *arg)
{
    struct spdy *s = xcalloc(1, sizeof(*s));

    s->cb = cb;
    s->arg = arg;
    s->inflater = spdy_inflater_new();
    return s;
}

void spdy_free(struct spdy *s)
{
    if (!s)
        return;
    spdy_inflater_free(s->inflater);
    strbuf_free(&s->control);
    free(s->streams);
    free(s);
}

static uint32_t get_u32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void put_u32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> (24 - 8 * i));
}

static struct stream *find(const struct spdy *s, uint32_t id)
{
    size_t low = 0, high = s->count;

    while (low < high) {
        size_t mid = (low + high) / 2;
        if (s->streams[mid].id < id)
            low = mid + 1;
        else
            high = mid;
    }
    return low < s->count && s->streams[low].id == id ? &s->streams[low] : NULL;
}

static void drop(struct spdy *s, struct stream *st)
{
    size_t at = (size_t)(st - s->streams);

    s->count--;
    for (; at < s->count; at++)
        s->streams[at] = s->streams[at + 1];
}

/* Out. */

static void send_control(struct spdy *s, enum frame_type type, const void *payload, size_t len)
{
    uint8_t head[HEAD] = {0x80, 3, 0, (uint8_t)type};

    put_u32(head + 4, (uint32_t)len);
    s->cb->write(s->arg, head, sizeof(head), payload, len);
}

static void send_reset(struct spdy *s, uint32_t stream, enum spdy_status status)
{
    uint8_t body[8];

    put_u32(body, stream);
    put_u32(body + 4, status);
    send_control(s, RST_STREAM, body, sizeof(body));
}

void spdy_reply(struct spdy *s, uint32_t stream)
{
    uint8_t body[32];
    size_t len;

    if (!find(s, stream))
        return;
    const uint8_t *block = spdy_empty_block(!s->replied, &len);
    s->replied = true;
    put_u32(body, stream);
    for (size_t i = 0; i < len; i++)
        body[4 + i] = block[i];
    send_control(s, SYN_REPLY, body, 4 + len);
}

void spdy_own(struct spdy *s, uint32_t stream, void *owner)
{
    struct stream *st = find(s, stream);

    if (st)
        st->owner = owner;
}

void spdy_data(struct spdy *s, uint32_t stream, const void *data, size_t len, bool fin)
{
    struct stream *st = find(s, stream);
    const uint8_t *p = data;

    if (!st || st->out_over || (len == 0 && !fin))
        return;
    do {
        size_t n = MIN(len, (size_t)LENGTH_MASK);
        uint8_t head[HEAD];
        put_u32(head, stream);
        put_u32(head + 4, (uint32_t)n | (fin && n == len ? (uint32_t)FLAG_FIN << 24 : 0));
        s->cb->write(s->arg, head, sizeof(head), p, n);
        p += n;
        len -= n;
    } while (len > 0);
    st->out_over = fin;
    if (st->out_over && st->in_over)
        drop(s, st);
}

void spdy_reset(struct spdy *s, uint32_t stream, enum spdy_status status)
{
    struct stream *st = find(s, stream);

    if (!st)
        return;
    send_reset(s, stream, status);
    drop(s, st);
}

void spdy_goaway(struct spdy *s)
{
    uint8_t body[8] = {0};

    put_u32(body, s->last);
    send_control(s, GOAWAY, body, sizeof(body));
}

/* In. */

static int syn_stream(struct spdy *s, uint8_t flags, const uint8_t *p, size_t len, struct error *err)
{
    struct http_headers headers = {0};
    uint32_t id = len >= 10 ? get_u32(p) & STREAM_MASK : 0;

    if (id % 2 == 0 || id <= s->last)
        return error_set(err, EPROTO, "SPDY: bad number of a new stream");
    s->last = id;
    int r = spdy_headers_parse(s->inflater, p + 10, len - 10, &headers, err);
    if (r == 0 && s->count >= SPDY_STREAMS_MAX) {
        send_reset(s, id, SPDY_REFUSED_STREAM);
    } else if (r == 0) {
        GROW(s->streams, s->capacity, s->count + 1);
        s->streams[s->count++] = (struct stream){.id = id, .in_over = flags & FLAG_FIN};
        s->cb->open(s->arg, id, &headers, flags & FLAG_FIN);
    }
    http_headers_free(&headers);
    return r;
}

/* Headers behind the first ones say nothing to us; the compressed stream must be followed all the same. */
static int late_headers(struct spdy *s, uint8_t flags, const uint8_t *p, size_t len, struct error *err)
{
    struct http_headers headers = {0};
    int r = len < 4 ? error_set(err, EPROTO, "SPDY: frame of headers cut short")
                    : spdy_headers_parse(s->inflater, p + 4, len - 4, &headers, err);
    struct stream *st = r == 0 ? find(s, get_u32(p) & STREAM_MASK) : NULL;

    http_headers_free(&headers);
    if (st && !st->in_over && (flags & FLAG_FIN)) {
        uint32_t id = st->id;
        void *owner = st->owner;
        st->in_over = true;
        if (st->out_over)
            drop(s, st);
        s->cb->data(s->arg, owner, id, "", 0, true);
    }
    return r;
}

static int control_frame(struct spdy *s, const uint8_t *frame, size_t len, struct error *err)
{
    unsigned type = (unsigned)frame[2] << 8 | frame[3];
    const uint8_t *p = frame + HEAD;

    switch (type) {
    case SYN_STREAM:
        return syn_stream(s, frame[4], p, len, err);
    case SYN_REPLY:
    case HEADERS:
        return late_headers(s, frame[4], p, len, err);
    case PING:
        if (len == 4 && (p[3] & 1)) /* theirs are odd; even ones would be answers to ours */
            send_control(s, PING, p, len);
        return 0;
    case RST_STREAM: {
        struct stream *st = len == 8 ? find(s, get_u32(p) & STREAM_MASK) : NULL;
        if (st) {
            uint32_t id = st->id;
            void *owner = st->owner;
            drop(s, st);
            s->cb->reset(s->arg, owner, id);
        }
        return 0;
    }
    default: /* SETTINGS, WINDOW_UPDATE, GOAWAY and what is unknown: nothing to do */
        return 0;
    }
}

static void deliver(struct spdy *s, const uint8_t *data, size_t len, bool fin)
{
    uint32_t id = s->data_stream;
    struct stream *st = find(s, id);

    if (!st || st->in_over || (len == 0 && !fin))
        return;
    void *owner = st->owner;
    st->in_over = fin;
    if (fin && st->out_over)
        drop(s, st);
    s->cb->data(s->arg, owner, id, data, len, fin);
}

/* A head is whole: what it begins.. */
static int begin_frame(struct spdy *s, struct error *err)
{
    const uint8_t *head = (const uint8_t *)strbuf_str(&s->control);
    size_t len = get_u32(head + 4) & LENGTH_MASK;

    if (head[0] & 0x80) {
        if ((head[0] & 0x7f) != 0 || head[1] != 3)
            return error_set(err, EPROTO, "SPDY: version other than 3");
        if (len > SPDY_CONTROL_MAX)
            return error_set(err, EPROTO, "SPDY: control frame above %u bytes", SPDY_CONTROL_MAX);
        return 0;
    }
    s->in_data = true;
    s->data_stream = get_u32(head);
    s->data_left = len;
    s->data_fin = head[4] & FLAG_FIN;
    strbuf_free(&s->control);
    if (len == 0) {
        s->in_data = false;
        deliver(s, head, 0, s->data_fin);
    }
    return 0;
}

/* Gathers up to want bytes; true when they are there. */
static bool gather(struct spdy *s, size_t want, const uint8_t **p, size_t *left)
{
    size_t n = MIN(want - s->control.len, *left);

    strbuf_add(&s->control, (const char *)*p, n);
    *p += n;
    *left -= n;
    return s->control.len == want;
}

int spdy_feed(struct spdy *s, const void *data, size_t len, struct error *err)
{
    const uint8_t *p = data;

    while (len > 0) {
        if (s->in_data) {
            size_t n = MIN(len, s->data_left);
            s->data_left -= n;
            s->in_data = s->data_left > 0;
            deliver(s, p, n, s->data_fin && !s->in_data);
            p += n;
            len -= n;
            continue;
        }
        if (s->control.len < HEAD) {
            if (!gather(s, HEAD, &p, &len))
                return 0;
            if (begin_frame(s, err) < 0)
                return -EPROTO;
            if (s->control.len == 0)
                continue;
        }
        size_t body = get_u32((const uint8_t *)strbuf_str(&s->control) + 4) & LENGTH_MASK;
        if (!gather(s, HEAD + body, &p, &len))
            return 0;
        int r = control_frame(s, (const uint8_t *)strbuf_str(&s->control), body, err);
        strbuf_free(&s->control);
        if (r < 0)
            return r;
    }
    return 0;
}
