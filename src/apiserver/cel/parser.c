/* A Pratt parser. Trees are bounded in depth and size, so that everything that walks one may recurse. */
#include "apiserver/cel/internal.h"
#include "base/memory.h"
#include "base/strutil.h"

struct parser {
    struct cel_program *program;
    struct cel_lexer lexer;
    struct cel_token token; /* the next one */
    size_t nodes;
    unsigned nesting;
    struct error *err;
};

/* A list of nodes while it grows. */
struct nodes {
    struct cel_node **items;
    size_t count, capacity;
};

static void nodes_free(struct nodes *n)
{
    free(n->items);
}

static void nodes_add(struct nodes *n, struct cel_node *node)
{
    GROW(n->items, n->capacity, n->count + 1);
    n->items[n->count++] = node;
}

static struct cel_node *parse_expression(struct parser *p);

static struct cel_node *fail_at(struct parser *p, size_t position, const char *what)
{
    cel_error_at(p->program->text, position, p->err, "%s", what);
    return NULL;
}

static struct cel_node *unexpected(struct parser *p)
{
    const struct cel_token *t = &p->token;

    if (t->kind == CEL_TOKEN_END)
        return fail_at(p, t->position, "Syntax error: unexpected end of expression");
    cel_error_at(p->program->text, t->position, p->err, "Syntax error: unexpected '%.*s'",
                 (int)utf8_cut(t->text.data, t->text.len, 40), t->text.data ? t->text.data : "");
    return NULL;
}

static bool advance(struct parser *p)
{
    return cel_next_token(&p->lexer, &p->token, p->err) == 0;
}

static bool at(const struct parser *p, const char *punct)
{
    return p->token.kind == CEL_TOKEN_PUNCT && streq(p->token.text.data, punct);
}

static bool at_word(const struct parser *p, const char *word)
{
    return p->token.kind == CEL_TOKEN_IDENT && p->token.text.len == strlen(word) &&
           memcmp(p->token.text.data, word, p->token.text.len) == 0;
}

static bool expect(struct parser *p, const char *punct)
{
    if (at(p, punct))
        return advance(p);
    (void)unexpected(p); /* reports it */
    return false;
}

/* NULL when the tree gets too large or too deep. args are copied. */
static struct cel_node *make(struct parser *p, enum cel_op op, size_t position, struct cel_node *const *args,
                             size_t count)
{
    struct arena *a = &p->program->arena;
    struct cel_node *n = arena_alloc(a, sizeof(*n));

    n->op = op;
    n->position = (unsigned)position;
    n->count = count;
    n->args = arena_array(a, count, sizeof(*n->args));
    for (size_t i = 0; i < count; i++) {
        n->args[i] = args[i];
        n->depth = MAX(n->depth, args[i]->depth + 1);
    }
    if (++p->nodes > CEL_NODES_MAX || n->depth > CEL_DEPTH_MAX)
        return fail_at(p, position, "the expression is too large");
    return n;
}

static struct cel_node *make_literal(struct parser *p, size_t position, struct cel_value v)
{
    struct cel_node *n = make(p, CEL_OP_LITERAL, position, NULL, 0);

    if (n) {
        n->literal = v;
        n->type = v.type;
    }
    return n;
}

static const char *copy_text(struct parser *p, struct cel_string s)
{
    return arena_strndup(&p->program->arena, s.data, s.len);
}

static struct cel_node *make_call(struct parser *p, const char *name, size_t position, struct cel_node *const *args,
                                  size_t count)
{
    struct cel_node *n = make(p, CEL_OP_CALL, position, args, count);

    if (n)
        n->name = name;
    return n;
}

static bool reserved(struct cel_string s)
{
    static const char *const words[] = {"as",        "break",  "const",  "continue", "else",  "for",
                                        "function",  "if",     "import", "let",      "loop",  "package",
                                        "namespace", "return", "var",    "void",     "while", "in"};

    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (strlen(words[i]) == s.len && memcmp(words[i], s.data, s.len) == 0)
            return true;
    return false;
}

/* ---- macros ---- */

