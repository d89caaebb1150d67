/* Roles and their bindings: nobody gives away what he does not have. */
#include "apiserver/authz.h"
#include "apiserver/rbac_defaults.h"
#include "apiserver/strategy.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"

/* --- escalation --- */

/* Whether c's user may use verb ("escalate", "bind") on a role; name "" = c's own. */
static bool may(const struct api_call *c, const char *verb, const char *plural, const char *name)
{
    const struct access a = {
        .verb = verb, .group = RBAC_GROUP, .plural = plural, .subresource = "", .ns = c->ns, .name = name};

    return authorize(c->server->rbac, c->user, &a, NULL);
}

static char *groups_text(const struct user_info *user)
{
    _cleanup_(strbuf_free) struct strbuf b = {0};

    for (size_t i = 0; user->groups && user->groups[i]; i++) {
        strbuf_adds(&b, i ? " " : "");
        field_quote(user->groups[i], strlen(user->groups[i]), &b);
    }
    return xstrdup(strbuf_str(&b));
}

/* -1 unless the user has all the rules himself, where c writes. */
static int check_held(struct api_call *c, const struct json *wanted)
{
    _cleanup_json_ struct json *held = rbac_rules(c->server->rbac, c->user, c->ns);
    _cleanup_free_ char *missing = NULL, *groups = NULL, *text = NULL;
    struct api_subject s = api_subject(c);
    _cleanup_(strbuf_free) struct strbuf name = {0};

    if (rules_cover(held, wanted, &missing))
        return 0;
    groups = groups_text(c->user);
    field_quote(c->user->name, strlen(c->user->name), &name);
    text = xasprintf("user %s (groups=[%s]) is attempting to grant RBAC permissions not currently held:\n%s",
                     strbuf_str(&name), groups, missing);
    return api_fail(c, status_forbidden(&s, text, NULL));
}

/* --- roles --- */

static int prepare_role(struct api_call *c, struct json *o, const struct json *old)
{
    const struct json *rules = json_get(o, "rules"), *aggregation = json_get(o, "aggregationRule");

    if (c->internal ||
        (old && json_equal(rules, json_get(old, "rules")) && json_equal(aggregation, json_get(old, "aggregationRule"))))
        return 0;
    if (may(c, "escalate", c->resource->plural, c->name))
        return 0;
    if (aggregation) {
        /* It takes in whatever others write into roles: that is everything. */
        _cleanup_json_ struct json *all =
            json_build("[{s:[s], s:[s], s:[s]}, {s:[s], s:[s]}]", "apiGroups", "*", "resources", "*", "verbs", "*",
                       "nonResourceURLs", "*", "verbs", "*");
        if (check_held(c, all) < 0)
            return -1;
    }
    return check_held(c, rules);
}

static void check_rule(const struct api_call *c, const struct json *rule, const char *field,
                       struct field_errors *errors)
{
    const struct json *paths = json_get(rule, "nonResourceURLs");
    bool groups = json_size(json_get(rule, "apiGroups")) > 0, resources = json_size(json_get(rule, "resources")) > 0,
         names = json_size(json_get(rule, "resourceNames")) > 0;
    _cleanup_free_ char *verbs_field = xasprintf("%s.verbs", field),
                        *paths_field = xasprintf("%s.nonResourceURLs", field),
                        *groups_field = xasprintf("%s.apiGroups", field),
                        *resources_field = xasprintf("%s.resources", field);

    if (json_has(rule, "verbs") && json_size(json_get(rule, "verbs")) == 0)
        field_required(errors, verbs_field, "verbs must contain at least one value");
    if (json_size(paths) > 0) {
        if (c->resource->namespaced)
            field_invalid(errors, paths_field, paths, "namespaced rules cannot apply to non-resource URLs");
        if (groups || resources || names)
            field_invalid(errors, paths_field, paths,
                          "rules cannot apply to both regular resources and non-resource URLs");
        return;
    }
    if (!groups)
        field_required(errors, groups_field, "resource rules must supply at least one api group");
    if (!resources)
        field_required(errors, resources_field, "resource rules must supply at least one resource");
}

