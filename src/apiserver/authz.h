/*
 * Who may do what: system:masters everything; system:nodes what a node agent needs; everybody what the roles in the
 * store give (rbac.h).
 */
#pragma once

#include "apiserver/authn.h"
#include "apiserver/rbac.h"

/* ret_reason (may be NULL): why, or NULL; the caller frees it. */
bool authorize(struct rbac *rbac, const struct user_info *user, const struct access *a, char **ret_reason);
/* The 403 Status that tells why not. reason may be NULL. */
struct json *authz_refusal(const struct user_info *user, const struct access *a, const char *reason);