static const struct {
    const char *name;
    enum cel_loop loop;
    size_t args;   /* without the receiver */
    int variables; /* of them */
} macros[] = {
    {"all", CEL_LOOP_ALL, 2, 1},
    {"all", CEL_LOOP_ALL, 3, 2},
    {"exists", CEL_LOOP_EXISTS, 2, 1},
    {"exists", CEL_LOOP_EXISTS, 3, 2},
    {"exists_one", CEL_LOOP_EXISTS_ONE, 2, 1},
    {"existsOne", CEL_LOOP_EXISTS_ONE, 2, 1},
    {"exists_one", CEL_LOOP_EXISTS_ONE, 3, 2},
    {"existsOne", CEL_LOOP_EXISTS_ONE, 3, 2},
    {"map", CEL_LOOP_MAP, 2, 1},
    {"map", CEL_LOOP_MAP, 3, 1},
    {"filter", CEL_LOOP_FILTER, 2, 1},
    {"transformList", CEL_LOOP_MAP, 3, 2},
    {"transformList", CEL_LOOP_MAP, 4, 2},
    {"transformMap", CEL_LOOP_TRANSFORM_MAP, 3, 2},
    {"transformMap", CEL_LOOP_TRANSFORM_MAP, 4, 2},
    {"optMap", CEL_LOOP_OPT_MAP, 2, 1},
    {"optFlatMap", CEL_LOOP_OPT_FLAT_MAP, 2, 1},
};

static bool plain_name(struct parser *p, const struct cel_node *n, const char **ret)
{
    if (n->op != CEL_OP_IDENT) {
        (void)fail_at(p, n->position, "argument must be a simple name"); /* reports it */
        return false;
    }
    *ret = n->name;
    return true;
}

/* args[0] is the range. Returns NULL with *ret_found false if this is no macro. */
static struct cel_node *expand_loop(struct parser *p, const char *name, size_t position, const struct nodes *args,
                                    bool *ret_found)
{
    *ret_found = false;
    for (size_t i = 0; i < ARRAY_LEN(macros); i++) {
        if (!streq(macros[i].name, name) || macros[i].args != args->count - 1)
            continue;
        *ret_found = true;
        struct cel_node *parts[3] = {args->items[0]};
        size_t count = 1, v = (size_t)macros[i].variables;
        const char *names[2] = {NULL, NULL};
        for (size_t k = 0; k < v; k++)
            if (!plain_name(p, args->items[1 + k], &names[k]))
                return NULL;
        if (v == 2 && streq(names[0], names[1]))
            return fail_at(p, position, "the two variables must have different names");
        for (size_t k = 1 + v; k < args->count; k++)
            parts[count++] = args->items[k];
        struct cel_node *n = make(p, CEL_OP_LOOP, position, parts, count);
        if (!n)
            return NULL;
        n->loop = macros[i].loop;
        n->variables[0] = names[0];
        n->variables[1] = names[1];
        return n;
    }
    return NULL;
}

static struct cel_node *expand_has(struct parser *p, size_t position, const struct nodes *args)
{
    struct cel_node *arg = args->count == 1 ? args->items[0] : NULL;

    if (!arg || arg->op != CEL_OP_SELECT)
        return fail_at(p, position, "invalid argument to has() macro");
    arg->op = CEL_OP_HAS;
    return arg;
}

static struct cel_node *expand_bind(struct parser *p, size_t position, const struct nodes *args)
{
    const char *name;

    if (args->count != 4)
        return fail_at(p, position, "cel.bind() takes a name, a value and an expression");
    if (!plain_name(p, args->items[1], &name))
        return NULL;
    struct cel_node *n = make(p, CEL_OP_BIND, position, args->items + 2, 2);
    if (n)
        n->variables[0] = name;
    return n;
}

/* ---- expressions ---- */

/* Everything up to the closing mark, which is consumed. */
static bool parse_arguments(struct parser *p, const char *end, struct nodes *args)
{
    while (!at(p, end)) {
        struct cel_node *n = parse_expression(p);
        if (!n)
            return false;
        nodes_add(args, n);
        if (!at(p, ",")) {
            break;
        }
        if (!advance(p))
            return false;
    }
    return expect(p, end);
}

/* The next element may be none: `?` before it. */
static bool take_optional_mark(struct parser *p, bool *ret)
{
    *ret = at(p, "?");
    return !*ret || advance(p);
}

