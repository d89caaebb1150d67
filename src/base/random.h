/* Randomness from the kernel. */
#pragma once

#include "base/macros.h"

#define UUID_TEXT_SIZE 37

/* Never fails: blocks until the kernel's pool is ready, aborts if getrandom is not there. */
void random_bytes(void *out, size_t len);
/* A random (version 4) UUID, lower case. */
void random_uuid(char out[UUID_TEXT_SIZE]);
/* len characters of the alphabet Kubernetes uses for generated names, plus NUL: out holds len + 1 bytes. */
void random_name_suffix(char *out, size_t len);
/* len random bytes as 2 * len hex digits; the caller owns the string. */
char *random_hex(size_t len);
