/* What http_server.c (connections) and http_request.c (requests and answers) share. */
#pragma once

#include "wire/http_parse.h"

#include <event2/util.h>

struct http2_conn;
struct http2_stream;
struct http_leash;
struct bufferevent;

struct http_server {
    struct event_base *base;
    int fd;
    struct ssl_ctx_st *tls;
    struct http_server_options options;
    http_handler handler;
    void *arg;
    struct event *accept_event, *sweep;
    struct http_conn *conns;
    size_t count, most; /* connections: now, and since memory was given back last */
    bool draining, accept_paused;
    int64_t complained_ns; /* when the log last heard of connections that could not be taken */
    unsigned complaints;   /* since then */
    void (*on_drained)(void *arg);
    void *on_drained_arg;
};

/* CLOSING: the last answer is being written. LINGER: it is, and what the client still sends is thrown away. HTTP2: the
 * states are those of its streams. */
enum conn_state { CONN_HEAD, CONN_BODY, CONN_BUSY, CONN_HTTP2, CONN_CLOSING, CONN_LINGER };

struct http_conn {
    bool low_priority;
    struct http_server *server;
    struct http_conn *next, **prev;
    struct bufferevent *bev;
    enum conn_state state;
    int64_t deadline_ns; /* 0 = none */
    size_t pending;      /* output when the client last was seen to take enough of it, or more that has come since */
    int64_t taken_ns;    /* when that was */
    size_t scanned;
    struct http2_conn *h2; /* NULL: HTTP/1.1 */
    struct http_request *req;
    struct http_body_reader reader;
    char *peer;
    int64_t peer_uid;
    unsigned entered; /* callbacks on the stack: freed when they have returned */
    bool dead;
    bool held; /* so much has been sent ahead of the answers that reading stopped */
    bool too_large;
};

/* Who wants to know that a request has ended; the last to ask is told first. */
struct http_finish {
    void (*cb)(void *arg, const struct http_request *req, int status);
    void *arg;
    struct http_finish *next;
};

struct http_request {
    struct http_conn *conn;      /* NULL once the client is gone */
    struct http2_stream *stream; /* of an HTTP/2 connection; NULL once the client is gone */
    struct event_base *base;
    struct http_head head;
    char *path;
    struct http_headers query; /* decoded; names compare exactly */
    struct strbuf body;
    struct http_headers out;
    char *peer; /* kept when the connection goes */
    int64_t peer_uid;
    bool started, chunked, keep_alive;
    bool bodyless; /* HEAD, 204, 304: the answer ends with its head */
    void (*on_close)(void *arg, struct http_request *req);
    void *on_close_arg;
    void (*on_drain)(void *arg, struct http_request *req);
    void *on_drain_arg;
    int status; /* of the answer; 0 = none yet */
    struct http_finish *on_finish;
    struct http_leash *leash; /* NULL = none */
};

/* http_leash.c: the request is freed; its connection (NULL: the client is gone) belongs to somebody else. */
void http_leash_answered(struct http_leash *l);
void http_leash_taken_over(struct http_leash *l, struct bufferevent *bev);

/* Makes the request of a whole head, which it takes. */
struct http_request *http_request_new(struct http_conn *c, struct http_head *head);
void http_request_free(struct http_request *req);
/* The client is gone: req keeps what is known of it. */
void http_request_detach(struct http_request *req);
const char *http_reason_phrase(int status);
/* Kubernetes' text for a 413. */
char *http_too_large_text(const struct http_server *s);

/* Ends a connection at once; its request, if any, hears of it. */
void http_conn_close(struct http_conn *c);
/* After an answer: the next request, or the end. */
void http_conn_answered(struct http_conn *c, bool keep);
/* Closes once everything is written. */
void http_conn_finish(struct http_conn *c);
/* A callback has returned (c->entered was raised before it): c may be freed. */
void http_conn_leave(struct http_conn *c);

/* http_accept.c */
void http_on_accept(evutil_socket_t fd, short what, void *server);
/* A second after there was no room. */
void http_accept_resume(struct http_server *s);
/* Makes max_connections what the process's descriptors allow. */
void http_accept_limit(struct http_server *s);
/* A new connection, linked into its server's list. */
void http_conn_begin(struct http_conn *c);
