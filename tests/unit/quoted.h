/* JSON written with ' for ", so that it can be read in C. */
#pragma once

#include "test.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "wire/json.h"

/* The value, the caller's; the test fails when `text` is not JSON. */
static inline struct json *parse(const char *text)
{
    _cleanup_free_ char *copy = xstrdup(text);
    _cleanup_error_ struct error err = ERROR_INIT;

    for (char *c = copy; *c; c++)
        if (*c == '\'')
            *c = '"';
    struct json *v = json_parse(copy, strlen(copy), &err);
    if (err.code)
        fail_msg("%s in %s", error_text(&err), text);
    return v;
}
