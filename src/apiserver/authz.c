#include "apiserver/authz.h"

#include "apiserver/api_error.h"
#include "base/memory.h"
#include "base/strutil.h"

#define READ "get", "list", "watch"
#define WRITE "create", "update", "patch"

/* What a node agent does: run pods, tell how they are, keep its own node and lease. */
static const struct {
    const char *group, *plural, *subresource;
    const char *verbs[8];
} node_rules[] = {
    {"", "pods", "", {READ, "create", "delete"}},
    {"", "pods", "status", {READ, WRITE}},
    {"", "secrets", "", {READ}},
    {"", "configmaps", "", {READ}},
    {"", "services", "", {READ}},
    {"", "namespaces", "", {READ}},
    {"", "nodes", "", {READ, WRITE}},
    {"", "nodes", "status", {READ, WRITE}},
    {"", "events", "", {WRITE}},
    {"events.k8s.io", "events", "", {WRITE}},
    {"", "persistentvolumeclaims", "", {READ, "patch"}}, /* spec.volumeName: it binds them */
    {"", "persistentvolumeclaims", "status", {READ, WRITE}},
    {"", "persistentvolumes", "", {READ, WRITE, "delete"}},
    {"", "persistentvolumes", "status", {READ, WRITE}},
    {"coordination.k8s.io", "leases", "", {READ, WRITE, "delete"}},
    {"node.k8s.io", "runtimeclasses", "", {READ}},
};

static bool node_may(const struct access *a)
{
    for (size_t i = 0; i < ARRAY_LEN(node_rules); i++) {
        if (!streq(a->group, node_rules[i].group) || !streq(a->plural, node_rules[i].plural) ||
            !streq(a->subresource, node_rules[i].subresource))
            continue;
        for (size_t v = 0; v < ARRAY_LEN(node_rules[i].verbs) && node_rules[i].verbs[v]; v++)
            if (streq(node_rules[i].verbs[v], a->verb))
                return true;
        return false;
    }
    return false;
}

bool authorize(struct rbac *rbac, const struct user_info *user, const struct access *a, char **ret_reason)
{
    if (ret_reason)
        *ret_reason = NULL;
    if (user_in_group(user, "system:masters") || (!a->path && user_in_group(user, "system:nodes") && node_may(a)))
        return true;
    return rbac_allows(rbac, user, a, ret_reason);
}

/* Reasons hold names that somebody chose. */
static char *escape_html(const char *text)
{
    _cleanup_(strbuf_free) struct strbuf b = {0};

    for (; *text; text++) {
        if (*text == '<')
            strbuf_adds(&b, "&lt;");
        else if (*text == '>')
            strbuf_adds(&b, "&gt;");
        else if (*text == '&')
            strbuf_adds(&b, "&amp;");
        else
            strbuf_addc(&b, *text);
    }
    return xstrdup(strbuf_str(&b));
}

struct json *authz_refusal(const struct user_info *user, const struct access *a, const char *reason)
{
    _cleanup_free_ char *escaped = escape_html(reason ? reason : "");
    const char *colon = *escaped ? ": " : "";

    if (a->path) {
        _cleanup_free_ char *message =
            xasprintf("forbidden: User \"%s\" cannot %s path \"%s\"%s%s", user->name, a->verb, a->path, colon, escaped);
        return status_failure(403, "Forbidden", message, json_object_make());
    }
    struct api_subject subject = {.group = a->group, .plural = a->plural, .name = a->name};
    _cleanup_free_ char *scope = *a->ns ? xasprintf("in the namespace \"%s\"", a->ns) : xstrdup("at the cluster scope");
    _cleanup_free_ char *text =
        xasprintf("User \"%s\" cannot %s resource \"%s%s%s\" in API group \"%s\" %s%s%s", user->name, a->verb,
                  a->plural, *a->subresource ? "/" : "", a->subresource, a->group, scope, colon, escaped);
    return status_forbidden(&subject, text, NULL);
}
