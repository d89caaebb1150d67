#include "wire/yaml.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "wire/yaml_scalar.h"

#include <ctype.h>

/* A key must end within 1024 characters to be known as one by its colon alone. */
#define SIMPLE_KEY_MAX_BYTES 1000

/*
 * The length of a character at s that YAML does not take as it is: controls, and what some readers hold for a line
 * break or a byte order mark. 0 for the others.
 */
static size_t unprintable(const char *s)
{
    static const char *const long_ones[] = {"\xe2\x80\xa8", "\xe2\x80\xa9", "\xef\xbb\xbf", "\xef\xbf\xbe",
                                            "\xef\xbf\xbf"};
    unsigned char c = (unsigned char)s[0];

    if (c < 0x20 || c == 0x7f)
        return 1;
    if (c == 0xc2 && (unsigned char)s[1] >= 0x80 && (unsigned char)s[1] < 0xa0)
        return 2;
    for (size_t i = 0; i < ARRAY_LEN(long_ones); i++)
        if (strncmp(s, long_ones[i], 3) == 0)
            return 3;
    return 0;
}

static void write_quoted(const char *s, size_t len, struct strbuf *out)
{
    strbuf_addc(out, '"');
    for (size_t i = 0, n; i < len; i += n ? n : 1) {
        const unsigned char *u = (const unsigned char *)s + i;

        n = unprintable(s + i);
        if (s[i] == '"' || s[i] == '\\')
            strbuf_addf(out, "\\%c", s[i]);
        else if (s[i] == '\n')
            strbuf_adds(out, "\\n");
        else if (s[i] == '\t')
            strbuf_adds(out, "\\t");
        else if (n == 1)
            strbuf_addf(out, "\\x%02x", u[0]);
        else if (n == 2)
            strbuf_addf(out, "\\x%02x", u[1]);
        else if (n == 3)
            strbuf_addf(out, "\\u%04x", (u[0] & 0xfu) << 12 | (u[1] & 0x3fu) << 6 | (u[2] & 0x3fu));
        else
            strbuf_addc(out, s[i]);
    }
    strbuf_addc(out, '"');
}

/* Plain text that YAML readers of other kinds take for a date, or for a number to the base of 60. */
static bool looks_odd(const char *s)
{
    size_t digits = strspn(s, "0123456789");

    return (digits == 4 && s[4] == '-') || (digits && s[digits] == ':') || streq(s, "<<") || streq(s, "=") ||
           strncmp(s, "...", 3) == 0;
}

static bool needs_quotes(const char *s, size_t len)
{
    _cleanup_json_ struct json *plain = NULL;

    if (len == 0 || yaml_resolve(s, &plain) < 0 || !json_is(plain, JSON_STRING) || looks_odd(s))
        return true;
    if (s[0] == ' ' || s[len - 1] == ' ' || strchr("-?:,[]{}#&*!|>'\"%@`", s[0]))
        return true;
    for (size_t i = 0; i < len; i++)
        if (unprintable(s + i) || (s[i] == ':' && (s[i + 1] == ' ' || !s[i + 1])) || (s[i] == ' ' && s[i + 1] == '#'))
            return true;
    return false;
}

/* Several lines that a literal block can hold as they are. */
static bool is_literal(const char *s, size_t len)
{
    if (!memchr(s, '\n', len) || isspace((unsigned char)s[0]))
        return false;
    for (size_t i = 0; i < len; i++)
        if (s[i] != '\n' && s[i] != '\t' && unprintable(s + i))
            return false;
    return true;
}

/* Ends without the last line break, which the caller adds. */
static void write_literal(const char *s, size_t len, int indent, struct strbuf *out)
{
    const char *chomp = s[len - 1] != '\n' ? "-" : s[len - 2] == '\n' ? "+" : "";
    size_t end = s[len - 1] == '\n' ? len - 1 : len;

    strbuf_addf(out, "|%s", chomp);
    for (size_t at = 0; at <= end;) {
        const char *newline = memchr(s + at, '\n', end - at);
        size_t n = newline ? (size_t)(newline - s) - at : end - at;

        strbuf_addc(out, '\n');
        if (n)
            strbuf_addf(out, "%*s", indent, "");
        strbuf_add(out, s + at, n);
        at += n + 1;
    }
}

/* indent: of the lines of a literal block. */
static void write_scalar(const struct json *v, int indent, struct strbuf *out)
{
    const char *s = json_str(v);
    size_t len = s ? json_string_len(v) : 0;

    if (!s)
        json_write(v, out);
    else if (is_literal(s, len))
        write_literal(s, len, indent, out);
    else if (needs_quotes(s, len))
        write_quoted(s, len, out);
    else
        strbuf_add(out, s, len);
}

static bool is_block(const struct json *v)
{
    return (json_is(v, JSON_OBJECT) || json_is(v, JSON_ARRAY)) && json_size(v) > 0;
}

static void write_node(const struct json *v, int indent, bool first_inline, struct strbuf *out);

static void write_member(const char *key, const struct json *value, int indent, struct strbuf *out)
{
    size_t start = out->len;

    if (needs_quotes(key, strlen(key)))
        write_quoted(key, strlen(key), out);
    else
        strbuf_adds(out, key);
    bool is_long = out->len - start > SIMPLE_KEY_MAX_BYTES;
    if (is_long) { /* "? key", then ": value" on a line of its own */
        _cleanup_free_ char *text = xstrdup(out->data + start);
        strbuf_truncate(out, start);
        strbuf_addf(out, "? %s\n%*s", text, indent, "");
    }
    if (is_block(value)) {
        strbuf_adds(out, ":\n");
        write_node(value, json_is(value, JSON_ARRAY) && !is_long ? indent : indent + 2, false, out);
        return;
    }
    strbuf_adds(out, ": ");
    write_scalar(value, indent + 2, out);
    strbuf_addc(out, '\n');
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void write_object(const struct json *v, int indent, bool first_inline, struct strbuf *out)
{
    _cleanup_free_ const char **keys = xcalloc(json_size(v), sizeof(*keys));
    size_t count = 0;

    for (struct json_iter it = {0}; json_each(v, &it);)
        keys[count++] = it.key;
    qsort(keys, count, sizeof(*keys), compare_keys);
    for (size_t i = 0; i < count; i++) {
        if (i || !first_inline)
            strbuf_addf(out, "%*s", indent, "");
        write_member(keys[i], json_get(v, keys[i]), indent, out);
    }
}

/* first_inline: the first line continues one that has been begun ("- "). */
static void write_node(const struct json *v, int indent, bool first_inline, struct strbuf *out)
{
    if (json_is(v, JSON_OBJECT)) {
        write_object(v, indent, first_inline, out);
        return;
    }
    for (size_t i = 0; i < json_size(v); i++) {
        if (i || !first_inline)
            strbuf_addf(out, "%*s", indent, "");
        strbuf_adds(out, "- ");
        if (is_block(json_item(v, i))) {
            write_node(json_item(v, i), indent + 2, true, out);
        } else {
            write_scalar(json_item(v, i), indent + 2, out);
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
        write_scalar(v, 2, &b);
        strbuf_addc(&b, '\n');
    }
    return strbuf_detach(&b);
}
