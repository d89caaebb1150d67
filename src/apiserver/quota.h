/*
 * ResourceQuotas. What is in use is counted from the objects themselves and then kept up with every change of one, so
 * it cannot drift: after a start, and after the store has rolled back, it is counted anew. status.used is written at
 * the end of the turn of the loop in which something changed, once for all that came together.
 */
#pragma once

#include "apiserver/server_internal.h"

struct quotas;

struct quotas *quotas_new(struct apiserver *s);
void quotas_free(struct quotas *q);
/* The store has rolled back: counts anew. */
void quotas_forget(struct quotas *q);
/* -1: c's write would exceed a quota, and is answered. object is final but for its resourceVersion; old may be NULL. */
int quotas_admit(struct api_call *c, const struct json *object, const struct json *old);
/* After any change of a stored object, in storage form; old or new may be NULL. */
void quotas_changed(struct quotas *q, const struct resource *r, const struct json *old, const struct json *new);
