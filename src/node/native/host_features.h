/*
 * What this machine offers to holt: for `holt doctor`, and for the node to refuse an isolation level by name.
 * Nothing is changed on the machine; what needs a try is tried on objects that vanish at once.
 */
#pragma once

#include "base/error.h"

enum feature_state {
    FEATURE_OK,
    FEATURE_LIMITED, /* works, with a drawback that detail names */
    FEATURE_MISSING,
    FEATURE_STATE_COUNT,
};

struct feature {
    const char *group; /* "isolation", "kernel", "cgroups", "limits", "tools" */
    const char *name;
    enum feature_state state;
    char *detail; /* what was found; never NULL */
    char *fix;    /* what to do; NULL when there is nothing to do */
};

struct feature_list {
    struct feature *items;
    size_t count, capacity;
};

/* "ok", "limited", "missing" */
const char *feature_state_name(enum feature_state state);

void features_probe(struct feature_list *ret);
void features_done(struct feature_list *list);
const struct feature *features_find(const struct feature_list *list, const char *group, const char *name);

/* Whether sandboxes of the level ("native", "gvisor", "oci", "microvm") can run here; err says what is missing. */
int features_require(const struct feature_list *list, const char *level, struct error *err);
