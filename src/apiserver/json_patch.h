/*
 * JSON patch (RFC 6902): [{"op":"replace","path":"/spec/replicas","value":3}, ...].
 *
 * As Kubernetes has it, beyond the RFC: negative positions count from the end ("-1" is the last item; for add, behind
 * the last); `test` against null holds for a missing member too.
 */
#pragma once

#include "base/error.h"
#include "wire/json.h"

#define JSON_PATCH_OPERATIONS_MAX 10000
/* What all copy, move and add operations of a patch may together copy, search and shift, in bytes and items. */
#define JSON_PATCH_WORK_MAX (16 * 1024 * 1024)

/*
 * A new document, owned by the caller and sharing nothing with doc or patch. NULL with err, whose code says what to
 * answer (a resulting document that is JSON null is NULL with err clear):
 *   EINVAL  not a patch: not an array of objects: 400
 *   E2BIG   too many operations: 413
 *   ENOENT  an operation's path does not exist: 422
 *   EPERM   an operation failed otherwise (test, unknown op, bad position, too much work): 422
 */
struct json *json_patch_apply(const struct json *doc, const struct json *patch, struct error *err);
