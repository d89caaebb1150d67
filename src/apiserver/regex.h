/*
 * Regular expressions of others: patterns of CustomResourceDefinitions, matched against what clients send.
 *
 * Kubernetes means RE2. What RE2 does not have (back references, look-around, atomic groups, recursion) is refused, and
 * the rest means the same here. Matching is PCRE2's, which can take exponential time, so every match has a limit of
 * work and memory; a match that exceeds it is an error, never an answer. An expression is not for use by two threads.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

#define REGEX_PATTERN_MAX 10000

struct regex;

struct regex *regex_compile(const char *pattern, struct error *err);
void regex_free(struct regex *re);
DEFINE_CLEANUP(regex_free, struct regex *);

/*
 * Whether there is a match anywhere in s (which is UTF-8) from byte `from` on; where, if ret_start and ret_end are not
 * NULL. 1, 0, or -E2BIG when the limits do not suffice (or s is not UTF-8).
 */
int regex_find(struct regex *re, const char *s, size_t len, size_t from, size_t *ret_start, size_t *ret_end);
