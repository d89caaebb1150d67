/*
 * JSONPath as printer columns and kubectl use it: fields (.a.b, ['a.b'], .a\.b), * and [*], indexes [0] [-1], slices
 * [0:2], unions [0,2], recursive descent (..a) and filters [?(@.type=="Ready")] with == != < <= > >=. Pure.
 */
#pragma once

#include "base/error.h"
#include "wire/json.h"

struct jsonpath;
/* With or without surrounding braces and leading "$". NULL and EINVAL for what is not understood. */
struct jsonpath *jsonpath_compile(const char *text, struct error *err);
void jsonpath_free(struct jsonpath *p);
DEFINE_CLEANUP(jsonpath_free, struct jsonpath *);
/* A new array of everything found, in order; empty when there is nothing. */
struct json *jsonpath_find(const struct jsonpath *p, const struct json *value);
