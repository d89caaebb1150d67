#include "apiserver/authz.h"

#include "apiserver/api_error.h"
#include "base/memory.h"
#include "base/strutil.h"

#define VERB(v) (1u << (v))
#define READ (VERB(VERB_GET) | VERB(VERB_LIST) | VERB(VERB_WATCH))
#define WRITE (VERB(VERB_CREATE) | VERB(VERB_UPDATE) | VERB(VERB_PATCH))

/* What a node agent does: run pods, tell how they are, keep its own node and lease. */
static const struct {
    const char *group, *plural, *subresource;
    unsigned verbs;
} node_rules[] = {
    {"", "pods", "", READ | VERB(VERB_CREATE) | VERB(VERB_DELETE)},
    {"", "pods", "status", READ | WRITE},
    {"", "secrets", "", READ},
    {"", "configmaps", "", READ},
    {"", "services", "", READ},
    {"", "namespaces", "", READ},
    {"", "nodes", "", READ | WRITE},
    {"", "nodes", "status", READ | WRITE},
    {"", "events", "", WRITE},
    {"events.k8s.io", "events", "", WRITE},
    {"", "persistentvolumeclaims", "", READ | VERB(VERB_PATCH)}, /* spec.volumeName: it binds them */
    {"", "persistentvolumeclaims", "status", READ | WRITE},
    {"", "persistentvolumes", "", READ | WRITE | VERB(VERB_DELETE)},
    {"", "persistentvolumes", "status", READ | WRITE},
    {"coordination.k8s.io", "leases", "", READ | WRITE | VERB(VERB_DELETE)},
    {"node.k8s.io", "runtimeclasses", "", READ},
};

static bool node_may(const struct access *a)
{
    for (size_t i = 0; i < ARRAY_LEN(node_rules); i++)
        if (streq(a->group, node_rules[i].group) && streq(a->plural, node_rules[i].plural) &&
            streq(a->subresource, node_rules[i].subresource))
            return (node_rules[i].verbs & VERB(a->verb)) != 0;
    return false;
}

static bool public_path(const char *path)
{
    static const char *const paths[] = {"/api", "/apis", "/openapi", "/version", "/healthz", "/livez", "/readyz"};

    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        const char *rest = str_skip_prefix(path, paths[i]);
        if (rest && (!*rest || *rest == '/'))
            return true;
    }
    return false;
}

/* Anybody may ask about himself. */
static bool about_oneself(const struct access *a)
{
    static const char *const plurals[] = {"selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"};

    if (a->verb != VERB_CREATE ||
        (!streq(a->group, "authorization.k8s.io") && !streq(a->group, "authentication.k8s.io")))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(plurals); i++)
        if (streq(a->plural, plurals[i]))
            return true;
    return false;
}

bool authorize(const struct user_info *user, const struct access *a)
{
    if (user_in_group(user, "system:masters"))
        return true;
    if (a->path)
        return streq(a->method, "get") && public_path(a->path);
    return about_oneself(a) || (user_in_group(user, "system:nodes") && node_may(a));
}

struct json *authz_refusal(const struct user_info *user, const struct access *a)
{
    if (a->path) {
        _cleanup_free_ char *message =
            xasprintf("forbidden: User \"%s\" cannot %s path \"%s\"", user->name, a->method, a->path);
        return status_failure(403, "Forbidden", message, json_object_make());
    }
    struct api_subject subject = {.group = a->group, .plural = a->plural, .name = a->name};
    _cleanup_free_ char *scope = *a->ns ? xasprintf("in the namespace \"%s\"", a->ns) : xstrdup("at the cluster scope");
    _cleanup_free_ char *text =
        xasprintf("User \"%s\" cannot %s resource \"%s%s%s\" in API group \"%s\" %s", user->name, verb_name(a->verb),
                  a->plural, *a->subresource ? "/" : "", a->subresource, a->group, scope);
    return status_forbidden(&subject, text, NULL);
}
