/*
 * What is wrong with an object, field by field, in the words of Kubernetes: a list that everyone who validates appends
 * to, and that becomes the causes and the message of a 422 Status.
 *
 *     _cleanup_(field_errors_clear) struct field_errors errors = {0};
 *     field_required(&errors, "spec.podTemplate", NULL);
 *     field_invalid(&errors, "spec.replicas", value, "must be positive, not %d", n);
 *     if (!field_errors_empty(&errors))
 *         ... field_errors_causes(&errors), field_errors_summary(&errors, group, kind, name)
 *
 * Fields are written "spec.containers[0].image"; NULL and "" stand for the object as a whole and show as "<nil>".
 * Strings are copied. Values are shown as Kubernetes shows them: strings quoted, numbers and booleans bare, null as
 * "null" in quotes, objects and arrays as JSON.
 */
#pragma once

#include "base/macros.h"
#include "wire/json.h"

#include <stdbool.h>
#include <stdint.h>

enum field_error_type {
    FIELD_REQUIRED,
    FIELD_INVALID,
    FIELD_TYPE_INVALID,
    FIELD_NOT_SUPPORTED,
    FIELD_DUPLICATE,
    FIELD_FORBIDDEN,
    FIELD_TOO_LONG,
    FIELD_TOO_MANY,
    FIELD_NOT_FOUND,
    FIELD_INTERNAL,
};

struct field_error {
    enum field_error_type type;
    char *field;
    char *message; /* "Invalid value: 3: must be even" */
};

/* More errors than FIELD_ERRORS_MAX are dropped: nobody reads them, and an array of a million bad items must not become
 * an answer of a gigabyte. */
#define FIELD_ERRORS_MAX 200

/* Zero-initialised is empty. */
struct field_errors {
    struct field_error *items;
    size_t count, capacity;
};

void field_errors_clear(struct field_errors *errors);
bool field_errors_empty(const struct field_errors *errors);
/* Forgets everything after the first count errors. */
void field_errors_truncate(struct field_errors *errors, size_t count);
/* Moves all errors of from to the end of to. */
void field_errors_move(struct field_errors *to, struct field_errors *from);

/* The same for errors about a part of something, which stands at field. */
void field_errors_move_below(struct field_errors *to, struct field_errors *from, const char *field);

/* detail may be NULL. */
void field_required(struct field_errors *errors, const char *field, const char *detail);
void field_invalid(struct field_errors *errors, const char *field, const struct json *value, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
void field_invalid_str(struct field_errors *errors, const char *field, const char *value, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
/* value is shown as it is, without quotes: "0x0". */
void field_invalid_raw(struct field_errors *errors, const char *field, const char *value, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
void field_type_invalid(struct field_errors *errors, const char *field, const struct json *value, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
/* supported: strings, or values shown as JSON. */
void field_not_supported(struct field_errors *errors, const char *field, const struct json *value,
                         const struct json *supported);
/* The same with strings; supported ends with NULL. */
void field_not_supported_str(struct field_errors *errors, const char *field, const char *value,
                             const char *const *supported);
void field_duplicate(struct field_errors *errors, const char *field, const struct json *value);
void field_duplicate_str(struct field_errors *errors, const char *field, const char *value);
void field_forbidden(struct field_errors *errors, const char *field, const char *fmt, ...) PRINTF_LIKE(3, 4);
void field_too_long(struct field_errors *errors, const char *field, int64_t max_bytes);
void field_too_many(struct field_errors *errors, const char *field, int64_t count, int64_t max);
void field_not_found(struct field_errors *errors, const char *field, const char *value);
void field_internal(struct field_errors *errors, const char *field, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* "FieldValueInvalid" etc., as a cause's reason spells it. */
const char *field_error_reason(enum field_error_type type);

/* [{reason, message, field}]; the caller owns it. */
struct json *field_errors_causes(const struct field_errors *errors);
/* `Sandbox.agents.x-k8s.io "a" is invalid: spec.x: Required value`; several errors stand in brackets, equal ones once.
 * group "" = core. The caller frees. */
char *field_errors_summary(const struct field_errors *errors, const char *group, const char *kind, const char *name);

/* A value as messages show it; the caller frees. */
char *field_value_text(const struct json *value);
/* s in double quotes with the escapes of Go's %q. */
void field_quote(const char *s, size_t len, struct strbuf *out);
/* A double as Go's %v prints it: "1.5", "1e+06". */
void field_double_text(double d, struct strbuf *out);

/*
 * A place in a value while walking it, on the stack of the walk: costs nothing until an error needs its text.
 *
 *     struct field_path here = {.parent = path, .name = it.key};
 */
struct field_path {
    const struct field_path *parent; /* NULL: directly below the root */
    const char *name;                /* member; NULL: item number index */
    size_t index;
    bool bracket; /* a key of a map, written "[name]" */
};
/* NULL is the root: "". The caller frees. */
char *field_path_text(const struct field_path *path);
