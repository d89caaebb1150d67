#include "apiserver/jsonpath.h"

#include "base/memory.h"
#include "base/strbuf.h"
#include "base/strutil.h"

#include <ctype.h>
#include <math.h>

#define RESULTS_MAX 100000u /* recursive descent over a large object ends there */

enum step_kind { STEP_FIELD, STEP_ALL, STEP_DESCEND, STEP_ITEMS, STEP_FILTER };
enum comparison { CMP_EXISTS, CMP_EQ, CMP_NE, CMP_LT, CMP_LE, CMP_GT, CMP_GE };

struct slice {
    int64_t from, to; /* NO_BOUND = open */
    bool single;
};
#define NO_BOUND INT64_MIN

struct operand {
    struct jsonpath *path; /* or */
    struct json *literal;
};

struct step {
    enum step_kind kind;
    char *field;
    struct slice *slices;
    size_t slice_count;
    enum comparison comparison;
    struct operand left, right;
};

struct jsonpath {
    struct step *steps;
    size_t count, capacity;
};

struct parser {
    const char *p;
    const char *whole;
    int depth;
    struct error *err;
};

static int malformed(struct parser *x, const char *what)
{
    return error_set(x->err, EINVAL, "JSONPath \"%s\": %s at \"%s\"", x->whole, what, x->p);
}

static void operand_clear(struct operand *o)
{
    jsonpath_free(o->path);
    json_unref(o->literal);
}

void jsonpath_free(struct jsonpath *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->count; i++) {
        free(p->steps[i].field);
        free(p->steps[i].slices);
        operand_clear(&p->steps[i].left);
        operand_clear(&p->steps[i].right);
    }
    free(p->steps);
    free(p);
}

static struct step *add_step(struct jsonpath *path, enum step_kind kind)
{
    GROW(path->steps, path->capacity, path->count + 1);
    struct step *s = &path->steps[path->count++];

    *s = (struct step){.kind = kind};
    return s;
}

static void blanks(struct parser *x)
{
    while (*x->p == ' ')
        x->p++;
}

static bool name_char(char c)
{
    return isalnum((unsigned char)c) || strchr("_-/$%+", c);
}

/* A bare name; a backslash takes the next character as it is. */
static char *parse_name(struct parser *x)
{
    struct strbuf name = {0};

    for (; (*x->p && name_char(*x->p)) || (x->p[0] == '\\' && x->p[1]); x->p++) {
        if (*x->p == '\\')
            x->p++;
        strbuf_addc(&name, *x->p);
    }
    return strbuf_detach(&name);
}

static char *parse_quoted(struct parser *x)
{
    char quote = *x->p++;
    struct strbuf text = {0};

    for (; *x->p && *x->p != quote; x->p++) {
        if (x->p[0] == '\\' && x->p[1])
            x->p++;
        strbuf_addc(&text, *x->p);
    }
    if (*x->p != quote) {
        strbuf_free(&text);
        (void)malformed(x, "missing quote");
        return NULL;
    }
    x->p++;
    return strbuf_detach(&text);
}

static bool parse_number(struct parser *x, int64_t *ret)
{
    char *end;

    errno = 0;
    int64_t v = strtoll(x->p, &end, 10);
    if (end == x->p || errno != 0)
        return false;
    x->p = end;
    *ret = v;
    return true;
}

static int parse_items(struct parser *x, struct jsonpath *path)
{
    struct step *s = add_step(path, STEP_ITEMS);

    for (;;) {
        struct slice slice = {.from = NO_BOUND, .to = NO_BOUND, .single = true};
        blanks(x);
        (void)parse_number(x, &slice.from); /* absent: open */
        if (*x->p == ':') {
            x->p++;
            slice.single = false;
            (void)parse_number(x, &slice.to); /* absent: open */
        } else if (slice.from == NO_BOUND) {
            return malformed(x, "expected an index");
        }
        s->slices = xreallocarray(s->slices, s->slice_count + 1, sizeof(*s->slices));
        s->slices[s->slice_count++] = slice;
        blanks(x);
        if (*x->p != ',')
            return 0;
        x->p++;
    }
}

static int parse_steps(struct parser *x, struct jsonpath *path, bool in_filter);

