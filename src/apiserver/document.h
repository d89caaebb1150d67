/* A text that is served as it is, with the hash of its content: discovery and OpenAPI documents. */
#pragma once

#include "base/strbuf.h"
#include "wire/json.h"

#include <stddef.h>

#define DOCUMENT_HASH_SIZE 129 /* SHA-512 in hex, and NUL */

struct document {
    char *text;
    size_t len;
    char hash[DOCUMENT_HASH_SIZE]; /* upper case; the ETag is this in double quotes */
};

/* Takes the text out of the buffer. */
struct document *document_make(struct strbuf *text);
struct document *document_from_json(const struct json *v);
void document_free(struct document *d);
