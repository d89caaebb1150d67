/* JSON text from values: compact, pretty, and sorted. */
#include "wire/json.h"

#include "base/memory.h"
#include "base/strutil.h"

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

/* The shortest text that reads back as the same number, and as a double. */
static void write_double(double d, struct strbuf *out)
{
    char text[40];

    for (int digits = 15; digits <= 17; digits++) {
        (void)snprintf(text, sizeof(text), "%.*g", digits, d);
        if (strtod(text, NULL) == d)
            break;
    }
    strbuf_adds(out, text);
    if (!strpbrk(text, ".e"))
        strbuf_adds(out, ".0");
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
        write_double(json_double_or(v, 0), out);
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
