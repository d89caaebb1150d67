/*
 * A connection to a port inside a sandbox (GUEST_CONNECT of guest_frame.h). Exactly one of connected and failed is
 * called, from the loop, unless guest_connect_free() comes first; the call is freed after it.
 */
#pragma once

#include "base/error.h"

#include <stdint.h>

struct event_base;
struct bufferevent;
struct guest_connect;

struct guest_connect_callbacks {
    /*
     * bev belongs to the callback, with no callbacks of its own yet, disabled; bytes may already be in its input. The
     * end of a direction is that of the connection inside: shutdown(2) passes on the end of what is sent.
     */
    void (*connected)(void *arg, struct bufferevent *bev);
    /* ECONNREFUSED and the like: of the connection inside; ECONNRESET: the sandbox has gone. */
    void (*failed)(void *arg, const struct error *err);
};

/* fd: a connected socket of the guest; taken, also on failure. */
struct guest_connect *guest_connect(struct event_base *base, int fd, uint16_t port,
                                    const struct guest_connect_callbacks *cb, void *arg, struct error *err);
void guest_connect_free(struct guest_connect *c);
