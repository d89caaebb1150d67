/*
 * What a pod, a service or a claim uses, and what a quota says about it: arithmetic over objects, without a server.
 */
#pragma once

#include "kube/quantity.h"
#include "wire/json.h"

/* which: "requests" or "limits". What the containers of a pod's spec need together: the sum of those that run side by
 * side, or more when an init container needs more, and the overhead. false: none of them names the resource. */
bool pod_resource(const struct json *spec, const char *which, const char *name, struct quantity *ret);
/* A member of a list of resources; false when it is missing or is no quantity. */
bool resource_amount(const struct json *list, const char *name, struct quantity *ret);
/* a + b; written as the first of them that is not zero. */
struct quantity quantity_sum(struct quantity a, struct quantity b);
struct quantity quantity_difference(struct quantity a, struct quantity b);

/* Whether name ("pods", "requests.cpu", "count/sandboxes.agents.x-k8s.io") counts anything of objects of this kind. */
bool quota_counts(const char *name, const char *group, const char *plural);
/* How much of name the object uses; 0 when it is not about its kind. */
struct quantity quota_use(const char *name, const char *group, const char *plural, const struct json *object);
/* Whether an object is within the scopes of a quota's spec. */
bool quota_in_scope(const struct json *quota_spec, const char *group, const char *plural, const struct json *object);
/* What the containers of a pod must say because a quota counts it: "limits.cpu for: main", or NULL. The caller frees.
 */
char *quota_missing(const struct json *hard, const struct json *pod_spec);
/* What is wrong with the name of a bounded resource, or NULL. */
const char *quota_name_problem(const char *name);
/* Whether amounts of name are whole numbers. */
bool quota_name_is_count(const char *name);
