/*
 * Errors travel up as a code and a message that gains context on the way:
 * "cannot start sandbox demo/a: mount overlay: No space left on device".
 *
 * A function that can fail takes `struct error *err` last and returns 0 (or a pointer) on success. On failure it
 * returns a negative errno code (or NULL) and fills err, when err is not NULL. It never prints.
 *
 *     struct error err = ERROR_INIT;               // or _cleanup_(error_clear)
 *     if (thing_open(path, &err) < 0)
 *         return error_wrap(&err, "open thing %s", path);
 */
#pragma once

#include "base/macros.h"

#include <errno.h>

struct error {
    int code;      /* positive errno value, 0 = no error */
    char *message; /* owned; never NULL when code is set */
    char *reason;  /* owned, optional: a machine-readable word such as "ErrImagePull" */
    char *field;   /* owned, optional: the path of the input field at fault, "spec.containers[0].image" */
};

#define ERROR_INIT                                                                                                     \
    {                                                                                                                  \
        0, NULL, NULL, NULL                                                                                            \
    }

/* Each of these replaces what err held and returns -code, so that `return error_set(err, EINVAL, ...)` works. */
int error_set(struct error *err, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* Appends ": " and strerror(code) to the message. code is a positive errno value. */
int error_set_errno(struct error *err, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* As error_set, naming the input field at fault. */
int error_set_field(struct error *err, int code, const char *field, const char *fmt, ...) PRINTF_LIKE(4, 5);
/* Puts "context: " in front of the message; returns -err->code. */
int error_wrap(struct error *err, const char *fmt, ...) PRINTF_LIKE(2, 3);
void error_set_reason(struct error *err, const char *reason);
/* Moves src into dst (which may be NULL); src is empty afterwards. Returns -code. */
int error_move(struct error *dst, struct error *src);
void error_clear(struct error *err);
/* Never NULL. */
const char *error_text(const struct error *err);

#define _cleanup_error_ _cleanup_(error_clear)
