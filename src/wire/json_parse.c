/* JSON text: parsing with the checks json-c leaves to its caller (duplicate keys, non-finite numbers), and writing. */
#include "wire/json.h"

#include "base/memory.h"
#include "base/strutil.h"

#include <ctype.h>
#include <json-c/json.h>
#include <limits.h>
#include <math.h>

/* Members of all objects in the tree; non-finite doubles are counted apart. */
static void count_members(const struct json *v, size_t *members, size_t *bad_numbers)
{
    switch (json_kind(v)) {
    case JSON_OBJECT:
        for (struct json_iter it = {0}; json_each(v, &it);) {
            (*members)++;
            count_members(it.value, members, bad_numbers);
        }
        break;
    case JSON_ARRAY:
        for (size_t i = 0; i < json_size(v); i++)
            count_members(json_item(v, i), members, bad_numbers);
        break;
    case JSON_DOUBLE:
        if (!isfinite(json_double_or(v, 0)))
            (*bad_numbers)++;
        break;
    default:
        break;
    }
}

/* The length of the string literal at p, both quotes included. The text is known to be valid JSON. */
static size_t literal_len(const char *p)
{
    size_t n = 1;

    while (p[n] != '"')
        n += p[n] == '\\' ? 2 : 1;
    return n + 1;
}

/*
 * Refuses what json-c's strict mode lets through: single quotes, comments, NaN and Infinity, raw control characters in
 * strings. Counts the colons outside of strings on the way: each member has one. Returns the offset of the first bad
 * byte, or len.
 */
static size_t lex(const char *text, size_t len, size_t *colons)
{
    bool in_string = false;

    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];

        if (in_string) {
            if (c < 0x20)
                return i;
            if (c == '\\')
                i++;
            in_string = c != '"';
            continue;
        }
        if (c == 0 || !strchr("{}[]:,\" \t\r\n0123456789+-.eEtrufalsn", c))
            return i;
        in_string = c == '"';
        *colons += c == ':';
    }
    return len;
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
    struct json *v = (struct json *)json_tokener_parse(strndupa(s->p, n));
    char *text = xstrdup(json_str_or(v, ""));

    json_unref(v);
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

struct json *json_parse_with(const char *text, size_t len, const struct json_parse_options *options, struct error *err)
{
    if (len > INT_MAX) {
        (void)error_set(err, EFBIG, "JSON text is too large");
        return NULL;
    }
    size_t colons = 0, bad = lex(text, len, &colons);
    if (bad < len || len == 0) {
        (void)error_set(err, EINVAL,
                        len ? "invalid JSON at byte %zu: unexpected character" : "invalid JSON: empty text", bad);
        return NULL;
    }
    struct json_tokener *tok = json_tokener_new_ex(JSON_DEPTH_MAX);
    if (!tok)
        abort();
    json_tokener_set_flags(tok, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    /* A terminating NUL tells the tokener that a bare number ends; the copy also serves the scans below. */
    _cleanup_free_ char *copy = xstrndup(text, len);
    _cleanup_json_ struct json *v = (struct json *)json_tokener_parse_ex(tok, copy, (int)len + 1);
    enum json_tokener_error jerr = json_tokener_get_error(tok);
    size_t offset = json_tokener_get_parse_end(tok);

    json_tokener_free(tok);
    if (jerr != json_tokener_success) {
        (void)error_set(err, EINVAL, "invalid JSON at byte %zu: %s", offset,
                        jerr == json_tokener_continue ? "unexpected end of text" : json_tokener_error_desc(jerr));
        return NULL;
    }
    size_t members = 0, bad_numbers = 0;
    count_members(v, &members, &bad_numbers);
    if (bad_numbers) {
        (void)error_set(err, EINVAL, "invalid JSON: number out of range");
        return NULL;
    }
    if (colons != members) {
        _cleanup_free_ char *first = NULL;
        struct scanner s = {.p = copy, .duplicate = first_duplicate, .arg = &first};

        if (options && options->duplicate) {
            s.duplicate = options->duplicate;
            s.arg = options->arg;
        }
        scan_value(&s);
        strbuf_free(&s.path);
        if (first) {
            (void)error_set(err, EINVAL, "duplicate field \"%s\"", first);
            return NULL;
        }
    }
    return take_ptr(v);
}

struct json *json_parse(const char *text, size_t len, struct error *err)
{
    return json_parse_with(text, len, NULL, err);
}

void json_write_string(const char *s, size_t len, struct strbuf *out)
{
    size_t start = 0;

    strbuf_addc(out, '"');
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)s[i];

        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        strbuf_add(out, s + start, i - start);
        start = i + 1;
        switch (c) {
        case '"':
            strbuf_adds(out, "\\\"");
            break;
        case '\\':
            strbuf_adds(out, "\\\\");
            break;
        case '\n':
            strbuf_adds(out, "\\n");
            break;
        case '\t':
            strbuf_adds(out, "\\t");
            break;
        case '\r':
            strbuf_adds(out, "\\r");
            break;
        default:
            strbuf_addf(out, "\\u%04x", c);
        }
    }
    strbuf_add(out, s + start, len - start);
    strbuf_addc(out, '"');
}

