/*
 * Strategic merge patch: a merge patch (merge_patch.h) that knows from the schema which lists merge item by item.
 *
 * Lists with x-kubernetes-patch-strategy "merge" merge: by x-kubernetes-patch-merge-key, or as sets of scalars without
 * one. Items of the patch come in its order; new ones in front of what follows in the live list. Directives:
 *
 *   "$patch": "replace" | "delete" | "merge"     in a map: instead of merging; as an item: for the list, or that item
 *   "$retainKeys": ["a", "b"]                    all other members of this map go
 *   "$setElementOrder/NAME": [...]               order of the list NAME; every item the patch has is named in it
 *   "$deleteFromPrimitiveList/NAME": [...]       these values go from the list NAME
 *
 * Members whose value is null go. Contract: Kubernetes' strategic merge patch; kinds without own schema do not have it.
 */
#pragma once

#include "apiserver/schema_walk.h"
#include "base/error.h"
#include "wire/json.h"

/*
 * A value owned by the caller that shares its unchanged parts with doc, and new ones with patch (json.h: copy before
 * changing one). NULL with err, whose code says what to answer:
 *   EINVAL  the patch is malformed (no object, a directive of the wrong form): 400
 *   EPERM   it does not fit the kind's lists (an item without merge key, ...): 422
 */
struct json *strategic_patch_apply(const struct json *doc, const struct json *patch,
                                   const struct schema_context *context, const struct json *schema, struct error *err);
