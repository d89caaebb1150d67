/*
 * What is wrong with a CustomResourceDefinition, besides what its own schema says. Its schemas are
 * structural_check.h's business, which this calls.
 */
#pragma once

#include "apiserver/field_errors.h"

/* old: NULL for a new one. */
void crd_validate(const struct json *crd, const struct json *old, struct field_errors *errors);
