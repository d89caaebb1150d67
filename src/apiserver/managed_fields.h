/*
 * metadata.managedFields: who wrote which field. Each entry is a manager (a program that writes) with an operation, an
 * API version, a subresource and the set of the fields it wrote last.
 *
 * This file keeps the list through writes that are no apply; apply_patch.h does server-side apply. Both are pure: the
 * list goes in with the objects and comes out as a value. Contract: Kubernetes' field management. Versions of a kind
 * are taken to have the same paths.
 */
#pragma once

#include "apiserver/schema_walk.h"
#include "wire/json.h"

#include <stdbool.h>

#define MANAGED_UPDATE_ENTRIES_MAX 10 /* more Update entries: the oldest become "ancient-changes" */
#define MANAGED_ENTRIES_MAX 256       /* a longer list is not understood */

/* Which part of a request's body the resource ignores, so that nobody comes to own it. */
enum managed_reset {
    MANAGED_RESET_NONE,           /* kinds without status subresource; other subresources */
    MANAGED_RESET_STATUS,         /* the main resource of a kind with status subresource */
    MANAGED_RESET_ALL_BUT_STATUS, /* the status subresource */
};

/* A write. Strings are borrowed. */
struct managed_write {
    const struct schema_context *context;
    const struct json *schema; /* of the kind's objects; NULL: unknown */
    const char *manager;       /* fieldManager, or the User-Agent up to the first '/'; "" becomes "unknown" */
    const char *api_version;   /* of the request: "v1", "apps/v1" */
    const char *subresource;   /* "status"; NULL or "": the main resource */
    const char *time;          /* now, RFC 3339 with whole seconds */
    enum managed_reset reset;
};

/*
 * The list an object gets with a create, update or patch that is no apply. live is what is stored (NULL: a create),
 * object what is about to be, in its final form. Returns a value the caller owns: an array, or NULL when the object is
 * to have no managedFields. When no entry changes it is live's list itself.
 *
 * The base is the object's own list if it has one and this is not a subresource, else live's. [] or [{}] clears it.
 * Objects that have no list stay without until their first apply.
 */
struct json *managed_fields_after_write(const struct managed_write *w, const struct json *live,
                                        const struct json *object);

/* Puts list (taken; NULL removes the member) into a copy of object that shares the rest with it. */
struct json *managed_fields_put(const struct json *object, struct json *list);

/* Whether both objects are equal but for times in managedFields: then there is nothing to write. */
bool managed_fields_only_times_differ(const struct json *a, const struct json *b);