static void validate_role(const struct api_call *c, const struct json *o, const struct json *old,
                          struct field_errors *errors)
{
    const struct json *rules = json_get(o, "rules"),
                      *selectors = json_at(o, "aggregationRule", "clusterRoleSelectors", NULL);

    (void)old;
    for (size_t i = 0; i < json_size(rules); i++) {
        _cleanup_free_ char *field = xasprintf("rules[%zu]", i);
        check_rule(c, json_item(rules, i), field, errors);
    }
    if (json_get(o, "aggregationRule") && json_size(selectors) == 0)
        field_required(errors, "aggregationRule.clusterRoleSelectors",
                       "at least one clusterRoleSelector required if aggregationRule is non-nil");
    for (size_t i = 0; i < json_size(selectors); i++) {
        struct error err = ERROR_INIT;
        struct selector *s = selector_from_object(json_item(selectors, i), &err);
        _cleanup_free_ char *field = xasprintf("aggregationRule.clusterRoleSelectors[%zu]", i);
        if (!s)
            field_invalid(errors, field, json_item(selectors, i), "%s", error_text(&err));
        selector_free(s);
        error_clear(&err);
    }
}

static void after_role(struct apiserver *s, const struct json *old, const struct json *new)
{
    (void)old;
    (void)new;
    rbac_roles_changed(s->rbac);
}

static void after_cluster_role(struct apiserver *s, const struct json *old, const struct json *new)
{
    after_role(s, old, new);
    rbac_aggregate(s);
}

const struct strategy strategy_roles = {.group = RBAC_GROUP,
                                        .plural = "roles",
                                        .check_name = name_check_path_segment,
                                        .prepare = prepare_role,
                                        .validate = validate_role,
                                        .after = after_role};
const struct strategy strategy_cluster_roles = {.group = RBAC_GROUP,
                                                .plural = "clusterroles",
                                                .check_name = name_check_path_segment,
                                                .prepare = prepare_role,
                                                .validate = validate_role,
                                                .after = after_cluster_role};

/* --- bindings --- */

static void default_binding(struct json *o)
{
    const struct json *subjects = json_get(o, "subjects");

    if (json_is(json_get(o, "roleRef"), JSON_OBJECT) && !*json_str_or(json_at(o, "roleRef", "apiGroup", NULL), ""))
        json_set_str(json_own(o, "roleRef"), "apiGroup", RBAC_GROUP);
    if (!json_is(subjects, JSON_ARRAY))
        return;
    struct json *own = json_own(o, "subjects");
    for (size_t i = 0; i < json_size(own); i++) {
        const struct json *s = json_item(own, i);
        const char *kind = json_str_or(json_get(s, "kind"), "");
        bool named = streq(kind, "User") || streq(kind, "Group");
        if (json_is(s, JSON_OBJECT) && named && !*json_str_or(json_get(s, "apiGroup"), ""))
            json_set_str(json_own_item(own, i), "apiGroup", RBAC_GROUP);
    }
}

/* Who only takes finalizers or owners away changes nothing that counts. */
static bool same_grant(const struct json *a, const struct json *b)
{
    return json_equal(json_get(a, "subjects"), json_get(b, "subjects")) &&
           json_equal(json_get(a, "roleRef"), json_get(b, "roleRef"));
}

static int prepare_binding(struct api_call *c, struct json *o, const struct json *old)
{
    default_binding(o);
    const struct json *ref = json_get(o, "roleRef"), *rules;
    const char *name = json_str_or(json_get(ref, "name"), "");
    bool cluster = streq(json_str_or(json_get(ref, "kind"), ""), "ClusterRole");

    if (c->internal || (old && same_grant(o, old)) || may(c, "bind", cluster ? "clusterroles" : "roles", name))
        return 0;
    if (!rbac_role_rules(c->server->rbac, ref, c->ns, &rules)) {
        const struct api_subject s = {.group = RBAC_GROUP, .plural = cluster ? "clusterroles" : "roles", .name = name};
        return api_fail(c, status_not_found(&s));
    }
    return check_held(c, rules);
}

