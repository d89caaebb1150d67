/*
 * Server-side apply: a manager says what it wants of an object, and the object becomes the live one with that merged
 * in, without what the same manager wanted before and no longer does, and with its claims recorded in
 * metadata.managedFields. Pure: see managed_fields.h for the other writes, and for the contract.
 */
#pragma once

#include "apiserver/managed_fields.h"
#include "base/error.h"

struct apply_request {
    struct managed_write write; /* manager is required */
    const struct json *live;    /* NULL: there is no such object yet */
    const struct json *config;  /* the body of the request: an object with apiVersion and kind */
    bool force;                 /* take fields that others own */
};

/*
 * The new object, owned by the caller, sharing its unchanged parts with live and config; live itself (one more
 * reference) when there is nothing to write. The caller then fills in defaults, validates and stores it. Members that
 * the request does not decide (status on the main resource, metadata.generation, ...) are live's; nulls of config are
 * there; metadata.resourceVersion and uid are config's if it has them, so that they work as preconditions.
 *
 * NULL with err, whose code says what to answer:
 *   EINVAL  the body is no apply patch: 400 with the message
 *   EDOM    the body does not fit the schema's lists (duplicates, missing keys): 500 with the message
 *   EBUSY   others own fields it changes: 409 Conflict; the message is the Status' message, and *ret_causes (owned by
 *           the caller; NULL in all other cases) the array for details.causes
 */
struct json *apply_patch(const struct apply_request *request, struct json **ret_causes, struct error *err);
