/*
 * Whether the schema of a CustomResourceDefinition is one that structural.h can work with: Kubernetes' rules for
 * structural schemas, patterns and CEL rules that compile and mention only fields that exist, defaults that are valid.
 */
#pragma once

#include "apiserver/field_errors.h"

/* field: where the schema stands, "spec.versions[0].schema.openAPIV3Schema". */
void structural_check_schema(const struct json *schema, const char *field, struct field_errors *errors);
