/*
 * metrics.k8s.io: what Pods and the node use. Nothing of it is stored: each question goes to the node (streams.h), and
 * is answered when the node has.
 */
#pragma once

#include "apiserver/exchange.h"

bool metrics_wants(const struct api_call *c);
/* Takes x. */
void metrics_handle(struct exchange *x);

/* The PodMetrics of a Pod from the node's readings; NULL when it has none of it. The caller owns it. */
struct json *metrics_of_pod(const struct json *pod, const struct json *readings);
struct json *metrics_of_node(const struct json *node, const struct json *readings);
