/* How sets of fields are made: shared by field_set*.c and field_value*.c, and by nothing else. */
#pragma once

#include "apiserver/field_set.h"
#include "base/arena.h"

/*
 * The path elements below one element. While a node is being filled its entries are in any order and may repeat;
 * field_node_seal() sorts and joins them. All functions that read expect a sealed node.
 */
struct field_node {
    struct field_entry *entries; /* in the set's arena */
    size_t count, capacity;
};

struct field_entry {
    const char *key; /* in the set's arena */
    bool marked;     /* the path that ends here is in the set */
    struct field_node below;
};

struct field_set {
    struct arena arena;
    struct field_node root;
};

/* Appends; the entry is valid until the next call for this node. key is kept: it lies in the set's arena. */
struct field_entry *field_node_add(struct field_set *set, struct field_node *node, const char *key);
void field_node_seal(struct field_set *set, struct field_node *node);
const struct field_entry *field_node_find(const struct field_node *node, const char *key);
/* A value inside a path element: JSON, whole numbers without a fraction, so that equal values have equal texts. */
void field_scalar_write(const struct json *v, struct strbuf *out);
