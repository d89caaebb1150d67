/* Strings: comparison, numbers, lists. Everything here is pure. */
#pragma once

#include "base/macros.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline bool streq(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

/* NULL equals NULL and nothing else. */
static inline bool streq_null(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* The rest of s behind prefix, or NULL. */
const char *str_skip_prefix(const char *s, const char *prefix);
bool str_has_suffix(const char *s, const char *suffix);

/* Whole-string decimal numbers; false on anything else, overflow included. */
bool parse_i64(const char *s, int64_t *ret);
bool parse_u64(const char *s, uint64_t *ret);

/* Length of the well-formed UTF-8 sequence at text (Unicode table 3-7), 0 when it is none; text < end. */
size_t utf8_len(const char *text, const char *end);
bool utf8_valid(const char *s, size_t len);
/* The longest part of valid UTF-8 that is no longer than max and ends with a whole character. */
size_t utf8_cut(const char *s, size_t len, size_t max);

/* "10s", "5m", "1h30m", "250ms" → nanoseconds; a bare number counts as seconds. */
bool parse_duration(const char *s, int64_t *ret_ns);

/* A NULL-terminated array of strings; strv_append takes ownership of s. */
char **strv_append(char **v, char *s);
size_t strv_len(char *const *v);
char **strv_copy(char *const *v);
void strv_free(char **v);
static inline void strv_free_p(char ***v)
{
    strv_free(*v);
}
#define _cleanup_strv_ _cleanup_(strv_free_p)

/* FNV-1a, 32 bit, over the string's bytes. */
uint32_t fnv1a32(const char *s);
