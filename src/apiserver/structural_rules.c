/*
 * x-kubernetes-validations: rules in CEL. This is the part of the language that rules about presence, equality, order,
 * size and text use:
 *
 *     literals, lists; self, oldSelf; a.b, a[b]; has(a.b), size(x), x.size(); x.startsWith(y), x.endsWith(y),
 *     x.contains(y), x.matches(re); == != < <= > >= in; ! && || ?: and parentheses
 *
 * A rule that uses more (macros such as all(), arithmetic, other functions) cannot be judged, and then the object is
 * refused with a message that says so: nothing passes unchecked.
 *
 * Parsed and evaluated in one pass; a branch that does not count is parsed with skip set and judges nothing.
 */
#include "apiserver/structural_internal.h"

#include "apiserver/regex.h"
#include "base/memory.h"
#include "base/strutil.h"

#include <ctype.h>

#define DEPTH_MAX 64

struct evaluation {
    const char *p; /* what is left of the rule */
    struct json *self, *old;
    char *why; /* set: the rule cannot be judged */
    int depth, skip;
};

/* Values are owned references; absent is what has() asks about. */
struct value {
    struct json *json;
    bool absent;
};

static void PRINTF_LIKE(2, 3) give_up(struct evaluation *e, const char *fmt, ...)
{
    va_list ap;

    if (e->why)
        return;
    va_start(ap, fmt);
    e->why = xvasprintf(fmt, ap);
    va_end(ap);
}

static void value_clear(struct value *v)
{
    json_unref(v->json);
}
#define _cleanup_value_ _cleanup_(value_clear)

static struct value take(struct json *json)
{
    return (struct value){.json = json};
}

static void blanks(struct evaluation *e)
{
    while (isspace((unsigned char)*e->p))
        e->p++;
}

static bool sign(struct evaluation *e, const char *s)
{
    blanks(e);
    const char *rest = str_skip_prefix(e->p, s);

    if (!rest || (strchr("<>!", s[0]) && !s[1] && *rest == '='))
        return false;
    e->p = rest;
    return true;
}

static char *identifier(struct evaluation *e)
{
    blanks(e);
    size_t n = 0;

    while (isalnum((unsigned char)e->p[n]) || e->p[n] == '_')
        n++;
    if (!n || isdigit((unsigned char)*e->p))
        return NULL;
    e->p += n;
    return xstrndup(e->p - n, n);
}

static struct value ternary(struct evaluation *e);
static struct value postfix(struct evaluation *e, bool may_be_absent);

static void expect(struct evaluation *e, const char *s)
{
    if (!sign(e, s))
        give_up(e, "expected '%s' at \"%.20s\"", s, e->p);
}

static bool truth(struct evaluation *e, const struct value *v)
{
    if (!json_is(v->json, JSON_BOOL) && !e->skip)
        give_up(e, "not a bool");
    return json_bool_or(v->json, false);
}

static struct value string_literal(struct evaluation *e, char quote)
{
    struct strbuf b = {0};

    for (; *e->p && *e->p != quote; e->p++) {
        if (*e->p == '\\' && e->p[1]) {
            e->p++;
            strbuf_addc(&b, *e->p == 'n' ? '\n' : *e->p == 't' ? '\t' : *e->p);
        } else {
            strbuf_addc(&b, *e->p);
        }
    }
    if (*e->p)
        e->p++;
    else
        give_up(e, "string without an end");
    struct value v = take(json_string_n(strbuf_str(&b), b.len));
    strbuf_free(&b);
    return v;
}

static struct value number_literal(struct evaluation *e)
{
    size_t n = strspn(e->p, "-0123456789.eE");
    struct json *v = json_parse(e->p, n, NULL);

    if (!v)
        give_up(e, "\"%.*s\" is no number", (int)n, e->p);
    e->p += n;
    return take(v);
}

static struct value list_literal(struct evaluation *e)
{
    struct value list = take(json_array_make());

    while (!e->why && !sign(e, "]")) {
        struct value item = ternary(e);
        json_push(list.json, item.json);
        if (!sign(e, ",")) {
            expect(e, "]");
            break;
        }
    }
    return list;
}

static struct json *size_of(struct evaluation *e, const struct value *v)
{
    if (json_is(v->json, JSON_STRING)) {
        int64_t n = 0;
        for (const char *s = json_str(v->json); *s; s++)
            n += ((unsigned char)*s & 0xc0) != 0x80;
        return json_int(n);
    }
    if (!e->skip && !json_is(v->json, JSON_OBJECT) && !json_is(v->json, JSON_ARRAY))
        give_up(e, "no size");
    return json_int((int64_t)json_size(v->json));
}

