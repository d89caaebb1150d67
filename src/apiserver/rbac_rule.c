#include "apiserver/rbac_rule.h"

#include "apiserver/field_errors.h"
#include "base/memory.h"
#include "base/strutil.h"

static bool has(const struct json *list, const char *text)
{
    for (size_t i = 0; i < json_size(list); i++)
        if (streq(json_str_or(json_item(list, i), ""), text))
            return true;
    return false;
}

static bool has_or_all(const struct json *list, const char *text)
{
    return has(list, "*") || has(list, text);
}

/* resource: "pods" or "pods/log". */
static bool has_resource(const struct json *list, const char *resource)
{
    const char *slash = strchr(resource, '/');

    if (has_or_all(list, resource))
        return true;
    if (!slash)
        return false;
    _cleanup_free_ char *any = xasprintf("*%s", slash);
    return has(list, any);
}

/* path may itself end with `*`: then all that it stands for must be there. */
static bool has_path(const struct json *list, const char *path)
{
    for (size_t i = 0; i < json_size(list); i++) {
        const char *own = json_str_or(json_item(list, i), "");
        size_t len = strlen(own);
        if (streq(own, path) || (len > 0 && own[len - 1] == '*' && strncmp(own, path, len - 1) == 0))
            return true;
    }
    return false;
}

bool rule_allows(const struct json *rule, const struct access *a)
{
    const struct json *names = json_get(rule, "resourceNames");

    if (!has_or_all(json_get(rule, "verbs"), a->verb))
        return false;
    if (a->path)
        return has_path(json_get(rule, "nonResourceURLs"), a->path);
    if (!has_or_all(json_get(rule, "apiGroups"), a->group) ||
        (json_size(names) > 0 && (!*a->name || !has(names, a->name))))
        return false;
    _cleanup_free_ char *resource =
        *a->subresource ? xasprintf("%s/%s", a->plural, a->subresource) : xstrdup(a->plural);
    return has_resource(json_get(rule, "resources"), resource);
}

/* --- one set of rules within another --- */

/* A single permission: a path, or a resource, whose name is NULL when it is about all of them. */
struct permission {
    const char *verb, *group, *resource, *name, *path;
};

static bool rule_holds(const struct json *rule, const struct permission *p)
{
    const struct json *names = json_get(rule, "resourceNames");

    if (!has_or_all(json_get(rule, "verbs"), p->verb))
        return false;
    if (p->path)
        return has_path(json_get(rule, "nonResourceURLs"), p->path);
    return has_or_all(json_get(rule, "apiGroups"), p->group) &&
           (json_size(names) == 0 || (p->name && has(names, p->name))) &&
           has_resource(json_get(rule, "resources"), p->resource);
}

struct search {
    const struct json *rules;
    struct json *missing; /* all but the verbs, as text → verbs */
    size_t permissions;
};

static void quote(struct strbuf *b, const char *key, const char *value)
{
    strbuf_addf(b, "%s%s:[", b->len > 1 ? ", " : "", key);
    field_quote(value, strlen(value), b);
    strbuf_addc(b, ']');
}

static void note_missing(struct search *s, const struct permission *p)
{
    _cleanup_(strbuf_free) struct strbuf text = {0};

    strbuf_addc(&text, '{');
    if (p->path) {
        quote(&text, "NonResourceURLs", p->path);
    } else {
        quote(&text, "APIGroups", p->group);
        quote(&text, "Resources", p->resource);
        if (p->name)
            quote(&text, "ResourceNames", p->name);
    }
    if (!json_has(s->missing, strbuf_str(&text)) && json_size(s->missing) >= RULES_MISSING_MAX)
        return;
    struct json *verbs = json_ensure_array(s->missing, strbuf_str(&text));
    if (!has(verbs, p->verb))
        json_push(verbs, json_string(p->verb));
}

static void look_for(struct search *s, const struct permission *p)
{
    if (s->permissions++ >= RULES_PERMISSIONS_MAX)
        return;
    for (size_t i = 0; i < json_size(s->rules); i++)
        if (rule_holds(json_item(s->rules, i), p))
            return;
    note_missing(s, p);
}

static const char *text_at(const struct json *list, size_t i)
{
    return json_str_or(json_item(list, i), "");
}

static void look_for_resource(struct search *s, const struct json *rule, struct permission p)
{
    const struct json *verbs = json_get(rule, "verbs"), *names = json_get(rule, "resourceNames");

    for (size_t n = 0; n < MAX(json_size(names), 1u); n++) {
        p.name = json_size(names) > 0 ? text_at(names, n) : NULL;
        for (size_t v = 0; v < json_size(verbs) && s->permissions <= RULES_PERMISSIONS_MAX; v++) {
            p.verb = text_at(verbs, v);
            look_for(s, &p);
        }
    }
}

static void look_for_rule(struct search *s, const struct json *rule)
{
    const struct json *verbs = json_get(rule, "verbs"), *groups = json_get(rule, "apiGroups"),
                      *resources = json_get(rule, "resources"), *paths = json_get(rule, "nonResourceURLs");

    for (size_t g = 0; g < json_size(groups); g++)
        for (size_t r = 0; r < json_size(resources) && s->permissions <= RULES_PERMISSIONS_MAX; r++)
            look_for_resource(s, rule,
                              (struct permission){.group = text_at(groups, g), .resource = text_at(resources, r)});
    for (size_t i = 0; i < json_size(paths); i++)
        for (size_t v = 0; v < json_size(verbs) && s->permissions <= RULES_PERMISSIONS_MAX; v++)
            look_for(s, &(struct permission){.verb = text_at(verbs, v), .path = text_at(paths, i)});
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static char *missing_text(const struct json *missing)
{
    _cleanup_strv_ char **lines = NULL;
    _cleanup_(strbuf_free) struct strbuf all = {0};

    for (struct json_iter it = {0}; json_each(missing, &it);) {
        _cleanup_(strbuf_free) struct strbuf line = {0};
        strbuf_addf(&line, "%s, Verbs:[", it.key);
        for (size_t i = 0; i < json_size(it.value); i++) {
            strbuf_adds(&line, i ? " " : "");
            field_quote(text_at(it.value, i), strlen(text_at(it.value, i)), &line);
        }
        strbuf_adds(&line, "]}");
        lines = strv_append(lines, xstrdup(strbuf_str(&line)));
    }
    qsort(lines, strv_len(lines), sizeof(*lines), by_text);
    for (size_t i = 0; lines[i]; i++)
        strbuf_addf(&all, "%s%s", i ? "\n" : "", lines[i]);
    return xstrdup(strbuf_str(&all));
}

bool rules_cover(const struct json *rules, const struct json *wanted, char **ret_missing)
{
    _cleanup_json_ struct json *missing = json_object_make();
    struct search s = {.rules = rules, .missing = missing};

    *ret_missing = NULL;
    for (size_t i = 0; i < json_size(wanted) && s.permissions <= RULES_PERMISSIONS_MAX; i++)
        look_for_rule(&s, json_item(wanted, i));
    if (s.permissions > RULES_PERMISSIONS_MAX)
        *ret_missing =
            xasprintf("more than %d single permissions: they are too many to be compared", RULES_PERMISSIONS_MAX);
    else if (json_size(missing) > 0)
        *ret_missing = missing_text(missing);
    return !*ret_missing;
}
