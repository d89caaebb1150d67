/*
 * Encryption at rest: the texts of Secrets in the store are sealed with AES-256-GCM, bound to the resource, the key and
 * the revision they belong to, so that a row is worth nothing in another place.
 *
 * The key file holds one key a line, "NAME HEX" (64 hex digits, names of at most 32 letters, digits, "-" and "_"; lines
 * that start with # are comments). The first key seals; all of them open. To change the key, put a new line on top and
 * start again: what is sealed by older keys is sealed anew at the start, and then their lines may go.
 */
#pragma once

#include "base/error.h"
#include "base/strbuf.h"

#include <stdint.h>

struct sealer;

/* Makes the file (0600) with a fresh key when there is none. */
struct sealer *sealer_open(const char *path, struct error *err);
void sealer_free(struct sealer *s);
DEFINE_CLEANUP(sealer_free, struct sealer *);

/* Resources whose texts are sealed, ends with NULL. */
extern const char *const sealed_resources[];
bool is_sealed_resource(const char *resource);

/* Where a text lies in the store. */
struct seal_place {
    const char *resource, *key;
    int64_t revision;
};

/* These may be used on any thread. Both append to out; who holds plain text clears it. */
int seal(const struct sealer *s, const struct seal_place *place, const char *text, size_t len, struct strbuf *out,
         struct error *err);
/* -EKEYREJECTED when the key is not there or the text is not what was sealed for this place. */
int unseal(const struct sealer *s, const struct seal_place *place, const void *data, size_t len, struct strbuf *out,
           struct error *err);
/* Whether the first key has sealed it. */
bool is_sealed_freshly(const struct sealer *s, const void *data, size_t len);
