/*
 * WebSocket (RFC 6455) over a taken-over HTTP connection, framing by wslay. No extensions are ever negotiated.
 * Messages are delivered whole up to max_message_bytes (1009 beyond). Pings are answered here.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct http_request;
struct bufferevent;
struct websocket;

struct websocket_callbacks {
    /* data is never NULL. */
    void (*message)(void *arg, struct websocket *ws, bool binary, const char *data, size_t len);
    /*
     * The end: the peer closed (code as sent, 1005 without one), it broke the protocol or a limit (the code it was
     * told), websocket_close() finished (its code), or the connection is lost (1006). Last call; ws is freed after it.
     */
    void (*closed)(void *arg, struct websocket *ws, int code);
    /* Everything queued has been written. May be NULL. */
    void (*drained)(void *arg, struct websocket *ws);
};

/* True when the request asks for a WebSocket upgrade. */
bool websocket_requested(const struct http_request *req);
/* Offered subprotocols, as sent, one by one; NULL past the end. The caller frees. */
char *websocket_offered(const struct http_request *req, size_t index);
/*
 * Answers 101 and takes the connection; req is gone afterwards. protocol (may be NULL) is echoed exactly.
 * A malformed handshake is answered with 400 and NULL is returned (req is gone as well).
 */
struct websocket *websocket_accept(struct http_request *req, const char *protocol, size_t max_message_bytes,
                                   const struct websocket_callbacks *cb, void *arg);
/*
 * The client's end: adds the handshake's headers to a request to be made with http_call_upgrade(), and takes the
 * connection that its upgraded callback was given. protocols: comma-separated offer, may be NULL.
 * websocket_connected() returns NULL, and closes the connection, when the server's answer is not a valid handshake.
 */
struct http_headers;
struct event_base;
void websocket_handshake(struct http_headers *headers, const char *protocols);
struct websocket *websocket_connected(struct event_base *base, struct bufferevent *bev,
                                      const struct http_headers *request, const struct http_headers *answer,
                                      size_t max_message_bytes, const struct websocket_callbacks *cb, void *arg);

void websocket_send(struct websocket *ws, bool binary, const void *data, size_t len);
/* As one message made of two parts (a channel byte and the data) without copying them together first. */
void websocket_send2(struct websocket *ws, bool binary, const void *head, size_t head_len, const void *data,
                     size_t len);
size_t websocket_pending(const struct websocket *ws);   /* bytes not yet written */
void websocket_pause(struct websocket *ws, bool pause); /* stop reading: back-pressure; up to 4 KiB may still come */
/*
 * Sends what is queued, then a close frame; closed() runs when the peer has answered, or has not for 5 s. With code
 * 1000, the orderly end, what is queued is the peer's: it may take its time to read that, as before the close. With
 * another it is lost when the peer takes nothing for 5 s. reason may be NULL and is cut at 123 bytes.
 */
void websocket_close(struct websocket *ws, int code, const char *reason);
