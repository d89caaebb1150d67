/*
 * YAML to JSON values and back, as Kubernetes' own tools read it (sigs.k8s.io/yaml, whose scalars are those of
 * YAML 1.1):
 *  - plain y, yes, on, true and n, no, off, false (also Yes, YES, ...) are booleans; ~, null and nothing are null;
 *  - 12, 0x1f, 0o17, 017, 0b101, 1_000 are integers, exact within 64 bits; 1.5, .5, 1e3 are numbers, whole ones become
 *    integers; .nan and .inf are errors, JSON has no such numbers;
 *  - everything else, all that is quoted, and dates, are strings;
 *  - keys follow the same rules and are then turned into text: `on: 1` is {"true": 1}; null is no key;
 *  - !!str, !!int, !!float, !!bool and !!null are obeyed, !!binary is refused, tags of one's own are ignored;
 *  - `<<` merges a mapping, or a list of them, beneath the members the mapping has itself.
 *
 * Bounded: 10 MiB of text, 100 levels, 1,000,000 nodes and 64 MiB of strings after expanding aliases. What goes beyond
 * is refused before it is expanded.
 */
#pragma once

#include "wire/json.h"

/*
 * Parses every document of a stream; *ret is a JSON array with one value per non-empty document. Errors name line and
 * column. options->duplicate hears of duplicate keys (the last one wins); without it they are an error.
 */
int yaml_parse_all(const char *text, size_t len, const struct json_parse_options *options, struct json **ret,
                   struct error *err);
/* Exactly one document. */
struct json *yaml_parse(const char *text, size_t len, const struct json_parse_options *options, struct error *err);
/*
 * Block style, members sorted by name, several lines as a literal block: what kubectl prints. Strings that any YAML
 * reader could take for something else are quoted. The caller frees.
 */
char *yaml_text(const struct json *v);
