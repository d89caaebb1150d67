/* Query parameters and DeleteOptions: reading and checking, with the API's exact refusals. */
#pragma once

#include "apiserver/server_internal.h"

/* Looks a query parameter up; NULL = absent. */
typedef const char *(*query_lookup)(const void *arg, const char *name);
/* The options that the verb of c has; 0, or -1 with the refusal in c. */
int options_read(struct api_call *c, query_lookup lookup, const void *arg);
/* Consistency of resourceVersion, resourceVersionMatch, continue and sendInitialEvents. */
int options_check_list(struct api_call *c, bool watch);

struct delete_options {
    int64_t grace_seconds; /* -1 = not given */
    const char *propagation;
    const char *uid, *resource_version; /* preconditions */
    bool dry_run;
};
/* From the body when there is one, else from the query. Strings are borrowed from c. */
int options_read_delete(struct api_call *c, struct delete_options *ret);
