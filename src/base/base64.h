/* Base64: the standard alphabet with padding, and the URL-safe one without. */
#pragma once

#include "base/macros.h"

#include <stdbool.h>

/* New strings, owned by the caller. */
char *base64_encode(const void *data, size_t len);
char *base64_encode_url(const void *data, size_t len);
/*
 * Strict: NULL for a foreign character, wrong padding or stray bits. The result is NUL-terminated; *ret_len (may be
 * NULL) tells whether it holds NULs itself.
 */
char *base64_decode(const char *text, size_t len, size_t *ret_len);
char *base64_decode_url(const char *text, size_t len, size_t *ret_len);
