#include "apiserver/cel/internal.h"
#include "base/memory.h"
#include "base/strutil.h"

/* ---- names and functions ---- */

struct scope {
    const struct scope *outer;
    const char *name;
    unsigned slot;
};

struct resolver {
    struct cel_program *program;
    unsigned depth; /* loop variables in force */
    struct error *err;
};

static const struct cel_function *const libraries[] = {
    cel_operator_functions, cel_conversion_functions, cel_string_functions,   cel_text_functions,
    cel_list_functions,     cel_time_functions,       cel_optional_functions, cel_quantity_functions,
    cel_url_functions,      cel_ip_functions,         cel_format_functions,
};

/* *ret_known: there is one of that name, with other arguments. */
static const struct cel_function *find_function(const char *name, bool method, size_t count, bool *ret_known)
{
    *ret_known = false;
    for (size_t i = 0; i < ARRAY_LEN(libraries); i++)
        for (const struct cel_function *f = libraries[i]; f->name; f++) {
            if (f->method != method || !streq(f->name, name))
                continue;
            *ret_known = true;
            if (count >= f->min && count <= f->max)
                return f;
        }
    return NULL;
}

static bool find_variable(const struct resolver *r, const struct scope *scope, const char *name, unsigned *ret)
{
    for (; scope; scope = scope->outer)
        if (streq(scope->name, name)) {
            *ret = scope->slot;
            return true;
        }
    for (unsigned i = 0; i < r->program->variable_count; i++)
        if (streq(r->program->variables[i], name)) {
            *ret = i;
            r->program->mentioned |= UINT64_C(1) << MIN(i, 63u);
            return true;
        }
    return false;
}

static int resolve(struct resolver *r, struct cel_node *n, const struct scope *scope);

static int resolve_all(struct resolver *r, struct cel_node *n, size_t from, const struct scope *scope)
{
    int result = 0;

    for (size_t i = from; i < n->count && result == 0; i++)
        result = resolve(r, n->args[i], scope);
    return result;
}

static int resolve_name(struct resolver *r, struct cel_node *n, const struct scope *scope)
{
    enum cel_type t;

    if (find_variable(r, scope, n->name, &n->slot)) {
        n->op = CEL_OP_VARIABLE;
        return 0;
    }
    if (cel_type_by_name(n->name, &t)) {
        n->op = CEL_OP_LITERAL;
        n->literal = (struct cel_value){.type = CEL_TYPE, .t = t};
        n->type = CEL_TYPE;
        return 0;
    }
    return cel_error_at(r->program->text, n->position, r->err, "undeclared reference to '%s' (in container '')",
                        n->name);
}

/* sets.contains(a, b) looks like a method of a variable `sets` until there turns out to be none. */
static bool resolve_namespaced(struct resolver *r, struct cel_node *n, const struct scope *scope)
{
    const struct cel_node *ns = n->receiver ? n->args[0] : NULL;
    unsigned slot;
    bool known;

    if (!ns || ns->op != CEL_OP_IDENT || find_variable(r, scope, ns->name, &slot))
        return false;
    _cleanup_free_ char *full = xasprintf("%s.%s", ns->name, n->name);
    n->function = find_function(full, false, n->count - 1, &known);
    if (!n->function)
        return false;
    n->receiver = false;
    n->args++;
    n->count--;
    return true;
}

static int resolve_pattern(struct resolver *r, const struct cel_node *n)
{
    static const char *const names[] = {"matches", "find", "findAll"};
    const struct cel_node *pattern = n->count >= 2 ? n->args[1] : NULL;
    _cleanup_error_ struct error e = ERROR_INIT;

    if (!pattern || pattern->op != CEL_OP_LITERAL || pattern->literal.type != CEL_STRING)
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (streq(n->name, names[i]) && cel_add_pattern(r->program, pattern->literal.s, &e) < 0)
            return cel_error_at(r->program->text, pattern->position, r->err, "invalid matches argument: %s",
                                error_text(&e));
    return 0;
}

