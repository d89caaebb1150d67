/*
 * Signed tokens: JSON Web Tokens with ES256 (RFC 7519, RFC 7518) and nothing else.
 *
 * The key file holds one or more P-256 private keys as PEM. The first signs, all of them verify. To change the key, put
 * a new one on top and start again; the old one may go when the tokens that it has signed are over.
 */
#pragma once

#include "base/error.h"
#include "wire/json.h"

/* Longer ones are refused unread. */
#define JWT_MAX 16384

struct jwt_keys;

/* Makes the file (0600) with a fresh key when there is none. */
struct jwt_keys *jwt_keys_open(const char *path, struct error *err);
struct jwt_keys *jwt_keys_parse(const char *pem, size_t len, struct error *err);
void jwt_keys_free(struct jwt_keys *k);
DEFINE_CLEANUP(jwt_keys_free, struct jwt_keys *);
/* A fresh key as PEM text, the caller's to cleanse and free. */
char *jwt_make_key(struct error *err);

/* NULL when OpenSSL fails. The caller frees. */
char *jwt_sign(const struct jwt_keys *k, const struct json *claims, struct error *err);
/* The claims of a token that one of the keys has signed, else NULL. Whether they hold now is not looked at.
 * Tokens that were found good are remembered, by their digest: a signature costs more than all the rest. */
struct json *jwt_verify(struct jwt_keys *k, const char *token, struct error *err);
/* The public keys as a JSON Web Key Set (RFC 7517). */
struct json *jwt_key_set(const struct jwt_keys *k);
