/* What http_server.c (connections) and http_request.c (requests and answers) share. */
#pragma once

#include "wire/http_parse.h"

struct http_server {
    struct event_base *base;
    int fd;
    struct ssl_ctx_st *tls;
    struct http_server_options options;
    http_handler handler;
    void *arg;
    struct event *accept_event, *sweep;
    struct http_conn *conns;
    size_t count;
    bool draining, accept_paused;
};

/* CLOSING: the last answer is being written. LINGER: it is, and what the client still sends is thrown away. */
enum conn_state { CONN_HEAD, CONN_BODY, CONN_BUSY, CONN_CLOSING, CONN_LINGER };

struct http_conn {
    struct http_server *server;
    struct http_conn *next, **prev;
    struct bufferevent *bev;
    enum conn_state state;
    int64_t deadline_ns; /* 0 = none */
    size_t pending;      /* output at the last sweep: a client that takes some is alive */
    size_t scanned;
    struct http_request *req;
    struct http_body_reader reader;
    char *peer;
    int64_t peer_uid;
    unsigned entered; /* callbacks on the stack: freed when they have returned */
    bool dead;
    bool held; /* so much has been sent ahead of the answers that reading stopped */
    bool too_large;
};

struct http_request {
    struct http_conn *conn; /* NULL once the client is gone */
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
    void (*on_finish)(void *arg, const struct http_request *req, int status);
    void *on_finish_arg;
};

/* Makes the request of a whole head, which it takes. */
struct http_request *http_request_new(struct http_conn *c, struct http_head *head);
void http_request_free(struct http_request *req);
const char *http_reason_phrase(int status);

/* Ends a connection at once; its request, if any, hears of it. */
void http_conn_close(struct http_conn *c);
/* After an answer: the next request, or the end. */
void http_conn_answered(struct http_conn *c, bool keep);
