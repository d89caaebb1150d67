#include "wire/tls.h"

#include "base/memory.h"
#include "base/random.h"
#include "base/strbuf.h"
#include "base/strutil.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

/* Clocks differ: a certificate is valid from a little before it was made. */
#define BACKDATE_SECONDS 300

void tls_cert_free(struct tls_cert *c)
{
    free(c->cert_pem);
    if (c->key_pem)
        explicit_bzero(c->key_pem, strlen(c->key_pem));
    free(c->key_pem);
    *c = (struct tls_cert){0};
}

int tls_error(struct error *err, const char *what)
{
    struct strbuf text = {0};

    for (unsigned long e; (e = ERR_get_error());) {
        char line[256];
        ERR_error_string_n(e, line, sizeof(line));
        strbuf_addf(&text, "%s%s", text.len ? "; " : "", line);
    }
    int r = error_set(err, EPROTO, "%s: %s", what, text.len ? strbuf_str(&text) : "unknown TLS error");
    strbuf_free(&text);
    return r;
}

static char *bio_text(BIO *bio)
{
    char *data;
    long len = BIO_get_mem_data(bio, &data);

    return xstrndup(data, len > 0 ? (size_t)len : 0);
}

static X509 *parse_cert(const char *pem)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    X509 *cert = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;

    BIO_free(bio);
    return cert;
}

static EVP_PKEY *parse_key(const char *pem)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL) : NULL;

    BIO_free(bio);
    return key;
}

static int to_pem(X509 *cert, EVP_PKEY *key, struct tls_cert *ret, struct error *err)
{
    BIO *c = BIO_new(BIO_s_mem()), *k = BIO_new(BIO_s_secmem());
    int ok = c && k && PEM_write_bio_X509(c, cert) && PEM_write_bio_PKCS8PrivateKey(k, key, NULL, NULL, 0, NULL, NULL);

    if (ok)
        *ret = (struct tls_cert){.cert_pem = bio_text(c), .key_pem = bio_text(k)};
    BIO_free(c);
    BIO_free(k);
    return ok ? 0 : tls_error(err, "write certificate");
}

static bool add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;

    X509V3_set_ctx_nodb(&ctx);
    X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
    X509_EXTENSION *ext = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    bool ok = ext && X509_add_ext(cert, ext, -1);

    X509_EXTENSION_free(ext);
    return ok;
}

static bool set_serial(X509 *cert)
{
    unsigned char bytes[16];

    random_bytes(bytes, sizeof(bytes));
    bytes[0] &= 0x7f; /* positive */
    BIGNUM *n = BN_bin2bn(bytes, sizeof(bytes), NULL);
    bool ok = n && BN_to_ASN1_INTEGER(n, X509_get_serialNumber(cert));

    BN_free(n);
    return ok;
}

static X509 *new_cert(EVP_PKEY *key, const char *common_name, const char *const *organizations, int64_t seconds)
{
    X509 *cert = X509_new();
    X509_NAME *name = cert ? X509_get_subject_name(cert) : NULL;
    bool ok = cert && X509_set_version(cert, 2) && set_serial(cert) &&
              X509_gmtime_adj(X509_getm_notBefore(cert), -BACKDATE_SECONDS) &&
              X509_gmtime_adj(X509_getm_notAfter(cert), (long)seconds) && X509_set_pubkey(cert, key);

    for (size_t i = 0; ok && organizations && organizations[i]; i++)
        ok = X509_NAME_add_entry_by_NID(name, NID_organizationName, MBSTRING_UTF8,
                                        (const unsigned char *)organizations[i], -1, -1, 0);
    ok = ok &&
         X509_NAME_add_entry_by_NID(name, NID_commonName, MBSTRING_UTF8, (const unsigned char *)common_name, -1, -1, 0);
    if (ok)
        return cert;
    X509_free(cert);
    return NULL;
}

