/* ObjectMeta: what the server decides about it, and what is wrong with what clients send. */
#pragma once

#include "apiserver/server_internal.h"

/* The prefix, cut where needed, and five random characters. The caller frees. */
char *metadata_generate_name(const char *prefix);
/* Of a new object: uid, creation time, generation; what only the server may set is dropped. */
void metadata_make_new(const struct api_call *c, struct json *metadata);
/* Of a change: what no client may change comes from the old object. */
void metadata_keep_old(struct json *metadata, const struct json *old);
void metadata_check(const struct resource *r, const struct json *object, const struct json *old,
                    struct field_errors *errors);
