/* What a URL asks for: verb, group, version, namespace, resource, name and subresource. Pure. */
#pragma once

#include <stdbool.h>

enum api_verb {
    VERB_GET,
    VERB_LIST,
    VERB_WATCH,
    VERB_CREATE,
    VERB_UPDATE,
    VERB_PATCH,
    VERB_DELETE,
    VERB_DELETE_COLLECTION,
    VERB_COUNT
};
/* "get", "deletecollection"... as RBAC and audit write them. */
const char *verb_name(enum api_verb verb);

struct request_info {
    bool is_resource; /* else only path and method_verb count */
    enum api_verb verb;
    char *path; /* decoded */
    char *group, *version;
    char *ns; /* "" = none; for a Namespace itself it is the name too, as RBAC wants it */
    char *plural;
    char *name;             /* "" = the collection */
    char *subresource;      /* "" = none; a proxy's path is left out, else all parts: "a/b" */
    bool in_namespace_path; /* the URL has namespaces/NS/ in front of the resource */
};

/*
 * path: as sent, without the query. watch: the query asks for a watch. Returns 0, -EINVAL for a path that cannot be
 * decoded, -ENOENT for a path of /api or /apis too short or long to name a resource (is_resource is false then), and
 * -EOPNOTSUPP for a method that no resource knows.
 */
int request_info_parse(const char *method, const char *path, bool watch, struct request_info *ret);
void request_info_free(struct request_info *i);

/* The API's booleans: absent, "0" and "false" in any case are false, everything else is true. */
bool query_bool(const char *value);
