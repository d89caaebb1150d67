#include "apiserver/jwt.h"

#include "base/base64.h"
#include "base/fdio.h"
#include "base/hashmap.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "wire/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <unistd.h>

#define KEY_FILE_MAX 65536
#define KEYS_MAX 16
/* So many good tokens are remembered; then it begins anew. */
#define GOOD_MAX 1024
/* Each of the two numbers of a signature. */
#define NUMBER_BYTES 32

struct jwt_key {
    EVP_PKEY *key;
    char *id; /* digest of the public key */
};

struct jwt_keys {
    struct jwt_key keys[KEYS_MAX];
    size_t count;
    struct hashmap good; /* digest of a token → its claims */
};

DEFINE_CLEANUP(EVP_PKEY_free, EVP_PKEY *);
DEFINE_CLEANUP(EVP_MD_CTX_free, EVP_MD_CTX *);
DEFINE_CLEANUP(ECDSA_SIG_free, ECDSA_SIG *);
DEFINE_CLEANUP(BIO_free_all, BIO *);
DEFINE_CLEANUP(BN_free, BIGNUM *);

/* --- keys --- */

static void unref_claims(void *claims)
{
    json_unref(claims);
}

void jwt_keys_free(struct jwt_keys *k)
{
    if (!k)
        return;
    hashmap_free(&k->good, unref_claims);
    for (size_t i = 0; i < k->count; i++) {
        EVP_PKEY_free(k->keys[i].key);
        free(k->keys[i].id);
    }
    free(k);
}

static char *key_id(EVP_PKEY *key)
{
    unsigned char *der = NULL, md[EVP_MAX_MD_SIZE];
    unsigned md_len = 0;
    int len = i2d_PUBKEY(key, &der);
    bool ok = len > 0 && EVP_Digest(der, (size_t)len, md, &md_len, EVP_sha256(), NULL) == 1;

    OPENSSL_free(der);
    return ok ? base64_encode_url(md, md_len) : NULL;
}

static int add_key(struct jwt_keys *k, EVP_PKEY *key, struct error *err)
{
    char group[32] = "";

    if (k->count == KEYS_MAX || EVP_PKEY_get_group_name(key, group, sizeof(group), NULL) != 1 ||
        !streq(group, "prime256v1")) {
        EVP_PKEY_free(key);
        return error_set(err, EINVAL, "at most %d keys, each of the curve P-256, may be in it", KEYS_MAX);
    }
    k->keys[k->count].key = key;
    k->keys[k->count].id = key_id(key);
    return k->keys[k->count++].id ? 0 : tls_error(err, "digest of a key");
}

/* Keys have no passphrase; nobody is there to be asked. */
static int no_passphrase(char *buf UNUSED, int size UNUSED, int writing UNUSED, void *arg UNUSED)
{
    return -1;
}

struct jwt_keys *jwt_keys_parse(const char *pem, size_t len, struct error *err)
{
    _cleanup_(jwt_keys_free_p) struct jwt_keys *k = xcalloc(1, sizeof(*k));
    _cleanup_(BIO_free_all_p) BIO *bio = len <= KEY_FILE_MAX ? BIO_new_mem_buf(pem, (int)len) : NULL;

    for (EVP_PKEY *key; bio && (key = PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, NULL));)
        if (add_key(k, key, err) < 0)
            return NULL;
    if (k->count == 0) {
        (void)tls_error(err, "there is no private key in it");
        return NULL;
    }
    (void)tls_error(NULL, ""); /* that there are no more */
    return take_ptr(k);
}

char *jwt_make_key(struct error *err)
{
    _cleanup_(EVP_PKEY_free_p) EVP_PKEY *key = EVP_EC_gen("P-256");
    _cleanup_(BIO_free_all_p) BIO *bio = BIO_new(BIO_s_secmem());
    char *data;

    if (!key || !bio || !PEM_write_bio_PKCS8PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL)) {
        (void)tls_error(err, "make a key");
        return NULL;
    }
    long len = BIO_get_mem_data(bio, &data);
    return xstrndup(data, len > 0 ? (size_t)len : 0);
}

