/*
 * Compiled schemas: structural_compile.c makes them, structural.c prunes and defaults with them, structural_validate.c
 * and structural_rules.c validate.
 */
#pragma once

#include "apiserver/cel/cel.h"
#include "apiserver/formats.h"
#include "apiserver/regex.h"
#include "apiserver/structural.h"
#include "base/arena.h"

/* A schema where it stands: the same definition may have another default, or be nullable, elsewhere. */
struct structural_place {
    const struct structural *node; /* NULL: unknown, anything goes */
    const struct json *fallback;   /* the default; NULL: none */
    bool nullable;
};

struct structural_property {
    const char *name; /* NULL: a free slot */
    struct structural_place place;
};

struct structural_key {
    const char *name;
    const struct json *fallback; /* of an item without it */
};

struct structural_required {
    const char *name;
    bool nullable; /* null will do */
};

/* A rule of x-kubernetes-validations. */
struct structural_rule {
    const struct json *json;
    struct cel_program *program; /* NULL: does not compile, broken says why */
    struct cel_program *message; /* messageExpression; NULL: none that can be used */
    const char *broken;
    bool transition, optional_old;
};

/* What is said about scalars and sizes; JSON as in the schema, NULL where nothing is. */
struct structural_limits {
    const struct json *values; /* enum */
    const struct json *minimum, *maximum, *multiple;
    bool exclusive_minimum, exclusive_maximum;
    bool int32;
    const char *pattern;
    struct regex *regex; /* NULL with a pattern: it does not compile */
    const char *format_name;
    const struct format *format;
    /* -1: no limit */
    int64_t min_length, max_length, min_items, max_items, min_properties, max_properties;
};

struct structural_list {
    const struct structural *const *items;
    size_t count;
};

struct structural {
    struct schema_node schema; /* what it was compiled from */
    const char *type;          /* NULL: any */
    bool int_or_string;
    bool preserve;     /* x-kubernetes-preserve-unknown-fields */
    bool open;         /* members that are not named are kept */
    bool whole_object; /* has apiVersion, kind and metadata, whatever is said */
    bool embedded;     /* x-kubernetes-embedded-resource */
    bool rules_below;  /* here, or somewhere in what it contains */

    struct structural_property *properties; /* hashed by name; slot_count is a power of two, or 0 */
    size_t slot_count;
    const struct structural_property **with_default;
    size_t default_count;
    struct structural_required *required;
    size_t required_count;
    struct structural_place additional, items;
    enum schema_list_type list_type;
    bool duplicates; /* x-holt-duplicates: keys are for merging, and several items may share one */
    struct structural_key *keys;
    size_t key_count;
    const struct structural_limits *limits; /* NULL: none */
    struct structural_list all, any, one;
    const struct structural *negated; /* of "not" */
    struct structural_rule *rules;
    size_t rule_count;
};

/* What is compiled together is freed together. */
struct structural_owner {
    struct arena arena;
    struct structural **nodes;
    size_t count, capacity;
};

struct structural_schema {
    struct structural_owner owner;
    struct structural_place root;
};

/* NULL when the schema does not name the property. */
const struct structural_property *structural_property(const struct structural *s, const char *name);
/* Of a member, named or not. */
const struct structural_place *structural_member(const struct structural *s, const char *name, bool *ret_named);
/* Two items of a list of type map have the same keys. */
bool structural_same_item(const struct structural *list, const struct json *a, const struct json *b);
/* The item of old that is item's past: the one with its keys in a list of type map; elsewhere there is none. */
const struct json *structural_old_item(const struct structural *list, const struct json *old, const struct json *item);

/* What rules may mention: self and oldSelf; ends with NULL. */
extern const char *const structural_rule_variables[];
/* What all rules on one object may cost together. */
#define STRUCTURAL_COST_MAX (2 * (int64_t)CEL_COST_MAX)
/* All rules on a value and what it contains. old: its own past, or NULL. */
void structural_check_rules(const struct structural_place *place, const struct json *value, const struct json *old,
                            struct field_errors *errors);
