#include "apiserver/cel/internal.h"
#include "base/memory.h"
#include "base/strutil.h"

bool cel_charge(struct cel_eval *ev, size_t steps)
{
    if (steps > (size_t)INT64_MAX / 2)
        steps = (size_t)INT64_MAX / 2;
    ev->budget->steps -= (int64_t)steps;
    if (ev->budget->steps < 0 || ev->arena.bytes > CEL_MEMORY_MAX)
        ev->exhausted = true;
    return ev->exhausted;
}

struct cel_value cel_exhausted(void)
{
    static const char text[] = "operation cancelled: actual cost limit exceeded";

    return (struct cel_value){.type = CEL_ERROR, .s = {text, sizeof(text) - 1}};
}

static struct cel_value eval(struct cel_eval *ev, const struct cel_node *n);

static struct cel_value no_such_key(struct cel_eval *ev, const char *name)
{
    return cel_errorf(ev, "no such key: %s", name);
}

/* The container behind a member or index operation: optionals are looked into. *ret_optional: it was one. */
static struct cel_value eval_container(struct cel_eval *ev, const struct cel_node *n, bool *ret_optional)
{
    struct cel_value of = eval(ev, n);

    *ret_optional = cel_is(&of, CEL_OPTIONAL);
    return *ret_optional && of.optional ? *of.optional : of;
}

static struct cel_value eval_select(struct cel_eval *ev, const struct cel_node *n)
{
    bool optional, wanted = n->op == CEL_OP_OPT_SELECT;
    struct cel_value of = eval_container(ev, n->args[0], &optional), found = cel_null();

    if (cel_is(&of, CEL_ERROR) || (cel_is(&of, CEL_OPTIONAL) && optional)) /* an error, or none */
        return of;
    if (cel_is(&of, CEL_NULL) && wanted)
        return cel_none();
    if (!cel_is(&of, CEL_MAP))
        return cel_no_overload();
    bool there = cel_map_member(ev, of.map, n->name, n->unescaped, &found);
    if (there && cel_is(&found, CEL_ERROR))
        return found;
    if (optional || wanted)
        return there ? cel_optional_of(ev, found) : cel_none();
    return there ? found : no_such_key(ev, n->name);
}

static struct cel_value eval_has(struct cel_eval *ev, const struct cel_node *n)
{
    bool optional;
    struct cel_value of = eval_container(ev, n->args[0], &optional), found = cel_null();

    if (cel_is(&of, CEL_ERROR))
        return of;
    if (optional && cel_is(&of, CEL_OPTIONAL))
        return cel_bool(false);
    if (!cel_is(&of, CEL_MAP))
        return cel_no_overload();
    return cel_bool(cel_map_member(ev, of.map, n->name, n->unescaped, &found));
}

/* Of a list; none when it is outside. */
static bool list_index(struct cel_eval *ev, const struct cel_list *l, const struct cel_value *index,
                       struct cel_value *ret)
{
    int64_t i = -1;

    if (cel_is(index, CEL_INT))
        i = index->i;
    else if (cel_is(index, CEL_UINT) && index->u <= INT64_MAX)
        i = (int64_t)index->u;
    else if (cel_is(index, CEL_DOUBLE) && index->d >= 0 && index->d < 9e15 && index->d == (double)(int64_t)index->d)
        i = (int64_t)index->d;
    if (i < 0 || (uint64_t)i >= cel_list_size(l))
        return false;
    *ret = cel_list_at(ev, l, (size_t)i);
    return true;
}

static struct cel_value bad_index(struct cel_eval *ev, const struct cel_value *of, const struct cel_value *index)
{
    _cleanup_(strbuf_free) struct strbuf text = {0};

    if (!cel_write_text(index, &text))
        return cel_no_overload();
    if (cel_is(of, CEL_LIST))
        return cel_errorf(ev, "index out of bounds: %s", strbuf_str(&text));
    return no_such_key(ev, strbuf_str(&text));
}

