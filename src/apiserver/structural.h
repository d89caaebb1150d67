/*
 * Schemas at work on values: unknown fields are dropped and reported, defaults filled in, the rest is validated in the
 * words of Kubernetes (field_errors.h). Schemas are OpenAPI v3 as Kubernetes uses them (structural schemas with the
 * x-kubernetes extensions); they are walked as they are (schema_walk.h), nothing is compiled but patterns.
 *
 * Values are shared and never changed: a function that changes something returns a new value that shares what stayed
 * the same, or another reference to the one it was given.
 */
#pragma once

#include "apiserver/field_errors.h"
#include "apiserver/schema_walk.h"

/* unknown is called with each dropped field's path ("spec.containers[0].imagee"); may be NULL. */
struct json *structural_prune(struct schema_node root, struct json *value, void (*unknown)(void *arg, const char *path),
                              void *arg);
/* Fills in defaults, also inside what is defaulted; nulls that are not allowed and have no default are dropped. */
struct json *structural_default(struct schema_node root, struct json *value);
/*
 * old: the value before an update, for transition rules; NULL on creation. Errors that an unchanged part of the object
 * had already are not reported again.
 */
void structural_validate(struct schema_node root, const struct json *value, const struct json *old,
                         struct field_errors *errors);