static int parse_operand(struct parser *x, struct operand *o)
{
    blanks(x);
    if (*x->p == '@' || *x->p == '$') {
        x->p++;
        o->path = xcalloc(1, sizeof(*o->path));
        return parse_steps(x, o->path, true);
    }
    if (*x->p == '"' || *x->p == '\'') {
        _cleanup_free_ char *text = parse_quoted(x);
        o->literal = text ? json_string(text) : NULL;
        return text ? 0 : -EINVAL;
    }
    size_t len = strcspn(x->p, " )=!<>");
    struct error ignored = ERROR_INIT; /* the message would name no path */
    o->literal = json_parse(x->p, len, &ignored);
    bool bad = ignored.code != 0;
    error_clear(&ignored);
    if (bad || len == 0)
        return malformed(x, "expected a value");
    x->p += len;
    return 0;
}

static int parse_filter(struct parser *x, struct jsonpath *path)
{
    static const struct {
        const char *text;
        enum comparison comparison;
    } operators[] = {{"==", CMP_EQ}, {"!=", CMP_NE}, {"<=", CMP_LE}, {">=", CMP_GE}, {"<", CMP_LT}, {">", CMP_GT}};
    struct step *s = add_step(path, STEP_FILTER);

    if (++x->depth > 8)
        return malformed(x, "nested too deeply");
    if (parse_operand(x, &s->left) < 0)
        return -EINVAL;
    blanks(x);
    for (size_t i = 0; i < ARRAY_LEN(operators); i++) {
        const char *rest = str_skip_prefix(x->p, operators[i].text);
        if (!rest)
            continue;
        x->p = rest;
        s->comparison = operators[i].comparison;
        if (parse_operand(x, &s->right) < 0)
            return -EINVAL;
        break;
    }
    blanks(x);
    if (*x->p != ')')
        return malformed(x, "expected )");
    x->p++;
    x->depth--;
    return 0;
}

static int parse_bracket(struct parser *x, struct jsonpath *path)
{
    int r = 0;

    blanks(x);
    if (*x->p == '*') {
        x->p++;
        (void)add_step(path, STEP_ALL);
    } else if (*x->p == '\'' || *x->p == '"') {
        char *name = parse_quoted(x);
        r = name ? 0 : -EINVAL;
        if (name)
            add_step(path, STEP_FIELD)->field = name;
    } else if (x->p[0] == '?' && x->p[1] == '(') {
        x->p += 2;
        r = parse_filter(x, path);
    } else {
        r = parse_items(x, path);
    }
    if (r < 0)
        return r;
    blanks(x);
    if (*x->p != ']')
        return malformed(x, "expected ]");
    x->p++;
    return 0;
}

static int parse_dot(struct parser *x, struct jsonpath *path)
{
    if (*x->p == '.') {
        x->p++;
        (void)add_step(path, STEP_DESCEND);
    }
    if (*x->p == '*') {
        x->p++;
        (void)add_step(path, STEP_ALL);
        return 0;
    }
    if (*x->p == '[' || !*x->p)
        return 0;
    char *name = parse_name(x);
    if (!*name) {
        free(name);
        return malformed(x, "expected a field name");
    }
    add_step(path, STEP_FIELD)->field = name;
    return 0;
}

static int parse_steps(struct parser *x, struct jsonpath *path, bool in_filter)
{
    while (*x->p) {
        int r;
        if (*x->p == '.') {
            x->p++;
            r = parse_dot(x, path);
        } else if (*x->p == '[') {
            x->p++;
            r = parse_bracket(x, path);
        } else if (in_filter) {
            return 0;
        } else if (path->count == 0) {
            r = parse_dot(x, path);
        } else {
            return malformed(x, "expected . or [");
        }
        if (r < 0)
            return r;
    }
    return 0;
}

struct jsonpath *jsonpath_compile(const char *text, struct error *err)
{
    size_t len = strlen(text);
    bool braces = len >= 2 && text[0] == '{' && text[len - 1] == '}';
    _cleanup_free_ char *inner = braces ? xstrndup(text + 1, len - 2) : xstrdup(text);
    struct parser x = {.p = inner, .whole = inner, .err = err};
    struct jsonpath *path = xcalloc(1, sizeof(*path));

    if (*x.p == '$')
        x.p++;
    if (parse_steps(&x, path, false) < 0) {
        jsonpath_free(path);
        return NULL;
    }
    return path;
}

