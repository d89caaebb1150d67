/* YAML (1.2 core schema as Kubernetes reads it) to JSON values, with limits on size of the result, depth and aliases. */
#pragma once

#include "wire/json.h"

/*
 * Parses every document of a stream; *ret is a JSON array with one value per non-empty document. Errors name line and
 * column. duplicates: as in struct json_parse_options; may be NULL (duplicate keys are an error).
 */
int yaml_parse_all(const char *text, size_t len, const struct json_parse_options *options, struct json **ret,
                   struct error *err);
/* Exactly one document. */
struct json *yaml_parse(const char *text, size_t len, const struct json_parse_options *options, struct error *err);
/* Block style, as kubectl would print it. */
char *yaml_text(const struct json *v);