static const bool *copy_flags(struct parser *p, const bool *flags, size_t count)
{
    bool any = false;

    for (size_t i = 0; i < count; i++)
        any |= flags[i];
    if (!any)
        return NULL;
    bool *copy = arena_array(&p->program->arena, count, sizeof(*copy));
    memcpy(copy, flags, count * sizeof(*copy));
    return copy;
}

/* Behind the opening mark; first: that mark included a `?`. */
static struct cel_node *parse_elements(struct parser *p, size_t position, bool map, bool first)
{
    const char *end = map ? "}" : "]";
    _cleanup_(nodes_free) struct nodes items = {0};
    _cleanup_free_ bool *flags = NULL;
    size_t flag_count = 0, flag_capacity = 0;
    bool optional = first;

    while (!at(p, end)) {
        if (!first && !take_optional_mark(p, &optional))
            return NULL;
        first = false;
        GROW(flags, flag_capacity, flag_count + 1);
        flags[flag_count++] = optional;
        struct cel_node *n = parse_expression(p);
        if (!n)
            return NULL;
        nodes_add(&items, n);
        if (map) {
            if (!expect(p, ":") || !(n = parse_expression(p)))
                return NULL;
            nodes_add(&items, n);
        }
        if (!at(p, ","))
            break;
        if (!advance(p))
            return NULL;
    }
    if (!expect(p, end))
        return NULL;
    struct cel_node *n = make(p, map ? CEL_OP_MAP : CEL_OP_LIST, position, items.items, items.count);
    if (n) {
        n->type = map ? CEL_MAP : CEL_LIST;
        n->optional = copy_flags(p, flags, flag_count);
    }
    return n;
}

static struct cel_node *parse_word(struct parser *p)
{
    size_t position = p->token.position;
    struct cel_string word = p->token.text;

    if (at_word(p, "true") || at_word(p, "false")) {
        bool b = at_word(p, "true");
        return advance(p) ? make_literal(p, position, cel_bool(b)) : NULL;
    }
    if (at_word(p, "null"))
        return advance(p) ? make_literal(p, position, cel_null()) : NULL;
    if (reserved(word)) {
        cel_error_at(p->program->text, position, p->err, "Syntax error: reserved identifier: %.*s", (int)word.len,
                     word.data);
        return NULL;
    }
    const char *name = copy_text(p, word);
    if (!advance(p))
        return NULL;
    if (!at(p, "(")) {
        struct cel_node *n = make(p, CEL_OP_IDENT, position, NULL, 0);
        if (n)
            n->name = name;
        return n;
    }
    _cleanup_(nodes_free) struct nodes args = {0};
    if (!advance(p) || !parse_arguments(p, ")", &args))
        return NULL;
    return streq(name, "has") ? expand_has(p, position, &args) : make_call(p, name, position, args.items, args.count);
}

static struct cel_node *parse_number(struct parser *p, bool negative)
{
    struct cel_token t = p->token;

    if (!advance(p))
        return NULL;
    if (t.kind == CEL_TOKEN_DOUBLE)
        return make_literal(p, t.position, cel_double(negative ? -t.d : t.d));
    if (t.kind == CEL_TOKEN_UINT)
        return make_literal(p, t.position, (struct cel_value){.type = CEL_UINT, .u = t.u});
    if (t.u > (uint64_t)INT64_MAX + negative)
        return fail_at(p, t.position, "Syntax error: integer out of range");
    return make_literal(p, t.position, cel_int(negative ? (int64_t)(0 - t.u) : (int64_t)t.u));
}

static struct cel_node *parse_primary(struct parser *p)
{
    struct cel_token t = p->token;

