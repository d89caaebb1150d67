/*
 * The rules of roles (PolicyRule objects): what one allows, and which of some wanted ones are not held. Pure.
 *
 * A rule is about resources (apiGroups, resources, resourceNames) or about paths (nonResourceURLs). `*` stands for
 * everything in any list but resourceNames, `*` in front of "/log" for that subresource of any resource, and `*` at the
 * end of a path for whatever follows.
 */
#pragma once

#include "wire/json.h"

/* What a request wants to do. Strings are borrowed; "" = none. */
struct access {
    const char *verb;
    const char *group, *plural, *subresource, *ns, *name;
    const char *path; /* instead, for what is no resource; else NULL */
};

/* Wanted rules are compared by single permissions: one verb on one resource of one group. No more than these. */
#define RULES_PERMISSIONS_MAX 16384
/* No answer tells of more permissions than these. */
#define RULES_MISSING_MAX 200

bool rule_allows(const struct json *rule, const struct access *a);
/* Whether rules, an array, hold all that the wanted rules allow. If not, *ret_missing tells the rest, a line each. */
bool rules_cover(const struct json *rules, const struct json *wanted, char **ret_missing);
