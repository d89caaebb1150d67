/*
 * JSON text to values. json-c reads it; this file adds the checks json-c leaves to its caller (quotes, control bytes,
 * comments, NaN, duplicate keys) and turns its tree into ours (json.c), which are smaller and share their keys.
 */
#include "wire/json.h"

#include "base/memory.h"
#include "base/strutil.h"

#include <ctype.h>
#include <json-c/json.h>
#include <math.h>

#define JSON_TEXT_MAX ((size_t)1 << 30)

/* What the tree holds that its text must agree with, or must not hold at all. */
struct findings {
    size_t members;
    bool bad_number;
};

static struct json *convert(struct json_object *o, struct findings *f)
{
    switch (json_object_get_type(o)) {
    case json_type_boolean:
        return json_boolean(json_object_get_boolean(o));
    case json_type_int:
        return json_int(json_object_get_int64(o));
    case json_type_double:
        f->bad_number |= !isfinite(json_object_get_double(o));
        return json_double(json_object_get_double(o));
    case json_type_string:
        return json_string_n(json_object_get_string(o), (size_t)json_object_get_string_len(o));
    case json_type_array: {
        struct json *array = json_array_make();
        for (size_t i = 0; i < json_object_array_length(o); i++)
            json_push(array, convert(json_object_array_get_idx(o, i), f));
        return array;
    }
    case json_type_object: {
        struct json *object = json_object_make();
        json_object_object_foreach(o, key, value)
        {
            f->members++;
            json_set(object, key, convert(value, f));
        }
        return object;
    }
    case json_type_null:
        break;
    }
    return NULL;
}

/* The length of the string literal at p, both quotes included. The text is known to be valid JSON. */
static size_t literal_len(const char *p)
{
    size_t n = 1;

    while (p[n] != '"')
        n += p[n] == '\\' ? 2 : 1;
    return n + 1;
}

/* RFC 8259 numbers; json-c takes "1.", ".5" and "+1" too. Returns the length, 0 when there is no number. */
static size_t number_len(const char *p, const char *end, bool *ret_whole)
{
    const char *s = p;

    s += s < end && *s == '-';
    const char *digits = s;
    while (s < end && isdigit((unsigned char)*s))
        s++;
    if (s == digits || (*digits == '0' && s - digits > 1))
        return 0;
    *ret_whole = true;
    if (s < end && *s == '.') {
        *ret_whole = false;
        digits = ++s;
        while (s < end && isdigit((unsigned char)*s))
            s++;
        if (s == digits)
            return 0;
    }
    if (s < end && (*s == 'e' || *s == 'E')) {
        *ret_whole = false;
        s++;
        s += s < end && (*s == '+' || *s == '-');
        digits = s;
        while (s < end && isdigit((unsigned char)*s))
            s++;
        if (s == digits)
            return 0;
    }
    return (size_t)(s - p);
}

/*
 * A first look at the text: refuses what json-c's strict mode lets through (single quotes, comments, NaN and Infinity,
 * raw control characters, loose numbers, NUL in keys) and copies it for the tokener. Whole numbers beyond 64 bits,
 * which json-c would cut to the largest it knows, get a ".0" and so become doubles.
 */
struct lexer {
    const char *p, *end;
    struct strbuf copy;
    size_t colons;   /* outside of strings: each member has one */
    bool nul_before; /* the last string held \u0000 */
};

static bool lex_string(struct lexer *x)
{
    const char *start = x->p++;

    x->nul_before = false;
    while (x->p < x->end && *x->p != '"') {
        size_t n = utf8_len(x->p, x->end);
        if (!n || (unsigned char)*x->p < 0x20)
            return false;
        if (*x->p != '\\') {
            x->p += n;
            continue;
        }
        if (x->end - x->p >= 6 && strncmp(x->p, "\\u0000", 6) == 0)
            x->nul_before = true;
        if (x->end - x->p < 2 || (unsigned char)x->p[1] >= 0x80)
            return false;
        x->p += 2;
    }
    if (x->p == x->end)
        return false;
    x->p++;
    strbuf_add(&x->copy, start, (size_t)(x->p - start));
    return true;
}

static bool lex_number(struct lexer *x)
{
    bool whole;
    size_t n = number_len(x->p, x->end, &whole);
    int64_t value;

    if (!n)
        return false;
    _cleanup_free_ char *digits = whole && n >= 18 ? xstrndup(x->p, n) : NULL;
    strbuf_add(&x->copy, x->p, n);
    if (digits && !parse_i64(digits, &value))
        strbuf_adds(&x->copy, ".0");
    x->p += n;
    return true;
}

static bool lex(struct lexer *x)
{
    while (x->p < x->end) {
        char c = *x->p;

        if (c == '"') {
            if (!lex_string(x))
                return false;
        } else if (c == '-' || isdigit((unsigned char)c)) {
            if (!lex_number(x))
                return false;
        } else {
            if (!c || !strchr("{}[]:, \t\r\ntrufalsen", c) || (c == ':' && x->nul_before))
                return false;
            x->colons += c == ':';
            strbuf_addc(&x->copy, c);
            x->p++;
        }
    }
    return true;
}

