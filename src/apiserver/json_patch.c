#include "apiserver/json_patch.h"

#include "base/macros.h"
#include "base/memory.h"
#include "base/strutil.h"

struct patcher {
    struct json *doc; /* ours alone: changed in place */
    size_t work;
    struct error *err;
};

/* A parsed JSON pointer: the container and the last token. */
struct location {
    struct json *parent; /* NULL: the whole document */
    char *token;
    size_t depth; /* of what is there: 0 is the document */
};

static void location_clear(struct location *l)
{
    free(l->token);
}

static int spend(struct patcher *p, size_t work)
{
    p->work += work;
    if (p->work <= JSON_PATCH_WORK_MAX)
        return 0;
    return error_set(p->err, EPERM, "the operations copy or move more than a patch may");
}

/* About what a value takes to copy; *ret_depth is 1 for a scalar. Stops early when the allowance is used up. */
static size_t measure(const struct json *v, size_t allowance, size_t *ret_depth)
{
    size_t size = 1 + json_string_len(v), depth = 0, d = 0;

    for (struct json_iter it = {0}; size <= allowance && json_each(v, &it); depth = MAX(depth, d))
        size += strlen(it.key) + measure(it.value, allowance - size, &d);
    if (json_is(v, JSON_ARRAY))
        for (size_t i = 0; size <= allowance && i < json_size(v); i++, depth = MAX(depth, d))
            size += measure(json_item(v, i), allowance - size, &d);
    *ret_depth = depth + 1;
    return size;
}

/* The next token of a pointer, unescaped; *p moves behind it. */
static char *next_token(const char **p)
{
    struct strbuf token = {0};

    for ((*p)++; **p && **p != '/'; (*p)++) {
        if (**p == '~' && ((*p)[1] == '0' || (*p)[1] == '1'))
            strbuf_addc(&token, *++*p == '0' ? '~' : '/');
        else
            strbuf_addc(&token, **p);
    }
    return strbuf_detach(&token);
}

/* The position of an existing item, or for insert that of a new one. */
static int position(struct patcher *p, const struct json *array, const char *token, bool insert, size_t *ret)
{
    int64_t n = (int64_t)json_size(array), i, count = insert ? n + 1 : n;

    if (insert && streq(token, "-")) {
        *ret = (size_t)n;
        return 0;
    }
    if (!parse_i64(token, &i))
        return error_set(p->err, EPERM, "not a position in a list: \"%s\"", token);
    if (i < -count || i >= count)
        return error_set(p->err, ENOENT, "position %lld is outside of a list of %lld", (long long)i, (long long)n);
    *ret = (size_t)(i < 0 ? i + count : i);
    return 0;
}

/* The value under token, which may be null. */
static int child(struct patcher *p, const struct json *parent, const char *token, struct json **ret)
{
    size_t i = 0;
    int r;

    if (json_is(parent, JSON_ARRAY)) {
        r = position(p, parent, token, false, &i);
        if (r < 0)
            return r;
        *ret = json_item(parent, i);
        return 0;
    }
    if (!json_has(parent, token))
        return error_set(p->err, ENOENT, "there is no \"%s\"", token);
    *ret = json_get(parent, token);
    return 0;
}

static int locate(struct patcher *p, const char *pointer, struct location *ret)
{
    struct json *v = p->doc;
    const char *rest = pointer;

    *ret = (struct location){0};
    if (!*pointer)
        return 0;
    if (*pointer != '/')
        return error_set(p->err, EPERM, "path \"%s\" does not start with /", pointer);
    for (;;) {
        char *token = next_token(&rest);

        ret->depth++;
        if (!*rest) {
            ret->parent = v;
            ret->token = token;
            break;
        }
        int r = child(p, v, token, &v);
        free(token);
        if (r < 0)
            return r;
    }
    if (json_is(v, JSON_OBJECT) || json_is(v, JSON_ARRAY))
        return 0;
    return error_set(p->err, ENOENT, "what should contain \"%s\" is no object or list", ret->token);
}

/* Lends what is there; the whole document has no parent. */
static int value_at(struct patcher *p, const struct location *l, struct json **ret)
{
    *ret = NULL;
    if (l->parent)
        return child(p, l->parent, l->token, ret);
    *ret = p->doc;
    return 0;
}

/* Takes value. */
static void replace_document(struct patcher *p, struct json *value)
{
    json_unref(p->doc);
    p->doc = value;
}

/* Takes value, also on error. depth: of value. */
static int add_at(struct patcher *p, const struct location *l, struct json *value, size_t depth)
{
    _cleanup_json_ struct json *owned = value;
    size_t i = 0;

    if (l->depth + depth > JSON_DEPTH_MAX)
        return error_set(p->err, EPERM, "the document would be nested too deeply");
    if (!l->parent) {
        replace_document(p, take_ptr(owned));
        return 0;
    }
    if (json_is(l->parent, JSON_OBJECT)) {
        json_set(l->parent, l->token, take_ptr(owned));
        return 0;
    }
    int r = position(p, l->parent, l->token, true, &i);
    if (r == 0)
        r = spend(p, json_size(l->parent) - i);
    if (r == 0)
        json_insert_item(l->parent, i, take_ptr(owned));
    return r;
}

