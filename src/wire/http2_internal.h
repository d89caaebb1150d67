/* What http2.c (the connection), http2_request.c (what comes in) and http2_answer.c (what goes out) share. */
#pragma once

#include "wire/http2.h"

#include <event2/buffer.h>
#include <nghttp2/nghttp2.h>

/* Kubernetes' own servers allow as many. */
#define HTTP2_STREAMS_MAX 100
#define HTTP2_STREAM_WINDOW (256 << 10)
#define HTTP2_CONNECTION_WINDOW (1 << 20)
/* Bodies of requests that have not been answered: beyond it the connection's window stays shut. */
#define HTTP2_BODIES_MAX (8u << 20)
/* Frames wait in the streams until the socket has taken those before: what a stream may hold is bounded there. */
#define HTTP2_OUTPUT_HIGH (128u << 10)
/* All streams together may hold this many times what one may. */
#define HTTP2_OUTPUT_SHARE 4
#define HTTP2_FIELDS_MAX 200

struct http2_stream {
    struct http2_conn *h;
    int32_t id;
    struct http2_stream *next, **prev;
    struct http2_stream *next_in_queue; /* of ready, drained or gone: it is in one of them */
    struct http_request *req;           /* NULL once it is answered, or lost */
    struct http_head head;              /* until there is a request */
    char *authority;
    size_t head_bytes, body_bytes;
    int64_t deadline_ns; /* for the whole request; 0 = it is here */
    struct evbuffer *out;
    int64_t stuck_ns; /* since when the client takes nothing; 0 = it does */
    bool taken;       /* some of out, since the last sweep */
    bool ready;       /* the request is whole */
    bool handled;     /* its handler has been called */
    bool refused;     /* answered before its end; what still comes is dropped */
    bool answered;    /* a head has been sent */
    bool ended;       /* nothing will be added to out */
    bool deferred;    /* nghttp2 waits to be told of more */
    bool drained;     /* is in the queue of those whose output is empty */
    bool gone;        /* closed on the wire; freed when its request has heard */
};

struct http2_queue {
    struct http2_stream *first, **last;
};

struct http2_conn {
    struct http_conn *c;
    nghttp2_session *session;
    struct event *turn;
    struct http2_stream *streams;
    size_t count;
    struct http2_queue ready, drained, gone;
    size_t out_bytes, body_bytes, withheld;
    int64_t head_deadline_ns; /* a header block has begun; 0 = none */
    int64_t idle_since_ns;
    int64_t glitches_at_ns;
    unsigned glitches;
    bool pumping, draining, failed;
    bool last_word; /* the GOAWAY that names the last stream was sent */
};

void http2_queue_push(struct http2_queue *q, struct http2_stream *st);
struct http2_stream *http2_queue_pop(struct http2_queue *q);
void http2_queue_remove(struct http2_queue *q, struct http2_stream *st);

/* Something can be sent or run: on this turn of the loop, not now. */
void http2_kick(struct http2_conn *h);
void http2_reset(struct http2_stream *st, uint32_t code);
/* One of the frames that cost work and carry nothing; false: there were too many. */
bool http2_glitch(struct http2_conn *h);
/* The body of a request is not needed any more: its room can be used again. */
void http2_body_done(struct http2_stream *st);
/* An answer that belongs to no handler. */
void http2_refuse(struct http2_stream *st, int status, const char *text);
/* http2_request.c: fills in what happens with frames that arrive. */
void http2_request_callbacks(nghttp2_session_callbacks *cb);
