#include "apiserver/audit_policy.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "wire/yaml.h"

struct audit_policy {
    struct json *document; /* with every member checked: rules are read from it as they are needed */
};

static const char *const levels[AUDIT_LEVEL_COUNT] = {"None", "Metadata", "Request", "RequestResponse"};
static const char *const stages[STAGE_COUNT] = {"RequestReceived", "ResponseStarted", "ResponseComplete", "Panic"};

const char *audit_level_name(enum audit_level level)
{
    return levels[level];
}

const char *audit_stage_name(enum audit_stage stage)
{
    return stages[stage];
}

static int index_of(const char *const *names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (streq(names[i], name))
            return (int)i;
    return -1;
}

/* --- checking --- */

struct field_rule {
    const char *name;
    enum json_kind kind; /* of an array: strings, unless check is there */
    int (*check)(const struct json *v, const char *path, struct error *err); /* of each item of an array */
};

static int check_text(const struct json *v, const char *path, struct error *err)
{
    return json_is(v, JSON_STRING) ? 0 : error_set_field(err, EINVAL, path, "%s: must be a string", path);
}

static int check_level(const struct json *v, const char *path, struct error *err)
{
    if (json_is(v, JSON_STRING) && index_of(levels, AUDIT_LEVEL_COUNT, json_str(v)) >= 0)
        return 0;
    return error_set_field(err, EINVAL, path, "%s: must be None, Metadata, Request or RequestResponse", path);
}

static int check_stage(const struct json *v, const char *path, struct error *err)
{
    if (json_is(v, JSON_STRING) && index_of(stages, STAGE_COUNT, json_str(v)) >= 0)
        return 0;
    return error_set_field(err, EINVAL, path, "%s: must be RequestReceived, ResponseStarted, ResponseComplete or Panic",
                           path);
}

static int check_fields(const struct json *v, const char *path, const struct field_rule *rules, size_t count,
                        struct error *err);

static int check_group_resources(const struct json *v, const char *path, struct error *err)
{
    static const struct field_rule rules[] = {
        {"group", JSON_STRING, NULL}, {"resources", JSON_ARRAY, check_text}, {"resourceNames", JSON_ARRAY, check_text}};

    return check_fields(v, path, rules, ARRAY_LEN(rules), err);
}

static int check_rule(const struct json *v, const char *path, struct error *err)
{
    static const struct field_rule rules[] = {
        {"level", JSON_STRING, check_level},
        {"users", JSON_ARRAY, check_text},
        {"userGroups", JSON_ARRAY, check_text},
        {"verbs", JSON_ARRAY, check_text},
        {"resources", JSON_ARRAY, check_group_resources},
        {"namespaces", JSON_ARRAY, check_text},
        {"nonResourceURLs", JSON_ARRAY, check_text},
        {"omitStages", JSON_ARRAY, check_stage},
        {"omitManagedFields", JSON_BOOL, NULL},
    };
    int r = check_fields(v, path, rules, ARRAY_LEN(rules), err);

    if (r == 0 && !json_get(v, "level"))
        r = error_set_field(err, EINVAL, path, "%s.level: is missing", path);
    if (r == 0 && json_size(json_get(v, "nonResourceURLs")) &&
        (json_size(json_get(v, "resources")) || json_size(json_get(v, "namespaces"))))
        r = error_set_field(err, EINVAL, path,
                            "%s.nonResourceURLs: cannot stand beside resources or namespaces: make two rules", path);
    return r;
}

