/*
 * Addresses of Pods, from 10.88.0.0/16. Stable for the life of a Pod: the node keeps the address in the Pod's state and
 * takes it again after a restart.
 */
#pragma once

#include "base/macros.h"

#include <stdbool.h>
#include <stdint.h>

#define ADDRESS_POOL_SIZE 65536

struct address_pool {
    uint8_t taken[ADDRESS_POOL_SIZE / 8];
    uint32_t next; /* where to look first: addresses are not reused at once */
};

/* A free address as text, malloc'd; NULL when all are taken. */
char *address_pool_take(struct address_pool *p);
/* Takes this one; false when it is not of the pool, or taken. */
bool address_pool_take_this(struct address_pool *p, const char *address);
void address_pool_release(struct address_pool *p, const char *address);
