/* The scale subresource of custom kinds: autoscaling/v1 Scale over the paths their definition names. */
#pragma once

#include "apiserver/server_internal.h"

void scale_execute(struct api_call *c);
