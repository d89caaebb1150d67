/* What the schema cannot say of a new Pod. */
#pragma once

#include "apiserver/server_internal.h"

void pod_validate_new(const struct apiserver *s, const struct json *pod, struct field_errors *errors);
