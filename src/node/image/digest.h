/* SHA-256 of streams and strings, as hex. */
#pragma once

#include "base/macros.h"

#define SHA256_HEX 64

struct digest; /* of bytes to come */
struct digest *digest_new(void);
void digest_add(struct digest *d, const void *data, size_t len);
/* Frees d. */
void digest_finish(struct digest *d, char hex[SHA256_HEX + 1]);
void digest_free(struct digest *d);
DEFINE_CLEANUP(digest_free, struct digest *);

void digest_of(const void *data, size_t len, char hex[SHA256_HEX + 1]);
