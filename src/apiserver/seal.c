#include "apiserver/seal.h"

#include "base/fdio.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/strutil.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>

#define KEY_FILE_MAX 65536
#define KEY_BYTES 32
#define NAME_MAX_BYTES 32
#define NONCE_BYTES 12
#define TAG_BYTES 16
#define FORMAT 1

/* Sealed: format (1 byte), length of the key's name (1 byte), name, nonce, cipher text, tag. */

struct seal_key {
    char *name;
    unsigned char bytes[KEY_BYTES];
};

struct sealer {
    struct seal_key *keys;
    size_t count;
};

const char *const sealed_resources[] = {"/secrets", NULL};

bool is_sealed_resource(const char *resource)
{
    for (const char *const *r = sealed_resources; *r; r++)
        if (streq(*r, resource))
            return true;
    return false;
}

void sealer_free(struct sealer *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->count; i++) {
        OPENSSL_cleanse(s->keys[i].bytes, KEY_BYTES);
        free(s->keys[i].name);
    }
    free(s->keys);
    free(s);
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static bool parse_key_bytes(const char *hex, unsigned char out[KEY_BYTES])
{
    if (strlen(hex) != (size_t)KEY_BYTES * 2)
        return false;
    for (size_t i = 0; i < KEY_BYTES; i++) {
        int high = hex_digit(hex[2 * i]), low = hex_digit(hex[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        out[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

static const struct seal_key *find_key(const struct sealer *s, const char *name, size_t len)
{
    for (size_t i = 0; i < s->count; i++)
        if (strlen(s->keys[i].name) == len && !memcmp(s->keys[i].name, name, len))
            return &s->keys[i];
    return NULL;
}

static int add_key(struct sealer *s, char *line, size_t number, struct error *err)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    size_t len = strspn(line, allowed);
    struct seal_key key;

    if (!len || len > NAME_MAX_BYTES || line[len] != ' ' || !parse_key_bytes(line + len + 1, key.bytes))
        return error_set(err, EINVAL, "line %zu is no key: NAME and %d hex digits", number, KEY_BYTES * 2);
    if (find_key(s, line, len))
        return error_set(err, EINVAL, "line %zu: there is a key of this name already", number);
    key.name = xstrndup(line, len);
    s->keys = xreallocarray(s->keys, s->count + 1, sizeof(*s->keys));
    s->keys[s->count++] = key;
    OPENSSL_cleanse(&key, sizeof(key));
    return 0;
}

static int parse_keys(struct sealer *s, char *text, struct error *err)
{
    char *save = NULL;
    size_t number = 0;

    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        number++;
        if (*line == '#')
            continue;
        int r = add_key(s, line, number, err);
        if (r < 0)
            return r;
    }
    return s->count ? 0 : error_set(err, EINVAL, "there is no key in it");
}

static int make_key_file(const char *path, struct error *err)
{
    _cleanup_free_ char *name = random_hex(4), *key = random_hex(KEY_BYTES);
    _cleanup_free_ char *text =
        xasprintf("# NAME KEY; the first seals, all open. See docs/operations.md.\nkey-%s %s\n", name, key);
    int r = file_write_atomic_at(AT_FDCWD, path, text, strlen(text), 0600, err);

    OPENSSL_cleanse(key, strlen(key));
    OPENSSL_cleanse(text, strlen(text));
    return r;
}

struct sealer *sealer_open(const char *path, struct error *err)
{
    _cleanup_(sealer_free_p) struct sealer *s = xcalloc(1, sizeof(*s));
    char *text = NULL;
    size_t len = 0;

    int r = faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT ? make_key_file(path, err) : 0;
    if (r == 0)
        r = file_read_at(AT_FDCWD, path, KEY_FILE_MAX, &text, &len, err);
    if (r == 0 && strlen(text) != len)
        r = error_set(err, EINVAL, "it holds a NUL");
    if (r == 0)
        r = parse_keys(s, text, err);
    if (text)
        OPENSSL_cleanse(text, len);
    free(text);
    if (r < 0) {
        (void)error_wrap(err, "keys of the store, %s", path);
        return NULL;
    }
    return take_ptr(s);
}

/* What is authenticated beside the text. */
static char *place_text(const struct seal_place *p)
{
    return xasprintf("%s\n%s\n%lld", p->resource, p->key, (long long)p->revision);
}

DEFINE_CLEANUP(EVP_CIPHER_CTX_free, EVP_CIPHER_CTX *);

static bool cipher_start(EVP_CIPHER_CTX *c, const struct seal_key *key, const unsigned char *nonce,
                         const struct seal_place *place, bool encrypt)
{
    _cleanup_free_ char *aad = place_text(place);
    int n;

    return c && EVP_CipherInit_ex(c, EVP_aes_256_gcm(), NULL, key->bytes, nonce, encrypt) == 1 &&
           EVP_CipherUpdate(c, NULL, &n, (const unsigned char *)aad, (int)strlen(aad)) == 1;
}

int seal(const struct sealer *s, const struct seal_place *place, const char *text, size_t len, struct strbuf *out,
         struct error *err)
{
    const struct seal_key *key = &s->keys[0];
    unsigned char nonce[NONCE_BYTES], tag[TAG_BYTES];
    _cleanup_(EVP_CIPHER_CTX_free_p) EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
    int n = 0, last = 0;

    if (len > INT32_MAX)
        return error_set(err, EFBIG, "seal %s %s: it is too large", place->resource, place->key);
    random_bytes(nonce, sizeof(nonce));
    strbuf_addc(out, FORMAT);
    strbuf_addc(out, (char)strlen(key->name));
    strbuf_adds(out, key->name);
    strbuf_add(out, nonce, sizeof(nonce));
    strbuf_reserve(out, len + TAG_BYTES);
    unsigned char *at = (unsigned char *)out->data + out->len;
    if (!cipher_start(c, key, nonce, place, true) ||
        EVP_CipherUpdate(c, at, &n, (const unsigned char *)text, (int)len) != 1 ||
        EVP_CipherFinal_ex(c, at + n, &last) != 1 || EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_GET_TAG, TAG_BYTES, tag) != 1)
        return error_set(err, EIO, "seal %s %s: the cipher failed", place->resource, place->key);
    out->len += (size_t)(n + last);
    strbuf_add(out, tag, sizeof(tag));
    return 0;
}

/* The parts of a sealed text, borrowed. */
struct sealed {
    const char *name;
    size_t name_len;
    const unsigned char *nonce, *text, *tag;
    size_t text_len;
};

/* False when it is none. */
static bool split(const void *data, size_t len, struct sealed *ret)
{
    const unsigned char *d = data;

    if (len < 2 || d[0] != FORMAT || len < (size_t)2 + d[1] + NONCE_BYTES + TAG_BYTES)
        return false;
    ret->name = (const char *)d + 2;
    ret->name_len = d[1];
    ret->nonce = d + 2 + d[1];
    ret->text = ret->nonce + NONCE_BYTES;
    ret->tag = d + len - TAG_BYTES;
    ret->text_len = (size_t)(ret->tag - ret->text);
    return true;
}

int unseal(const struct sealer *s, const struct seal_place *place, const void *data, size_t len, struct strbuf *out,
           struct error *err)
{
    _cleanup_(EVP_CIPHER_CTX_free_p) EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
    struct sealed p;
    unsigned char tag[TAG_BYTES];
    int n = 0, last = 0;

    if (len > INT32_MAX || !split(data, len, &p))
        return error_set(err, EKEYREJECTED, "%s %s is not sealed as it should be", place->resource, place->key);
    const struct seal_key *key = find_key(s, p.name, p.name_len);
    if (!key)
        return error_set(err, EKEYREJECTED, "%s %s is sealed by the key \"%.*s\", which is not in the file of keys",
                         place->resource, place->key, (int)p.name_len, p.name);
    memcpy(tag, p.tag, sizeof(tag));
    strbuf_reserve(out, p.text_len + 1);
    unsigned char *at = (unsigned char *)out->data + out->len;
    if (!cipher_start(c, key, p.nonce, place, false) || EVP_CipherUpdate(c, at, &n, p.text, (int)p.text_len) != 1 ||
        EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_SET_TAG, TAG_BYTES, tag) != 1 ||
        EVP_CipherFinal_ex(c, at + n, &last) != 1) {
        OPENSSL_cleanse(at, p.text_len);
        return error_set(err, EKEYREJECTED, "%s %s is not what was sealed by the key \"%s\"", place->resource,
                         place->key, key->name);
    }
    out->len += (size_t)(n + last);
    out->data[out->len] = 0;
    return 0;
}

bool is_sealed_freshly(const struct sealer *s, const void *data, size_t len)
{
    struct sealed p;

    return split(data, len, &p) && find_key(s, p.name, p.name_len) == &s->keys[0];
}