static int remove_at(struct patcher *p, const struct location *l)
{
    struct json *v;
    size_t i = 0;

    if (!l->parent)
        return error_set(p->err, EPERM, "the whole document cannot be removed");
    int r = child(p, l->parent, l->token, &v);
    if (r < 0)
        return r;
    if (json_is(l->parent, JSON_OBJECT)) {
        json_remove(l->parent, l->token);
        return 0;
    }
    r = position(p, l->parent, l->token, false, &i);
    if (r == 0)
        json_remove_item(l->parent, i);
    return r;
}

/* Takes value, also on error. */
static int replace_at(struct patcher *p, const struct location *l, struct json *value, size_t depth)
{
    _cleanup_json_ struct json *owned = value;
    struct json *old;
    size_t i = 0;
    int r = value_at(p, l, &old);

    if (r < 0)
        return r;
    if (!json_is(l->parent, JSON_ARRAY))
        return add_at(p, l, take_ptr(owned), depth);
    if (l->depth + depth > JSON_DEPTH_MAX)
        return error_set(p->err, EPERM, "the document would be nested too deeply");
    r = position(p, l->parent, l->token, false, &i);
    if (r == 0)
        json_set_item(l->parent, i, take_ptr(owned));
    return r;
}

static int test_at(struct patcher *p, const struct location *l, const struct json *expected)
{
    struct json *v = NULL;
    int r = value_at(p, l, &v);

    if (r < 0 && !(r == -ENOENT && !expected))
        return r;
    error_clear(p->err);
    if (json_equal(v, expected))
        return 0;
    return error_set(p->err, EPERM, "the value is another one");
}

/* from lies in what is moved or copied; a copy is made for both, so that add_at cannot see a changed tree. */
static int copy_or_move(struct patcher *p, const char *from, const char *path, bool move)
{
    _cleanup_(location_clear) struct location source = {0}, target = {0};
    struct json *v;
    size_t depth = 0, len = strlen(from);
    int r = locate(p, from, &source);

    if (r == 0)
        r = value_at(p, &source, &v);
    if (r == 0 && move && strncmp(from, path, len) == 0 && path[len] == '/')
        r = error_set(p->err, EPERM, "a value cannot be moved into itself");
    if (r == 0)
        r = spend(p, measure(v, JSON_PATCH_WORK_MAX, &depth));
    if (r < 0)
        return r;
    _cleanup_json_ struct json *taken = move ? json_ref(v) : json_copy(v);
    if (move && source.parent)
        r = remove_at(p, &source);
    if (r == 0)
        r = locate(p, path, &target);
    return r < 0 ? r : add_at(p, &target, take_ptr(taken), depth);
}

static int run(struct patcher *p, const struct json *operation)
{
    const char *op = json_str_or(json_get(operation, "op"), "");
    const char *path = json_str(json_get(operation, "path"));
    const char *from = json_str(json_get(operation, "from"));
    const struct json *value = json_get(operation, "value");
    _cleanup_(location_clear) struct location l = {0};
    size_t depth = 0;

    if (!path)
        return error_set(p->err, EPERM, "it has no path");
    if (streq(op, "move") || streq(op, "copy"))
        return from ? copy_or_move(p, from, path, streq(op, "move")) : error_set(p->err, EPERM, "it has no from");
    bool add = streq(op, "add"), replace = streq(op, "replace"), test = streq(op, "test");
    if (!add && !replace && !test && !streq(op, "remove"))
        return error_set(p->err, EPERM, "there is no such operation");
    if (!streq(op, "remove") && !json_has(operation, "value"))
        return error_set(p->err, EPERM, "it has no value");
    int r = locate(p, path, &l);
    if (r < 0)
        return r;
    if (test)
        return test_at(p, &l, value);
    if (!add && !replace)
        return remove_at(p, &l);
    (void)measure(value, SIZE_MAX, &depth); /* the sum of all values is bounded by the patch's size */
    struct json *copy = json_copy(value);
    return add ? add_at(p, &l, copy, depth) : replace_at(p, &l, copy, depth);
}

static int check_patch(const struct json *patch, struct error *err)
{
    size_t n = json_size(patch);

    if (!json_is(patch, JSON_ARRAY))
        return error_set(err, EINVAL, "a JSON patch is an array of operations");
    if (n > JSON_PATCH_OPERATIONS_MAX)
        return error_set(err, E2BIG, "The allowed maximum operations in a JSON patch is %d, got %zu",
                         JSON_PATCH_OPERATIONS_MAX, n);
    for (size_t i = 0; i < n; i++)
        if (!json_is(json_item(patch, i), JSON_OBJECT))
            return error_set(err, EINVAL, "operation %zu of the JSON patch is no object", i);
    return 0;
}

struct json *json_patch_apply(const struct json *doc, const struct json *patch, struct error *err)
{
    _cleanup_error_ struct error local = ERROR_INIT;
    struct patcher p = {.err = &local};

    if (check_patch(patch, err) < 0)
        return NULL;
    p.doc = json_copy(doc);
    for (size_t i = 0; i < json_size(patch); i++) {
        const struct json *operation = json_item(patch, i);

        if (run(&p, operation) == 0)
            continue;
        (void)error_wrap(&local, "operation %zu (%s %s)", i, json_str_or(json_get(operation, "op"), "?"),
                         json_str_or(json_get(operation, "path"), "?"));
        (void)error_move(err, &local);
        json_unref(p.doc);
        return NULL;
    }
    return p.doc;
}
