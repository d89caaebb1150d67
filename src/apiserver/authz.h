/*
 * Who may do what. system:masters: everything. system:nodes: what a node agent needs. Everybody who is known:
 * discovery, version, health and OpenAPI. Nobody else: nothing.
 */
#pragma once

#include "apiserver/authn.h"
#include "apiserver/request_info.h"
#include "wire/json.h"

struct access {
    enum api_verb verb;
    const char *group, *plural, *subresource, *ns, *name; /* "" = none */
    const char *path;                                     /* instead, for what is no resource */
    const char *method;                                   /* lower case, with path */
};
bool authorize(const struct user_info *user, const struct access *a);
/* The 403 Status that tells why not. */
struct json *authz_refusal(const struct user_info *user, const struct access *a);
