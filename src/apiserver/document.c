#include "apiserver/document.h"

#include "base/memory.h"

#include <openssl/evp.h>

struct document *document_make(struct strbuf *text)
{
    static const char digits[] = "0123456789ABCDEF";
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned int len = 0;
    struct document *d = xcalloc(1, sizeof(*d));

    d->len = text->len;
    d->text = strbuf_detach(text);
    if (EVP_Digest(d->text, d->len, hash, &len, EVP_sha512(), NULL) != 1 || len * 2 + 1 != sizeof(d->hash))
        abort(); /* OpenSSL without SHA-512, or without memory */
    for (unsigned int i = 0; i < len; i++) {
        d->hash[2 * i] = digits[hash[i] >> 4];
        d->hash[2 * i + 1] = digits[hash[i] & 15];
    }
    return d;
}

struct document *document_from_json(const struct json *v)
{
    _cleanup_(strbuf_free) struct strbuf text = {0};

    json_write(v, &text);
    return document_make(&text);
}

void document_free(struct document *d)
{
    if (!d)
        return;
    free(d->text);
    free(d);
}
