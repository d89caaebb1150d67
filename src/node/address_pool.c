#include "node/address_pool.h"

#include "base/memory.h"

#include <arpa/inet.h>

#define NETWORK 0x0a580000u /* 10.88.0.0 */
#define FIRST 2u            /* .0.0 is the network, .0.1 the node's side */
#define LAST (ADDRESS_POOL_SIZE - 2u)

/* The number within the pool, or 0. */
static uint32_t number_of(const char *address)
{
    struct in_addr a;

    if (!address || inet_pton(AF_INET, address, &a) != 1)
        return 0;
    uint32_t n = ntohl(a.s_addr);
    return n >= NETWORK + FIRST && n <= NETWORK + LAST ? n - NETWORK : 0;
}

static bool is_taken(const struct address_pool *p, uint32_t n)
{
    return p->taken[n / 8] & (1u << n % 8);
}

static void take(struct address_pool *p, uint32_t n)
{
    p->taken[n / 8] |= (uint8_t)(1u << n % 8);
}

char *address_pool_take(struct address_pool *p)
{
    for (uint32_t i = 0; i <= LAST - FIRST; i++) {
        uint32_t n = FIRST + (p->next + i) % (LAST - FIRST + 1);
        if (is_taken(p, n))
            continue;
        take(p, n);
        p->next = n - FIRST + 1;
        return xasprintf("10.88.%u.%u", n >> 8, n & 255);
    }
    return NULL;
}

bool address_pool_take_this(struct address_pool *p, const char *address)
{
    uint32_t n = number_of(address);

    if (!n || is_taken(p, n))
        return false;
    take(p, n);
    return true;
}

void address_pool_release(struct address_pool *p, const char *address)
{
    uint32_t n = number_of(address);

    if (n)
        p->taken[n / 8] &= (uint8_t) ~(1u << n % 8);
}
