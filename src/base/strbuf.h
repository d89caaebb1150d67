/*
 * A growable byte string, always NUL-terminated after the first append. Zero-initialised is empty.
 *
 *     _cleanup_(strbuf_free) struct strbuf b = {0};
 *     strbuf_addf(&b, "%s/%s", ns, name);
 *     return strbuf_detach(&b);          // the caller owns the malloc'd string
 */
#pragma once

#include "base/macros.h"

#include <stdarg.h>
#include <stdbool.h>

struct strbuf {
    char *data; /* NULL while nothing was ever added: use strbuf_str() */
    size_t len;
    size_t capacity;
};

void strbuf_add(struct strbuf *b, const void *data, size_t len);
void strbuf_adds(struct strbuf *b, const char *s);
void strbuf_addc(struct strbuf *b, char c);
void strbuf_addf(struct strbuf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
void strbuf_vaddf(struct strbuf *b, const char *fmt, va_list ap) PRINTF_LIKE(2, 0);
/* Makes room for extra more bytes; strbuf_str(b) + b->len is where they go. */
void strbuf_reserve(struct strbuf *b, size_t extra);
void strbuf_truncate(struct strbuf *b, size_t len);
/* Never NULL. */
const char *strbuf_str(const struct strbuf *b);
/* Gives the string (never NULL) to the caller; b is empty afterwards. */
char *strbuf_detach(struct strbuf *b);
void strbuf_free(struct strbuf *b);
