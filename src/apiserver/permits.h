/*
 * What a request that goes on was allowed for: watches, logs, exec, attach, port-forward and proxies. When rights
 * change, or a ServiceAccount or what its token is bound to goes, each is looked at again, and what would not be
 * allowed now is ended. That happens once at the end of the turn of the loop, however much has changed in it. Each
 * ends, too, when the certificate or token that it came with is good no more.
 */
#pragma once

#include "apiserver/rbac_rule.h"
#include "apiserver/server_internal.h"

struct permits;

struct permits *permits_new(struct apiserver *s);
void permits_free(struct permits *p);
/* user may do a, and req is going to take long about it. Ends by itself when req is over. */
void permits_hold(struct permits *p, const struct user_info *user, const struct access *a, struct http_request *req);
/* Something has changed. arg: the permits. */
void permits_review(void *arg);
/* The same when an object of r is gone and a token may be bound to it: costs nothing while no request came with one. */
void permits_object_gone(struct permits *p, const struct resource *r);
