/*
 * OpenAPI v3: one document for each group and version, holding the schemas of its kinds and of all they refer to, and
 * for each resource the paths from which clients read what the server can do: server-side field validation, and the
 * patch types (strategic merge patch for built-in kinds only). `kubectl create`, apply, edit and explain depend on
 * them.
 *
 * Documents are made when first asked for. A change of the resource table makes those of the changed versions anew.
 * What these functions return is lent, and valid until the table changes.
 */
#pragma once

#include "apiserver/document.h"
#include "apiserver/resource.h"

/* GET /openapi/v2 in this form (kubectl's, when it finds no v3) gets an empty body, which is accepted. */
#define OPENAPI_V2_CONTENT_TYPE "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

struct openapi;

/* table is borrowed. */
struct openapi *openapi_new(const struct resource_table *table);
void openapi_free(struct openapi *o);
DEFINE_CLEANUP(openapi_free, struct openapi *);

/* GET /openapi/v3: the list of documents, with their hashes. Makes them all. */
const struct document *openapi_root(struct openapi *o);
/* GET /openapi/v3/PATH, PATH being "api/v1" or "apis/GROUP/VERSION". NULL when there is no such version. */
const struct document *openapi_document(struct openapi *o, const char *path);
/* GET /openapi/v2 as JSON: all versions in one document. Makes it anew when the table has changed: not cheap. */
const struct document *openapi_v2(struct openapi *o);

/* For openapi.c: an empty document of v2, and what one of v3 adds to it. */
struct json *openapi_v2_make(void);
void openapi_v2_add(struct json *document, const struct json *v3);
