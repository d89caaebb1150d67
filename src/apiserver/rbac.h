/*
 * Role-based access control: who is given which roles by the bindings in the store, and what those allow.
 *
 * Bindings are indexed by namespace and subject, and the index follows every write (strategy_rbac.c); roles are read
 * where they lie. So a change counts from the next request on.
 */
#pragma once

#include "apiserver/authn.h"
#include "apiserver/rbac_rule.h"

#define RBAC_GROUP "rbac.authorization.k8s.io"

struct store;
struct rbac;

struct rbac *rbac_new(struct store *store);
void rbac_free(struct rbac *r);
/* A RoleBinding or ClusterRoleBinding has changed; old or new may be NULL. */
void rbac_binding_changed(struct rbac *r, const struct json *old, const struct json *new);
/* Everything may have changed: the index is made anew before it is used again. */
void rbac_forget(struct rbac *r);
void rbac_roles_changed(struct rbac *r);
/* told runs whenever an answer may have become another one. */
void rbac_on_change(struct rbac *r, void (*told)(void *arg), void *arg);

/* ret_reason (may be NULL): why, or which roles that the user is given do not exist; NULL when there is nothing to
 * tell. The caller frees it. */
bool rbac_allows(struct rbac *r, const struct user_info *user, const struct access *a, char **ret_reason);
/* All rules that the user has in the namespace, "" = on the cluster's own objects. A new array. */
struct json *rbac_rules(struct rbac *r, const struct user_info *user, const char *ns);
/* The rules of a binding's role, or NULL when there is no such role. Borrowed; an empty array may be NULL too. */
bool rbac_role_rules(struct rbac *r, const struct json *role_ref, const char *ns, const struct json **ret_rules);
