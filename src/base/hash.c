#include "base/hash.h"

#include "base/random.h"

#include <string.h>

static uint64_t seed(void)
{
    static uint64_t value;

    if (!value)
        random_bytes(&value, sizeof(value));
    return value;
}

/* A product of 128 bits folded to 64 spreads each bit over all. */
static uint64_t mix(uint64_t a, uint64_t b)
{
    __uint128_t r = (__uint128_t)(a ^ 0x9e3779b97f4a7c15ULL) * (b ^ 0xe7037ed1a0b428dbULL);

    return (uint64_t)r ^ (uint64_t)(r >> 64);
}

uint64_t hash_bytes(const char *text, size_t len)
{
    uint64_t s = seed(), h = s ^ len, w;

    for (; len >= 8; text += 8, len -= 8) {
        memcpy(&w, text, 8);
        h = mix(h ^ w, s);
    }
    w = 0;
    memcpy(&w, text, len);
    return mix(h ^ w, s + 1);
}
