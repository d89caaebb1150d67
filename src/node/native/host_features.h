/*
 * What this machine offers to holt: for `holt doctor`, and for the node to refuse an isolation level by name.
 * Nothing is changed on the machine; what needs a try is tried in a child that ends at once.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>

enum feature_state { FEATURE_OK, FEATURE_DEGRADED, FEATURE_MISSING };

struct feature {
    const char *group; /* "isolation", "kernel", "cgroups", "limits", "tools" */
    const char *name;
    enum feature_state state;
    char *detail; /* what was found, never NULL */
    char *fix;    /* what to do; NULL when all is well */
};

struct feature_list {
    struct feature *items;
    size_t count, capacity;
};

void features_probe(struct feature_list *ret);
void features_done(struct feature_list *list);

/* Whether sandboxes of the level can run here: "native", "gvisor", "oci", "microvm". err names what is missing. */
int features_require(const struct feature_list *list, const char *level, struct error *err);
