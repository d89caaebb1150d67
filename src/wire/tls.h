/* TLS contexts and certificates on OpenSSL 3: a private CA, server and client certificates, PEM in and out. */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct ssl_ctx_st;
struct ssl_st;

/* A key pair and its certificate, PEM text; certificates of a chain may follow the first. Owned strings. */
struct tls_cert {
    char *cert_pem;
    char *key_pem;
};
void tls_cert_free(struct tls_cert *c);

/* A self-signed ECDSA P-256 CA. days: validity. */
int tls_make_ca(const char *common_name, int days, struct tls_cert *ret, struct error *err);
struct tls_cert_request {
    const char *common_name;          /* Kubernetes: the user */
    const char *const *organizations; /* Kubernetes: the groups; NULL-terminated, may be NULL */
    const char *const *dns_names;     /* subject alternative names; NULL-terminated */
    const char *const *ip_addresses;  /* a name among them counts as a DNS name */
    bool server, client;              /* extended key usage */
    int64_t valid_seconds;
};
/* Names may come from outside: what is no DNS name or address is -EINVAL. Any length of common_name is taken. */
int tls_issue(const struct tls_cert *ca, const struct tls_cert_request *request, struct tls_cert *ret,
              struct error *err);

/*
 * A server context: TLS 1.2+, own certificate, client certificates asked for and verified against client_ca when given
 * (a client without one is let through: see tls_peer_identity). ALPN h2 and http/1.1.
 */
struct ssl_ctx_st *tls_server_context(const struct tls_cert *cert, const char *client_ca_pem, struct error *err);
/* A client context: verifies the server against ca_pem (host name or address is checked); cert may be NULL. */
struct ssl_ctx_st *tls_client_context(const char *ca_pem, const struct tls_cert *cert, struct error *err);
void tls_context_free(struct ssl_ctx_st *ctx);

/* The verified client certificate's CN and every O (strv); false when there is none, or it has expired meanwhile.
 * Caller frees both. */
bool tls_peer_identity(struct ssl_st *ssl, char **ret_common_name, char ***ret_organizations);
/* Seconds since 1970 until which the client certificate is good; INT64_MAX when there is none. */
int64_t tls_peer_expiry(struct ssl_st *ssl);
/* Text of OpenSSL's error queue, which is emptied. */
int tls_error(struct error *err, const char *what);
