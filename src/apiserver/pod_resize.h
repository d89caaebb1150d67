/* pods/resize: another measure of cpu and memory for a pod that runs. */
#pragma once

#include "apiserver/server_internal.h"

/* old with the resources and resize policies of object's containers, which are found by their names. Takes object. */
struct json *pod_resize_merge(struct json *object, const struct json *old);
/* -1: what object asks for cannot be, and c is answered. */
int pod_resize_check(struct api_call *c, const struct json *object, const struct json *old);
/* "Guaranteed", "Burstable" or "BestEffort". */
const char *pod_qos_class(const struct json *spec);
