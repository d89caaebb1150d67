#include "node/image/digest.h"

#include <openssl/evp.h>
#include <stdio.h>

/* SHA-256 on memory cannot fail once the algorithm was found; a libcrypto without it cannot run holt. */
static void must(int ok)
{
    if (!ok)
        abort();
}

struct digest *digest_new(void)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();

    must(ctx && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) == 1);
    return (struct digest *)ctx;
}

void digest_add(struct digest *d, const void *data, size_t len)
{
    must(EVP_DigestUpdate((EVP_MD_CTX *)d, data, len) == 1);
}

void digest_finish(struct digest *d, char hex[SHA256_HEX + 1])
{
    unsigned char sum[SHA256_HEX / 2];

    must(EVP_DigestFinal_ex((EVP_MD_CTX *)d, sum, NULL) == 1);
    for (size_t i = 0; i < sizeof(sum); i++)
        (void)snprintf(hex + 2 * i, 3, "%02x", sum[i]); /* always two digits */
    digest_free(d);
}

void digest_free(struct digest *d)
{
    EVP_MD_CTX_free((EVP_MD_CTX *)d);
}

void digest_of(const void *data, size_t len, char hex[SHA256_HEX + 1])
{
    struct digest *d = digest_new();

    digest_add(d, data, len);
    digest_finish(d, hex);
}
