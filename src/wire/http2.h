/*
 * One HTTP/2 connection of the server (RFC 9113), framing by nghttp2: what http_server.c and http_request.c do with it.
 * Many requests share the connection; each is a struct http_request as with HTTP/1.1, and what is above wire/ cannot
 * tell. Nothing here calls a handler or a callback from within the function that caused it: that happens on the
 * connection's turn of the loop.
 *
 * Bounds: concurrent streams; the size and number of header fields (431); a body (413); the bodies of one connection
 * together, by withholding its window; the output of a stream, as on HTTP/1.1, and of all of them together; answers
 * that nobody takes, requests that do not arrive whole, and frames that cost work and carry nothing.
 */
#pragma once

#include "wire/http_server_internal.h"

/* Takes over the framing of a connection from its first byte on. */
void http2_open(struct http_conn *c);
/* Frees what http2_open() made; requests have been detached by http2_detach(). */
void http2_free(struct http2_conn *h);
/* The connection is gone: every request loses it and hears of it. */
void http2_detach(struct http2_conn *h);

/* Input has come; the output has been taken; a second has passed (true: nothing left to wait for, close). */
void http2_received(struct http2_conn *h);
void http2_written(struct http2_conn *h);
/* Of what it does by itself, on a loop with priorities. */
void http2_set_priority(struct http2_conn *h, int priority);
bool http2_sweep(struct http2_conn *h, int64_t now_ns);
/* GOAWAY: what is being answered is answered, nothing new is taken. */
void http2_drain(struct http2_conn *h);

/* The answer of req, which has a stream. length < 0: a body of unknown length, or none with end. */
void http2_answer_head(struct http_request *req, int status, const char *content_type, int64_t length, bool end);
/* false: too much is waiting; the stream was ended and req has no connection any more. */
bool http2_answer_write(struct http_request *req, const void *data, size_t len, bool limited);
/* The answer is complete (or, not begun, never comes); req is about to be freed. */
void http2_answer_end(struct http_request *req);
/* The answer breaks off; req is about to be freed. */
void http2_answer_abort(struct http_request *req);
/* The client should come back with HTTP/1.1: an upgrade was asked for. req is about to be freed. */
void http2_answer_by_http1(struct http_request *req);
size_t http2_answer_pending(const struct http_request *req);
