/*
 * Status objects: how the API says no (and, for some deletions, yes).
 *
 * Every function returns a new Status that the caller owns. plural and group name the resource as messages spell it:
 * "pods", "sandboxes.agents.x-k8s.io".
 */
#pragma once

#include "base/error.h"
#include "wire/json.h"

/* What a message is about; strings are borrowed. */
struct api_subject {
    const char *group, *plural, *kind, *name;
};

int status_code(const struct json *status);

/* details is taken and may be NULL. */
struct json *status_failure(int code, const char *reason, const char *message, struct json *details);
struct json *status_failuref(int code, const char *reason, const char *fmt, ...) PRINTF_LIKE(3, 4);
struct json *status_success(const struct api_subject *s, const char *uid);

struct json *status_bad_request(const char *fmt, ...) PRINTF_LIKE(1, 2);
struct json *status_internal(const char *fmt, ...) PRINTF_LIKE(1, 2);
struct json *status_unauthorized(void);
struct json *status_no_resource(void); /* unknown path */
struct json *status_not_acceptable(void);
struct json *status_unsupported_media(void);
struct json *status_unsupported_patch(bool strategic);
struct json *status_too_large(size_t limit);
struct json *status_timeout(int64_t wanted, int64_t current); /* a revision of the future */
struct json *status_expired(const char *fmt, ...) PRINTF_LIKE(1, 2);
struct json *status_no_method(const struct api_subject *s, const char *verb);
struct json *status_not_found(const struct api_subject *s);
struct json *status_exists(const struct api_subject *s);
/* NULL text: the object has been modified. */
struct json *status_conflict(const struct api_subject *s, const char *text);
/* message follows `RES "NAME" is forbidden: `; cause may be NULL and is taken. */
struct json *status_forbidden(const struct api_subject *s, const char *message, struct json *cause);
/* causes (an array, taken) and the summary of all of them. kind replaces the subject's when it is not NULL. */
struct json *status_invalid(const struct api_subject *s, const char *summary, struct json *causes);
/* One field error of an options object: `ListOptions.meta.k8s.io "" is invalid: FIELD: TEXT`. */
struct json *status_invalid_options(const char *kind, const char *field, const char *reason, const char *text);
/* The store could not write: full disk 507, else 500. */
struct json *status_store_failed(const struct error *err);
