/*
 * Who is asking: a verified client certificate (CN is the user, each O a group), else a bearer token.
 *
 * Tokens come from a file of lines `token,user,uid,"group1,group2"` and from authenticator_add_token(). They are
 * kept and compared as SHA-256 digests.
 */
#pragma once

#include "base/error.h"
#include "wire/http.h"
#include "wire/json.h"

struct user_info {
    char *name;
    char *uid;          /* NULL = none */
    char **groups;      /* with system:authenticated */
    struct json *extra; /* owned: key → array of strings; NULL = none */
    int64_t expires_ns; /* when what it was known by is good no more (wall clock); INT64_MAX = never */
};
void user_info_free(struct user_info *u);
DEFINE_CLEANUP(user_info_free, struct user_info *);
/* Seconds since 1970; INT64_MAX = never. */
void user_info_expire(struct user_info *u, int64_t seconds);
bool user_in_group(const struct user_info *u, const char *group);
/* groups exactly as given. */
struct user_info *user_info_exact(const char *name, const char *uid, char *const *groups);
struct user_info *user_info_new(const char *name, const char *uid, char *const *groups);

struct authenticator;
struct authenticator *authenticator_new(void);
void authenticator_free(struct authenticator *a);
int authenticator_load(struct authenticator *a, const char *path, struct error *err);
void authenticator_add_token(struct authenticator *a, const char *token, const char *user, const char *uid,
                             char *const *groups);
/* NULL: nobody we know (401). The caller owns the answer. */
struct user_info *authenticate(struct authenticator *a, const struct http_request *req);
/* The user of a bearer token, or NULL. */
struct user_info *authenticate_token(struct authenticator *a, const char *token);
/* What a request carries as "Authorization: Bearer TOKEN", or NULL. */
const char *bearer_token(const struct http_request *req);
/* "NS:NAME" of a ServiceAccount's user name, else NULL. */
const char *service_account_of(const char *user);
/* The groups of a ServiceAccount; NULL for other users. */
char **service_account_groups(const char *user);
