#include "base/error.h"

#include "base/memory.h"

#include <string.h>

static int PRINTF_LIKE(5, 0)
    set(struct error *err, int code, const char *field, int with_errno, const char *fmt, va_list ap)
{
    if (!err)
        return -code;
    char *message = xvasprintf(fmt, ap);

    if (with_errno) {
        char *full = xasprintf("%s: %s", message, strerror(code));
        free(message);
        message = full;
    }
    char *field_copy = field ? xstrdup(field) : NULL;

    error_clear(err);
    err->code = code;
    err->message = message;
    err->field = field_copy;
    return -code;
}

int error_set(struct error *err, int code, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    int r = set(err, code, NULL, 0, fmt, ap);
    va_end(ap);
    return r;
}

int error_set_errno(struct error *err, int code, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    int r = set(err, code, NULL, 1, fmt, ap);
    va_end(ap);
    return r;
}

int error_set_field(struct error *err, int code, const char *field, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    int r = set(err, code, field, 0, fmt, ap);
    va_end(ap);
    return r;
}

int error_wrap(struct error *err, const char *fmt, ...)
{
    if (!err)
        return -EIO;
    va_list ap;

    va_start(ap, fmt);
    _cleanup_free_ char *context = xvasprintf(fmt, ap);
    va_end(ap);
    char *full = xasprintf("%s: %s", context, error_text(err));

    free(err->message);
    err->message = full;
    if (!err->code)
        err->code = EIO;
    return -err->code;
}

void error_set_reason(struct error *err, const char *reason)
{
    if (!err)
        return;
    free(err->reason);
    err->reason = reason ? xstrdup(reason) : NULL;
}

int error_move(struct error *dst, struct error *src)
{
    int code = src->code;

    if (dst) {
        error_clear(dst);
        *dst = *src;
        *src = (struct error)ERROR_INIT;
    } else {
        error_clear(src);
    }
    return -code;
}

void error_clear(struct error *err)
{
    if (!err)
        return;
    free(err->message);
    free(err->reason);
    free(err->field);
    *err = (struct error)ERROR_INIT;
}

const char *error_text(const struct error *err)
{
    return err && err->message ? err->message : "unknown error";
}
