/* Shared by the files of schema validation. */
#pragma once

#include "apiserver/structural.h"

bool structural_format_matches(const char *format, const char *text);
/* x-kubernetes-validations of a node. old: the value's own past, or NULL. */
void structural_check_rules(struct schema_node node, const struct json *value, const struct json *old,
                            const struct field_path *path, struct field_errors *errors);
