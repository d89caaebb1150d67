#include "base/random.h"

#include "base/memory.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/random.h>

void random_bytes(void *out, size_t len)
{
    char *p = out;

    while (len) {
        ssize_t n = getrandom(p, len, 0);
        if (n < 0) {
            if (errno == EINTR)
                continue;
            abort();
        }
        p += n;
        len -= (size_t)n;
    }
}

void random_uuid(char out[UUID_TEXT_SIZE])
{
    uint8_t b[16];

    random_bytes(b, sizeof(b));
    b[6] = (uint8_t)((b[6] & 0x0f) | 0x40);
    b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
    (void)snprintf(out, UUID_TEXT_SIZE, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
                   b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

void random_name_suffix(char *out, size_t len)
{
    static const char alphabet[] = "bcdfghjklmnpqrstvwxz2456789";

    for (size_t i = 0; i < len; i++) {
        uint8_t b;
        do
            random_bytes(&b, 1);
        while (b >= 27 * 9); /* no modulo bias */
        out[i] = alphabet[b % 27];
    }
    out[len] = '\0';
}

char *random_hex(size_t len)
{
    _cleanup_free_ uint8_t *b = xmalloc(len);
    char *out = xmalloc(len * 2 + 1);

    random_bytes(b, len);
    out[0] = '\0';
    for (size_t i = 0; i < len; i++)
        (void)snprintf(out + i * 2, 3, "%02x", b[i]);
    return out;
}