static struct cel_value eval_index(struct cel_eval *ev, const struct cel_node *n)
{
    bool optional, wanted = n->op == CEL_OP_OPT_INDEX, there;
    struct cel_value of = eval_container(ev, n->args[0], &optional), found = cel_null();

    if (cel_is(&of, CEL_ERROR) || (cel_is(&of, CEL_OPTIONAL) && optional))
        return of;
    struct cel_value index = eval(ev, n->args[1]);
    if (cel_is(&index, CEL_ERROR))
        return index;
    if (cel_is(&of, CEL_NULL) && wanted)
        return cel_none();
    if (cel_is(&of, CEL_LIST)) {
        if (!cel_is(&index, CEL_INT) && !cel_is(&index, CEL_UINT) && !cel_is(&index, CEL_DOUBLE))
            return cel_no_overload();
        there = list_index(ev, of.list, &index, &found);
    } else if (cel_is(&of, CEL_MAP)) {
        there = cel_map_find(ev, of.map, &index, &found);
    } else {
        return cel_no_overload();
    }
    if (ev->exhausted)
        return cel_exhausted();
    if (there && cel_is(&found, CEL_ERROR))
        return found;
    if (optional || wanted)
        return there ? cel_optional_of(ev, found) : cel_none();
    return there ? found : bad_index(ev, &of, &index);
}

#define CALL_ARGS_INLINE 4

static struct cel_value eval_call(struct cel_eval *ev, const struct cel_node *n)
{
    struct cel_value few[CALL_ARGS_INLINE];
    struct cel_value *args = n->count <= CALL_ARGS_INLINE ? few : arena_array(&ev->arena, n->count, sizeof(*args));

    for (size_t i = 0; i < n->count; i++) {
        args[i] = eval(ev, n->args[i]);
        if (cel_is(&args[i], CEL_ERROR))
            return args[i];
    }
    struct cel_value v = n->function->call(ev, args, n->count);
    return ev->exhausted ? cel_exhausted() : v;
}

/* An operand that decides wins over errors of the others, whatever their order. */
static struct cel_value eval_logic(struct cel_eval *ev, const struct cel_node *n, bool decides)
{
    struct cel_value error = cel_null();

    for (size_t i = 0; i < n->count; i++) {
        struct cel_value v = eval(ev, n->args[i]);
        if (ev->exhausted)
            return cel_exhausted();
        if (cel_is(&v, CEL_BOOL)) {
            if (v.b == decides)
                return v;
        } else if (cel_is(&error, CEL_NULL)) {
            error = cel_is(&v, CEL_ERROR) ? v : cel_no_overload();
        }
    }
    return cel_is(&error, CEL_ERROR) ? error : cel_bool(!decides);
}

static struct cel_value eval_condition(struct cel_eval *ev, const struct cel_node *n)
{
    struct cel_value c = eval(ev, n->args[0]);

    if (cel_is(&c, CEL_ERROR))
        return c;
    if (!cel_is(&c, CEL_BOOL))
        return cel_no_overload();
    return eval(ev, n->args[c.b ? 1 : 2]);
}

/* For an element marked `?`: *skip when there is none. */
static struct cel_value eval_element(struct cel_eval *ev, const struct cel_node *n, bool optional, bool *skip)
{
    struct cel_value v = eval(ev, n);

    *skip = false;
    if (!optional || cel_is(&v, CEL_ERROR))
        return v;
    if (!cel_is(&v, CEL_OPTIONAL))
        return cel_no_overload();
    *skip = !v.optional;
    return v.optional ? *v.optional : v;
}

static struct cel_value eval_list(struct cel_eval *ev, const struct cel_node *n)
{
    struct cel_value *items = arena_array(&ev->arena, n->count, sizeof(*items));
    size_t count = 0;

