/*
 * Expressions against schemas, before there are values: fields that no object can have, and operands whose types cannot
 * go together. What is not known may be anything, so nothing sound is refused.
 */
#include "apiserver/cel/internal.h"
#include "base/memory.h"
#include "base/strutil.h"

/* What is known of a node's value. */
struct knowledge {
    struct schema_node schema; /* may be unknown */
    enum cel_type type;        /* CEL_DYN: not known */
    bool optional;             /* an optional of that */
};

struct field_checker {
    const struct cel_program *program;
    struct knowledge *slots;
    struct error *err;
    int result;
};

static struct knowledge check(struct field_checker *c, const struct cel_node *n);

/* ---- types ---- */

static enum cel_type type_of_schema(struct schema_node schema)
{
    static const struct {
        const char *name;
        enum cel_type type;
    } types[] = {
        {"boolean", CEL_BOOL}, {"integer", CEL_INT}, {"number", CEL_DOUBLE}, {"array", CEL_LIST}, {"object", CEL_MAP}};
    const char *type = json_str(schema_keyword(schema, "type"));

    if (!type || json_bool_or(schema_keyword(schema, "nullable"), false) ||
        json_bool_or(schema_keyword(schema, "x-kubernetes-int-or-string"), false))
        return CEL_DYN;
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        if (streq(type, types[i].name))
            return types[i].type;
    switch (cel_shape(schema)) {
    case CEL_SHAPE_PLAIN:
        return streq(type, "string") ? CEL_STRING : CEL_DYN;
    case CEL_SHAPE_DURATION:
        return CEL_DURATION;
    case CEL_SHAPE_BYTES:
        return CEL_BYTES;
    default:
        return CEL_TIMESTAMP;
    }
}

/* Types of one family can be compared; 0: of none. */
static int family_of(enum cel_type type)
{
    switch (type) {
    case CEL_INT:
    case CEL_UINT:
    case CEL_DOUBLE:
        return CEL_INT;
    case CEL_BOOL:
    case CEL_STRING:
    case CEL_BYTES:
    case CEL_LIST:
    case CEL_MAP:
    case CEL_TIMESTAMP:
    case CEL_DURATION:
        return (int)type;
    default:
        return 0;
    }
}

static bool is_in(const char *const *list, const char *name)
{
    for (; *list; list++)
        if (streq(*list, name))
            return true;
    return false;
}

static void no_overload(struct field_checker *c, const struct cel_node *n, enum cel_type a, enum cel_type b)
{
    if (n->count == 2 && !n->receiver)
        c->result = cel_error_at(c->program->text, n->position, c->err,
                                 "found no matching overload for '_%s_' applied to '(%s, %s)'", n->name,
                                 cel_type_name(a), cel_type_name(b));
    else
        c->result = cel_error_at(c->program->text, n->position, c->err,
                                 "found no matching overload for '%s' applied to '%s'", n->name, cel_type_name(a));
}

/* Operators, and methods of strings alone. */
static void check_operands(struct field_checker *c, const struct cel_node *n, enum cel_type a, enum cel_type b)
{
    static const char *const compare[] = {"==", "!=", "<", "<=", ">", ">=", NULL};
    static const char *const calculate[] = {"*", "/", "%", NULL};
    static const char *const of_strings[] = {"startsWith", "endsWith",  "matches", "split", "lowerAscii", "upperAscii",
                                             "trim",       "substring", "replace", "find",  "findAll",    NULL};
    int left = family_of(a), right = family_of(b);
    bool times = left == CEL_TIMESTAMP || left == CEL_DURATION || right == CEL_TIMESTAMP || right == CEL_DURATION;

    if (!n->receiver && n->count == 2) {
        bool apart = left && right && left != right;
        if ((is_in(compare, n->name) && apart) || (streq(n->name, "+") && apart && !times) ||
            (is_in(calculate, n->name) && ((left && left != CEL_INT) || (right && right != CEL_INT))))
            no_overload(c, n, a, b);
    } else if (n->receiver && is_in(of_strings, n->name) && left && left != CEL_STRING) {
        no_overload(c, n, a, b);
    }
}

static void want_bool(struct field_checker *c, const struct cel_node *n, struct knowledge k)
{
    if (c->result == 0 && !k.optional && family_of(k.type) && k.type != CEL_BOOL)
        c->result = cel_error_at(c->program->text, n->position, c->err, "expected type 'bool' but found '%s'",
                                 cel_type_name(k.type));
}

/* ---- the walk ---- */

static struct knowledge of_schema(struct schema_node schema, bool optional)
{
    return (struct knowledge){schema, optional ? CEL_DYN : type_of_schema(schema), optional};
}

static struct knowledge check_member(struct field_checker *c, const struct cel_node *n)
{
    struct knowledge of = check(c, n->args[0]), none = {0};
    bool optional = of.optional || n->op == CEL_OP_OPT_SELECT;
    struct schema_node member;

    if (c->result < 0 || !schema_is_known(of.schema))
        return none;
    if (n->unescaped && cel_shape_member(of.schema, n->unescaped, &member))
        return of_schema(member, optional);
    if (cel_shape_member(of.schema, n->name, &member))
        return of_schema(member, optional);
    c->result = cel_error_at(c->program->text, n->position, c->err, "undefined field '%s'", n->name);
    return none;
}

