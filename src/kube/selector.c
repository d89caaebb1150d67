/* Label and field selectors. The grammar is that of the Kubernetes API (list and watch parameters). */
#include "kube/object.h"

#include "base/memory.h"
#include "base/strutil.h"

#include <ctype.h>

enum operator{ OP_EXISTS, OP_NOT_EXISTS, OP_IN, OP_NOT_IN, OP_GREATER, OP_LESS };

struct requirement {
    enum operator op;
    char *key;
    char **values; /* strv */
};

struct selector {
    struct requirement *items;
    size_t count, capacity;
};

void selector_free(struct selector *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->count; i++) {
        free(s->items[i].key);
        strv_free(s->items[i].values);
    }
    free(s->items);
    free(s);
}

bool selector_empty(const struct selector *s)
{
    return !s || s->count == 0;
}

static struct requirement *add(struct selector *s, enum operator op, char *key)
{
    GROW(s->items, s->capacity, s->count + 1);
    s->items[s->count] = (struct requirement){.op = op, .key = key};
    return &s->items[s->count++];
}

/* Tokens are names and values ([-A-Za-z0-9_./]*) and the signs ! = == != > < ( ) , */
struct lexer {
    const char *p;
};

static void skip_blanks(struct lexer *l)
{
    while (*l->p == ' ' || *l->p == '\t')
        l->p++;
}

static char *word(struct lexer *l)
{
    skip_blanks(l);
    const char *start = l->p;

    while (isalnum((unsigned char)*l->p) || (*l->p && strchr("-_./", *l->p)))
        l->p++;
    return xstrndup(start, (size_t)(l->p - start));
}

static bool sign(struct lexer *l, const char *s)
{
    skip_blanks(l);
    const char *rest = str_skip_prefix(l->p, s);

    if (rest)
        l->p = rest;
    return rest != NULL;
}

/* The part before "/" is a DNS subdomain of at most 253 bytes; the name at most 63, alphanumeric at both ends. */
static bool valid_name(const char *s, bool may_be_empty)
{
    size_t n = strlen(s);

    if (n == 0)
        return may_be_empty;
    return n <= 63 && isalnum((unsigned char)s[0]) && isalnum((unsigned char)s[n - 1]) && !strchr(s, '/');
}

static bool valid_key(const char *key)
{
    const char *slash = strchr(key, '/');

    if (!slash)
        return valid_name(key, false);
    size_t prefix = (size_t)(slash - key);
    if (prefix == 0 || prefix > 253)
        return false;
    for (size_t i = 0; i < prefix; i++)
        if (!(islower((unsigned char)key[i]) || isdigit((unsigned char)key[i]) || key[i] == '-' || key[i] == '.'))
            return false;
    return valid_name(slash + 1, false);
}

static int bad(struct error *err, const struct lexer *l, const char *expected)
{
    size_t n = strcspn(l->p, ", ");

    return error_set(err, EINVAL, "unable to parse requirement: found '%.*s', expected: %s", (int)n, l->p, expected);
}

static int parse_set(struct lexer *l, struct requirement *r, struct error *err)
{
    if (!sign(l, "("))
        return bad(err, l, "'('");
    do {
        _cleanup_free_ char *value = word(l);
        if (!valid_name(value, true))
            return bad(err, l, "a label value");
        r->values = strv_append(r->values, take_ptr(value));
    } while (sign(l, ","));
    return sign(l, ")") ? 0 : bad(err, l, "',', ')'");
}

