/*
 * A hold on a request of the server from outside: whoever owns the request, and whatever becomes of it, the exchange
 * with the client can be ended.
 */
#pragma once

#include "wire/http.h"

struct http_leash;

/* One a request at most. over (may be NULL) runs when the request has been answered; not when it was taken over. */
struct http_leash *http_leash_new(struct http_request *req, void (*over)(void *arg), void *arg);
void http_leash_free(struct http_leash *l);
/*
 * Ends it as if the client had gone: the owner is told by on_close and finishes the answer, which ends properly if it
 * has begun. Without on_close, in the midst of a body whose length was told, or when the connection was taken over, the
 * connection is cut. over may run.
 */
void http_leash_cut(struct http_leash *l);
/* Whether nothing is left to be cut: it was answered, or what took the connection over has closed it. */
bool http_leash_over(const struct http_leash *l);