    for (size_t i = 0; i < n->count; i++) {
        bool skip;
        struct cel_value v = eval_element(ev, n->args[i], n->optional && n->optional[i], &skip);
        if (cel_is(&v, CEL_ERROR))
            return v;
        if (!skip)
            items[count++] = v;
    }
    return cel_list_value(ev, items, count);
}

static struct cel_value make_map(struct cel_eval *ev, const struct cel_pair *pairs, size_t count)
{
    struct cel_map *m = arena_alloc(&ev->arena, sizeof(*m));

    *m = (struct cel_map){.pairs = pairs, .count = count};
    return (struct cel_value){.type = CEL_MAP, .map = m};
}

static struct cel_value eval_map(struct cel_eval *ev, const struct cel_node *n)
{
    size_t entries = n->count / 2, count = 0;
    struct cel_pair *pairs = arena_array(&ev->arena, entries, sizeof(*pairs));

    for (size_t i = 0; i < entries; i++) {
        bool skip;
        struct cel_value key = eval(ev, n->args[2 * i]);
        if (cel_is(&key, CEL_ERROR))
            return key;
        if (!cel_is(&key, CEL_STRING) && !cel_is(&key, CEL_INT) && !cel_is(&key, CEL_UINT) && !cel_is(&key, CEL_BOOL))
            return cel_errorf(ev, "unsupported key type");
        for (size_t k = 0; k < count; k++)
            if (cel_equal(ev, &pairs[k].key, &key))
                return cel_errorf(ev, "repeated key in map literal");
        struct cel_value v = eval_element(ev, n->args[2 * i + 1], n->optional && n->optional[i], &skip);
        if (cel_is(&v, CEL_ERROR))
            return v;
        if (!skip)
            pairs[count++] = (struct cel_pair){key, v};
    }
    return make_map(ev, pairs, count);
}

/* ---- loops ---- */

/* What a loop runs over. */
struct range {
    const struct cel_list *list;
    const struct cel_pair *pairs;
    size_t count;
};

static bool open_range(struct cel_eval *ev, const struct cel_value *v, struct range *r)
{
    if (cel_is(v, CEL_LIST)) {
        *r = (struct range){.list = v->list, .count = cel_list_size(v->list)};
        return true;
    }
    if (cel_is(v, CEL_MAP)) {
        *r = (struct range){.pairs = cel_map_pairs(ev, v->map), .count = cel_map_size(v->map)};
        return true;
    }
    return false;
}

/* Sets the loop's variables: the element of a list or key of a map; with two, index or key and value. */
static void bind_element(struct cel_eval *ev, const struct cel_node *n, const struct range *r, size_t i)
{
    struct cel_value *slot = &ev->slots[n->slot];
    bool two = n->variables[1] != NULL;

    if (r->list) {
        struct cel_value item = cel_list_at(ev, r->list, i);
        slot[0] = two ? cel_int((int64_t)i) : item;
        if (two)
            slot[1] = item;
        return;
    }
    slot[0] = r->pairs[i].key;
    if (two)
        slot[1] = r->pairs[i].value;
}

/* all and exists absorb the errors of elements that turn out not to matter. */
static struct cel_value loop_decide(struct cel_eval *ev, const struct cel_node *n, const struct range *r, bool decides)
{
    struct cel_value error = cel_null();

    for (size_t i = 0; i < r->count; i++) {
        bind_element(ev, n, r, i);
        struct cel_value v = eval(ev, n->args[1]);
        if (ev->exhausted)
            return cel_exhausted();
        if (cel_is(&v, CEL_BOOL)) {
            if (v.b == decides)
                return v;
        } else if (cel_is(&error, CEL_NULL)) {
            error = cel_is(&v, CEL_ERROR) ? v : cel_no_overload();
        }
    }
    return cel_is(&error, CEL_ERROR) ? error : cel_bool(!decides);
}

static struct cel_value loop_exists_one(struct cel_eval *ev, const struct cel_node *n, const struct range *r)
{
    size_t found = 0;