static int parse_requirement(struct selector *s, struct lexer *l, struct error *err)
{
    bool negated = sign(l, "!");
    _cleanup_free_ char *key = word(l);

    if (!valid_key(key))
        return error_set(err, EINVAL, "unable to parse requirement: invalid label key \"%s\"", key);
    skip_blanks(l);
    if (negated || !*l->p || *l->p == ',') {
        (void)add(s, negated ? OP_NOT_EXISTS : OP_EXISTS, take_ptr(key));
        return 0;
    }
    enum operator op;
    if (sign(l, "!="))
        op = OP_NOT_IN;
    else if (sign(l, "==") || sign(l, "="))
        op = OP_IN;
    else if (sign(l, ">"))
        op = OP_GREATER;
    else if (sign(l, "<"))
        op = OP_LESS;
    else {
        struct lexer before = *l;
        _cleanup_free_ char *name = word(l);
        if (!streq(name, "in") && !streq(name, "notin")) {
            *l = before;
            return bad(err, l, "in, notin, =, ==, !=, gt, lt");
        }
        return parse_set(l, add(s, name[0] == 'i' ? OP_IN : OP_NOT_IN, take_ptr(key)), err);
    }
    _cleanup_free_ char *value = word(l);
    int64_t number;
    if (!valid_name(value, true) || ((op == OP_GREATER || op == OP_LESS) && !parse_i64(value, &number)))
        return error_set(err, EINVAL, "unable to parse requirement: invalid label value \"%s\" of %s", value, key);
    struct requirement *r = add(s, op, take_ptr(key));
    r->values = strv_append(NULL, take_ptr(value));
    return 0;
}

struct selector *selector_parse(const char *source, struct error *err)
{
    _cleanup_(selector_free_p) struct selector *s = xcalloc(1, sizeof(*s));
    struct lexer l = {source};

    skip_blanks(&l);
    if (!*l.p)
        return take_ptr(s);
    do {
        if (parse_requirement(s, &l, err) < 0)
            return NULL;
    } while (sign(&l, ","));
    skip_blanks(&l);
    if (*l.p) {
        (void)bad(err, &l, "','");
        return NULL;
    }
    return take_ptr(s);
}

struct selector *selector_from_object(const struct json *label_selector, struct error *err)
{
    static const struct {
        const char *name;
        enum operator op;
    } operators[] = {{"In", OP_IN}, {"NotIn", OP_NOT_IN}, {"Exists", OP_EXISTS}, {"DoesNotExist", OP_NOT_EXISTS}};
    _cleanup_(selector_free_p) struct selector *s = xcalloc(1, sizeof(*s));

    for (struct json_iter it = {0}; json_each(json_get(label_selector, "matchLabels"), &it);) {
        struct requirement *r = add(s, OP_IN, xstrdup(it.key));
        r->values = strv_append(NULL, xstrdup(json_str_or(it.value, "")));
    }
    const struct json *expressions = json_get(label_selector, "matchExpressions");
    for (size_t i = 0; i < json_size(expressions); i++) {
        const struct json *e = json_item(expressions, i), *values = json_get(e, "values");
        const char *name = json_str_or(json_get(e, "operator"), "");
        size_t o;

        for (o = 0; o < ARRAY_LEN(operators) && !streq(operators[o].name, name); o++)
            ;
        if (o == ARRAY_LEN(operators)) {
            (void)error_set_field(err, EINVAL, "matchExpressions.operator",
                                  "\"%s\" is not a valid label selector operator", name);
            return NULL;
        }
        struct requirement *r = add(s, operators[o].op, xstrdup(json_str_or(json_get(e, "key"), "")));
        for (size_t v = 0; v < json_size(values); v++)
            r->values = strv_append(r->values, xstrdup(json_str_or(json_item(values, v), "")));
    }
    return take_ptr(s);
}

static bool in(char *const *values, const char *value)
{
    for (size_t i = 0; values && values[i]; i++)
        if (streq(values[i], value))
            return true;
    return false;
}

static bool matches(const struct requirement *r, const char *value)
{
    int64_t a, b;

    switch (r->op) {
    case OP_EXISTS:
        return value != NULL;
    case OP_NOT_EXISTS:
        return value == NULL;
    case OP_IN:
        return value && in(r->values, value);
    case OP_NOT_IN:
        return !value || !in(r->values, value);
    case OP_GREATER:
    case OP_LESS:
        if (!value || !parse_i64(value, &a) || !parse_i64(r->values[0], &b))
            return false;
        return r->op == OP_GREATER ? a > b : a < b;
    }
    return false;
}

