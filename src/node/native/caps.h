/* Capabilities of the payload. */
#pragma once

#include "base/error.h"

#include <stdint.h>

/* The bit of a capability named as in Kubernetes ("NET_BIND_SERVICE", with or without "CAP_"); 0 = no such name. */
uint64_t caps_from_name(const char *name);

/*
 * Limits the calling process, and all that it executes, to keep: bounding, permitted, effective; inheritable and
 * ambient become empty. To be called inside the user namespace, as its root.
 */
int caps_limit(uint64_t keep, struct error *err);
