/*
 * JSON text to values, by recursive descent. Strict: RFC 8259 and nothing else, valid UTF-8, no NUL in keys, numbers
 * that a double or an int64_t can hold. Members of an object gather on a stack of the parser, so that each object is
 * made once, in its final size.
 */
#include "wire/json_internal.h"

#include "base/memory.h"

#include <limits.h>
#include <math.h>
#include <string.h>

/* Where the value being parsed is, for the paths of duplicates: on the stack of the descent. */
struct place {
    const struct place *outer;
    const struct json_atom *key; /* NULL: item number index */
    size_t index;
};

struct parser {
    const char *text, *p, *end;
    const struct json_parse_options *options;
    struct error *err;
    struct json_member *members; /* of all objects and items of all arrays that are not complete */
    size_t count, capacity;
    struct strbuf scratch; /* strings with escapes */
    int depth;
};

static int invalid(struct parser *x, const char *what)
{
    return error_set(x->err, EINVAL, "invalid JSON at byte %zu: %s", (size_t)(x->p - x->text), what);
}

static void skip_space(struct parser *x)
{
    while (x->p < x->end && (*x->p == ' ' || *x->p == '\n' || *x->p == '\r' || *x->p == '\t'))
        x->p++;
}

/* --- strings --- */

/* Length of the UTF-8 sequence at p, 0 when it is none (overlong forms, surrogates, beyond U+10FFFF). */
static size_t utf8_len(const unsigned char *p, const unsigned char *end)
{
    size_t len = p[0] < 0x80                   ? 1
                 : p[0] >= 0xc2 && p[0] < 0xe0 ? 2
                 : (p[0] & 0xf0) == 0xe0       ? 3
                 : p[0] >= 0xf0 && p[0] < 0xf5 ? 4
                                               : 0;

    if (len == 0 || (size_t)(end - p) < len)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] >= 0xa0) || (p[0] == 0xf0 && p[1] < 0x90) ||
        (p[0] == 0xf4 && p[1] >= 0x90))
        return 0;
    return len;
}

static void add_utf8(struct strbuf *b, uint32_t c)
{
    if (c < 0x80) {
        strbuf_addc(b, (char)c);
    } else if (c < 0x800) {
        strbuf_addc(b, (char)(0xc0 | c >> 6));
        strbuf_addc(b, (char)(0x80 | (c & 63)));
    } else if (c < 0x10000) {
        strbuf_addc(b, (char)(0xe0 | c >> 12));
        strbuf_addc(b, (char)(0x80 | (c >> 6 & 63)));
        strbuf_addc(b, (char)(0x80 | (c & 63)));
    } else {
        strbuf_addc(b, (char)(0xf0 | c >> 18));
        strbuf_addc(b, (char)(0x80 | (c >> 12 & 63)));
        strbuf_addc(b, (char)(0x80 | (c >> 6 & 63)));
        strbuf_addc(b, (char)(0x80 | (c & 63)));
    }
}

static int read_hex4(struct parser *x, uint32_t *ret)
{
    *ret = 0;
    for (int i = 0; i < 4; i++, x->p++) {
        int digit = x->p == x->end                 ? -1
                    : *x->p >= '0' && *x->p <= '9' ? *x->p - '0'
                    : *x->p >= 'a' && *x->p <= 'f' ? *x->p - 'a' + 10
                    : *x->p >= 'A' && *x->p <= 'F' ? *x->p - 'A' + 10
                                                   : -1;
        if (digit < 0)
            return invalid(x, "bad \\u escape");
        *ret = *ret << 4 | (uint32_t)digit;
    }
    return 0;
}

/* Behind "\u". Halves of surrogate pairs that stand alone become U+FFFD, as everywhere. */
static int read_unicode(struct parser *x)
{
    uint32_t c, low;

    if (read_hex4(x, &c) < 0)
        return -EINVAL;
    if (c >= 0xd800 && c < 0xdc00 && x->end - x->p >= 6 && x->p[0] == '\\' && x->p[1] == 'u') {
        const char *before = x->p;
        x->p += 2;
        if (read_hex4(x, &low) < 0)
            return -EINVAL;
        if (low >= 0xdc00 && low < 0xe000)
            c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
        else
            x->p = before;
    }
    add_utf8(&x->scratch, c >= 0xd800 && c < 0xe000 ? 0xfffd : c);
    return 0;
}

static int read_escape(struct parser *x)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *at;

    if (++x->p == x->end)
        return invalid(x, "unexpected end of text");
    if (*x->p == 'u') {
        x->p++;
        return read_unicode(x);
    }
    at = *x->p ? strchr(from, *x->p) : NULL;
    if (!at)
        return invalid(x, "bad escape");
    strbuf_addc(&x->scratch, to[at - from]);
    x->p++;
    return 0;
}

/* Behind the opening quote. The text is in the source, or in scratch when it has escapes; valid until the next string.
 */