    for (size_t i = 0; i < r->count; i++) {
        bind_element(ev, n, r, i);
        struct cel_value v = eval(ev, n->args[1]);
        if (cel_is(&v, CEL_ERROR))
            return v;
        if (!cel_is(&v, CEL_BOOL))
            return cel_no_overload();
        found += v.b;
    }
    return cel_bool(found == 1);
}

/* map, filter, transformList, transformMap. */
static struct cel_value loop_collect(struct cel_eval *ev, const struct cel_node *n, const struct range *r)
{
    bool filter = n->loop == CEL_LOOP_FILTER || n->count == 3, to_map = n->loop == CEL_LOOP_TRANSFORM_MAP;
    const struct cel_node *transform = n->loop == CEL_LOOP_FILTER ? NULL : n->args[n->count - 1];
    struct cel_value *items = to_map ? NULL : arena_array(&ev->arena, r->count, sizeof(*items));
    struct cel_pair *pairs = to_map ? arena_array(&ev->arena, r->count, sizeof(*pairs)) : NULL;
    size_t count = 0;

    for (size_t i = 0; i < r->count; i++) {
        bind_element(ev, n, r, i);
        if (filter) {
            struct cel_value keep = eval(ev, n->args[1]);
            if (cel_is(&keep, CEL_ERROR))
                return keep;
            if (!cel_is(&keep, CEL_BOOL))
                return cel_no_overload();
            if (!keep.b)
                continue;
        }
        struct cel_value key = ev->slots[n->slot];
        struct cel_value v = transform ? eval(ev, transform) : key;
        if (cel_is(&v, CEL_ERROR))
            return v;
        if (to_map)
            pairs[count++] = (struct cel_pair){key, v};
        else
            items[count++] = v;
    }
    return to_map ? make_map(ev, pairs, count) : cel_list_value(ev, items, count);
}

static struct cel_value eval_optional_map(struct cel_eval *ev, const struct cel_node *n, const struct cel_value *of)
{
    if (!cel_is(of, CEL_OPTIONAL))
        return cel_no_overload();
    if (!of->optional)
        return *of;
    ev->slots[n->slot] = *of->optional;
    struct cel_value v = eval(ev, n->args[1]);
    if (cel_is(&v, CEL_ERROR))
        return v;
    if (n->loop == CEL_LOOP_OPT_MAP)
        return cel_optional_of(ev, v);
    return cel_is(&v, CEL_OPTIONAL) ? v : cel_no_overload();
}

static struct cel_value eval_loop(struct cel_eval *ev, const struct cel_node *n)
{
    struct cel_value of = eval(ev, n->args[0]);
    struct range r;

    if (cel_is(&of, CEL_ERROR))
        return of;
    if (n->op == CEL_OP_BIND) {
        ev->slots[n->slot] = of;
        return eval(ev, n->args[1]);
    }
    if (n->loop == CEL_LOOP_OPT_MAP || n->loop == CEL_LOOP_OPT_FLAT_MAP)
        return eval_optional_map(ev, n, &of);
    if (!open_range(ev, &of, &r))
        return cel_no_overload();
    if (cel_charge(ev, r.count))
        return cel_exhausted();
    switch (n->loop) {
    case CEL_LOOP_ALL:
        return loop_decide(ev, n, &r, false);
    case CEL_LOOP_EXISTS:
        return loop_decide(ev, n, &r, true);
    case CEL_LOOP_EXISTS_ONE:
        return loop_exists_one(ev, n, &r);
    default:
        return loop_collect(ev, n, &r);
    }
}

