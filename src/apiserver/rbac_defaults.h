/*
 * Roles that the server keeps by itself.
 *
 * The default roles and bindings (api/core/rbac-defaults.yaml) are made at start. What is missing in one that exists is
 * added then, unless its annotation rbac.authorization.kubernetes.io/autoupdate is "false"; what somebody has added
 * stays. ClusterRoles with an aggregationRule have the rules of all ClusterRoles that it selects.
 */
#pragma once

#include "apiserver/server_internal.h"

int rbac_defaults_make(struct apiserver *s, struct error *err);
/* After any change of a ClusterRole. */
void rbac_aggregate(struct apiserver *s);