static struct knowledge check_index(struct field_checker *c, const struct cel_node *n)
{
    struct knowledge of = check(c, n->args[0]);
    const struct cel_node *index = n->args[1];
    bool optional = of.optional || n->op == CEL_OP_OPT_INDEX;
    struct schema_node member;

    (void)check(c, index); /* for what is inside */
    if (!schema_is_known(of.schema))
        return (struct knowledge){0};
    if (index->op == CEL_OP_LITERAL && index->literal.type == CEL_STRING) {
        _cleanup_free_ char *key = xstrndup(index->literal.s.data, index->literal.s.len);
        return cel_shape_member(of.schema, key, &member) ? of_schema(member, optional) : (struct knowledge){0};
    }
    return of_schema(cel_shape_values(of.schema), optional);
}

static struct knowledge check_loop(struct field_checker *c, const struct cel_node *n)
{
    struct knowledge range = check(c, n->args[0]), none = {0};
    struct knowledge item = of_schema(cel_shape_values(range.schema), false);
    bool two = n->variables[1] != NULL, list = schema_is_known(schema_items(range.schema));

    if (n->op == CEL_OP_BIND) {
        c->slots[n->slot] = range;
    } else if (n->loop == CEL_LOOP_OPT_MAP || n->loop == CEL_LOOP_OPT_FLAT_MAP) {
        c->slots[n->slot] = none;
    } else {
        c->slots[n->slot] = list && !two ? item : none; /* else an index or a key */
        if (two)
            c->slots[n->slot + 1] = item;
    }
    for (size_t i = 1; i < n->count && c->result == 0; i++) {
        struct knowledge k = check(c, n->args[i]);
        if (n->op == CEL_OP_BIND)
            return k;
        if (n->loop <= CEL_LOOP_EXISTS_ONE || n->loop == CEL_LOOP_FILTER)
            want_bool(c, n->args[i], k);
    }
    if (n->op == CEL_OP_LOOP && n->loop == CEL_LOOP_FILTER && range.type == CEL_LIST)
        return range;
    none.type = n->type;
    return none;
}

static struct knowledge check_call(struct field_checker *c, const struct cel_node *n)
{
    enum cel_type types[2] = {CEL_DYN, CEL_DYN};

    for (size_t i = 0; i < n->count && c->result == 0; i++) {
        struct knowledge k = check(c, n->args[i]);
        if (i < ARRAY_LEN(types) && !k.optional)
            types[i] = k.type;
    }
    if (c->result == 0)
        check_operands(c, n, types[0], types[1]);
    return (struct knowledge){.type = n->type};
}

static struct knowledge check_logic(struct field_checker *c, const struct cel_node *n)
{
    for (size_t i = 0; i < n->count && c->result == 0; i++)
        want_bool(c, n->args[i], check(c, n->args[i]));
    return (struct knowledge){.type = CEL_BOOL};
}

static struct knowledge check_condition(struct field_checker *c, const struct cel_node *n)
{
    want_bool(c, n->args[0], check(c, n->args[0]));
    struct knowledge yes = check(c, n->args[1]), no = check(c, n->args[2]);

    return (struct knowledge){.type = yes.type == no.type && !yes.optional && !no.optional ? yes.type : CEL_DYN};
}

static struct knowledge check(struct field_checker *c, const struct cel_node *n)
{
    if (c->result < 0)
        return (struct knowledge){0};
    switch (n->op) {
    case CEL_OP_VARIABLE:
        return c->slots[n->slot];
    case CEL_OP_SELECT:
    case CEL_OP_OPT_SELECT:
        return check_member(c, n);
    case CEL_OP_HAS:
        (void)check_member(c, n);
        return (struct knowledge){.type = CEL_BOOL};
    case CEL_OP_LITERAL:
        return (struct knowledge){.type = n->literal.type};
    case CEL_OP_CALL:
        return check_call(c, n);
    case CEL_OP_AND:
    case CEL_OP_OR:
        return check_logic(c, n);
    case CEL_OP_COND:
        return check_condition(c, n);
    case CEL_OP_INDEX:
    case CEL_OP_OPT_INDEX:
        return check_index(c, n);
    case CEL_OP_LOOP:
    case CEL_OP_BIND:
        return check_loop(c, n);
    default:
        for (size_t i = 0; i < n->count; i++)
            (void)check(c, n->args[i]); /* for what is inside */
        return (struct knowledge){.type = n->op == CEL_OP_LIST ? CEL_LIST : n->op == CEL_OP_MAP ? CEL_MAP : CEL_DYN};
    }
}

int cel_check_schemas(const struct cel_program *p, const struct schema_node *schemas, const char *wanted,
                      struct error *err)
{
    _cleanup_free_ struct knowledge *slots = xcalloc(MAX(p->slots, 1u), sizeof(*slots));
    struct field_checker c = {.program = p, .slots = slots, .err = err};

    for (size_t i = 0; i < p->variable_count; i++)
        slots[i] = of_schema(schemas[i], false);
    struct knowledge whole = check(&c, p->root);
    if (c.result == 0 && !whole.optional && family_of(whole.type) && !streq(cel_type_name(whole.type), wanted))
        c.result = error_set(err, EINVAL, "the expression must evaluate to a %s", wanted);
    return c.result;
}
