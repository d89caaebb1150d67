/*
 * YAML by libyaml's events. Plain scalars are read as Kubernetes' own tools read them (YAML 1.1 booleans: yes, no, on,
 * off and their capitalised forms; numbers; null); quoted scalars are strings.
 */
#include "wire/yaml.h"

#include "base/memory.h"
#include "base/strutil.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <yaml.h>

#define TEXT_MAX_BYTES (10u << 20)
#define DEPTH_MAX 100
#define NODES_MAX 1000000

struct parser {
    yaml_parser_t yaml;
    yaml_event_t event;
    bool have_event;
    const struct json_parse_options *options;
    struct json *anchors; /* name → value */
    size_t nodes;
    struct strbuf path;
    struct error *err;
};

static int bad(struct parser *p, const yaml_mark_t *mark, const char *what)
{
    return error_set(p->err, EINVAL, "invalid YAML at line %zu, column %zu: %s", mark->line + 1, mark->column + 1,
                     what);
}

static int next(struct parser *p)
{
    if (p->have_event)
        yaml_event_delete(&p->event);
    p->have_event = false;
    if (!yaml_parser_parse(&p->yaml, &p->event))
        return bad(p, &p->yaml.problem_mark, p->yaml.problem ? p->yaml.problem : "syntax error");
    p->have_event = true;
    return 0;
}

static bool one_of(const char *s, const char *const *list)
{
    for (size_t i = 0; list[i]; i++)
        if (streq(s, list[i]))
            return true;
    return false;
}

/* 0x, 0o and, as in YAML 1.1, a leading 0 for octal; "_" is not accepted. */
static bool parse_integer(const char *s, int64_t *ret)
{
    const char *digits = *s == '-' || *s == '+' ? s + 1 : s;
    bool negative = *s == '-';

    if (digits[0] != '0' || !digits[1])
        return parse_i64(*s == '+' ? digits : s, ret);
    int base = digits[1] == 'x' || digits[1] == 'X' ? 16 : 8;
    const char *p = digits + (base == 16 || digits[1] == 'o' ? 2 : 1);
    int64_t value = 0;
    if (!*p)
        return false;
    for (; *p; p++) {
        int d = isdigit((unsigned char)*p)    ? *p - '0'
                : isxdigit((unsigned char)*p) ? tolower((unsigned char)*p) - 'a' + 10
                                              : 99;
        if (d >= base || __builtin_mul_overflow(value, base, &value) || __builtin_add_overflow(value, d, &value))
            return false;
    }
    *ret = negative ? -value : value;
    return true;
}

static bool parse_float(const char *s, double *ret)
{
    const char *p = *s == '-' || *s == '+' ? s + 1 : s;
    bool digits = false;
    char *end;

    for (const char *c = p; *c; c++) {
        digits |= isdigit((unsigned char)*c) != 0;
        if (!isdigit((unsigned char)*c) && !strchr(".eE+-", *c))
            return false;
    }
    if (!digits || (!isdigit((unsigned char)*p) && *p != '.'))
        return false;
    *ret = strtod(s, &end);
    return !*end && isfinite(*ret);
}

static struct json *plain_scalar(const char *s)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const trues[] = {"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON", "y", "Y", NULL};
    static const char *const falses[] = {"false", "False", "FALSE", "no", "No", "NO",
                                         "off",   "Off",   "OFF",   "n",  "N",  NULL};
    int64_t i;
    double d;

    if (one_of(s, nulls))
        return NULL;
    if (one_of(s, trues))
        return json_boolean(true);
    if (one_of(s, falses))
        return json_boolean(false);
    if (parse_integer(s, &i))
        return json_int(i);
    if (parse_float(s, &d))
        return json_double(d);
    return json_string(s);
}

static int read_scalar(struct parser *p, struct json **ret)
{
    const char *text = (const char *)p->event.data.scalar.value;
    size_t len = p->event.data.scalar.length;
    const char *tag = (const char *)p->event.data.scalar.tag;

    if (strlen(text) != len)
        return bad(p, &p->event.start_mark, "NUL in a scalar");
    bool plain = p->event.data.scalar.plain_implicit && p->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (tag && streq(tag, "tag:yaml.org,2002:str"))
        plain = false;
    *ret = plain ? plain_scalar(text) : json_string_n(text, len);
    return 0;
}

static size_t count_nodes(const struct json *v)
{
    size_t n = 1;

    if (json_is(v, JSON_OBJECT))
        for (struct json_iter it = {0}; json_each(v, &it);)
            n += count_nodes(it.value);
    for (size_t i = 0; json_is(v, JSON_ARRAY) && i < json_size(v); i++)
        n += count_nodes(json_item(v, i));
    return n;
}

