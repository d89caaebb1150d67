/*
 * SPDY/3.1, the server's end, as far as Kubernetes' clients use it: streams with headers and data in both directions,
 * half closed one by one. Bytes go in by spdy_feed() and come out by the write callback; the transport is the caller's.
 * There is no flow control but the transport's own (the clients neither keep nor send windows), priorities mean
 * nothing.
 *
 * Callbacks run from within spdy_feed(); they may call everything here but spdy_feed() and spdy_free().
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct http_headers;
struct spdy;

#define SPDY_STREAMS_MAX 4096             /* open at once; more are refused one by one */
#define SPDY_CONTROL_MAX (64u << 10)      /* bytes of a control frame */
#define SPDY_HEADER_BLOCK_MAX (64u << 10) /* inflated */

enum spdy_status { SPDY_PROTOCOL_ERROR = 1, SPDY_INVALID_STREAM = 2, SPDY_REFUSED_STREAM = 3, SPDY_CANCEL = 5 };

/* owner: what spdy_own() has said of the stream last, NULL before that. */
struct spdy_callbacks {
    /* A stream of the client. fin: it will send nothing. */
    void (*open)(void *arg, uint32_t stream, const struct http_headers *headers, bool fin);
    /* len may be 0 with fin. Comes in pieces, as the bytes do. */
    void (*data)(void *arg, void *owner, uint32_t stream, const void *data, size_t len, bool fin);
    void (*reset)(void *arg, void *owner, uint32_t stream); /* the client wants no more of it; it is gone */
    void (*write)(void *arg, const void *head, size_t head_len, const void *data, size_t len);
};

struct spdy *spdy_new(const struct spdy_callbacks *cb, void *arg);
void spdy_free(struct spdy *s);
/* EPROTO: the connection is to be closed. */
int spdy_feed(struct spdy *s, const void *data, size_t len, struct error *err);

/* A stream that is gone takes nothing: these do nothing then. One that both sides have ended is gone. */
void spdy_reply(struct spdy *s, uint32_t stream); /* accepts it */
void spdy_own(struct spdy *s, uint32_t stream, void *owner);
void spdy_data(struct spdy *s, uint32_t stream, const void *data, size_t len, bool fin);
void spdy_reset(struct spdy *s, uint32_t stream, enum spdy_status status);
void spdy_goaway(struct spdy *s);

/* In spdy_headers.c: one compressed block after another, all of one connection. */
struct spdy_inflater;
struct spdy_inflater *spdy_inflater_new(void);
void spdy_inflater_free(struct spdy_inflater *z);
int spdy_headers_parse(struct spdy_inflater *z, const uint8_t *data, size_t len, struct http_headers *ret,
                       struct error *err);
/* The block with no headers, compressed: the first of a connection, and every later one. */
const uint8_t *spdy_empty_block(bool first, size_t *ret_len);