static void write_indent(struct strbuf *out, int indent)
{
    strbuf_addc(out, '\n');
    for (int i = 0; i < indent; i++)
        strbuf_adds(out, "  ");
}

/* indent < 0: compact. */
static void write_value(const struct json *v, int indent, struct strbuf *out)
{
    int inner = indent < 0 ? -1 : indent + 1;
    bool first = true;

    switch (json_kind(v)) {
    case JSON_STRING:
        json_write_string(json_str(v), json_string_len(v), out);
        break;
    case JSON_OBJECT:
        strbuf_addc(out, '{');
        for (struct json_iter it = {0}; json_each(v, &it); first = false) {
            if (!first)
                strbuf_addc(out, ',');
            if (indent >= 0)
                write_indent(out, inner);
            json_write_string(it.key, strlen(it.key), out);
            strbuf_adds(out, indent >= 0 ? ": " : ":");
            write_value(it.value, inner, out);
        }
        if (indent >= 0 && !first)
            write_indent(out, indent);
        strbuf_addc(out, '}');
        break;
    case JSON_ARRAY:
        strbuf_addc(out, '[');
        for (size_t i = 0; i < json_size(v); i++, first = false) {
            if (!first)
                strbuf_addc(out, ',');
            if (indent >= 0)
                write_indent(out, inner);
            write_value(json_item(v, i), inner, out);
        }
        if (indent >= 0 && !first)
            write_indent(out, indent);
        strbuf_addc(out, ']');
        break;
    case JSON_INT:
        strbuf_addf(out, "%lld", (long long)json_int_or(v, 0));
        break;
    case JSON_BOOL:
        strbuf_adds(out, json_bool_or(v, false) ? "true" : "false");
        break;
    case JSON_DOUBLE:
        strbuf_adds(out, json_object_to_json_string_ext((struct json_object *)v, JSON_C_TO_STRING_PLAIN));
        break;
    case JSON_NULL:
        strbuf_adds(out, "null");
        break;
    }
}

void json_write(const struct json *v, struct strbuf *out)
{
    write_value(v, -1, out);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void write_sorted_members(const struct json *v, struct strbuf *out)
{
    size_t n = 0;
    _cleanup_free_ const char **names = xcalloc(json_size(v) + 1, sizeof(*names));

    for (struct json_iter it = {0}; json_each(v, &it);)
        names[n++] = it.key;
    qsort(names, n, sizeof(*names), compare_names);
    strbuf_addc(out, '{');
    for (size_t i = 0; i < n; i++) {
        if (i)
            strbuf_addc(out, ',');
        json_write_string(names[i], strlen(names[i]), out);
        strbuf_addc(out, ':');
        json_write_sorted(json_get(v, names[i]), out);
    }
    strbuf_addc(out, '}');
}

void json_write_sorted(const struct json *v, struct strbuf *out)
{
    if (json_is(v, JSON_OBJECT)) {
        write_sorted_members(v, out);
    } else if (json_is(v, JSON_ARRAY)) {
        strbuf_addc(out, '[');
        for (size_t i = 0; i < json_size(v); i++) {
            if (i)
                strbuf_addc(out, ',');
            json_write_sorted(json_item(v, i), out);
        }
        strbuf_addc(out, ']');
    } else {
        json_write(v, out);
    }
}

char *json_text(const struct json *v)
{
    struct strbuf b = {0};

    write_value(v, -1, &b);
    return strbuf_detach(&b);
}

char *json_text_pretty(const struct json *v)
{
    struct strbuf b = {0};

    write_value(v, 0, &b);
    return strbuf_detach(&b);
}
