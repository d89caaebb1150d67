/* Who owns which fields: metadata.managedFields after each write. */
#pragma once

#include "apiserver/server_internal.h"

/* Updates the object's managedFields for a write other than apply; old NULL: a new object. */
void object_track_fields(struct api_call *c, struct json *object, const struct json *old);
