/*
 * x-kubernetes-validations: rules in CEL (cel/cel.h) on the nodes of a schema.
 *
 * Programs depend on nothing but their text, so each is compiled once. A rule that does not compile cannot be judged,
 * and then the object is refused with a message that says so: nothing passes unchecked.
 */
#include "apiserver/structural_internal.h"

#include "apiserver/cel/cel.h"
#include "base/hashmap.h"
#include "base/memory.h"
#include "base/strutil.h"

#include <ctype.h>

/* The cache is emptied when it has grown too large: by then most of it belongs to definitions that are gone. */
#define PROGRAMS_MAX 2000

const char *const structural_rule_variables[] = {"self", "oldSelf", NULL};

static struct cel_program *compiled(const char *text, struct error *err)
{
    static struct hashmap cache;
    struct cel_program *p = hashmap_get(&cache, text);

    if (p)
        return p;
    if (cache.count >= PROGRAMS_MAX)
        hashmap_free(&cache, (void (*)(void *))cel_free);
    p = cel_compile(text, structural_rule_variables, err);
    if (p)
        (void)hashmap_put(&cache, text, p); /* there was none */
    return p;
}

/* One rule on one value. */
struct check {
    struct schema_node node;
    const struct json *rule;
    struct cel_binding bindings[2];
    struct cel_budget *budget; /* of all rules on the object */
    const struct field_path *path;
    struct field_errors *errors;
};

/* The field an error is reported at: the node's, or what fieldPath (".a.b", ".a['b']") leads to below it. */
static char *error_field(const struct check *c)
{
    const char *below = json_str_or(json_get(c->rule, "fieldPath"), "");
    char *where = field_path_text(c->path);

    if (!*below)
        return where;
    _cleanup_free_ char *base = where;
    return xasprintf("%s%s", base, !*base && *below == '.' ? below + 1 : below);
}

static void PRINTF_LIKE(2, 3) fail(const struct check *c, const char *fmt, ...)
{
    const char *reason = json_str_or(json_get(c->rule, "reason"), "");
    const char *type = json_str_or(schema_keyword(c->node, "type"), "");
    _cleanup_free_ char *field = error_field(c);
    va_list ap;

    va_start(ap, fmt);
    _cleanup_free_ char *text = xvasprintf(fmt, ap);
    va_end(ap);
    if (streq(reason, "FieldValueForbidden"))
        field_forbidden(c->errors, field, "%s", text);
    else if (streq(reason, "FieldValueRequired"))
        field_required(c->errors, field, text);
    else if (streq(reason, "FieldValueDuplicate"))
        field_duplicate_str(c->errors, field, type);
    else
        field_invalid_str(c->errors, field, type, "%s", text);
}

/* A budget of the rule's own within the object's; what it used is taken from that. */
static struct cel_budget open_budget(const struct check *c)
{
    return (struct cel_budget){MIN(c->budget->steps, (int64_t)CEL_COST_MAX)};
}

static void close_budget(const struct check *c, const struct cel_budget *own, int64_t given)
{
    c->budget->steps -= given - MAX(own->steps, (int64_t)0);
}

/* The text of messageExpression, or NULL when there is none that can be used. */
static char *computed_message(const struct check *c)
{
    const char *expression = json_str(json_get(c->rule, "messageExpression"));
    _cleanup_error_ struct error err = ERROR_INIT;
    const struct cel_program *p = expression ? compiled(expression, &err) : NULL;

    if (!p)
        return NULL;
    struct cel_budget own = open_budget(c);
    int64_t given = own.steps;
    char *text = cel_eval_string(p, c->bindings, &own, &err);
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
    _cleanup_free_ char *name = rule_name(c->rule);
    bool has_message = *json_str_or(json_get(c->rule, "message"), "");

    fail(c, "%s%s", computed || has_message ? "" : "failed rule: ", computed ? computed : name);
}

static void check_rule(struct check *c, const struct json *old)
{
    const char *text = json_str_or(json_get(c->rule, "rule"), "");
    bool optional_old = json_bool_or(json_get(c->rule, "optionalOldSelf"), false);
    _cleanup_error_ struct error err = ERROR_INIT;
    const struct cel_program *p = compiled(text, &err);
    _cleanup_free_ char *name = rule_name(c->rule);
    bool holds;

    if (!p) {
        fail(c, "%s evaluating rule: %s", error_text(&err), name);
        return;
    }
    bool transition = cel_mentions(p, "oldSelf");
    if (transition && !old && !optional_old)
        return; /* nothing to come from */
    if (!transition && old && json_equal(c->bindings[0].value, old))
        return; /* what was wrong before and was not touched is let be */
    c->bindings[1] = (struct cel_binding){.value = old, .schema = c->node, .optional = optional_old, .unset = !old};
    struct cel_budget own = open_budget(c);
    int64_t given = own.steps;
    int r = cel_eval_bool(p, c->bindings, &own, &holds, &err);
    close_budget(c, &own, given);
    if (r < 0)
        fail(c, "%s evaluating rule: %s", error_text(&err), name);
    else if (!holds)
        report_false(c);
}

void structural_check_rules(struct schema_node node, const struct json *value, const struct json *old,
                            struct cel_budget *budget, const struct field_path *path, struct field_errors *errors)
{
    const struct json *rules = schema_keyword(node, "x-kubernetes-validations");
    struct check c = {
        .node = node,
        .bindings = {{.value = value, .schema = node}},
        .budget = budget,
        .path = path,
        .errors = errors,
    };

    for (size_t i = 0; i < json_size(rules); i++) {
        c.rule = json_item(rules, i);
        check_rule(&c, old);
    }
}