static int read_node(struct parser *p, int depth, struct json **ret);

/* "<<": members of the merged maps that the map does not have itself. */
static void merge_into(struct json *map, const struct json *source)
{
    if (json_is(source, JSON_ARRAY)) {
        for (size_t i = 0; i < json_size(source); i++)
            merge_into(map, json_item(source, i));
        return;
    }
    for (struct json_iter it = {0}; json_each(source, &it);)
        if (!json_has(map, it.key))
            json_set(map, it.key, json_ref(it.value));
}

static int read_mapping(struct parser *p, int depth, struct json *map)
{
    _cleanup_json_ struct json *merges = json_array_make();
    size_t base = p->path.len;

    for (;;) {
        if (next(p) < 0)
            return -EINVAL;
        if (p->event.type == YAML_MAPPING_END_EVENT)
            break;
        if (p->event.type != YAML_SCALAR_EVENT)
            return bad(p, &p->event.start_mark, "a key must be a scalar");
        _cleanup_free_ char *key = xstrndup((const char *)p->event.data.scalar.value, p->event.data.scalar.length);
        bool is_merge = streq(key, "<<") && p->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
        yaml_mark_t mark = p->event.start_mark;
        struct json *value;

        strbuf_addf(&p->path, "%s%s", base ? "." : "", key);
        if (!is_merge && json_has(map, key)) {
            if (!p->options || !p->options->duplicate) {
                _cleanup_free_ char *text = xasprintf("duplicate field \"%s\"", strbuf_str(&p->path));
                return bad(p, &mark, text);
            }
            p->options->duplicate(p->options->arg, strbuf_str(&p->path));
        }
        if (next(p) < 0 || read_node(p, depth + 1, &value) < 0)
            return -EINVAL;
        if (is_merge)
            json_push(merges, value);
        else
            json_set(map, key, value);
        strbuf_truncate(&p->path, base);
    }
    merge_into(map, merges);
    return 0;
}

static int read_sequence(struct parser *p, int depth, struct json *list)
{
    size_t base = p->path.len;

    for (size_t i = 0;; i++) {
        struct json *value;

        if (next(p) < 0)
            return -EINVAL;
        if (p->event.type == YAML_SEQUENCE_END_EVENT)
            return 0;
        strbuf_addf(&p->path, "[%zu]", i);
        if (read_node(p, depth + 1, &value) < 0)
            return -EINVAL;
        json_push(list, value);
        strbuf_truncate(&p->path, base);
    }
}

static int read_alias(struct parser *p, struct json **ret)
{
    const char *name = (const char *)p->event.data.alias.anchor;
    struct json *value = json_get(p->anchors, name);

    if (!json_has(p->anchors, name))
        return bad(p, &p->event.start_mark, "unknown alias");
    p->nodes += count_nodes(value);
    if (p->nodes > NODES_MAX)
        return bad(p, &p->event.start_mark, "too many nodes after expanding aliases");
    *ret = json_copy(value);
    return 0;
}

/* The node whose first event has been read. */
static int read_node(struct parser *p, int depth, struct json **ret)
{
    _cleanup_free_ char *anchor = NULL;
    _cleanup_json_ struct json *value = NULL;
    int r = 0;

    if (depth > DEPTH_MAX)
        return bad(p, &p->event.start_mark, "nested too deeply");
    if (++p->nodes > NODES_MAX)
        return bad(p, &p->event.start_mark, "too many nodes");
    switch (p->event.type) {
    case YAML_SCALAR_EVENT:
        anchor = p->event.data.scalar.anchor ? xstrdup((char *)p->event.data.scalar.anchor) : NULL;
        r = read_scalar(p, &value);
        break;
    case YAML_MAPPING_START_EVENT:
        anchor = p->event.data.mapping_start.anchor ? xstrdup((char *)p->event.data.mapping_start.anchor) : NULL;
        value = json_object_make();
        r = read_mapping(p, depth, value);
        break;
    case YAML_SEQUENCE_START_EVENT:
        anchor = p->event.data.sequence_start.anchor ? xstrdup((char *)p->event.data.sequence_start.anchor) : NULL;
        value = json_array_make();
        r = read_sequence(p, depth, value);
        break;
    case YAML_ALIAS_EVENT:
        r = read_alias(p, &value);
        break;
    default:
        return bad(p, &p->event.start_mark, "unexpected content");
    }
    if (r < 0)
        return r;
    if (anchor)
        json_set(p->anchors, anchor, json_copy(value));
    *ret = take_ptr(value);
    return 0;
}