bool selector_matches(const struct selector *s, const struct json *labels)
{
    for (size_t i = 0; s && i < s->count; i++)
        if (!matches(&s->items[i], json_str(json_get(labels, s->items[i].key))))
            return false;
    return true;
}

struct field_term {
    char *path, *value;
    bool negated;
};

struct field_selector {
    struct field_term *items;
    size_t count, capacity;
};

void field_selector_free(struct field_selector *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->count; i++) {
        free(s->items[i].path);
        free(s->items[i].value);
    }
    free(s->items);
    free(s);
}

/* Up to the next unescaped comma; "\" escapes ",", "=" and "\". */
static int parse_term(struct field_selector *s, const char **p, const char *whole, struct error *err)
{
    const char *start = *p, *path_end = strpbrk(start, "=!,");
    struct strbuf value = {0};
    bool negated = false;

    if (!path_end || *path_end == ',' || (*path_end == '!' && path_end[1] != '='))
        return error_set(err, EINVAL, "invalid selector: '%s'; can't understand '%.*s'", whole,
                         (int)strcspn(start, ","), start);
    const char *v = path_end;
    if (*v == '!') {
        negated = true;
        v += 2;
    } else {
        v += v[1] == '=' ? 2 : 1;
    }
    for (; *v && *v != ','; v++) {
        if (*v == '\\' && v[1] && strchr(",=\\", v[1])) {
            v++;
        } else if (*v == '=' || *v == '\\') {
            strbuf_free(&value);
            return error_set(err, EINVAL, "invalid selector: '%s'; can't understand '%.*s'", whole,
                             (int)strcspn(start, ","), start);
        }
        strbuf_addc(&value, *v);
    }
    GROW(s->items, s->capacity, s->count + 1);
    s->items[s->count++] = (struct field_term){
        .path = xstrndup(start, (size_t)(path_end - start)), .value = strbuf_detach(&value), .negated = negated};
    *p = *v ? v + 1 : v;
    return 0;
}

struct field_selector *field_selector_parse(const char *source, struct error *err)
{
    _cleanup_(field_selector_free_p) struct field_selector *s = xcalloc(1, sizeof(*s));

    for (const char *p = source; *p;) {
        if (*p == ',') {
            p++;
            continue;
        }
        if (parse_term(s, &p, source, err) < 0)
            return NULL;
    }
    return take_ptr(s);
}

static const struct json *lookup(const struct json *object, const char *path)
{
    _cleanup_free_ char *copy = xstrdup(path);
    char *save = NULL;
    const struct json *v = object;

    for (char *part = strtok_r(copy, ".", &save); part && v; part = strtok_r(NULL, ".", &save))
        v = json_get(v, part);
    return v;
}

bool field_selector_matches(const struct field_selector *s, const struct json *object)
{
    for (size_t i = 0; s && i < s->count; i++) {
        const struct json *v = lookup(object, s->items[i].path);
        _cleanup_free_ char *other =
            v && !json_is(v, JSON_STRING) && !json_is(v, JSON_OBJECT) && !json_is(v, JSON_ARRAY) ? json_text(v) : NULL;
        const char *value = other ? other : json_str_or(v, "");

        if (streq(value, s->items[i].value) == s->items[i].negated)
            return false;
    }
    return true;
}

const char *field_selector_term(const struct field_selector *s, size_t i, const char **ret_value, bool *ret_negated)
{
    if (!s || i >= s->count)
        return NULL;
    if (ret_value)
        *ret_value = s->items[i].value;
    if (ret_negated)
        *ret_negated = s->items[i].negated;
    return s->items[i].path;
}