/* has(a.b), size(x), self, oldSelf, true, false, null. */
static struct value named(struct evaluation *e, const char *name)
{
    if (streq(name, "true") || streq(name, "false"))
        return take(json_boolean(*name == 't'));
    if (streq(name, "null"))
        return take(NULL);
    if (streq(name, "self"))
        return take(json_ref(e->self));
    if (streq(name, "oldSelf"))
        return take(json_ref(e->old));
    bool has = streq(name, "has");
    if (!has && !streq(name, "size")) {
        give_up(e, "\"%s\" is not known", name);
        return take(NULL);
    }
    expect(e, "(");
    _cleanup_value_ struct value v = has ? postfix(e, true) : ternary(e);
    expect(e, ")");
    return take(has ? json_boolean(!v.absent && v.json) : size_of(e, &v));
}

static struct value primary(struct evaluation *e)
{
    if (sign(e, "(")) {
        struct value v = ternary(e);
        expect(e, ")");
        return v;
    }
    if (sign(e, "["))
        return list_literal(e);
    if (sign(e, "'"))
        return string_literal(e, '\'');
    if (sign(e, "\""))
        return string_literal(e, '"');
    if (isdigit((unsigned char)*e->p) || *e->p == '-')
        return number_literal(e);
    _cleanup_free_ char *name = identifier(e);
    if (name)
        return named(e, name);
    give_up(e, "cannot read \"%.20s\"", e->p);
    return take(NULL);
}

static struct value method(struct evaluation *e, const struct value *on, const char *name)
{
    if (streq(name, "size")) {
        expect(e, ")");
        return take(size_of(e, on));
    }
    _cleanup_value_ struct value arg = ternary(e);
    expect(e, ")");
    const char *s = json_str(on->json), *t = json_str(arg.json);
    bool result = false;

    if (e->skip)
        return take(json_boolean(false));
    if (!s || !t) {
        give_up(e, "%s() needs strings", name);
    } else if (streq(name, "startsWith")) {
        result = str_skip_prefix(s, t) != NULL;
    } else if (streq(name, "endsWith")) {
        result = str_has_suffix(s, t);
    } else if (streq(name, "contains")) {
        result = strstr(s, t) != NULL;
    } else if (streq(name, "matches")) {
        _cleanup_(regex_free_p) struct regex *re = regex_compile(t, NULL);
        int r = re ? regex_find(re, s, strlen(s), 0, NULL, NULL) : -EINVAL;
        if (r < 0)
            give_up(e, "the pattern cannot be matched");
        result = r > 0;
    } else {
        give_up(e, "%s() is not known", name);
    }
    return take(json_boolean(result));
}

static struct value member(struct evaluation *e, const struct value *of, const char *name, bool may_be_absent)
{
    if (json_has(of->json, name))
        return take(json_ref(json_get(of->json, name)));
    if (!may_be_absent && !e->skip)
        give_up(e, "no such key: %s", name);
    return (struct value){.absent = true};
}

static struct value element(struct evaluation *e, const struct value *of, const struct value *index)
{
    const char *key = json_str(index->json);
    int64_t i = json_int_or(index->json, -1);

    if (key)
        return member(e, of, key, false);
    if (!e->skip && (!json_is(of->json, JSON_ARRAY) || i < 0 || (size_t)i >= json_size(of->json)))
        give_up(e, "index out of range");
    return take(i >= 0 ? json_ref(json_item(of->json, (size_t)i)) : NULL);
}

/* may_be_absent: within has(), where the last member need not be there. */
static struct value postfix(struct evaluation *e, bool may_be_absent)
{
    struct value v = primary(e);

    while (!e->why) {
        _cleanup_value_ struct value on = v;
        if (sign(e, ".")) {
            _cleanup_free_ char *name = identifier(e);
            if (!name)
                give_up(e, "expected a name at \"%.20s\"", e->p);
            else if (sign(e, "("))
                v = method(e, &on, name);
            else
                v = on.absent && !e->skip ? (give_up(e, "no such key"), take(NULL))
                                          : member(e, &on, name, may_be_absent);
            if (!name)
                v = take(NULL);
        } else if (sign(e, "[")) {
            _cleanup_value_ struct value index = ternary(e);
            expect(e, "]");
            v = element(e, &on, &index);
        } else {
            on.json = NULL; /* v keeps it */
            break;
        }
    }
    return v;
}

static struct value unary(struct evaluation *e)
{
    if (!sign(e, "!"))
        return postfix(e, false);
    _cleanup_value_ struct value v = unary(e);
    return take(json_boolean(!truth(e, &v)));
}

static int order(struct evaluation *e, const struct json *a, const struct json *b)
{
    const char *s = json_str(a), *t = json_str(b);

    if (s && t)
        return strcmp(s, t);
    bool numbers =
        (json_is(a, JSON_INT) || json_is(a, JSON_DOUBLE)) && (json_is(b, JSON_INT) || json_is(b, JSON_DOUBLE));
    if (!numbers && !e->skip)
        give_up(e, "values that have no order");
    double x = json_double_or(a, 0), y = json_double_or(b, 0);
    return x < y ? -1 : x > y;
}

