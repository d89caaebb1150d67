/*
 * JSON merge patch (RFC 7386): objects merge member by member, null removes, everything else replaces.
 */
#pragma once

#include "base/error.h"
#include "wire/json.h"

/*
 * A value owned by the caller that shares its unchanged parts with doc, and new ones with patch (json.h: copy before
 * changing one). NULL with err (EINVAL: 400) when patch is no object.
 */
struct json *merge_patch_apply(const struct json *doc, const struct json *patch, struct error *err);
