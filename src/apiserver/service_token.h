/*
 * Tokens of ServiceAccounts: who gets one may act as the ServiceAccount until it expires, or the account, or the Pod,
 * Secret or Node that it is bound to, is gone.
 */
#pragma once

#include "apiserver/server_internal.h"

/* Who issues the tokens, and the audience of those that this API takes. */
#define SERVICE_TOKEN_ISSUER "https://kubernetes.default.svc.cluster.local"

/*
 * The user of a token that holds now and is for one of the audiences (array of strings; NULL = the API itself).
 * *ret_audiences (may be NULL): those of the audiences that it is for. NULL with err set: nobody's.
 */
struct user_info *service_token_user(struct apiserver *s, const char *token, const struct json *audiences,
                                     struct json **ret_audiences, struct error *err);
/* The user of a request's bearer token, which may be one of the token file too; NULL: nobody. */
struct user_info *service_token_request_user(struct apiserver *s, const struct http_request *req);
/* Makes the ServiceAccount "default" of a namespace. */
void service_account_make_default(struct apiserver *s, const char *ns);