static bool contains(const struct json *container, const struct json *v)
{
    if (json_is(container, JSON_OBJECT))
        return json_str(v) && json_has(container, json_str(v));
    for (size_t i = 0; i < json_size(container); i++)
        if (json_equal(json_item(container, i), v))
            return true;
    return false;
}

static bool word_in(struct evaluation *e)
{
    blanks(e);
    if (strncmp(e->p, "in", 2) != 0 || isalnum((unsigned char)e->p[2]) || e->p[2] == '_')
        return false;
    e->p += 2;
    return true;
}

static struct value relation(struct evaluation *e)
{
    static const char *const operators[] = {"==", "!=", "<=", ">=", "<", ">"};
    struct value left = unary(e);
    size_t op = 0;

    while (op < ARRAY_LEN(operators) && !sign(e, operators[op]))
        op++;
    if (op == ARRAY_LEN(operators) && !word_in(e))
        return left;
    _cleanup_value_ struct value l = left, r = unary(e);
    switch (op) {
    case 0:
        return take(json_boolean(json_equal(l.json, r.json)));
    case 1:
        return take(json_boolean(!json_equal(l.json, r.json)));
    case 2:
        return take(json_boolean(order(e, l.json, r.json) <= 0));
    case 3:
        return take(json_boolean(order(e, l.json, r.json) >= 0));
    case 4:
        return take(json_boolean(order(e, l.json, r.json) < 0));
    case 5:
        return take(json_boolean(order(e, l.json, r.json) > 0));
    default:
        return take(json_boolean(contains(r.json, l.json)));
    }
}

/* a && b, a || b: the right side counts only when the left one has not decided. */
static struct value chain(struct evaluation *e, bool is_or)
{
    struct value v = is_or ? chain(e, false) : relation(e);

    while (!e->why && sign(e, is_or ? "||" : "&&")) {
        _cleanup_value_ struct value left = v;
        bool decided = truth(e, &left) == is_or;
        e->skip += decided;
        _cleanup_value_ struct value right = is_or ? chain(e, false) : relation(e);
        bool result = decided ? is_or : truth(e, &right);
        e->skip -= decided;
        v = take(json_boolean(result));
    }
    return v;
}

static struct value ternary(struct evaluation *e)
{
    if (++e->depth > DEPTH_MAX) {
        give_up(e, "nested too deeply");
        return take(NULL);
    }
    struct value v = chain(e, true);
    if (!e->why && sign(e, "?")) {
        _cleanup_value_ struct value condition = v;
        bool yes = truth(e, &condition);
        e->skip += !yes;
        struct value a = ternary(e);
        e->skip -= !yes;
        expect(e, ":");
        e->skip += yes;
        struct value b = ternary(e);
        e->skip -= yes;
        json_unref(yes ? b.json : a.json);
        v = yes ? a : b;
    }
    e->depth--;
    return v;
}

static bool mentions(const char *rule, const char *word)
{
    size_t n = strlen(word);

    for (const char *p = rule; (p = strstr(p, word)); p += n)
        if ((p == rule || !(isalnum((unsigned char)p[-1]) || p[-1] == '_')) && !isalnum((unsigned char)p[n]) &&
            p[n] != '_')
            return true;
    return false;
}

static void check_rule(struct schema_node node, const struct json *rule, const struct json *value,
                       const struct json *old, const char *where, struct field_errors *errors)
{
    const char *text = json_str_or(json_get(rule, "rule"), ""), *message = json_str(json_get(rule, "message"));
    const char *type = json_str_or(schema_keyword(node, "type"), "object");

    if (mentions(text, "oldSelf") && !old)
        return; /* a transition rule, and nothing to come from */
    struct evaluation e = {.p = text, .self = (struct json *)value, .old = (struct json *)old};
    _cleanup_value_ struct value v = ternary(&e);

    blanks(&e);
    if (!e.why && *e.p)
        give_up(&e, "cannot read \"%.20s\"", e.p);
    bool holds = !e.why && truth(&e, &v);
    if (e.why)
        field_invalid_str(errors, where, type, "%s evaluating rule: %s", e.why, message ? message : text);
    else if (!holds && message)
        field_invalid_str(errors, where, type, "%s", message);
    else if (!holds)
        field_invalid_str(errors, where, type, "failed rule: %s", text);
    free(e.why);
}

void structural_check_rules(struct schema_node node, const struct json *value, const struct json *old,
                            const struct field_path *path, struct field_errors *errors)
{
    const struct json *rules = schema_keyword(node, "x-kubernetes-validations");
    _cleanup_free_ char *where = field_path_text(path);

    for (size_t i = 0; i < json_size(rules); i++)
        check_rule(node, json_item(rules, i), value, old, where, errors);
}