static int read_string(struct parser *x, const char **ret, size_t *ret_len)
{
    const char *start = x->p;
    bool copied = false;

    x->scratch.len = 0;
    while (x->p < x->end && *x->p != '"') {
        unsigned char c = (unsigned char)*x->p;
        if (c < 0x20)
            return invalid(x, "control character in a string");
        if (c == '\\') {
            strbuf_add(&x->scratch, start, (size_t)(x->p - start));
            copied = true;
            if (read_escape(x) < 0)
                return -EINVAL;
            start = x->p;
            continue;
        }
        size_t n = c < 0x80 ? 1 : utf8_len((const unsigned char *)x->p, (const unsigned char *)x->end);
        if (n == 0)
            return invalid(x, "invalid UTF-8");
        x->p += n;
    }
    if (x->p == x->end)
        return invalid(x, "unexpected end of text");
    if (copied)
        strbuf_add(&x->scratch, start, (size_t)(x->p - start));
    *ret = copied ? x->scratch.data : start;
    *ret_len = copied ? x->scratch.len : (size_t)(x->p - start);
    x->p++;
    return 0;
}

/* --- numbers --- */

static bool digit_at(const struct parser *x)
{
    return x->p < x->end && *x->p >= '0' && *x->p <= '9';
}

static int read_digits(struct parser *x)
{
    if (!digit_at(x))
        return invalid(x, "expected a digit");
    while (digit_at(x))
        x->p++;
    return 0;
}

static struct json *read_double(struct parser *x, const char *start)
{
    char text[64];
    size_t len = (size_t)(x->p - start);
    _cleanup_free_ char *longer = len < sizeof(text) ? NULL : xstrndup(start, len);

    if (!longer) {
        memcpy(text, start, len);
        text[len] = '\0';
    }
    double d = strtod(longer ? longer : text, NULL);
    if (!isfinite(d)) {
        (void)error_set(x->err, EINVAL, "invalid JSON: number out of range");
        return NULL;
    }
    return json_double(d);
}

static struct json *read_number(struct parser *x)
{
    const char *start = x->p;
    bool whole = true, fits = true, negative = *x->p == '-';
    int64_t value = 0;

    x->p += negative;
    if (x->p < x->end && *x->p == '0') {
        x->p++;
    } else {
        if (!digit_at(x))
            return (void)invalid(x, "expected a digit"), NULL;
        for (; digit_at(x); x->p++)
            fits = fits && !__builtin_mul_overflow(value, 10, &value) &&
                   !(negative ? __builtin_sub_overflow(value, *x->p - '0', &value)
                              : __builtin_add_overflow(value, *x->p - '0', &value));
    }
    if (x->p < x->end && *x->p == '.') {
        whole = false;
        x->p++;
        if (read_digits(x) < 0)
            return NULL;
    }
    if (x->p < x->end && (*x->p == 'e' || *x->p == 'E')) {
        whole = false;
        x->p++;
        if (x->p < x->end && (*x->p == '+' || *x->p == '-'))
            x->p++;
        if (read_digits(x) < 0)
            return NULL;
    }
    return whole && fits ? json_int(value) : read_double(x, start);
}

/* --- containers --- */

static int read_value(struct parser *x, const struct place *place, struct json **ret);

static void push(struct parser *x, struct json_atom *key, struct json *value)
{
    GROW(x->members, x->capacity, x->count + 1);
    x->members[x->count++] = (struct json_member){key, value};
}

static void write_place(const struct place *place, struct strbuf *out)
{
    if (!place)
        return;
    write_place(place->outer, out);
    if (!place->key)
        strbuf_addf(out, "[%zu]", place->index);
    else
        strbuf_addf(out, "%s%s", out->len ? "." : "", place->key->text);
}

static void note_duplicate(struct parser *x, const struct place *place, const struct json_atom *key)
{
    _cleanup_(strbuf_free) struct strbuf path = {0};
    const struct place here = {.outer = place, .key = key};

    write_place(&here, &path);
    if (x->options && x->options->duplicate)
        x->options->duplicate(x->options->arg, path.data);
    else if (!x->err || !x->err->code)
        (void)error_set(x->err, EINVAL, "duplicate field \"%s\"", path.data);
}

/* Makes an object of the members behind from. -EINVAL: one was there twice, and that is an error. */
static int finish_object(struct parser *x, const struct place *place, size_t from, struct json **ret)
{
    struct json *map = json_map_make(x->count - from);
    bool twice = false;

    for (size_t i = from; i < x->count; i++) {
        struct json_atom *key = x->members[i].key;
        if (!json_map_put(map, key, x->members[i].value))
            continue;
        twice = true;
        note_duplicate(x, place, key); /* the map holds another reference to it */
    }
    x->count = from;
    *ret = map;
    return twice && !(x->options && x->options->duplicate) ? -EINVAL : 0;
}