static int make_key_file(const char *path, struct error *err)
{
    char *pem = jwt_make_key(err);
    int r = pem ? file_write_atomic_at(AT_FDCWD, path, pem, strlen(pem), 0600, err) : -EIO;

    if (pem)
        OPENSSL_cleanse(pem, strlen(pem));
    free(pem);
    return r;
}

struct jwt_keys *jwt_keys_open(const char *path, struct error *err)
{
    struct jwt_keys *k = NULL;
    char *text = NULL;
    size_t len = 0;

    int r = faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT ? make_key_file(path, err) : 0;
    if (r == 0 && file_read_at(AT_FDCWD, path, KEY_FILE_MAX, &text, &len, err) == 0)
        k = jwt_keys_parse(text, len, err);
    if (text)
        OPENSSL_cleanse(text, len);
    free(text);
    if (!k)
        (void)error_wrap(err, "keys of ServiceAccount tokens, %s", path);
    return k;
}

static char *coordinate(EVP_PKEY *key, const char *name)
{
    BIGNUM *n = NULL;
    unsigned char bytes[NUMBER_BYTES];

    if (EVP_PKEY_get_bn_param(key, name, &n) != 1)
        return NULL;
    int len = BN_bn2binpad(n, bytes, sizeof(bytes));
    BN_free(n);
    return len == NUMBER_BYTES ? base64_encode_url(bytes, sizeof(bytes)) : NULL;
}

struct json *jwt_key_set(const struct jwt_keys *k)
{
    struct json *keys = json_array_make();

    for (size_t i = 0; i < k->count; i++) {
        _cleanup_free_ char *x = coordinate(k->keys[i].key, OSSL_PKEY_PARAM_EC_PUB_X),
                            *y = coordinate(k->keys[i].key, OSSL_PKEY_PARAM_EC_PUB_Y);
        json_push(keys, json_build("{s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "use", "sig", "kty", "EC", "kid",
                                   k->keys[i].id, "crv", "P-256", "alg", "ES256", "x", x, "y", y));
    }
    return json_build("{s:o}", "keys", keys);
}

/* --- signatures --- */

/* OpenSSL's form of a signature (DER) → the two numbers, one behind the other. */
static char *signature_text(const unsigned char *der, size_t len)
{
    _cleanup_(ECDSA_SIG_free_p) ECDSA_SIG *sig = d2i_ECDSA_SIG(NULL, &der, (long)len);
    unsigned char bytes[2 * NUMBER_BYTES];

    if (!sig || BN_bn2binpad(ECDSA_SIG_get0_r(sig), bytes, NUMBER_BYTES) != NUMBER_BYTES ||
        BN_bn2binpad(ECDSA_SIG_get0_s(sig), bytes + NUMBER_BYTES, NUMBER_BYTES) != NUMBER_BYTES)
        return NULL;
    return base64_encode_url(bytes, sizeof(bytes));
}

static char *sign_text(EVP_PKEY *key, const char *text)
{
    _cleanup_(EVP_MD_CTX_free_p) EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    unsigned char der[128];
    size_t len = sizeof(der);

    if (!ctx || EVP_DigestSignInit(ctx, NULL, EVP_sha256(), NULL, key) != 1 ||
        EVP_DigestSign(ctx, der, &len, (const unsigned char *)text, strlen(text)) != 1)
        return NULL;
    return signature_text(der, len);
}

char *jwt_sign(const struct jwt_keys *k, const struct json *claims, struct error *err)
{
    _cleanup_json_ struct json *head = json_build("{s:s, s:s}", "alg", "ES256", "kid", k->keys[0].id);
    _cleanup_free_ char *head_text = json_text(head), *claims_text = json_text(claims);
    _cleanup_free_ char *a = base64_encode_url(head_text, strlen(head_text)),
                        *b = base64_encode_url(claims_text, strlen(claims_text));
    _cleanup_free_ char *text = xasprintf("%s.%s", a, b), *signature = sign_text(k->keys[0].key, text);

    if (!signature) {
        (void)tls_error(err, "sign a token");
        return NULL;
    }
    return xasprintf("%s.%s", text, signature);
}

