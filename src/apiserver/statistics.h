/*
 * What GET /metrics tells, in Prometheus' text format: requests by verb and resource, what is open and waiting, objects
 * in the store, and the process. Names and labels are those of a Kubernetes API server where it has them. Labels are of
 * resources and subresources that are served, so no client can make new ones.
 */
#pragma once

#include "apiserver/exchange.h"

struct statistics;

struct statistics *statistics_new(void);
void statistics_free(struct statistics *s);

/*
 * Counts a request from here on to its end, however it ends. x->call has verb, resource (NULL: it is of no resource)
 * and subresource. goes_on: it may take as long as its client likes.
 */
void statistics_request(struct statistics *s, const struct exchange *x, bool goes_on);
/* What counts the events that watches of r have been sent; it lives as long as s. */
uint64_t *statistics_watch_events(struct statistics *s, const struct resource *r);
/* A request was refused for want of who it is from. */
void statistics_unauthorized(struct statistics *s);

void statistics_answer(const struct apiserver *server, struct http_request *req);