static int read_stream(struct parser *p, struct json *documents)
{
    for (;;) {
        struct json *value = NULL;

        if (next(p) < 0)
            return -EINVAL;
        if (p->event.type == YAML_STREAM_END_EVENT)
            return 0;
        if (p->event.type != YAML_DOCUMENT_START_EVENT)
            continue;
        json_unref(p->anchors);
        p->anchors = json_object_make();
        if (next(p) < 0 || read_node(p, 0, &value) < 0)
            return -EINVAL;
        if (value)
            json_push(documents, value);
    }
}

int yaml_parse_all(const char *text, size_t len, const struct json_parse_options *options, struct json **ret,
                   struct error *err)
{
    _cleanup_error_ struct error local = ERROR_INIT;
    struct parser p = {.options = options, .err = &local};
    _cleanup_json_ struct json *documents = json_array_make();

    if (len > TEXT_MAX_BYTES)
        return error_set(err, EFBIG, "YAML text is larger than %u bytes", TEXT_MAX_BYTES);
    if (!yaml_parser_initialize(&p.yaml))
        abort();
    yaml_parser_set_input_string(&p.yaml, (const unsigned char *)text, len);
    int r = read_stream(&p, documents);

    if (p.have_event)
        yaml_event_delete(&p.event);
    yaml_parser_delete(&p.yaml);
    json_unref(p.anchors);
    strbuf_free(&p.path);
    if (r < 0)
        return error_move(err, &local);
    *ret = take_ptr(documents);
    return 0;
}

struct json *yaml_parse(const char *text, size_t len, const struct json_parse_options *options, struct error *err)
{
    _cleanup_json_ struct json *documents = NULL;

    if (yaml_parse_all(text, len, options, &documents, err) < 0)
        return NULL;
    if (json_size(documents) != 1) {
        (void)error_set(err, EINVAL, "expected one YAML document, found %zu", json_size(documents));
        return NULL;
    }
    return json_ref(json_item(documents, 0));
}

/* A string that would be read back as something else, or not at all, is quoted. */
static bool needs_quotes(const char *s, size_t len)
{
    struct json *as_plain = plain_scalar(s);
    bool other = !json_is(as_plain, JSON_STRING);

    json_unref(as_plain);
    if (other || len == 0 || s[0] == ' ' || s[len - 1] == ' ' || strchr("-?:,[]{}#&*!|>'\"%@`", s[0]))
        return true;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)s[i] < 0x20 || (unsigned char)s[i] == 0x7f ||
            (s[i] == ':' && (s[i + 1] == ' ' || !s[i + 1])) || (s[i] == '#' && s[i - 1] == ' '))
            return true;
    return false;
}

static void write_scalar(const struct json *v, struct strbuf *out)
{
    const char *s = json_str(v);

    if (s && !needs_quotes(s, json_string_len(v)))
        strbuf_adds(out, s);
    else
        json_write(v, out);
}

static bool is_block(const struct json *v)
{
    return (json_is(v, JSON_OBJECT) || json_is(v, JSON_ARRAY)) && json_size(v) > 0;
}

static void write_node(const struct json *v, int indent, bool first_inline, struct strbuf *out)
{
    bool inline_next = first_inline;

    if (json_is(v, JSON_OBJECT)) {
        for (struct json_iter it = {0}; json_each(v, &it);) {
            if (!inline_next)
                strbuf_addf(out, "%*s", indent, "");
            inline_next = false;
            struct json *key = json_string(it.key);
            write_scalar(key, out);
            json_unref(key);
            strbuf_addc(out, ':');
            if (is_block(it.value)) {
                strbuf_addc(out, '\n');
                write_node(it.value, json_is(it.value, JSON_ARRAY) ? indent : indent + 2, false, out);
            } else {
                strbuf_addc(out, ' ');
                write_scalar(it.value, out);
                strbuf_addc(out, '\n');
            }
        }
        return;
    }
    for (size_t i = 0; i < json_size(v); i++) {
        if (!inline_next)
            strbuf_addf(out, "%*s", indent, "");
        inline_next = false;
        strbuf_adds(out, "- ");
        if (is_block(json_item(v, i))) {
            write_node(json_item(v, i), indent + 2, true, out);
        } else {
            write_scalar(json_item(v, i), out);
            strbuf_addc(out, '\n');
        }
    }
}

char *yaml_text(const struct json *v)
{
    struct strbuf b = {0};

    if (is_block(v)) {
        write_node(v, 0, false, &b);
    } else {
        write_scalar(v, &b);
        strbuf_addc(&b, '\n');
    }
    return strbuf_detach(&b);
}