/* The two numbers → OpenSSL's form, in a buffer that OPENSSL_free frees; <= 0: they are none. */
static int signature_der(const char *bytes, unsigned char **ret)
{
    const unsigned char *b = (const unsigned char *)bytes;
    _cleanup_(ECDSA_SIG_free_p) ECDSA_SIG *sig = ECDSA_SIG_new();
    _cleanup_(BN_free_p) BIGNUM *r = BN_bin2bn(b, NUMBER_BYTES, NULL),
                                *s = BN_bin2bn(b + NUMBER_BYTES, NUMBER_BYTES, NULL);

    *ret = NULL;
    if (!sig || !r || !s || ECDSA_SIG_set0(sig, r, s) != 1)
        return 0;
    r = s = NULL; /* sig's */
    return i2d_ECDSA_SIG(sig, ret);
}

static bool signature_good(EVP_PKEY *key, const char *text, size_t len, const char *signature)
{
    _cleanup_(EVP_MD_CTX_free_p) EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    unsigned char *der;
    int der_len = signature_der(signature, &der);
    bool good = ctx && der_len > 0 && EVP_DigestVerifyInit(ctx, NULL, EVP_sha256(), NULL, key) == 1 &&
                EVP_DigestVerify(ctx, der, (size_t)der_len, (const unsigned char *)text, len) == 1;

    OPENSSL_free(der);
    if (!good)
        (void)tls_error(NULL, "");
    return good;
}

static struct json *decode_part(const char *text, size_t len)
{
    size_t decoded_len;
    _cleanup_free_ char *decoded = base64_decode_url(text, len, &decoded_len);
    struct json *v = decoded ? json_parse(decoded, decoded_len, NULL) : NULL;

    if (json_is(v, JSON_OBJECT))
        return v;
    json_unref(v);
    return NULL;
}

/* The key that the head names, for the one algorithm that there is. */
static EVP_PKEY *key_for(const struct jwt_keys *k, const char *text, size_t len)
{
    _cleanup_json_ struct json *head = decode_part(text, len);

    if (!streq(json_str_or(json_get(head, "alg"), ""), "ES256") || json_has(head, "crit"))
        return NULL;
    for (size_t i = 0; i < k->count; i++)
        if (streq(k->keys[i].id, json_str_or(json_get(head, "kid"), "")))
            return k->keys[i].key;
    return NULL;
}

static struct json *verify(const struct jwt_keys *k, const char *token, struct error *err)
{
    size_t len = strnlen(token, JWT_MAX + 1), signature_len = 0;
    const char *claims = len <= JWT_MAX ? strchr(token, '.') : NULL,
               *signature = claims ? strchr(claims + 1, '.') : NULL;

    if (!signature || strchr(signature + 1, '.')) {
        (void)error_set(err, EINVAL, len > JWT_MAX ? "the token is too long" : "it is no JSON web token");
        return NULL;
    }
    EVP_PKEY *key = key_for(k, token, (size_t)(claims - token));
    _cleanup_free_ char *bytes = key ? base64_decode_url(signature + 1, strlen(signature + 1), &signature_len) : NULL;
    if (!bytes || signature_len != (size_t)2 * NUMBER_BYTES ||
        !signature_good(key, token, (size_t)(signature - token), bytes)) {
        (void)error_set(err, EKEYREJECTED, "the token is not signed by this server");
        return NULL;
    }
    struct json *v = decode_part(claims + 1, (size_t)(signature - claims - 1));
    if (!v)
        (void)error_set(err, EINVAL, "the token holds no claims");
    return v;
}

struct json *jwt_verify(struct jwt_keys *k, const char *token, struct error *err)
{
    unsigned char md[EVP_MAX_MD_SIZE];
    unsigned md_len = 0;
    size_t len = strnlen(token, JWT_MAX + 1);
    _cleanup_free_ char *digest =
        EVP_Digest(token, len, md, &md_len, EVP_sha256(), NULL) == 1 ? base64_encode_url(md, md_len) : NULL;
    struct json *claims = digest && len <= JWT_MAX ? hashmap_get(&k->good, digest) : NULL;

    if (claims)
        return json_ref(claims);
    claims = verify(k, token, err);
    if (!claims || !digest)
        return claims;
    if (k->good.count >= GOOD_MAX) {
        hashmap_free(&k->good, unref_claims);
        k->good = (struct hashmap){0};
    }
    (void)hashmap_put(&k->good, digest, json_ref(claims)); /* it was not there */
    return claims;
}
