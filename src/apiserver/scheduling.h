/*
 * Placement on the one node of the embedded mode. There is nothing to choose, so a Pod is bound when it is made; what
 * it demands of a node (nodeSelector, required node affinity, a scheduler of its own, a node that is not cordoned) is
 * checked all the same: a Pod that does not fit waits, with the condition PodScheduled saying why, until the node
 * changes.
 */
#pragma once

#include "apiserver/server_internal.h"

/* Why the Pod cannot be put on the node, in the words of Kubernetes; NULL: it can. The caller frees. */
char *scheduling_obstacle(const struct apiserver *s, const struct json *pod_spec);
/* The node has changed: Pods that wait are bound if they fit now. */
void scheduling_node_changed(struct apiserver *s, const struct json *old, const struct json *new);
/* Whether there is such a Node, or it is the one of the embedded mode. */
bool scheduling_node_exists(const struct apiserver *s, const char *name);

/* PriorityClasses that are always there and that nobody else may make or take away. */
struct system_priority_class {
    const char *name, *description;
    int64_t value;
};
extern const struct system_priority_class system_priority_classes[];
extern const size_t system_priority_class_count;
