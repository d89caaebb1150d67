/*
 * What is still there of something that is being deleted, a namespace or a custom kind, and the conditions that say so
 * to those who wait. Zero-initialised is empty.
 */
#pragma once

#include "apiserver/resource.h"
#include "base/hashmap.h"
#include "base/strbuf.h"

struct leftovers {
    size_t objects;
    struct strbuf resources;   /* "pods. has 2 resource instances, ..." */
    struct hashmap finalizers; /* name → number of objects that have it, as a pointer */
    size_t failures;
    char *failure; /* the first: why an object could not be deleted */
};
void leftovers_clear(struct leftovers *l);

/* count objects of r are left. */
void leftovers_add(struct leftovers *l, const struct resource *r, size_t count);
/* The finalizers of one of them. */
void leftovers_add_finalizers(struct leftovers *l, const struct json *object);
void leftovers_add_failure(struct leftovers *l, const char *why);

/* Puts the five conditions of a namespace into the array, which the caller may change. */
void leftovers_namespace_conditions(const struct leftovers *l, struct json *conditions, int64_t now_ns);
/* The one of a CustomResourceDefinition. */
void leftovers_definition_condition(const struct leftovers *l, struct json *conditions, int64_t now_ns);
