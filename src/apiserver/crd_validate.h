/*
 * What is wrong with a CustomResourceDefinition, besides what its own schema says. Its schemas are
 * structural_check.h's business, which this calls.
 */
#pragma once

#include "apiserver/field_errors.h"

/* old: NULL for a new one. */
void crd_validate(const struct json *crd, const struct json *old, struct field_errors *errors);
/* Of the status: objects may lie in the store in these versions, and could not be read without them. */
void crd_validate_stored_versions(const struct json *crd, struct field_errors *errors);