static struct cel_value eval(struct cel_eval *ev, const struct cel_node *n)
{
    if (cel_charge(ev, 1))
        return cel_exhausted();
    switch (n->op) {
    case CEL_OP_LITERAL:
        return n->literal;
    case CEL_OP_VARIABLE:
        return ev->slots[n->slot];
    case CEL_OP_SELECT:
    case CEL_OP_OPT_SELECT:
        return eval_select(ev, n);
    case CEL_OP_HAS:
        return eval_has(ev, n);
    case CEL_OP_INDEX:
    case CEL_OP_OPT_INDEX:
        return eval_index(ev, n);
    case CEL_OP_CALL:
        return eval_call(ev, n);
    case CEL_OP_AND:
        return eval_logic(ev, n, false);
    case CEL_OP_OR:
        return eval_logic(ev, n, true);
    case CEL_OP_COND:
        return eval_condition(ev, n);
    case CEL_OP_LIST:
        return eval_list(ev, n);
    case CEL_OP_MAP:
        return eval_map(ev, n);
    case CEL_OP_LOOP:
    case CEL_OP_BIND:
        return eval_loop(ev, n);
    case CEL_OP_IDENT:
        break; /* resolved before anything runs */
    }
    return cel_no_overload();
}

/* ---- the public side ---- */

#define ERROR_TEXT_MAX 1000 /* an error may quote a value, and values are long */

static struct cel_value bound_value(struct cel_eval *ev, const struct cel_binding *b)
{
    if (b->unset)
        return b->optional ? cel_none() : cel_errorf(ev, "variable has no value");
    struct cel_value v = cel_from_json(ev, b->value, b->schema);
    return b->optional ? cel_optional_of(ev, v) : v;
}

/* ev is the caller's to clear, for what the value points to is in it. 0 and a value that is no error, or -errno. */
static int run(const struct cel_program *p, const struct cel_binding *bindings, struct cel_budget *budget,
               struct cel_eval *ev, struct cel_value *ret, struct error *err)
{
    *ev = (struct cel_eval){.program = p, .budget = budget};
    ev->slots = arena_array(&ev->arena, p->slots, sizeof(*ev->slots));
    for (size_t i = 0; i < p->variable_count; i++)
        ev->slots[i] = bound_value(ev, &bindings[i]);
    *ret = eval(ev, p->root);
    if (!cel_is(ret, CEL_ERROR))
        return 0;
    return error_set(err, ev->exhausted ? ENOSPC : EINVAL, "%.*s",
                     (int)utf8_cut(ret->s.data, ret->s.len, ERROR_TEXT_MAX), ret->s.data);
}

static void clear(struct cel_eval *ev)
{
    regex_free(ev->last.regex);
    arena_free(&ev->arena);
}

static int wrong_result(struct error *err, const char *wanted, const struct cel_value *v)
{
    return error_set(err, EINVAL, "the expression gives %s, not %s", cel_type_name(v->type), wanted);
}

int cel_eval_bool(const struct cel_program *p, const struct cel_binding *bindings, struct cel_budget *budget, bool *ret,
                  struct error *err)
{
    _cleanup_(clear) struct cel_eval ev;
    struct cel_value v;
    int r = run(p, bindings, budget, &ev, &v, err);

    if (r < 0)
        return r;
    if (!cel_is(&v, CEL_BOOL))
        return wrong_result(err, "bool", &v);
    *ret = v.b;
    return 0;
}

char *cel_eval_string(const struct cel_program *p, const struct cel_binding *bindings, struct cel_budget *budget,
                      struct error *err)
{
    _cleanup_(clear) struct cel_eval ev;
    struct cel_value v;

    if (run(p, bindings, budget, &ev, &v, err) < 0)
        return NULL;
    if (!cel_is(&v, CEL_STRING)) {
        (void)wrong_result(err, "string", &v); /* NULL is what tells */
        return NULL;
    }
    return xstrndup(v.s.data, v.s.len);
}

int cel_eval_json(const struct cel_program *p, const struct cel_binding *bindings, struct cel_budget *budget,
                  struct json **ret, struct error *err)
{
    _cleanup_(clear) struct cel_eval ev;
    struct cel_value v;
    int r = run(p, bindings, budget, &ev, &v, err);

    if (r < 0)
        return r;
    return cel_to_json(&ev, &v, ret, err) ? 0 : -EINVAL;
}
