/*
 * Acting as somebody else: Impersonate-User, -Group, -Uid and -Extra-KEY. Who asks needs the verb "impersonate" on each
 * thing taken: users, serviceaccounts, groups, uids and userextras/KEY.
 */
#pragma once

#include "apiserver/authz.h"

/*
 * Puts the one that the headers name in the place of *user. NULL, or the Status (the caller's) of a refusal, and *user
 * stays. *ret_done: whether there were such headers.
 */
struct json *impersonate(struct rbac *rbac, const struct http_request *req, struct user_info **user, bool *ret_done);
