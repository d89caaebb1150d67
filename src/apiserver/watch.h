/*
 * WATCH for HTTP clients: a stream of events, JSON a line or protobuf frames, each held back until it is on disk. A
 * stream ends by itself at its timeout, when its resource is no longer served, and when its client does not read.
 */
#pragma once

#include "apiserver/negotiate.h"
#include "apiserver/server_internal.h"
#include "apiserver/table.h"

/* Takes req when it returns 0; -1: refused, see c, and req is still the caller's. Everything else is copied. */
int watch_start(struct api_call *c, struct http_request *req, const struct answer_type *type,
                enum table_object include);
/* Ends the streams of resources that are gone; to be called when the resource table has changed. */
void watch_check_resources(struct apiserver *s);
/* Ends all. */
void watch_stop_all(struct apiserver *s);
