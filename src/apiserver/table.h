/*
 * Tables: what `kubectl get` prints is made by the server. Columns with a JSONPath are read from the object; the
 * others are computed here (table_pod.c for pods).
 */
#pragma once

#include "apiserver/resource.h"
#include "base/strbuf.h"
#include "wire/json.h"

struct table; /* the compiled columns of a resource */

/* include: how rows carry their object. */
enum table_object { TABLE_METADATA, TABLE_OBJECT, TABLE_NONE };

struct table *table_new(const struct resource *r, enum table_object include, int64_t now_ns);
void table_free(struct table *t);
DEFINE_CLEANUP(table_free, struct table *);
void table_set_now(struct table *t, int64_t now_ns);

/* Appends the pieces of {"kind":"Table",...}: begin (definitions: with column definitions), rows, end. metadata: JSON
 * text. */
void table_begin(const struct table *t, const char *metadata, bool definitions, struct strbuf *out);
/* shown: in the resource's own form. first: no comma in front. */
void table_row(const struct table *t, const struct json *shown, bool first, struct strbuf *out);
void table_end(struct strbuf *out);

/* {"kind":"PartialObjectMetadata",...}, a new object that shares metadata. */
struct json *partial_object(const struct json *object);

/* "5s", "3m", "4h2m", "12d": as kubectl prints ages. */
void duration_text(int64_t ns, char *out, size_t size);
/* Age of an RFC 3339 time, "<unknown>" when there is none. */
char *age_text(const struct json *time, int64_t now_ns);

/* table_cells.c: a column without JSONPath of a built-in kind; NULL when it is not known. */
struct json *table_computed_cell(const struct resource *r, const char *column, const struct json *o, int64_t now_ns);
/* table_pod.c: NULL when the column is not one of the pod's computed ones. */
struct json *table_pod_cell(const char *column, const struct json *pod, int64_t now_ns);
const char *table_pod_reason(const struct json *pod); /* of the Completed row condition, NULL while it runs */
