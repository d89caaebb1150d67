/* What a plain YAML scalar means; see yaml.h for the rules. */
#pragma once

#include "wire/json.h"

/* 0 and *ret (NULL for null), or -ERANGE for a number that JSON cannot hold. */
int yaml_resolve(const char *text, struct json **ret);