static int check_items(const struct json *v, const char *path, const struct field_rule *rule, struct error *err)
{
    for (size_t i = 0; i < json_size(v); i++) {
        _cleanup_free_ char *item = xasprintf("%s[%zu]", path, i);
        int r = rule->check(json_item(v, i), item, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int check_field(const struct json *v, const char *path, const struct field_rule *rule, struct error *err)
{
    static const char *const kinds[] = {[JSON_BOOL] = "true or false",
                                        [JSON_STRING] = "a string",
                                        [JSON_ARRAY] = "a list",
                                        [JSON_OBJECT] = "an object"};

    if (!json_is(v, rule->kind))
        return error_set_field(err, EINVAL, path, "%s: must be %s", path, kinds[rule->kind]);
    if (!rule->check)
        return 0;
    return rule->kind == JSON_ARRAY ? check_items(v, path, rule, err) : rule->check(v, path, err);
}

static int check_fields(const struct json *v, const char *path, const struct field_rule *rules, size_t count,
                        struct error *err)
{
    if (!json_is(v, JSON_OBJECT))
        return error_set_field(err, EINVAL, path, "%s: must be an object", *path ? path : "the policy");
    for (struct json_iter it = {0}; json_each(v, &it);) {
        _cleanup_free_ char *field = xasprintf("%s%s%s", path, *path ? "." : "", it.key);
        const struct field_rule *rule = NULL;
        for (size_t i = 0; i < count && !rule; i++)
            rule = streq(rules[i].name, it.key) ? &rules[i] : NULL;
        if (!rule)
            return error_set_field(err, EINVAL, field, "%s: there is no such field", field);
        int r = it.value ? check_field(it.value, field, rule, err) : 0;
        if (r < 0)
            return r;
    }
    return 0;
}

static int check_policy(const struct json *v, struct error *err)
{
    static const struct field_rule rules[] = {
        {"apiVersion", JSON_STRING, NULL},      {"kind", JSON_STRING, NULL},
        {"metadata", JSON_OBJECT, NULL},        {"omitStages", JSON_ARRAY, check_stage},
        {"omitManagedFields", JSON_BOOL, NULL}, {"rules", JSON_ARRAY, check_rule},
    };
    int r = check_fields(v, "", rules, ARRAY_LEN(rules), err);

    if (r == 0 && (!streq(json_str_or(json_get(v, "apiVersion"), ""), "audit.k8s.io/v1") ||
                   !streq(json_str_or(json_get(v, "kind"), ""), "Policy")))
        r = error_set_field(err, EINVAL, "apiVersion", "apiVersion and kind must be audit.k8s.io/v1 and Policy");
    if (r == 0 && !json_size(json_get(v, "rules")))
        r = error_set_field(err, EINVAL, "rules", "rules: is empty: nothing would ever be recorded");
    return r;
}

struct audit_policy *audit_policy_parse(const char *text, size_t len, struct error *err)
{
    _cleanup_json_ struct json *v = yaml_parse(text, len, NULL, err);

    if (!v && (!err || !err->code))
        (void)error_set(err, EINVAL, "the policy is empty");
    if (!v || check_policy(v, err) < 0)
        return NULL;
    struct audit_policy *p = xcalloc(1, sizeof(*p));
    p->document = take_ptr(v);
    return p;
}

struct audit_policy *audit_policy_default(void)
{
    static const char text[] = "apiVersion: audit.k8s.io/v1\n"
                               "kind: Policy\n"
                               "omitStages: [RequestReceived]\n"
                               "rules:\n"
                               "- level: None\n"
                               "  verbs: [get]\n"
                               "  nonResourceURLs: [/api*, /openapi*, /version, /healthz*, /livez*, /readyz*]\n"
                               "- level: None\n"
                               "  userGroups: [\"system:nodes\"]\n"
                               "  resources: [{group: coordination.k8s.io, resources: [leases]}]\n"
                               "- level: Metadata\n";
    struct audit_policy *p = audit_policy_parse(text, sizeof(text) - 1, NULL);

    if (!p)
        abort(); /* it is a constant, and a test reads it */
    return p;
}

void audit_policy_free(struct audit_policy *p)
{
    if (!p)
        return;
    json_unref(p->document);
    free(p);
}

/* --- deciding --- */

/* An empty list asks for nothing. */
static bool list_allows(const struct json *list, const char *value)
{
    for (size_t i = 0; i < json_size(list); i++)
        if (streq(json_str(json_item(list, i)), value))
            return true;
    return json_size(list) == 0;
}

static bool groups_allow(const struct json *list, const struct user_info *user)
{
    if (json_size(list) == 0)
        return true;
    for (char **g = user ? user->groups : NULL; g && *g; g++)
        if (list_allows(list, *g))
            return true;
    return false;
}

/* A resource, "RESOURCE/SUBRESOURCE", or a star for either part. */
static bool resource_fits(const char *pattern, const struct request_info *i)
{
    const char *slash = strchr(pattern, '/');
    size_t len = slash ? (size_t)(slash - pattern) : strlen(pattern);
    bool plural = (len == 1 && *pattern == '*') || (strlen(i->plural) == len && !strncmp(pattern, i->plural, len));

    if (streq(pattern, "*"))
        return true;
    if (!slash)
        return plural && !*i->subresource;
    return plural && *i->subresource && (streq(slash + 1, "*") || streq(slash + 1, i->subresource));
}

static bool resources_allow(const struct json *list, const struct request_info *i)
{
    for (size_t n = 0; n < json_size(list); n++) {
        const struct json *item = json_item(list, n), *patterns = json_get(item, "resources");
        if (!streq(json_str_or(json_get(item, "group"), ""), i->group) ||
            !list_allows(json_get(item, "resourceNames"), i->name))
            continue;
        if (json_size(patterns) == 0)
            return true;
        for (size_t k = 0; k < json_size(patterns); k++)
            if (resource_fits(json_str(json_item(patterns, k)), i))
                return true;
    }
    return json_size(list) == 0;
}

static bool paths_allow(const struct json *list, const char *path)
{
    for (size_t i = 0; i < json_size(list); i++) {
        const char *pattern = json_str(json_item(list, i));
        size_t len = strlen(pattern);
        if (streq(pattern, path) || (len && pattern[len - 1] == '*' && !strncmp(pattern, path, len - 1)))
            return true;
    }
    return false;
}

static bool rule_fits(const struct json *rule, const struct user_info *user, const struct request_info *i,
                      const char *verb)
{
    const struct json *resources = json_get(rule, "resources"), *namespaces = json_get(rule, "namespaces");
    const struct json *paths = json_get(rule, "nonResourceURLs");

    if (!list_allows(json_get(rule, "users"), user ? user->name : "system:anonymous") ||
        !groups_allow(json_get(rule, "userGroups"), user) || !list_allows(json_get(rule, "verbs"), verb))
        return false;
    if (json_size(resources) || json_size(namespaces))
        return i->is_resource && list_allows(namespaces, i->ns) && resources_allow(resources, i);
    return !json_size(paths) || (!i->is_resource && paths_allow(paths, i->path ? i->path : ""));
}

static unsigned stage_bits(const struct json *list)
{
    unsigned bits = 0;

    for (size_t i = 0; i < json_size(list); i++)
        bits |= 1u << index_of(stages, STAGE_COUNT, json_str(json_item(list, i)));
    return bits;
}

struct audit_decision audit_policy_decide(const struct audit_policy *p, const struct user_info *user,
                                          const struct request_info *info, const char *verb)
{
    const struct json *rules = json_get(p->document, "rules");

    for (size_t i = 0; i < json_size(rules); i++) {
        const struct json *rule = json_item(rules, i);
        if (!rule_fits(rule, user, info, verb))
            continue;
        return (struct audit_decision){
            .level = (enum audit_level)index_of(levels, AUDIT_LEVEL_COUNT, json_str(json_get(rule, "level"))),
            .omitted_stages =
                stage_bits(json_get(p->document, "omitStages")) | stage_bits(json_get(rule, "omitStages")),
            .omit_managed_fields = json_bool_or(json_get(rule, "omitManagedFields"),
                                                json_bool_or(json_get(p->document, "omitManagedFields"), false)),
        };
    }
    return (struct audit_decision){.level = AUDIT_NONE};
}
