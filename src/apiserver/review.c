#include "apiserver/review.h"

#include "apiserver/authz.h"
#include "base/memory.h"
#include "base/strutil.h"

static const char *text(const struct json *o, const char *key)
{
    return json_str_or(json_get(o, key), "");
}

static enum api_verb parse_verb(const char *name)
{
    enum api_verb v = 0;

    while (v < VERB_COUNT && !streq(verb_name(v), name))
        v++;
    return v; /* VERB_COUNT: one that only those have who may do everything */
}

static bool allowed(const struct user_info *user, const struct json *spec)
{
    const struct json *r = json_get(spec, "resourceAttributes"), *n = json_get(spec, "nonResourceAttributes");

    if (n) {
        const struct access a = {.path = text(n, "path"), .method = text(n, "verb")};
        return authorize(user, &a);
    }
    const struct access a = {.verb = parse_verb(text(r, "verb")),
                             .group = text(r, "group"),
                             .plural = text(r, "resource"),
                             .subresource = text(r, "subresource"),
                             .ns = text(r, "namespace"),
                             .name = text(r, "name")};
    return authorize(user, &a);
}

static struct user_info *user_of_spec(const struct json *spec)
{
    const struct json *list = json_get(spec, "groups");
    _cleanup_strv_ char **groups = NULL;

    for (size_t i = 0; i < json_size(list); i++)
        groups = strv_append(groups, xstrdup(json_str_or(json_item(list, i), "")));
    return user_info_new(text(spec, "user"), text(spec, "uid"), groups);
}

static struct json *access_review(struct api_call *c, bool self)
{
    const struct json *spec = json_get(c->body, "spec");
    struct api_subject s = api_subject(c);
    bool resource = json_get(spec, "resourceAttributes"), path = json_get(spec, "nonResourceAttributes");

    if (resource == path) {
        (void)api_fail(c,
                       status_invalid(&s,
                                      "spec.resourceAttributes: Invalid value: exactly one of nonResourceAttributes "
                                      "or resourceAttributes must be specified",
                                      json_build("[{s:s, s:s, s:s}]", "reason", "FieldValueInvalid", "message",
                                                 "exactly one of nonResourceAttributes or resourceAttributes must be "
                                                 "specified",
                                                 "field", "spec.resourceAttributes")));
        return NULL;
    }
    _cleanup_(user_info_free_p) struct user_info *other = self ? NULL : user_of_spec(spec);
    return json_build("{s:b}", "allowed", allowed(self ? c->user : other, spec));
}

static struct json *user_json(const struct user_info *user)
{
    struct json *groups = json_array_make();

    for (size_t i = 0; user->groups && user->groups[i]; i++)
        json_push(groups, json_string(user->groups[i]));
    return json_build("{s:s, s:s, s:o}", "username", user->name, "uid", user->uid, "groups", groups);
}

/* Everything, for those who may do everything; the rest is not spelt out. */
static struct json *rules_review(const struct api_call *c)
{
    if (user_in_group(c->user, "system:masters"))
        return json_build("{s:[{s:[s], s:[s], s:[s]}], s:[{s:[s], s:[s]}], s:b}", "resourceRules", "verbs", "*",
                          "apiGroups", "*", "resources", "*", "nonResourceRules", "verbs", "*", "nonResourceURLs", "*",
                          "incomplete", 0);
    return json_build("{s:[], s:[{s:[s], s:[s, s, s, s, s, s]}], s:b}", "resourceRules", "nonResourceRules", "verbs",
                      "get", "nonResourceURLs", "/api*", "/openapi*", "/version", "/healthz", "/livez", "/readyz",
                      "incomplete", 1);
}

static struct json *token_review(struct api_call *c)
{
    const char *token = json_str_or(json_at(c->body, "spec", "token", NULL), "");
    _cleanup_(user_info_free_p) struct user_info *user = authenticate_token(c->server->authenticator, token);

    if (!user)
        return json_build("{s:b, s:s}", "authenticated", 0, "error", "invalid bearer token");
    return json_build("{s:b, s:o}", "authenticated", 1, "user", user_json(user));
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