static char *role_ref_text(const struct json *ref)
{
    _cleanup_(strbuf_free) struct strbuf b = {0};
    static const char *const keys[] = {"apiGroup", "kind", "name"}, *const names[] = {"APIGroup", "Kind", "Name"};

    strbuf_adds(&b, "rbac.RoleRef{");
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        const char *value = json_str_or(json_get(ref, keys[i]), "");
        strbuf_addf(&b, "%s%s:", i ? ", " : "", names[i]);
        field_quote(value, strlen(value), &b);
    }
    strbuf_addc(&b, '}');
    return xstrdup(strbuf_str(&b));
}

static void check_subject(const struct json *s, const char *field, bool namespaced, struct field_errors *errors)
{
    static const char *const rbac[] = {RBAC_GROUP, NULL}, *const core[] = {"", NULL};
    const char *kind = json_str_or(json_get(s, "kind"), ""), *name = json_str_or(json_get(s, "name"), ""),
               *group = json_str_or(json_get(s, "apiGroup"), ""), *ns = json_str_or(json_get(s, "namespace"), "");
    _cleanup_free_ char *name_field = xasprintf("%s.name", field), *group_field = xasprintf("%s.apiGroup", field),
                        *ns_field = xasprintf("%s.namespace", field);

    if (json_has(s, "name") && !*name)
        field_required(errors, name_field, NULL);
    if (streq(kind, "ServiceAccount")) {
        const char *wrong = *name ? name_check_subdomain(name) : NULL;
        if (wrong)
            field_invalid_str(errors, name_field, name, "%s", wrong);
        if (*group)
            field_not_supported_str(errors, group_field, group, core);
        if (!*ns && !namespaced)
            field_required(errors, ns_field, NULL);
    } else if (streq(kind, "User") || streq(kind, "Group")) {
        if (!streq(group, RBAC_GROUP))
            field_not_supported_str(errors, group_field, group, rbac);
    } /* else the schema has refused it */
}

static void validate_binding(const struct api_call *c, const struct json *o, const struct json *old,
                             struct field_errors *errors)
{
    static const char *const group[] = {RBAC_GROUP, NULL}, *const cluster[] = {"ClusterRole", NULL};
    const struct json *ref = json_get(o, "roleRef"), *subjects = json_get(o, "subjects");
    const char *kind = json_str_or(json_get(ref, "kind"), ""), *name = json_str_or(json_get(ref, "name"), ""),
               *api_group = json_str_or(json_get(ref, "apiGroup"), "");

    if (!streq(api_group, RBAC_GROUP))
        field_not_supported_str(errors, "roleRef.apiGroup", api_group, group);
    if (streq(kind, "Role") && !c->resource->namespaced)
        field_not_supported_str(errors, "roleRef.kind", kind, cluster);
    if (json_has(ref, "name") && !*name)
        field_required(errors, "roleRef.name", NULL);
    else if (*name && name_check_path_segment(name))
        field_invalid_str(errors, "roleRef.name", name, "%s", name_check_path_segment(name));
    for (size_t i = 0; i < json_size(subjects); i++) {
        _cleanup_free_ char *field = xasprintf("subjects[%zu]", i);
        check_subject(json_item(subjects, i), field, c->resource->namespaced, errors);
    }
    if (old && !json_equal(ref, json_get(old, "roleRef"))) {
        _cleanup_free_ char *text = role_ref_text(ref);
        field_invalid_raw(errors, "roleRef", text, "cannot change roleRef");
    }
}

static void after_binding(struct apiserver *s, const struct json *old, const struct json *new)
{
    rbac_binding_changed(s->rbac, old, new);
}

const struct strategy strategy_role_bindings = {.group = RBAC_GROUP,
                                                .plural = "rolebindings",
                                                .check_name = name_check_path_segment,
                                                .prepare = prepare_binding,
                                                .validate = validate_binding,
                                                .after = after_binding};
const struct strategy strategy_cluster_role_bindings = {.group = RBAC_GROUP,
                                                        .plural = "clusterrolebindings",
                                                        .check_name = name_check_path_segment,
                                                        .prepare = prepare_binding,
                                                        .validate = validate_binding,
                                                        .after = after_binding};