/* --- evaluation --- */

static void push(struct json *out, const struct json *v)
{
    if (json_size(out) < RESULTS_MAX)
        json_push(out, json_ref((struct json *)v));
}

static void find_all(const struct json *v, struct json *out)
{
    for (struct json_iter it = {0}; json_each(v, &it);)
        push(out, it.value);
    if (json_is(v, JSON_ARRAY))
        for (size_t i = 0; i < json_size(v); i++)
            push(out, json_item(v, i));
}

static void descend(const struct json *v, struct json *out)
{
    if (json_size(out) >= RESULTS_MAX)
        return;
    push(out, v);
    for (struct json_iter it = {0}; json_each(v, &it);)
        descend(it.value, out);
    if (json_is(v, JSON_ARRAY))
        for (size_t i = 0; i < json_size(v); i++)
            descend(json_item(v, i), out);
}

static void find_items(const struct step *s, const struct json *v, struct json *out)
{
    int64_t n = (int64_t)json_size(v);

    if (!json_is(v, JSON_ARRAY))
        return;
    for (size_t k = 0; k < s->slice_count; k++) {
        int64_t from = s->slices[k].from, to = s->slices[k].to;
        from = from == NO_BOUND ? 0 : from < 0 ? from + n : from;
        to = s->slices[k].single ? from + 1 : to == NO_BOUND ? n : to < 0 ? to + n : to;
        for (int64_t i = MAX(from, 0); i < MIN(to, n); i++)
            push(out, json_item(v, (size_t)i));
    }
}

static bool compare(const struct json *a, const struct json *b, enum comparison comparison)
{
    double order;

    if (json_is(a, JSON_STRING) && json_is(b, JSON_STRING))
        order = strcmp(json_str(a), json_str(b));
    else if (comparison == CMP_EQ || comparison == CMP_NE)
        return json_equal(a, b) == (comparison == CMP_EQ);
    else
        order = json_double_or(a, NAN) - json_double_or(b, NAN);
    switch (comparison) {
    case CMP_EQ:
        return order == 0;
    case CMP_NE:
        return order != 0;
    case CMP_LT:
        return order < 0;
    case CMP_LE:
        return order <= 0;
    case CMP_GT:
        return order > 0;
    case CMP_GE:
        return order >= 0;
    case CMP_EXISTS:
        break;
    }
    return true;
}

/* The operand's first value for the item; NULL and false when its path finds nothing. */
static bool evaluate(const struct operand *o, const struct json *item, struct json **ret)
{
    *ret = NULL;
    if (!o->path) {
        *ret = json_ref(o->literal);
        return true;
    }
    _cleanup_json_ struct json *found = jsonpath_find(o->path, item);
    if (json_size(found) == 0)
        return false;
    *ret = json_ref(json_item(found, 0));
    return true;
}

static void find_filtered(const struct step *s, const struct json *v, struct json *out)
{
    for (size_t i = 0; json_is(v, JSON_ARRAY) && i < json_size(v); i++) {
        _cleanup_json_ struct json *left = NULL, *right = NULL;
        if (!evaluate(&s->left, json_item(v, i), &left))
            continue;
        if (s->comparison == CMP_EXISTS ||
            (evaluate(&s->right, json_item(v, i), &right) && compare(left, right, s->comparison)))
            push(out, json_item(v, i));
    }
}

static void apply(const struct step *s, const struct json *v, struct json *out)
{
    switch (s->kind) {
    case STEP_FIELD:
        if (json_has(v, s->field))
            push(out, json_get(v, s->field));
        break;
    case STEP_ALL:
        find_all(v, out);
        break;
    case STEP_DESCEND:
        descend(v, out);
        break;
    case STEP_ITEMS:
        find_items(s, v, out);
        break;
    case STEP_FILTER:
        find_filtered(s, v, out);
        break;
    }
}

struct json *jsonpath_find(const struct jsonpath *p, const struct json *value)
{
    struct json *current = json_array_make();

    push(current, value);
    for (size_t i = 0; i < p->count; i++) {
        struct json *next = json_array_make();
        for (size_t k = 0; k < json_size(current); k++)
            apply(&p->steps[i], json_item(current, k), next);
        json_unref(current);
        current = next;
    }
    return current;
}
