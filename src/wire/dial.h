/*
 * Outgoing connections: a bufferevent, with TLS when asked for, on its way to a host or a unix socket. Its event
 * callback hears BEV_EVENT_CONNECTED once TLS is up as well, or the error. Callbacks are deferred to the loop.
 */
#pragma once

#include <stdint.h>

struct bufferevent;
struct event_base;
struct evdns_base;
struct ssl_ctx_st;

struct dial_target {
    char *host; /* name or address, also what the server's certificate must name; NULL with unix_path: "localhost" */
    uint16_t port;
    char *unix_path;        /* instead of host and port */
    struct ssl_ctx_st *tls; /* NULL = plain */
};

struct bufferevent *dial_new(struct event_base *base, const struct dial_target *t);
/*
 * Begins to connect. 0, or -1 with errno. Names are looked up through *dns, which is made when it is first needed and
 * belongs to the caller; the first address is taken.
 */
int dial(struct event_base *base, struct bufferevent *bev, const struct dial_target *t, struct evdns_base **dns);
/* To be called once connected. */
void dial_connected(struct bufferevent *bev);
/* Why TLS failed; NULL when it did not. The caller frees. */
char *dial_tls_failure(struct bufferevent *bev);