/* Finds duplicates the slow way, only when the counts have shown that there are some. */
struct scanner {
    const char *p;
    struct strbuf path;
    void (*duplicate)(void *arg, const char *path);
    void *arg;
};

static void scan_value(struct scanner *s);

static void scan_space(struct scanner *s)
{
    while (isspace((unsigned char)*s->p) || *s->p == ',' || *s->p == ':')
        s->p++;
}

static char *scan_string(struct scanner *s)
{
    size_t n = literal_len(s->p);
    _cleanup_free_ char *literal = xstrndup(s->p, n);
    struct json_object *v = json_tokener_parse(literal);
    char *text = xstrdup(v ? json_object_get_string(v) : "");

    (void)json_object_put(v);
    s->p += n;
    return text;
}

static void scan_object(struct scanner *s)
{
    struct json *seen = json_object_make();
    size_t base = s->path.len;

    s->p++;
    for (scan_space(s); *s->p != '}'; scan_space(s)) {
        _cleanup_free_ char *key = scan_string(s);

        if (base)
            strbuf_addc(&s->path, '.');
        strbuf_adds(&s->path, key);
        if (json_has(seen, key))
            s->duplicate(s->arg, strbuf_str(&s->path));
        json_set(seen, key, NULL);
        scan_space(s);
        scan_value(s);
        strbuf_truncate(&s->path, base);
    }
    s->p++;
    json_unref(seen);
}

static void scan_value(struct scanner *s)
{
    scan_space(s);
    if (*s->p == '{') {
        scan_object(s);
    } else if (*s->p == '[') {
        size_t base = s->path.len, i = 0;

        s->p++;
        for (scan_space(s); *s->p != ']'; scan_space(s)) {
            strbuf_addf(&s->path, "[%zu]", i++);
            scan_value(s);
            strbuf_truncate(&s->path, base);
        }
        s->p++;
    } else if (*s->p == '"') {
        s->p += literal_len(s->p);
    } else {
        while (*s->p && !strchr(",]} \t\r\n", *s->p))
            s->p++;
    }
}

static void first_duplicate(void *arg, const char *path)
{
    char **first = arg;

    if (!*first)
        *first = xstrdup(path);
}

/* The text has passed lex() and the tokener, and has more members than its objects hold. */
static int report_duplicates(const char *text, const struct json_parse_options *options, struct error *err)
{
    _cleanup_free_ char *first = NULL;
    struct scanner s = {.p = text, .duplicate = first_duplicate, .arg = &first};

    if (options && options->duplicate) {
        s.duplicate = options->duplicate;
        s.arg = options->arg;
    }
    scan_value(&s);
    strbuf_free(&s.path);
    return first ? error_set(err, EINVAL, "duplicate field \"%s\"", first) : 0;
}

static struct json *tokenize(const char *text, size_t len, struct findings *f, struct error *err)
{
    struct json_tokener *tok = json_tokener_new_ex(JSON_DEPTH_MAX);
    if (!tok)
        abort();
    json_tokener_set_flags(tok, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    /* The NUL behind the text tells the tokener that a bare number ends. */
    struct json_object *tree = json_tokener_parse_ex(tok, text, (int)len + 1);
    enum json_tokener_error problem = json_tokener_get_error(tok);
    struct json *v = NULL;

    if (problem == json_tokener_success)
        v = convert(tree, f);
    else
        (void)error_set(err, EINVAL, "invalid JSON at byte %zu: %s", json_tokener_get_parse_end(tok),
                        problem == json_tokener_continue ? "unexpected end of text" : json_tokener_error_desc(problem));
    (void)json_object_put(tree);
    json_tokener_free(tok);
    return v;
}

struct json *json_parse_with(const char *text, size_t len, const struct json_parse_options *options, struct error *err)
{
    struct lexer x = {.p = text, .end = text + len};
    _cleanup_error_ struct error local = ERROR_INIT;
    struct findings f = {0};
    struct json *v = NULL;

    if (len > JSON_TEXT_MAX) {
        (void)error_set(err, EFBIG, "JSON text is too large");
        return NULL;
    }
    strbuf_reserve(&x.copy, len);
    if (len == 0)
        (void)error_set(&local, EINVAL, "invalid JSON: empty text");
    else if (!lex(&x))
        (void)error_set(&local, EINVAL, "invalid JSON at byte %zu: unexpected character", (size_t)(x.p - text));
    else
        v = tokenize(strbuf_str(&x.copy), x.copy.len, &f, &local);
    if (!local.code && f.bad_number)
        (void)error_set(&local, EINVAL, "invalid JSON: number out of range");
    if (!local.code && x.colons != f.members)
        (void)report_duplicates(strbuf_str(&x.copy), options, &local);
    strbuf_free(&x.copy);
    if (local.code) {
        json_unref(take_ptr(v));
        (void)error_move(err, &local);
    }
    return v;
}

struct json *json_parse(const char *text, size_t len, struct error *err)
{
    return json_parse_with(text, len, NULL, err);
}
