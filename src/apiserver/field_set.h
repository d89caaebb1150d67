/*
 * Sets of field paths, as metadata.managedFields holds them (FieldsV1):
 * {"f:spec":{"f:ports":{"k:{\"port\":80}":{".":{}}}}}.
 *
 * A path element is "f:NAME" (member of an object), "k:{...}" (item of a list of type map: its key fields, sorted by
 * name), "v:VALUE" (item of a list of type set) or "i:N" (position). A path is in the set when its last element is
 * marked: a leaf, or an element with ".". Owning a container is thus apart from owning what it contains.
 *
 * Sets are values: every function that combines two makes a new one and leaves its arguments alone. The caller frees
 * what it gets. Contract: Kubernetes' FieldsV1 and structured-merge-diff.
 */
#pragma once

#include "apiserver/schema_walk.h"
#include "base/error.h"
#include "wire/json.h"

#include <stdbool.h>
#include <stddef.h>

struct field_set;

struct field_set *field_set_new(void);
void field_set_free(struct field_set *set);
DEFINE_CLEANUP(field_set_free, struct field_set *);
#define _cleanup_field_set_ _cleanup_(field_set_free_p)

/* NULL with err (EINVAL) for what is no FieldsV1. Keys that are not in their shortest form are rewritten. */
struct field_set *field_set_parse(const struct json *fields_v1, struct error *err);
/* Members sorted, "." first. The caller owns the value. */
struct json *field_set_to_json(const struct field_set *set);

bool field_set_is_empty(const struct field_set *set);
bool field_set_equal(const struct field_set *a, const struct field_set *b);
struct field_set *field_set_union(const struct field_set *a, const struct field_set *b);
/* The paths of a that are not in b. */
struct field_set *field_set_difference(const struct field_set *a, const struct field_set *b);
struct field_set *field_set_intersection(const struct field_set *a, const struct field_set *b);
/* Whether the intersection has a path. */
bool field_set_overlaps(const struct field_set *a, const struct field_set *b);

/*
 * The set with every container marked that the schema declares by name and below which it has a path: owning
 * spec.replicas then counts as owning spec. Entries of free-form maps and items of lists are left as they are.
 */
struct field_set *field_set_with_containers(const struct field_set *set, struct schema_node schema);
/* Takes the mark off a top-level member; what is below it stays. */
void field_set_unmark(struct field_set *set, const char *name);

/*
 * Calls visit for each path with its text as Kubernetes prints it: `.spec.ports[port=80,protocol="TCP"].name`,
 * `.metadata.finalizers[="x"]`. At each level the marked elements come first, then what is below them.
 */
void field_set_each(const struct field_set *set, void (*visit)(void *arg, const char *path), void *arg);
/* The text of one path element: `.name`, `[port=80]`. */
void field_key_print(const char *key, struct strbuf *out);
