/*
 * HTTP on libevent, server and client, over TCP, TLS and unix sockets. The server speaks HTTP/1.1, and HTTP/2 (http2.h)
 * where TLS clients ask for it; a handler sees no difference. The client speaks HTTP/1.1. One strict codec for both
 * sides (http_parse.h): anything ambiguous (CL with TE, obs-fold, bare LF, bad chunk, NUL, oversized) is 400 and the
 * connection closes. Everything runs on the thread of the event_base.
 *
 * ## Server
 * A handler gets a request when its head and (up to max_body_bytes) whole body have arrived, and owns it until it has
 * answered: http_respond() for a whole answer, or http_start() + http_write()... + http_end() for a stream, or
 * http_take_over() for an upgrade. A request must be answered exactly once, now or later. If the client goes away
 * first, on_close runs (once); the request is still to be finished with http_end() or http_respond(), which then only
 * free it. Pipelined requests on a connection are handled one after the other.
 */
#pragma once

#include "base/error.h"
#include "base/strbuf.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct event_base;
struct bufferevent;
struct evbuffer;
struct ssl_ctx_st;
struct ssl_st;

/* Header fields in order of arrival; names compare without case. Zero-initialised is empty. */
struct http_headers {
    struct http_header {
        char *name, *value;
    } * items;
    size_t count, capacity;
};
void http_headers_add(struct http_headers *h, const char *name, const char *value);
/* The first value, or NULL. */
const char *http_headers_get(const struct http_headers *h, const char *name);
/* True when a comma-separated field holds the token ("Connection: keep-alive, Upgrade"), over all its lines. */
bool http_headers_has_token(const struct http_headers *h, const char *name, const char *token);
void http_headers_free(struct http_headers *h);

struct http_server_options {
    size_t max_head_bytes;   /* 0 = 64 KiB */
    size_t max_body_bytes;   /* 0 = 3 MiB; beyond it 413 with Kubernetes' text */
    int head_timeout_ms;     /* 0 = 10 s for a whole head: slow-loris defence */
    int body_timeout_ms;     /* 0 = 60 s */
    int idle_timeout_ms;     /* 0 = 120 s between requests */
    size_t max_connections;  /* 0 = 10,000, and never more than descriptors allow; more are closed at once */
    size_t max_output_bytes; /* 0 = 8 MiB: a stream whose client does not read is closed beyond it */
    bool http2_plain;        /* without TLS: a connection that begins with HTTP/2's preface speaks it */
};

struct http_server;
struct http_request;
typedef void (*http_handler)(void *arg, struct http_request *req);

/* listen_fd: bound and listening, non-blocking; owned by the server from here on. tls may be NULL (borrowed otherwise).
 */
struct http_server *http_server_new(struct event_base *base, int listen_fd, struct ssl_ctx_st *tls,
                                    const struct http_server_options *options, http_handler handler, void *arg);
/*
 * Stops accepting; idle connections close, the others after their answer (HTTP/2: GOAWAY). on_drained (may be NULL)
 * runs once, from the loop, when no connection is left. free closes everything at once.
 */
void http_server_drain(struct http_server *s, void (*on_drained)(void *arg), void *arg);
void http_server_free(struct http_server *s);
size_t http_server_connections(const struct http_server *s);

/* What was asked. All strings live as long as the request. */
const char *http_method(const struct http_request *req);
const char *http_target(const struct http_request *req); /* as sent: path and query, undecoded */
const char *http_path(const struct http_request *req);   /* the path part, undecoded */
/* Decoded query parameters in order ('+' is a blank); NULL when absent; index counts repeats. */
const char *http_query(const struct http_request *req, const char *name);
const char *http_query_n(const struct http_request *req, const char *name, size_t index);
const struct http_headers *http_request_headers(const struct http_request *req);
const char *http_header(const struct http_request *req, const char *name);
const char *http_body(const struct http_request *req, size_t *ret_len); /* never NULL */
const char *http_peer(const struct http_request *req);                  /* "127.0.0.1:40000", "unix" */
/* uid of the peer of a unix socket; -1 elsewhere. */
int64_t http_peer_uid(const struct http_request *req);
struct ssl_st *http_tls(const struct http_request *req); /* for the client certificate; NULL without TLS */
struct event_base *http_event_base(const struct http_request *req);

