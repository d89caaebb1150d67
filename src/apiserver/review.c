#include "apiserver/review.h"

#include "apiserver/authz.h"
#include "apiserver/service_token.h"
#include "base/memory.h"
#include "base/strutil.h"

static const char *text(const struct json *o, const char *key)
{
    return json_str_or(json_get(o, key), "");
}

static bool allowed(const struct api_call *c, const struct user_info *user, const struct json *spec, char **ret_reason)
{
    const struct json *r = json_get(spec, "resourceAttributes"), *n = json_get(spec, "nonResourceAttributes");
    const struct access path = {.path = text(n, "path"), .verb = text(n, "verb")};
    const struct access resource = {.verb = text(r, "verb"),
                                    .group = text(r, "group"),
                                    .plural = text(r, "resource"),
                                    .subresource = text(r, "subresource"),
                                    .ns = text(r, "namespace"),
                                    .name = text(r, "name")};

    return authorize(c->server->rbac, user, n ? &path : &resource, ret_reason);
}

static struct user_info *user_of_spec(const struct json *spec)
{
    const struct json *list = json_get(spec, "groups");
    _cleanup_strv_ char **groups = NULL;

    for (size_t i = 0; i < json_size(list); i++)
        groups = strv_append(groups, xstrdup(json_str_or(json_item(list, i), "")));
    return user_info_exact(text(spec, "user"), text(spec, "uid"), groups);
}

static void check_spec(const struct api_call *c, const struct json *spec, bool self, struct field_errors *errors)
{
    const struct json *resource = json_get(spec, "resourceAttributes"), *path = json_get(spec, "nonResourceAttributes");
    const char *ns = text(resource, "namespace");

    if (!resource == !path)
        field_invalid(errors, "spec.resourceAttributes", path,
                      "exactly one of nonResourceAttributes or resourceAttributes must be specified");
    if (!self && !*text(spec, "user") && json_size(json_get(spec, "groups")) == 0)
        field_invalid_str(errors, "spec.user", "", "at least one of user or group must be specified");
    if (!c->resource->namespaced)
        return;
    if (path)
        field_invalid(errors, "spec.nonResourceAttributes", path, "disallowed on this kind of request");
    else if (resource && !streq(ns, c->ns))
        field_invalid_str(errors, "spec.resourceAttributes.namespace", ns, "must match metadata.namespace");
}

static struct json *access_review(struct api_call *c, bool self)
{
    const struct json *spec = json_get(c->body, "spec");
    _cleanup_(field_errors_clear) struct field_errors errors = {0};
    _cleanup_(user_info_free_p) struct user_info *other = self ? NULL : user_of_spec(spec);
    _cleanup_free_ char *reason = NULL;

    check_spec(c, spec, self, &errors);
    if (!field_errors_empty(&errors)) {
        (void)api_fail_invalid(c, &errors);
        return NULL;
    }
    bool yes = allowed(c, self ? c->user : other, spec, &reason);
    return json_build("{s:b, s:s}", "allowed", (int)yes, "reason", reason);
}

static struct json *user_json(const struct user_info *user)
{
    struct json *groups = json_array_make();

    for (size_t i = 0; user->groups && user->groups[i]; i++)
        json_push(groups, json_string(user->groups[i]));
    return json_build("{s:s, s:s, s:o, s:o}", "username", user->name, "uid", user->uid, "groups", groups, "extra",
                      user->extra ? json_ref(user->extra) : NULL);
}

static struct json *list_of(const struct json *rule, const char *key)
{
    const struct json *list = json_get(rule, key);

    return list ? json_ref((struct json *)list) : json_array_make();
}

static struct json *rules_review(struct api_call *c)
{
    const char *ns = json_str_or(json_at(c->body, "spec", "namespace", NULL), "");
    struct json *resources = json_array_make(), *paths = json_array_make();

    if (!*ns) {
        json_unref(resources);
        json_unref(paths);
        (void)api_fail(c, status_bad_request("no namespace on request"));
        return NULL;
    }
    _cleanup_json_ struct json *rules = rbac_rules(c->server->rbac, c->user, ns);
    for (size_t i = 0; i < json_size(rules); i++) {
        const struct json *rule = json_item(rules, i);
        if (json_size(json_get(rule, "resources")) > 0)
            json_push(resources, json_build("{s:o, s:o, s:o, s:o}", "verbs", list_of(rule, "verbs"), "apiGroups",
                                            list_of(rule, "apiGroups"), "resources", list_of(rule, "resources"),
                                            "resourceNames", list_of(rule, "resourceNames")));
        else
            json_push(paths, json_build("{s:o, s:o}", "verbs", list_of(rule, "verbs"), "nonResourceURLs",
                                        list_of(rule, "nonResourceURLs")));
    }
    return json_build("{s:o, s:o, s:b}", "resourceRules", resources, "nonResourceRules", paths, "incomplete", 0);
}

/* Tokens of the file are for the API itself. */
static struct json *api_audience(const struct json *wanted)
{
    for (size_t i = 0; i < json_size(wanted); i++)
        if (streq(json_str_or(json_item(wanted, i), ""), SERVICE_TOKEN_ISSUER))
            return json_build("[s]", SERVICE_TOKEN_ISSUER);
    return json_size(wanted) == 0 ? json_build("[s]", SERVICE_TOKEN_ISSUER) : NULL;
}

static struct json *token_review(struct api_call *c)
{
    const char *token = json_str_or(json_at(c->body, "spec", "token", NULL), "");
    const struct json *wanted = json_at(c->body, "spec", "audiences", NULL);
    _cleanup_(user_info_free_p) struct user_info *user = authenticate_token(c->server->authenticator, token);
    _cleanup_json_ struct json *audiences = user ? api_audience(wanted) : NULL;
    _cleanup_error_ struct error err = ERROR_INIT;

    if (!*token) {
        (void)api_fail(c, status_bad_request("token is required for TokenReview in authentication"));
        return NULL;
    }
    if (!user)
        user = service_token_user(c->server, token, json_size(wanted) > 0 ? wanted : NULL, &audiences, &err);
    if (!user || !audiences)
        return json_build("{s:b, s:s}", "authenticated", 0, "error",
                          user ? "the token is for another audience" : error_text(&err));
    return json_build("{s:b, s:o, s:O}", "authenticated", 1, "user", user_json(user), "audiences", audiences);
}

void review_execute(struct api_call *c)
{
    const char *kind = c->resource->kind;
    struct json *status = NULL;

    if (!json_is(c->body, JSON_OBJECT)) {
        (void)api_fail(c, status_bad_request("the body of the request is not an object"));
        return;
    }
    if (streq(kind, "SelfSubjectAccessReview"))
        status = access_review(c, true);
    else if (streq(kind, "SubjectAccessReview") || streq(kind, "LocalSubjectAccessReview"))
        status = access_review(c, false);
    else if (streq(kind, "SelfSubjectRulesReview"))
        status = rules_review(c);
    else if (streq(kind, "SelfSubjectReview"))
        status = json_build("{s:o}", "userInfo", user_json(c->user));
    else if (streq(kind, "TokenReview"))
        status = token_review(c);
    else
        (void)api_fail(c, status_no_resource());
    if (!status)
        return;
    struct json *answer = json_copy_shallow(c->body);
    json_set_str(answer, "apiVersion", c->resource->api_version);
    json_set_str(answer, "kind", kind);
    (void)json_own(answer, "metadata");
    json_set(answer, "status", status);
    (void)api_answer(c, 201, answer);
}