int tls_make_ca(const char *common_name, int days, struct tls_cert *ret, struct error *err)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = key ? new_cert(key, common_name, NULL, (int64_t)days * 24 * 3600) : NULL;
    bool ok = cert && X509_set_issuer_name(cert, X509_get_subject_name(cert)) &&
              add_extension(cert, cert, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
              add_extension(cert, cert, NID_key_usage, "critical,keyCertSign,cRLSign") &&
              add_extension(cert, cert, NID_subject_key_identifier, "hash") && X509_sign(cert, key, EVP_sha256());
    int r = ok ? to_pem(cert, key, ret, err) : tls_error(err, "make CA");

    X509_free(cert);
    EVP_PKEY_free(key);
    return r;
}

/* "DNS:a,DNS:b,IP:::1"; NULL when there are no names. */
static char *alt_names(const struct tls_cert_request *q)
{
    struct strbuf b = {0};

    for (size_t i = 0; q->dns_names && q->dns_names[i]; i++)
        strbuf_addf(&b, "%sDNS:%s", b.len ? "," : "", q->dns_names[i]);
    for (size_t i = 0; q->ip_addresses && q->ip_addresses[i]; i++) {
        unsigned char addr[16];
        bool ip =
            inet_pton(AF_INET, q->ip_addresses[i], addr) == 1 || inet_pton(AF_INET6, q->ip_addresses[i], addr) == 1;
        strbuf_addf(&b, "%s%s:%s", b.len ? "," : "", ip ? "IP" : "DNS", q->ip_addresses[i]);
    }
    return b.len ? strbuf_detach(&b) : NULL;
}

static bool add_usages(X509 *cert, X509 *issuer, const struct tls_cert_request *q)
{
    _cleanup_free_ char *names = alt_names(q);
    const char *usage = q->server && q->client ? "serverAuth,clientAuth" : q->server ? "serverAuth" : "clientAuth";

    return add_extension(cert, issuer, NID_basic_constraints, "critical,CA:FALSE") &&
           add_extension(cert, issuer, NID_key_usage, "critical,digitalSignature") &&
           add_extension(cert, issuer, NID_ext_key_usage, usage) &&
           add_extension(cert, issuer, NID_authority_key_identifier, "keyid") &&
           (!names || add_extension(cert, issuer, NID_subject_alt_name, names));
}

int tls_issue(const struct tls_cert *ca, const struct tls_cert_request *q, struct tls_cert *ret, struct error *err)
{
    X509 *issuer = parse_cert(ca->cert_pem);
    EVP_PKEY *issuer_key = parse_key(ca->key_pem), *key = EVP_EC_gen("P-256");
    X509 *cert = key ? new_cert(key, q->common_name, q->organizations, q->valid_seconds) : NULL;
    bool ok = issuer && issuer_key && cert && X509_set_issuer_name(cert, X509_get_subject_name(issuer)) &&
              add_usages(cert, issuer, q) && X509_sign(cert, issuer_key, EVP_sha256());
    int r = ok ? to_pem(cert, key, ret, err) : tls_error(err, "issue certificate");

    X509_free(issuer);
    X509_free(cert);
    EVP_PKEY_free(issuer_key);
    EVP_PKEY_free(key);
    return r;
}

static bool use_cert(SSL_CTX *ctx, const struct tls_cert *cert)
{
    X509 *x = parse_cert(cert->cert_pem);
    EVP_PKEY *key = parse_key(cert->key_pem);
    bool ok = x && key && SSL_CTX_use_certificate(ctx, x) == 1 && SSL_CTX_use_PrivateKey(ctx, key) == 1;

    X509_free(x);
    EVP_PKEY_free(key);
    return ok;
}

static bool trust(SSL_CTX *ctx, const char *ca_pem)
{
    BIO *bio = BIO_new_mem_buf(ca_pem, -1);
    bool any = false;

    for (X509 *ca; bio && (ca = PEM_read_bio_X509(bio, NULL, NULL, NULL));) {
        any |= X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), ca) == 1;
        (void)SSL_CTX_add_client_CA(ctx, ca);
        X509_free(ca);
    }
    BIO_free(bio);
    ERR_clear_error(); /* the end of the file counts as an error */
    return any;
}

