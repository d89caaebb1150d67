/*
 * Walking OpenAPI v3 schemas along a value: the property, the items, what the x-kubernetes extensions say. A node is
 * passed by value and borrows the schema. An unknown node (no schema, or a field the schema does not know) answers
 * every question with the default of its kind: lists atomic, maps granular.
 *
 * References, {"$ref": "#/components/schemas/NAME"} and {"allOf": [{"$ref": ...}]}, are followed when a node is
 * entered; keywords beside the reference win over those of what it refers to.
 */
#pragma once

#include "wire/json.h"

#include <stdbool.h>

struct schema_context {
    /* The definition called name (borrowed), or NULL. */
    const struct json *(*resolve)(void *arg, const char *name);
    void *arg;
};

struct schema_node {
    const struct schema_context *context; /* may be NULL: references lead nowhere */
    const struct json *outer;             /* where the node stands; NULL: unknown */
    const struct json *inner;             /* what its reference leads to; outer when it has none */
    bool whole_object;                    /* has apiVersion, kind and metadata */
};

enum schema_list_type { SCHEMA_LIST_ATOMIC, SCHEMA_LIST_SET, SCHEMA_LIST_MAP };

/* Of any value; schema may be NULL. */
struct schema_node schema_node_make(const struct schema_context *context, const struct json *schema);
/*
 * Of a kind's objects; schema may be NULL. Where it, or that of an embedded resource, leaves the members of metadata
 * open, schema_property() answers with ObjectMeta, provided that the context knows it.
 */
struct schema_node schema_root(const struct schema_context *context, const struct json *schema);
static inline bool schema_is_known(struct schema_node node)
{
    return node.outer != NULL;
}
/* NULL when neither the node nor what it refers to has the keyword. */
const struct json *schema_keyword(struct schema_node node, const char *keyword);
/* Declared by name, so not by additionalProperties. */
bool schema_declares(struct schema_node node, const char *property);
/* The schema of a member: by name, else by additionalProperties, else unknown. */
struct schema_node schema_property(struct schema_node node, const char *name);
struct schema_node schema_items(struct schema_node node);

/* Server-side apply's view. */
enum schema_list_type schema_list_type(struct schema_node list);
/* The names of the key fields of a list of type map: an array of strings. */
const struct json *schema_list_keys(struct schema_node list);
/* Two items of a list of type map have the same keys; a key that is missing has its default. */
bool schema_same_item(struct schema_node list, const struct json *a, const struct json *b);
bool schema_map_is_atomic(struct schema_node map);

/* Strategic merge patch's view. NULL: no merge key. */
const char *schema_merge_key(struct schema_node list);
/* strategy: "merge", "replace" or "retainKeys". */
bool schema_has_patch_strategy(struct schema_node node, const char *strategy);