static int resolve_call(struct resolver *r, struct cel_node *n, const struct scope *scope)
{
    bool known = false;

    if (!resolve_namespaced(r, n, scope))
        n->function = find_function(n->name, n->receiver, n->count, &known);
    /* A receiver that is no variable explains more than the function that is not found on it. */
    int result = resolve_all(r, n, 0, scope);
    if (result < 0)
        return result;
    if (!n->function)
        return cel_error_at(r->program->text, n->position, r->err,
                            known ? "found no matching overload for '%s' applied to %zu arguments"
                                  : "undeclared reference to '%s' (in container '')",
                            n->name, n->count - n->receiver);
    n->type = n->function->result;
    return resolve_pattern(r, n);
}

static int resolve_loop(struct resolver *r, struct cel_node *n, const struct scope *scope)
{
    struct scope first = {scope, n->variables[0], (unsigned)r->program->variable_count + r->depth};
    struct scope second = {&first, n->variables[1], first.slot + 1};
    unsigned taken = n->variables[1] ? 2 : 1;

    int result = resolve(r, n->args[0], scope);
    if (result < 0)
        return result;
    n->slot = first.slot;
    r->depth += taken;
    r->program->slots = MAX(r->program->slots, (unsigned)r->program->variable_count + r->depth);
    result = resolve_all(r, n, 1, n->variables[1] ? &second : &first);
    r->depth -= taken;
    if (n->op == CEL_OP_BIND)
        n->type = n->args[1]->type;
    else
        n->type = n->loop <= CEL_LOOP_EXISTS_ONE      ? CEL_BOOL
                  : n->loop <= CEL_LOOP_FILTER        ? CEL_LIST
                  : n->loop == CEL_LOOP_TRANSFORM_MAP ? CEL_MAP
                                                      : CEL_OPTIONAL;
    return result;
}

static int resolve(struct resolver *r, struct cel_node *n, const struct scope *scope)
{
    switch (n->op) {
    case CEL_OP_IDENT:
        return resolve_name(r, n, scope);
    case CEL_OP_CALL:
        return resolve_call(r, n, scope);
    case CEL_OP_LOOP:
    case CEL_OP_BIND:
        return resolve_loop(r, n, scope);
    case CEL_OP_COND: {
        int result = resolve_all(r, n, 0, scope);
        if (result == 0 && n->args[1]->type == n->args[2]->type)
            n->type = n->args[1]->type;
        return result;
    }
    case CEL_OP_HAS:
        n->type = CEL_BOOL;
        return resolve_all(r, n, 0, scope);
    default:
        return resolve_all(r, n, 0, scope);
    }
}

int cel_resolve(struct cel_program *p, struct error *err)
{
    struct resolver r = {.program = p, .err = err};

    p->slots = (unsigned)p->variable_count;
    return resolve(&r, p->root, NULL);
}

struct cel_program *cel_compile(const char *text, const char *const *variables, struct error *err)
{
    _cleanup_(cel_free_p) struct cel_program *p = xcalloc(1, sizeof(*p));

    if (strlen(text) > CEL_TEXT_MAX) {
        error_set(err, EINVAL, "the expression is longer than %d bytes", CEL_TEXT_MAX);
        return NULL;
    }
    if (!utf8_valid(text, strlen(text))) {
        error_set(err, EINVAL, "the expression is not UTF-8");
        return NULL;
    }
    p->text = xstrdup(text);
    while (variables[p->variable_count])
        p->variable_count++;
    const char **names = arena_array(&p->arena, p->variable_count + 1, sizeof(*names));
    for (size_t i = 0; i < p->variable_count; i++)
        names[i] = arena_strndup(&p->arena, variables[i], strlen(variables[i]));
    p->variables = names;
    if (cel_parse(p, err) < 0 || cel_resolve(p, err) < 0)
        return NULL;
    return take_ptr(p);
}

void cel_free(struct cel_program *p)
{
    if (!p)
        return;
    for (struct cel_pattern *x = p->patterns; x; x = x->next)
        regex_free(x->regex);
    arena_free(&p->arena);
    free(p->text);
    free(p);
}

bool cel_mentions(const struct cel_program *p, const char *variable)
{
    for (size_t i = 0; i < p->variable_count && i < 63; i++)
        if (streq(p->variables[i], variable))
            return p->mentioned >> i & 1;
    return false;
}

bool cel_may_give(const struct cel_program *p, const char *type)
{
    return p->root->type == CEL_DYN || streq(cel_type_name(p->root->type), type);
}