static SSL_CTX *new_context(const SSL_METHOD *method)
{
    SSL_CTX *ctx = SSL_CTX_new(method);

    if (!ctx || SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1) {
        SSL_CTX_free(ctx);
        return NULL;
    }
    /* Connections are few and live long; partial writes and moving buffers are how libevent feeds OpenSSL. */
    (void)SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                    SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    (void)SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_IGNORE_UNEXPECTED_EOF);
    return ctx;
}

static int select_http11(SSL *ssl UNUSED, const unsigned char **out, unsigned char *outlen, const unsigned char *in,
                         unsigned inlen, void *arg UNUSED)
{
    static const unsigned char protocols[] = "\x08http/1.1";
    unsigned char *chosen;

    if (SSL_select_next_proto(&chosen, outlen, protocols, sizeof(protocols) - 1, in, inlen) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_NOACK;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

struct ssl_ctx_st *tls_server_context(const struct tls_cert *cert, const char *client_ca_pem, struct error *err)
{
    static const unsigned char session_context[] = "holt";
    SSL_CTX *ctx = new_context(TLS_server_method());

    if (!ctx || !use_cert(ctx, cert) || (client_ca_pem && !trust(ctx, client_ca_pem))) {
        (void)tls_error(err, "server TLS context");
        SSL_CTX_free(ctx);
        return NULL;
    }
    if (client_ca_pem)
        SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_CLIENT_ONCE, NULL);
    /* No tickets: a resumed session would carry an identity past its certificate's end. */
    (void)SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET | SSL_OP_CIPHER_SERVER_PREFERENCE);
    (void)SSL_CTX_set_num_tickets(ctx, 0);
    (void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    (void)SSL_CTX_set_session_id_context(ctx, session_context, sizeof(session_context) - 1);
    SSL_CTX_set_alpn_select_cb(ctx, select_http11, NULL);
    return ctx;
}

struct ssl_ctx_st *tls_client_context(const char *ca_pem, const struct tls_cert *cert, struct error *err)
{
    SSL_CTX *ctx = new_context(TLS_client_method());

    if (!ctx || (cert && !use_cert(ctx, cert)) ||
        (ca_pem ? !trust(ctx, ca_pem) : !SSL_CTX_set_default_verify_paths(ctx))) {
        (void)tls_error(err, "client TLS context");
        SSL_CTX_free(ctx);
        return NULL;
    }
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    return ctx;
}

void tls_context_free(struct ssl_ctx_st *ctx)
{
    SSL_CTX_free(ctx);
}

/* NULL when the entry holds a NUL, which would make two names look alike. */
static char *entry_text(X509_NAME *name, int index)
{
    unsigned char *utf8 = NULL;
    int len = ASN1_STRING_to_UTF8(&utf8, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, index)));
    char *text = len >= 0 && !memchr(utf8, 0, (size_t)len) ? xstrndup((char *)utf8, (size_t)len) : NULL;

    OPENSSL_free(utf8);
    return text;
}

bool tls_peer_identity(struct ssl_st *ssl, char **ret_common_name, char ***ret_organizations)
{
    X509 *cert = ssl && SSL_get_verify_result(ssl) == X509_V_OK ? SSL_get1_peer_certificate(ssl) : NULL;
    if (!cert)
        return false;

    X509_NAME *name = X509_get_subject_name(cert);
    int cn = X509_NAME_get_index_by_NID(name, NID_commonName, -1);
    _cleanup_free_ char *common_name = cn >= 0 ? entry_text(name, cn) : NULL;
    char **organizations = NULL;
    bool ok = common_name && *common_name;

    for (int i = -1; ok && (i = X509_NAME_get_index_by_NID(name, NID_organizationName, i)) >= 0;) {
        char *text = entry_text(name, i);
        if (text)
            organizations = strv_append(organizations, text);
        ok = text != NULL;
    }
    X509_free(cert);
    if (!ok) {
        strv_free(organizations);
        return false;
    }
    *ret_common_name = take_ptr(common_name);
    *ret_organizations = organizations;
    return true;
}
