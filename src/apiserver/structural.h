/*
 * Schemas at work on values: unknown fields are dropped and reported, defaults filled in, the rest is validated in the
 * words of Kubernetes (field_errors.h). Schemas are OpenAPI v3 as Kubernetes uses them: structural schemas with the
 * x-kubernetes extensions.
 *
 * A schema is compiled before it is used: properties lie in hash tables, patterns and rules are ready to run, and what
 * the schemas of definitions say is looked up no more. Definitions that others refer to ($ref, schema_walk.h) are
 * compiled once, when something refers to them, and kept by a set:
 *
 *     struct structural_set *set = structural_set_new(&context);
 *     struct structural_schema *pod = structural_compile(set, schema, true);
 *     object = structural_prune(pod, object, on_unknown, arg);
 *
 * Compiling never fails: what cannot be judged (a pattern or a rule that does not compile) refuses all values, with a
 * message that says so. structural_check.h finds such things when a schema comes in.
 *
 * Values are shared and never changed: a function that changes something returns a new value that shares what stayed
 * the same, or another reference to the one it was given. Defaults in it are the schema's own values, shared too.
 */
#pragma once

#include "apiserver/field_errors.h"
#include "apiserver/schema_walk.h"

struct structural_set;
struct structural_schema;

/* The context is copied; what it resolves must live as long as the set, and must not change. */
struct structural_set *structural_set_new(const struct schema_context *context);
/* After the schemas compiled with it. */
void structural_set_free(struct structural_set *set);
DEFINE_CLEANUP(structural_set_free, struct structural_set *);

/* schema is borrowed for the life of the result, and may be NULL: anything goes. whole_object: it is a kind's. */
struct structural_schema *structural_compile(struct structural_set *set, const struct json *schema, bool whole_object);
void structural_schema_free(struct structural_schema *s);
DEFINE_CLEANUP(structural_schema_free, struct structural_schema *);

/* unknown is called with each dropped field's path ("spec.containers[0].imagee"); may be NULL. */
struct json *structural_prune(const struct structural_schema *s, struct json *value,
                              void (*unknown)(void *arg, const char *path), void *arg);
/* Fills in defaults, also inside what is defaulted; nulls that are not allowed and have no default are dropped. */
struct json *structural_default(const struct structural_schema *s, struct json *value);
/*
 * old: the value before an update, for transition rules; NULL on creation. Errors that an unchanged part of the object
 * had already are not reported again.
 */
void structural_validate(const struct structural_schema *s, const struct json *value, const struct json *old,
                         struct field_errors *errors);