    switch (t.kind) {
    case CEL_TOKEN_INT:
    case CEL_TOKEN_UINT:
    case CEL_TOKEN_DOUBLE:
        return parse_number(p, false);
    case CEL_TOKEN_STRING:
    case CEL_TOKEN_BYTES:
        if (!advance(p))
            return NULL;
        return make_literal(
            p, t.position,
            (struct cel_value){.type = t.kind == CEL_TOKEN_STRING ? CEL_STRING : CEL_BYTES, .s = t.text});
    case CEL_TOKEN_IDENT:
        return parse_word(p);
    case CEL_TOKEN_PUNCT:
        break;
    default:
        return unexpected(p);
    }
    if (at(p, "(")) {
        if (!advance(p))
            return NULL;
        struct cel_node *n = parse_expression(p);
        return n && expect(p, ")") ? n : NULL;
    }
    bool list = at(p, "[") || at(p, "[?"), map = at(p, "{") || at(p, "{?");
    if (list || map) {
        bool marked = at(p, "[?") || at(p, "{?");
        return advance(p) ? parse_elements(p, t.position, map, marked) : NULL;
    }
    if (at(p, ".")) /* a name of the outermost scope; there is only one scope */
        return advance(p) && p->token.kind == CEL_TOKEN_IDENT ? parse_word(p) : unexpected(p);
    return unexpected(p);
}

/* object.name, object.name(args), object.?name */
static struct cel_node *parse_member(struct parser *p, struct cel_node *object)
{
    bool optional = at(p, ".?");
    size_t position = p->token.position;

    if (!advance(p))
        return NULL;
    bool quoted = p->token.kind == CEL_TOKEN_QUOTED_IDENT;
    if (p->token.kind != CEL_TOKEN_IDENT && !quoted)
        return unexpected(p);
    const char *name = copy_text(p, p->token.text);
    if (!advance(p))
        return NULL;
    if (!at(p, "(") || optional || quoted) {
        struct cel_node *n = make(p, optional ? CEL_OP_OPT_SELECT : CEL_OP_SELECT, position, &object, 1);
        _cleanup_free_ char *plain = quoted ? NULL : cel_unescape(name);
        if (n) {
            n->name = name;
            n->unescaped = plain ? arena_strndup(&p->program->arena, plain, strlen(plain)) : NULL;
        }
        return n;
    }
    _cleanup_(nodes_free) struct nodes args = {0};
    nodes_add(&args, object);
    if (!advance(p) || !parse_arguments(p, ")", &args))
        return NULL;
    if (object->op == CEL_OP_IDENT && streq(object->name, "cel") && streq(name, "bind"))
        return expand_bind(p, position, &args);
    bool found;
    struct cel_node *n = expand_loop(p, name, position, &args, &found);
    if (found)
        return n;
    n = make_call(p, name, position, args.items, args.count);
    if (n)
        n->receiver = true;
    return n;
}

static struct cel_node *parse_postfix(struct parser *p)
{
    struct cel_node *n = parse_primary(p);

    while (n) {
        size_t position = p->token.position;
        if (at(p, ".") || at(p, ".?")) {
            n = parse_member(p, n);
        } else if (at(p, "[") || at(p, "[?")) {
            bool optional = at(p, "[?");
            if (!advance(p))
                return NULL;
            struct cel_node *index = parse_expression(p);
            if (!index || !expect(p, "]"))
                return NULL;
            n = make(p, optional ? CEL_OP_OPT_INDEX : CEL_OP_INDEX, position, (struct cel_node *[]){n, index}, 2);
        } else {
            break;
        }
    }
    return n;
}

static struct cel_node *parse_unary(struct parser *p)
{
    const char *op = at(p, "!") ? "!" : "-";
    size_t position = p->token.position, count = 0;

    if (!at(p, "!") && !at(p, "-"))
        return parse_postfix(p);
    while (at(p, op)) {
        count++;
        if (!advance(p))
            return NULL;
        if (op[0] == '-' && (p->token.kind == CEL_TOKEN_INT || p->token.kind == CEL_TOKEN_DOUBLE) && count == 1)
            return parse_number(p, true);
    }
    struct cel_node *n = parse_postfix(p);
    if (n && count % 2 == 1)
        n = make_call(p, op[0] == '!' ? "!" : "neg", position, &n, 1);
    return n;
}

static const struct {
    const char *op;
    int level; /* binds tighter the higher */
} operators[] = {{"==", 1}, {"!=", 1}, {"<", 1}, {"<=", 1}, {">", 1}, {">=", 1},
                 {"in", 1}, {"+", 2},  {"-", 2}, {"*", 3},  {"/", 3}, {"%", 3}};

