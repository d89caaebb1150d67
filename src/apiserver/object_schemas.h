/*
 * Schemas at work: unknown fields, defaults, validation. Compiled schemas are kept for each resource until the table
 * changes.
 */
#pragma once

#include "apiserver/server_internal.h"

struct object_schemas *object_schemas_new(struct resource_table *table);
void object_schemas_free(struct object_schemas *s);

/*
 * The object without fields its schema does not know (a new reference), and what c->options.field_validation says about
 * them and about duplicate keys: warnings, or NULL and a refusal.
 */
struct json *object_known_fields(struct api_call *c, struct json *object);
/* Replaces *object by one with defaults; it stays c's own down to metadata. */
void object_default(struct api_call *c, struct json **object);
/* Whether object_default() would change nothing. */
bool object_is_defaulted(const struct api_call *c, const struct json *object);
void object_validate(struct api_call *c, const struct json *object, const struct json *old,
                     struct field_errors *errors);
