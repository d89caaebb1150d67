/* Shared by the files of schema validation. */
#pragma once

#include "apiserver/cel/cel.h"
#include "apiserver/structural.h"

/* What rules may mention: self and oldSelf; ends with NULL. */
extern const char *const structural_rule_variables[];
/* What all rules on one object may cost together. */
#define STRUCTURAL_COST_MAX (2 * (int64_t)CEL_COST_MAX)
/* x-kubernetes-validations of a node. old: the value's own past, or NULL. */
void structural_check_rules(struct schema_node node, const struct json *value, const struct json *old,
                            struct cel_budget *budget, const struct field_path *path, struct field_errors *errors);
