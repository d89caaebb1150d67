/* Who owns which fields: metadata.managedFields after each write. */
#pragma once

#include "apiserver/managed_fields.h"
#include "apiserver/server_internal.h"

/* Finds the definitions that schemas of this server refer to. */
struct schema_context object_schema_context(struct apiserver *s);
/* What c is as a write; context and time are borrowed. */
struct managed_write object_field_write(const struct api_call *c, const struct schema_context *context,
                                        const char *time);
/* Updates the object's managedFields for a write other than apply; old NULL: a new object. */
void object_track_fields(struct api_call *c, struct json *object, const struct json *old);
