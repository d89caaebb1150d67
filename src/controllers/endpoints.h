/*
 * Keeps the EndpointSlices and the Endpoints of every Service that has a selector: the addresses of the Pods it selects
 * and the ports they listen on. A Service without a selector is left to whoever writes its endpoints.
 *
 * Pods whose named ports lead to different numbers are in different slices. Slices belong to the Service and go with
 * it; the Endpoints object, which by custom has no owner, is removed here.
 */
#pragma once

#include "kube/runner.h"

extern const struct controller endpoints_controller;

/* What there should be for a Service and the Pods that it selects, without owner: new values. */
struct json *endpoints_slices(const struct json *service, const struct json *pods);  /* an array of EndpointSlices */
struct json *endpoints_subsets(const struct json *service, const struct json *pods); /* of an Endpoints object */
