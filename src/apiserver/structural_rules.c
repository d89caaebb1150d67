/*
 * x-kubernetes-validations: rules in CEL (cel/cel.h) on the nodes of a schema.
 *
 * A rule that does not compile cannot be judged, and then the object is refused with a message that says so: nothing
 * passes unchecked.
 */
#include "apiserver/structural_internal.h"

#include "base/memory.h"
#include "base/strutil.h"

#include <ctype.h>

/* One walk over an object. */
struct walk {
    struct cel_budget budget; /* of all rules together */
    struct field_errors *errors;
};

/* One rule on one value. */
struct check {
    struct walk *walk;
    const struct structural *node;
    const struct structural_rule *rule;
    struct cel_binding bindings[2];
    const struct field_path *path;
};

/* The field an error is reported at: the node's, or what fieldPath (".a.b", ".a['b']") leads to below it. */
static char *error_field(const struct check *c)
{
    const char *below = json_str_or(json_get(c->rule->json, "fieldPath"), "");
    char *where = field_path_text(c->path);

    if (!*below)
        return where;
    _cleanup_free_ char *base = where;
    return xasprintf("%s%s", base, !*base && *below == '.' ? below + 1 : below);
}

static void PRINTF_LIKE(2, 3) fail(const struct check *c, const char *fmt, ...)
{
    const char *reason = json_str_or(json_get(c->rule->json, "reason"), "");
    const char *type = c->node->type ? c->node->type : "";
    _cleanup_free_ char *field = error_field(c);
    va_list ap;

    va_start(ap, fmt);
    _cleanup_free_ char *text = xvasprintf(fmt, ap);
    va_end(ap);
    if (streq(reason, "FieldValueForbidden"))
        field_forbidden(c->walk->errors, field, "%s", text);
    else if (streq(reason, "FieldValueRequired"))
        field_required(c->walk->errors, field, text);
    else if (streq(reason, "FieldValueDuplicate"))
        field_duplicate_str(c->walk->errors, field, type);
    else
        field_invalid_str(c->walk->errors, field, type, "%s", text);
}

/* A budget of the rule's own within the object's; what it used is taken from that. */
static struct cel_budget open_budget(const struct check *c)
{
    return (struct cel_budget){MIN(c->walk->budget.steps, (int64_t)CEL_COST_MAX)};
}

static void close_budget(const struct check *c, const struct cel_budget *own, int64_t given)
{
    c->walk->budget.steps -= given - MAX(own->steps, (int64_t)0);
}

/* The text of messageExpression, or NULL when there is none that can be used. */
static char *computed_message(const struct check *c)
{
    _cleanup_error_ struct error err = ERROR_INIT;

    if (!c->rule->message)
        return NULL;
    struct cel_budget own = open_budget(c);
    int64_t given = own.steps;
    char *text = cel_eval_string(c->rule->message, c->bindings, &own, &err);
    close_budget(c, &own, given);
    if (!text || !text[strspn(text, " \t\r\n")] || strchr(text, '\n')) {
        free(text);
        return NULL;
    }
    return text;
}

/* The rule as messages name it: by its message, else by its text without the blanks around it. */
static char *rule_name(const struct json *rule)
{
    const char *text = json_str_or(json_get(rule, "message"), "");

    if (!*text)
        text = json_str_or(json_get(rule, "rule"), "");
    while (isspace((unsigned char)*text))
        text++;
    size_t len = strlen(text);
    while (len && isspace((unsigned char)text[len - 1]))
        len--;
    return xstrndup(text, len);
}

static void report_false(const struct check *c)
{
    _cleanup_free_ char *computed = computed_message(c);
    _cleanup_free_ char *name = rule_name(c->rule->json);
    bool has_message = *json_str_or(json_get(c->rule->json, "message"), "");

    fail(c, "%s%s", computed || has_message ? "" : "failed rule: ", computed ? computed : name);
}

static void cannot_judge(const struct check *c, const char *why)
{
    _cleanup_free_ char *name = rule_name(c->rule->json);

    fail(c, "%s evaluating rule: %s", why, name);
}

static void check_rule(struct check *c, const struct json *old)
{
    const struct structural_rule *rule = c->rule;
    _cleanup_error_ struct error err = ERROR_INIT;
    bool holds;

    if (!rule->program) {
        cannot_judge(c, rule->broken);
        return;
    }
    if (rule->transition && !old && !rule->optional_old)
        return; /* nothing to come from */
    if (!rule->transition && old && json_equal(c->bindings[0].value, old))
        return; /* what was wrong before and was not touched is let be */
    c->bindings[1] =
        (struct cel_binding){.value = old, .schema = c->node->schema, .optional = rule->optional_old, .unset = !old};
    struct cel_budget own = open_budget(c);
    int64_t given = own.steps;
    int r = cel_eval_bool(rule->program, c->bindings, &own, &holds, &err);
    close_budget(c, &own, given);
    if (r < 0)
        cannot_judge(c, error_text(&err));
    else if (!holds)
        report_false(c);
}

static void walk(struct walk *w, const struct structural_place *place, const struct json *value, const struct json *old,
                 const struct field_path *path)
{
    const struct structural *s = place->node;

    /* On null, rules are not run. */
    if (!s || !s->rules_below || !value)
        return;
    struct check c = {.walk = w, .node = s, .bindings = {{.value = value, .schema = s->schema}}, .path = path};
    for (size_t i = 0; i < s->rule_count; i++) {
        c.rule = &s->rules[i];
        check_rule(&c, old);
    }
    for (struct json_iter it = {0}; json_each(value, &it);) {
        bool named;
        const struct structural_place *member = structural_member(s, it.key, &named);
        struct field_path here = {.parent = path, .name = it.key, .bracket = !named};
        walk(w, member, it.value, json_get(old, it.key), &here);
    }
    for (size_t i = 0; json_is(value, JSON_ARRAY) && i < json_size(value); i++) {
        struct field_path here = {.parent = path, .index = i};
        const struct json *item = json_item(value, i);
        walk(w, &s->items, item, structural_old_item(s, old, item), &here);
    }
}

void structural_check_rules(const struct structural_place *place, const struct json *value, const struct json *old,
                            struct field_errors *errors)
{
    struct walk w = {.budget = {STRUCTURAL_COST_MAX}, .errors = errors};

    walk(&w, place, value, old, NULL);
}
