/*
 * Sets of fields (field_set.h) and the values they speak of: which fields a value has, which differ between two values,
 * a value without some of its fields, and the merge of an applied configuration into a live value.
 *
 * What is one unit, and what identifies the item of a list, is in the schema: scalars, atomic lists and atomic maps are
 * leaves. Lists of type map whose items lack a key field without default are told apart by position.
 * Values given back share their unchanged parts with the arguments (see json.h: copy before changing one).
 *
 * Contract: structured-merge-diff as Kubernetes uses it.
 */
#pragma once

#include "apiserver/field_set.h"

/* Restricts the first two levels of a walk: parent is NULL for members of the whole value. */
typedef bool field_filter(const void *arg, const char *parent, const char *name);
struct field_scope {
    struct schema_node schema;
    field_filter *filter; /* NULL: everything */
    const void *arg;
};

/*
 * The fields of an applied configuration. Items that cannot be told apart and items without their key fields are
 * errors (EINVAL, with the path) when err is not NULL, and tolerated else.
 */
struct field_set *field_value_set(const struct json *value, const struct field_scope *scope, struct error *err);

/* What differs between before and after (either may be NULL): changed or added, and gone. The caller frees both. */
void field_value_compare(const struct json *before, const struct json *after, const struct field_scope *scope,
                         struct field_set **ret_changed, struct field_set **ret_removed);

/* value without what is marked in set. */
struct json *field_value_remove(const struct json *value, const struct field_set *set, struct schema_node schema);

/*
 * live with config merged in: maps by member, lists of type set and map by item, everything else replaced. Items keep
 * config's order; items of live alone stay where they are among them. config is free of duplicates.
 */
struct json *field_value_merge(const struct json *live, const struct json *config, struct schema_node schema);