static const char *binary_operator(const struct parser *p, int *ret_level)
{
    for (size_t i = 0; i < ARRAY_LEN(operators); i++)
        if (at(p, operators[i].op) || (operators[i].op[0] == 'i' && at_word(p, "in"))) {
            *ret_level = operators[i].level;
            return operators[i].op;
        }
    return NULL;
}

static struct cel_node *parse_binary(struct parser *p, int level)
{
    struct cel_node *left = parse_unary(p);
    const char *op;
    int found;

    while (left && (op = binary_operator(p, &found)) && found >= level) {
        size_t position = p->token.position;
        if (!advance(p))
            return NULL;
        struct cel_node *right = parse_binary(p, found + 1);
        left = right ? make_call(p, op, position, (struct cel_node *[]){left, right}, 2) : NULL;
    }
    return left;
}

/* a && b && c is one node, so that long chains stay shallow. */
static struct cel_node *parse_logic(struct parser *p, bool or)
{
    _cleanup_(nodes_free) struct nodes parts = {0};
    const char *op = or ? "||" : "&&";
    size_t position;

    for (;;) {
        struct cel_node *n = or ? parse_logic(p, false) : parse_binary(p, 1);
        if (!n)
            return NULL;
        nodes_add(&parts, n);
        position = p->token.position;
        if (!at(p, op))
            break;
        if (!advance(p))
            return NULL;
    }
    if (parts.count == 1)
        return parts.items[0];
    struct cel_node *n = make(p, or ? CEL_OP_OR : CEL_OP_AND, position, parts.items, parts.count);
    if (n)
        n->type = CEL_BOOL;
    return n;
}

static struct cel_node *parse_conditional(struct parser *p)
{
    struct cel_node *condition = parse_logic(p, true);
    size_t position = p->token.position;

    if (!condition || !at(p, "?"))
        return condition;
    if (!advance(p))
        return NULL;
    struct cel_node *yes = parse_logic(p, true);
    if (!yes || !expect(p, ":"))
        return NULL;
    struct cel_node *no = parse_expression(p);
    return no ? make(p, CEL_OP_COND, position, (struct cel_node *[]){condition, yes, no}, 3) : NULL;
}

static struct cel_node *parse_expression(struct parser *p)
{
    if (++p->nesting > CEL_DEPTH_MAX)
        return fail_at(p, p->token.position, "the expression is too deep");
    struct cel_node *n = parse_conditional(p);
    p->nesting--;
    return n;
}

int cel_parse(struct cel_program *program, struct error *err)
{
    struct parser p = {
        .program = program,
        .lexer = {.text = program->text, .len = strlen(program->text), .arena = &program->arena},
        .err = err,
    };

    if (!advance(&p))
        return -EINVAL;
    program->root = parse_expression(&p);
    if (program->root && p.token.kind != CEL_TOKEN_END)
        program->root = unexpected(&p);
    return program->root ? 0 : -EINVAL;
}

char *cel_unescape(const char *name)
{
    static const struct {
        const char *escape;
        const char *meaning;
    } escapes[] = {{"__underscores__", "__"}, {"__dot__", "."}, {"__dash__", "-"}, {"__slash__", "/"}};
    static const char *const keywords[] = {"true",     "false",   "null",      "in",       "as",  "break",  "const",
                                           "continue", "else",    "for",       "function", "if",  "import", "let",
                                           "loop",     "package", "namespace", "return",   "var", "void",   "while"};
    _cleanup_(strbuf_free) struct strbuf b = {0};
    size_t len = strlen(name);

    if (!strstr(name, "__"))
        return NULL;
    for (size_t i = 0; i < ARRAY_LEN(keywords); i++)
        if (len == strlen(keywords[i]) + 4 && str_skip_prefix(name, "__") && str_has_suffix(name, "__") &&
            strncmp(name + 2, keywords[i], len - 4) == 0)
            return xstrdup(keywords[i]);
    while (*name) {
        size_t i;
        for (i = 0; i < ARRAY_LEN(escapes); i++) {
            const char *rest = str_skip_prefix(name, escapes[i].escape);
            if (rest) {
                strbuf_adds(&b, escapes[i].meaning);
                name = rest;
                break;
            }
        }
        if (i == ARRAY_LEN(escapes))
            strbuf_addc(&b, *name++);
    }
    return strbuf_detach(&b);
}