static int read_key(struct parser *x, struct json_atom **ret)
{
    const char *text;
    size_t len;

    if (x->p == x->end || *x->p != '"')
        return invalid(x, x->p == x->end ? "unexpected end of text" : "expected a key");
    x->p++;
    if (read_string(x, &text, &len) < 0)
        return -EINVAL;
    if (memchr(text, 0, len))
        return invalid(x, "NUL in a key");
    skip_space(x);
    if (x->p == x->end || *x->p != ':')
        return invalid(x, "expected ':'");
    x->p++;
    *ret = json_atom_get(text, len);
    return 0;
}

/* Behind a value of a container: 1 = another follows, 0 = the end. */
static int read_separator(struct parser *x, char close)
{
    skip_space(x);
    if (x->p == x->end)
        return invalid(x, "unexpected end of text");
    char c = *x->p++;
    if (c == ',')
        return 1;
    if (c == close)
        return 0;
    x->p--;
    return invalid(x, close == '}' ? "expected ',' or '}'" : "expected ',' or ']'");
}

static int read_object(struct parser *x, const struct place *outer, struct json **ret)
{
    size_t from = x->count;
    int r = 1;

    skip_space(x);
    if (x->p < x->end && *x->p == '}') {
        x->p++;
        r = 0;
    }
    while (r == 1) {
        struct json_atom *key = NULL;
        struct json *value = NULL;
        skip_space(x);
        if ((r = read_key(x, &key)) < 0)
            break;
        const struct place place = {.outer = outer, .key = key};
        r = read_value(x, &place, &value);
        push(x, key, value); /* in any case: the clean-up finds it there */
        if (r == 0)
            r = read_separator(x, '}');
    }
    return r < 0 ? r : finish_object(x, outer, from, ret);
}

static int read_array(struct parser *x, const struct place *outer, struct json **ret)
{
    size_t from = x->count;
    int r = 1;

    skip_space(x);
    if (x->p < x->end && *x->p == ']') {
        x->p++;
        r = 0;
    }
    while (r == 1) {
        const struct place place = {.outer = outer, .index = x->count - from};
        struct json *value = NULL;
        r = read_value(x, &place, &value);
        push(x, NULL, value); /* in any case, as above */
        if (r == 0)
            r = read_separator(x, ']');
    }
    if (r < 0)
        return r;
    *ret = json_list_make(x->count - from);
    for (size_t i = from; i < x->count; i++)
        json_push(*ret, x->members[i].value);
    x->count = from;
    return 0;
}

static int read_word(struct parser *x, const char *word, struct json *value, struct json **ret)
{
    size_t len = strlen(word);

    if ((size_t)(x->end - x->p) < len || memcmp(x->p, word, len) != 0)
        return invalid(x, "unexpected character");
    x->p += len;
    *ret = value;
    return 0;
}

static int read_container(struct parser *x, const struct place *place, struct json **ret)
{
    if (++x->depth > JSON_DEPTH_MAX)
        return invalid(x, "nested too deeply");
    int r = *x->p++ == '{' ? read_object(x, place, ret) : read_array(x, place, ret);
    x->depth--;
    return r;
}

static int read_value(struct parser *x, const struct place *place, struct json **ret)
{
    const char *text;
    size_t len;

    skip_space(x);
    if (x->p == x->end)
        return invalid(x, "unexpected end of text");
    switch (*x->p) {
    case '{':
    case '[':
        return read_container(x, place, ret);
    case '"':
        x->p++;
        if (read_string(x, &text, &len) < 0)
            return -EINVAL;
        *ret = json_string_n(text, len);
        return 0;
    case 't':
        return read_word(x, "true", json_boolean(true), ret);
    case 'f':
        return read_word(x, "false", json_boolean(false), ret);
    case 'n':
        return read_word(x, "null", NULL, ret);
    default:
        if (*x->p != '-' && !digit_at(x))
            return invalid(x, "unexpected character");
        *ret = read_number(x);
        return *ret ? 0 : -EINVAL;
    }
}

struct json *json_parse_with(const char *text, size_t len, const struct json_parse_options *options, struct error *err)
{
    struct parser x = {.text = text, .p = text, .end = text + len, .options = options, .err = err};
    struct json *v = NULL;
    int r;

    if (len > INT_MAX) {
        (void)error_set(err, EFBIG, "JSON text is too large");
        return NULL;
    }
    r = len == 0 ? error_set(err, EINVAL, "invalid JSON: empty text") : read_value(&x, NULL, &v);
    if (r == 0) {
        skip_space(&x);
        if (x.p < x.end)
            r = invalid(&x, "unexpected text behind the value");
    }
    if (r < 0)
        json_unref(take_ptr(v));
    for (size_t i = 0; i < x.count; i++) { /* of what was not complete */
        if (x.members[i].key)
            json_atom_put(x.members[i].key);
        json_unref(x.members[i].value);
    }
    free(x.members);
    strbuf_free(&x.scratch);
    return v;
}

struct json *json_parse(const char *text, size_t len, struct error *err)
{
    return json_parse_with(text, len, NULL, err);
}
