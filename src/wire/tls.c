#include "wire/tls.h"

#include "base/memory.h"
#include "base/random.h"
#include "base/strbuf.h"
#include "base/strutil.h"

#include <ctype.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

/* Clocks differ: a certificate is valid from a little before it was made. */
#define BACKDATE_SECONDS 300
#define DNS_NAME_MAX 253
/* For TLS 1.2; those of TLS 1.3 are all good. */
#define CIPHERS "ECDHE+AESGCM:ECDHE+CHACHA20"

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

/* As UTF8String without X.520's limit of 64 characters: "system:serviceaccount:..." and host names are longer. */
static bool add_name(X509_NAME *name, int nid, const char *text)
{
    return X509_NAME_add_entry_by_NID(name, nid, V_ASN1_UTF8STRING, (const unsigned char *)text, -1, -1, 0) == 1;
}

static X509 *new_cert(EVP_PKEY *key, const char *common_name, const char *const *organizations, int64_t seconds)
{
    X509 *cert = X509_new();
    X509_NAME *name = cert ? X509_get_subject_name(cert) : NULL;
    bool ok = cert && X509_set_version(cert, 2) && set_serial(cert) &&
              X509_gmtime_adj(X509_getm_notBefore(cert), -BACKDATE_SECONDS) &&
              X509_gmtime_adj(X509_getm_notAfter(cert), (long)seconds) && X509_set_pubkey(cert, key);

    for (size_t i = 0; ok && organizations && organizations[i]; i++)
        ok = add_name(name, NID_organizationName, organizations[i]);
    ok = ok && add_name(name, NID_commonName, common_name);
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

/* Letters, digits, "-", "_" in labels; a wildcard only as the whole first label. */
static bool is_dns_name(const char *s)
{
    const char *p = str_skip_prefix(s, "*.");
    size_t label = 0;

    if (strlen(s) > DNS_NAME_MAX)
        return false;
    for (p = p ? p : s; *p; p++) {
        if (*p == '.' && !label)
            return false;
        if (*p != '.' && !isalnum((unsigned char)*p) && *p != '-' && *p != '_')
            return false;
        label = *p == '.' ? 0 : label + 1;
    }
    return label > 0;
}

/* Takes value, which may be NULL. */
static bool push_name(GENERAL_NAMES *names, int type, ASN1_STRING *value)
{
    GENERAL_NAME *name = value ? GENERAL_NAME_new() : NULL;

    if (!name) {
        ASN1_STRING_free(value);
        return false;
    }
    GENERAL_NAME_set0_value(name, type, value);
    if (sk_GENERAL_NAME_push(names, name))
        return true;
    GENERAL_NAME_free(name);
    return false;
}

static bool push_dns(GENERAL_NAMES *names, const char *text)
{
    ASN1_IA5STRING *value = is_dns_name(text) ? ASN1_IA5STRING_new() : NULL;

    if (value && !ASN1_STRING_set(value, text, -1)) {
        ASN1_IA5STRING_free(value);
        value = NULL;
    }
    return push_name(names, GEN_DNS, value);
}

/*
 * Subject alternative names, made value by value: names may come from outside, and OpenSSL's configuration text would
 * let a comma in one add others.
 */
static int add_alt_names(X509 *cert, const struct tls_cert_request *q, struct error *err)
{
    GENERAL_NAMES *names = sk_GENERAL_NAME_new_null();
    int r = 0;

    if (!names)
        abort();
    for (size_t i = 0; r == 0 && q->dns_names && q->dns_names[i]; i++)
        if (!push_dns(names, q->dns_names[i]))
            r = error_set(err, EINVAL, "\"%s\" is no DNS name", q->dns_names[i]);
    for (size_t i = 0; r == 0 && q->ip_addresses && q->ip_addresses[i]; i++)
        if (!push_name(names, GEN_IPADD, a2i_IPADDRESS(q->ip_addresses[i])) && !push_dns(names, q->ip_addresses[i]))
            r = error_set(err, EINVAL, "\"%s\" is neither an IP address nor a DNS name", q->ip_addresses[i]);
    if (r == 0 && sk_GENERAL_NAME_num(names) && X509_add1_ext_i2d(cert, NID_subject_alt_name, names, 0, 0) != 1)
        r = tls_error(err, "subject alternative names");
    GENERAL_NAMES_free(names);
    ERR_clear_error();
    return r;
}

static bool add_usages(X509 *cert, X509 *issuer, const struct tls_cert_request *q)
{
    const char *usage = q->server && q->client ? "serverAuth,clientAuth" : q->server ? "serverAuth" : "clientAuth";

    return add_extension(cert, issuer, NID_basic_constraints, "critical,CA:FALSE") &&
           add_extension(cert, issuer, NID_key_usage, "critical,digitalSignature") &&
           add_extension(cert, issuer, NID_ext_key_usage, usage) &&
           add_extension(cert, issuer, NID_authority_key_identifier, "keyid");
}

int tls_issue(const struct tls_cert *ca, const struct tls_cert_request *q, struct tls_cert *ret, struct error *err)
{
    X509 *issuer = parse_cert(ca->cert_pem);
    EVP_PKEY *issuer_key = parse_key(ca->key_pem), *key = EVP_EC_gen("P-256");
    X509 *cert = key ? new_cert(key, q->common_name, q->organizations, q->valid_seconds) : NULL;
    bool ok = issuer && issuer_key && cert && X509_set_issuer_name(cert, X509_get_subject_name(issuer)) &&
              add_usages(cert, issuer, q);
    int r = ok ? add_alt_names(cert, q, err) : tls_error(err, "issue certificate");

    if (r == 0)
        r = X509_sign(cert, issuer_key, EVP_sha256()) ? to_pem(cert, key, ret, err)
                                                      : tls_error(err, "sign certificate");
    X509_free(issuer);
    X509_free(cert);
    EVP_PKEY_free(issuer_key);
    EVP_PKEY_free(key);
    return r;
}

/* The certificates behind the first one, up to the root's children, as they are in the same text. */
static bool use_chain(SSL_CTX *ctx, BIO *bio)
{
    bool ok = true;

    for (X509 *x; ok && (x = PEM_read_bio_X509(bio, NULL, NULL, NULL));) {
        ok = SSL_CTX_add1_chain_cert(ctx, x) == 1;
        X509_free(x);
    }
    if (ok)
        ERR_clear_error(); /* the end of the text counts as an error */
    return ok;
}

static bool use_cert(SSL_CTX *ctx, const struct tls_cert *cert)
{
    BIO *bio = BIO_new_mem_buf(cert->cert_pem, -1);
    X509 *x = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
    EVP_PKEY *key = parse_key(cert->key_pem);
    bool ok = x && key && SSL_CTX_use_certificate(ctx, x) == 1 && SSL_CTX_use_PrivateKey(ctx, key) == 1 &&
              SSL_CTX_check_private_key(ctx) == 1 && use_chain(ctx, bio);

    BIO_free(bio);
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

    if (!ctx || SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1 || SSL_CTX_set_cipher_list(ctx, CIPHERS) != 1) {
        SSL_CTX_free(ctx);
        return NULL;
    }
    /* Connections are few and live long; partial writes and moving buffers are how libevent feeds OpenSSL. */
    (void)SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                    SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    (void)SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_IGNORE_UNEXPECTED_EOF);
    return ctx;
}

static int select_protocol(SSL *ssl UNUSED, const unsigned char **out, unsigned char *outlen, const unsigned char *in,
                           unsigned inlen, void *arg UNUSED)
{
    static const unsigned char protocols[] = "\x02h2\x08http/1.1";
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
    SSL_CTX_set_alpn_select_cb(ctx, select_protocol, NULL);
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
    /* It was good when the connection began, or the session that it resumes; both may be long ago. */
    if (!cert || X509_cmp_current_time(X509_get0_notAfter(cert)) < 0) {
        X509_free(cert);
        return false;
    }

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

int64_t tls_peer_expiry(struct ssl_st *ssl)
{
    X509 *cert = SSL_get1_peer_certificate(ssl);
    struct tm end;
    int64_t seconds = INT64_MAX;

    if (cert && ASN1_TIME_to_tm(X509_get0_notAfter(cert), &end) == 1)
        seconds = timegm(&end);
    X509_free(cert);
    return seconds;
}
