/* Reading and building Kubernetes objects held as struct json. Getters never return NULL unless they say so. */
#pragma once

#include "wire/json.h"

#include <stdbool.h>
#include <stdint.h>

const char *object_kind(const struct json *o); /* "" when missing, as all below */
const char *object_api_version(const struct json *o);
const char *object_name(const struct json *o);
const char *object_namespace(const struct json *o);
const char *object_uid(const struct json *o);
int64_t object_revision(const struct json *o);                        /* resourceVersion as a number; 0 when missing */
int64_t object_generation(const struct json *o);                      /* 0 when missing */
bool object_deleting(const struct json *o);                           /* has a deletionTimestamp */
const char *object_label(const struct json *o, const char *key);      /* NULL when missing */
const char *object_annotation(const struct json *o, const char *key); /* NULL when missing */

/* "namespace/name", or "name" for cluster-scoped objects; the caller frees. */
char *object_key(const struct json *o);
char *key_make(const char *ns, const char *name);

/* The owner reference with controller: true, or NULL. */
const struct json *object_controller(const struct json *o);
bool object_controlled_by(const struct json *o, const char *uid);
/* A controller reference to owner with blockOwnerDeletion; the caller owns it. */
struct json *owner_reference(const struct json *owner);

/* Conditions under status.conditions. */
const struct json *condition_find(const struct json *conditions,
                                  const char *type); /* conditions: the array; may be NULL */
bool condition_true(const struct json *object, const char *type);
/*
 * Puts the condition into the array (which the caller may change), keeping lastTransitionTime when the status does not
 * change. reason and message may be NULL. Returns whether anything changed. observed_generation < 0: left out.
 */
bool condition_set(struct json *conditions, const char *type, const char *status, const char *reason,
                   const char *message, int64_t observed_generation, int64_t now_ns);
bool condition_remove(struct json *conditions, const char *type);

/* Label selector in the query form ("a=b,c in (d,e),!f"); compiled once, matched often. */
struct selector;
struct selector *selector_parse(const char *text, struct error *err);
/* From a LabelSelector object (matchLabels, matchExpressions). NULL or empty selects everything. */
struct selector *selector_from_object(const struct json *label_selector, struct error *err);
bool selector_matches(const struct selector *s, const struct json *labels);
bool selector_empty(const struct selector *s);
void selector_free(struct selector *s);
DEFINE_CLEANUP(selector_free, struct selector *);

/* Field selector ("status.phase!=Failed,metadata.name=x"). Which fields a kind allows is the API server's business. */
struct field_selector;
struct field_selector *field_selector_parse(const char *text, struct error *err);
/* Compares the text at each path; an unset field is "". Booleans and integers compare by their text. */
bool field_selector_matches(const struct field_selector *s, const struct json *object);
/* The i-th requirement's path, NULL past the end; ret_value and ret_negated may be NULL. */
const char *field_selector_term(const struct field_selector *s, size_t i, const char **ret_value, bool *ret_negated);
void field_selector_free(struct field_selector *s);
DEFINE_CLEANUP(field_selector_free, struct field_selector *);