/* Answering. Headers added here go out with the answer, behind Content-Type and Content-Length / Transfer-Encoding. */
void http_add_header(struct http_request *req, const char *name, const char *value);
void http_respond(struct http_request *req, int status, const char *content_type, const void *body, size_t len);
void http_start(struct http_request *req, int status, const char *content_type); /* chunked; headers flushed at once */
/* The same with a body of a length known beforehand (with HEAD: told, and not sent); < 0: unknown. */
void http_start_sized(struct http_request *req, int status, const char *content_type, int64_t length);
/* false: the client is gone (or was dropped for not reading); stop and call http_end(). */
bool http_write(struct http_request *req, const void *data, size_t len);
void http_end(struct http_request *req);
/* In place of http_end(): the answer that was begun cannot be completed, and the client is to see that. */
void http_abort(struct http_request *req);
/* Bytes written and not yet taken by the kernel. on_drain runs each time they fall to zero. */
size_t http_output_pending(const struct http_request *req);
void http_on_drain(struct http_request *req, void (*cb)(void *arg, struct http_request *req), void *arg);
void http_on_close(struct http_request *req, void (*cb)(void *arg, struct http_request *req), void *arg);
/* Each cb runs once, when the request is freed: after the whole answer was handed over, or when it was taken over.
 * status is what was answered, 0 for a request that ended without an answer. */
void http_on_finish(struct http_request *req, void (*cb)(void *arg, const struct http_request *req, int status),
                    void *arg);
bool http_is_closed(const struct http_request *req);
/* low: on a loop that has priorities (loop.h) the connection comes behind those that are not low, until told otherwise.
 */
void http_set_low_priority(struct http_request *req, bool low);
/*
 * Sends "101 Switching Protocols" (or status 200 for CONNECT) with the headers added so far and gives the connection
 * to the caller (bytes that followed the head are in its input buffer). The request is freed. NULL: the client is gone,
 * or speaks HTTP/2, where it is told to come back with HTTP/1.1.
 */
struct bufferevent *http_take_over(struct http_request *req, int status);

/* Percent-decodes into a new string; NULL when malformed, or holding NUL. plus: '+' means blank. */
char *url_decode(const char *s, size_t len, bool plus);
char *url_encode(const char *s); /* everything but unreserved characters */

/*
 * ## Client
 * One http_client per server; connections are kept and reused (HTTP/1.1, no pipelining), opened as needed.
 * A call's callbacks run on the loop, never from within http_call(). Exactly one of done/failed ends a call.
 */
struct http_client;
struct http_call;

struct http_client_options {
    const char *host; /* TCP: name or address, also used for Host and TLS verification */
    uint16_t port;
    const char *unix_path;    /* instead of host and port */
    struct ssl_ctx_st *tls;   /* borrowed; NULL = plain. The context holds CA and client certificate */
    const char *bearer_token; /* copied; sent as Authorization when set */
    const char *user_agent;
    int connect_timeout_ms; /* 0 = 10 s */
    size_t max_connections; /* 0 = 64; calls beyond wait in order */
};

struct http_call_callbacks {
    /* Head of the answer. May be NULL. */
    void (*headers)(void *arg, int status, const struct http_headers *headers);
    /* A piece of the body (streaming). NULL: the body is collected and given to done. */
    void (*data)(void *arg, const char *data, size_t len);
    /* The answer is complete. body is NUL-terminated, empty when data was set. */
    void (*done)(void *arg, int status, const struct http_headers *headers, const char *body, size_t len);
    /* No (whole) answer: connection refused, reset, timeout, malformed. */
    void (*failed)(void *arg, const struct error *err);
};

struct http_client *http_client_new(struct event_base *base, const struct http_client_options *options);
void http_client_free(struct http_client *c); /* calls in flight fail silently: no callback runs */
/* timeout_ms: of the whole call, 0 = none (watches). headers and body are copied. cb is borrowed (static tables). */
struct http_call *http_call(struct http_client *c, const char *method, const char *target,
                            const struct http_headers *headers, const void *body, size_t len, int timeout_ms,
                            const struct http_call_callbacks *cb, void *arg);
/* No callback runs afterwards; the connection is closed. */
void http_call_cancel(struct http_call *call);
/* Asks for an upgrade; on 101 the connection is handed to upgraded (which owns it), else done/failed run. */
struct http_call *
http_call_upgrade(struct http_client *c, const char *method, const char *target, const struct http_headers *headers,
                  const struct http_call_callbacks *cb,
                  void (*upgraded)(void *arg, struct bufferevent *bev, const struct http_headers *headers), void *arg);
