/*
 * Hashes of keys that clients choose: seeded at random per process, so that nobody can prepare keys that
 * collide. Good for tables in memory, nothing else.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

uint64_t hash_bytes(const char *text, size_t len);
