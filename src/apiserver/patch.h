/* PATCH: the four patch types, on top of create and update. */
#pragma once

#include "apiserver/server_internal.h"

/* The document with the patch in c applied, for types that need no history (not apply); NULL: refused. */
struct json *patch_plain(struct api_call *c, const struct json *document);
