/* Events are kept for an hour after their last change. One timer, for the oldest. */
#pragma once

#include "apiserver/server_internal.h"

struct event_expiry;
/* Begins with the events that are in the store. */
struct event_expiry *event_expiry_new(struct apiserver *s);
void event_expiry_free(struct event_expiry *x);
/* An event was written; stored form. */
void event_expiry_note(struct event_expiry *x, const struct json *event);
