#include "apiserver/cel/internal.h"
#include "apiserver/field_errors.h"
#include "base/memory.h"

#include <ctype.h>
#include <inttypes.h>

static bool is_continuation(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

size_t cel_char_count(struct cel_string s)
{
    size_t n = 0;

    for (size_t i = 0; i < s.len; i++)
        n += !is_continuation(s.data[i]);
    return n;
}

int64_t cel_char_offset(struct cel_string s, int64_t index)
{
    size_t i = 0;

    if (index < 0)
        return -1;
    for (; index > 0 && i < s.len; index--)
        for (i++; i < s.len && is_continuation(s.data[i]); i++)
            ;
    return index == 0 ? (int64_t)i : -1;
}

/* Work in proportion to a text. */
static bool charge_text(struct cel_eval *ev, struct cel_string s)
{
    return cel_charge(ev, s.len / 10 + 1);
}

/* All arguments are strings, and reading them is paid for. */
static bool strings(struct cel_eval *ev, const struct cel_value *a, size_t count, struct cel_value *ret)
{
    for (size_t i = 0; i < count; i++) {
        if (!cel_is(&a[i], CEL_STRING)) {
            *ret = cel_no_overload();
            return false;
        }
        if (charge_text(ev, a[i].s)) {
            *ret = cel_exhausted();
            return false;
        }
    }
    return true;
}

static const char *find_text(struct cel_string s, size_t from, struct cel_string what)
{
    if (from > s.len)
        return NULL;
    if (what.len == 0)
        return s.data + from;
    return memmem(s.data + from, s.len - from, what.data, what.len);
}

static struct cel_value string_contains(struct cel_eval *ev, const struct cel_value *a, size_t count)
{
    struct cel_value bad;

    return strings(ev, a, count, &bad) ? cel_bool(find_text(a[0].s, 0, a[1].s) != NULL) : bad;
}

static struct cel_value string_starts(struct cel_eval *ev, const struct cel_value *a, size_t count)
{
    struct cel_value bad;

    if (!strings(ev, a, count, &bad))
        return bad;
    return cel_bool(a[0].s.len >= a[1].s.len && memcmp(a[0].s.data, a[1].s.data, a[1].s.len) == 0);
}

static struct cel_value string_ends(struct cel_eval *ev, const struct cel_value *a, size_t count)
{
    struct cel_value bad;

    if (!strings(ev, a, count, &bad))
        return bad;
    return cel_bool(a[0].s.len >= a[1].s.len &&
                    memcmp(a[0].s.data + a[0].s.len - a[1].s.len, a[1].s.data, a[1].s.len) == 0);
}

/* A part of a, which lives as long. */
static struct cel_value part(struct cel_string s, size_t from, size_t to)
{
    return cel_string_value(s.data + from, to - from);
}

static struct cel_value string_substring(struct cel_eval *ev, const struct cel_value *a, size_t count)
{
    struct cel_value bad;

    if (!strings(ev, a, 1, &bad))
        return bad;
    if (!cel_is(&a[1], CEL_INT) || (count == 3 && !cel_is(&a[2], CEL_INT)))
        return cel_no_overload();
    int64_t from = cel_char_offset(a[0].s, a[1].i);
    int64_t to = count == 3 ? cel_char_offset(a[0].s, a[2].i) : (int64_t)a[0].s.len;
    if (from < 0 || to < 0)
        return cel_errorf(ev, "index out of range: %" PRId64, from < 0 ? a[1].i : a[2].i);
    if (from > to)
        return cel_errorf(ev, "invalid substring range. start: %" PRId64 ", end: %" PRId64, a[1].i, a[2].i);
    return part(a[0].s, (size_t)from, (size_t)to);
}

static struct cel_value string_char_at(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    struct cel_value bad;

    if (!strings(ev, a, 1, &bad))
        return bad;
    if (!cel_is(&a[1], CEL_INT))
        return cel_no_overload();
    int64_t from = cel_char_offset(a[0].s, a[1].i);
    if (from < 0)
        return cel_errorf(ev, "index out of range: %" PRId64, a[1].i);
    int64_t to = cel_char_offset(a[0].s, a[1].i + 1);
    return part(a[0].s, (size_t)from, to < 0 ? a[0].s.len : (size_t)to);
}

static struct cel_value char_index(struct cel_string s, const char *where)
{
    return cel_int(where ? (int64_t)cel_char_count((struct cel_string){s.data, (size_t)(where - s.data)}) : -1);
}

static struct cel_value list_index_of(struct cel_eval *ev, const struct cel_value *a, bool last)
{
    int64_t found = -1;

    for (size_t i = 0; i < cel_list_size(a[0].list) && (last || found < 0); i++) {
        struct cel_value item = cel_list_at(ev, a[0].list, i);
        if (cel_equal(ev, &item, &a[1]))
            found = (int64_t)i;
    }
    return cel_int(found);
}

/* Of a string, or of a list. */
static struct cel_value index_of(struct cel_eval *ev, const struct cel_value *a, size_t count)
{
    struct cel_value bad;
    int64_t from = 0;

    if (cel_is(&a[0], CEL_LIST) && count == 2)
        return list_index_of(ev, a, false);
    if (!strings(ev, a, 2, &bad))
        return bad;
    if (count == 3 && !cel_is(&a[2], CEL_INT))
        return cel_no_overload();
    if (count == 3)
        from = cel_char_offset(a[0].s, a[2].i);
    if (from < 0)
        return cel_errorf(ev, "index out of range: %" PRId64, a[2].i);
    return char_index(a[0].s, find_text(a[0].s, (size_t)from, a[1].s));
}

static struct cel_value last_index_of(struct cel_eval *ev, const struct cel_value *a, size_t count)
{
    struct cel_value bad;

    if (cel_is(&a[0], CEL_LIST) && count == 2)
        return list_index_of(ev, a, true);
    if (!strings(ev, a, 2, &bad))
        return bad;
    if (count == 3 && !cel_is(&a[2], CEL_INT))
        return cel_no_overload();
    int64_t from = count == 3 ? cel_char_offset(a[0].s, a[2].i) : (int64_t)a[0].s.len;
    if (from < 0)
        return cel_errorf(ev, "index out of range: %" PRId64, a[2].i);
    struct cel_string s = a[0].s, what = a[1].s;
    if (what.len > s.len)
        return cel_int(-1);
    if (cel_charge(ev, s.len * MIN(what.len, (size_t)16) / 10))
        return cel_exhausted();
    for (size_t i = MIN((size_t)from, s.len - what.len) + 1; i-- > 0;)
        if (memcmp(s.data + i, what.data, what.len) == 0)
            return char_index(s, s.data + i);
    return cel_int(-1);
}

static struct cel_value change_case(struct cel_eval *ev, const struct cel_value *a, int (*change)(int))
{
    struct cel_value bad;

    if (!strings(ev, a, 1, &bad))
        return bad;
    char *text = arena_strndup(&ev->arena, a->s.data, a->s.len);
    for (size_t i = 0; i < a->s.len; i++)
        if (isascii((unsigned char)text[i]))
            text[i] = (char)change((unsigned char)text[i]);
    return cel_string_value(text, a->s.len);
}

static struct cel_value string_lower(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    return change_case(ev, a, tolower);
}

static struct cel_value string_upper(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    return change_case(ev, a, toupper);
}

/* The bytes of the white space at s, or 0. */
static size_t blank_at(const char *s, size_t len)
{
    static const char *const wide[] = {"\xc2\x85",     "\xc2\xa0",     "\xe1\x9a\x80", "\xe2\x80\xa8",
                                       "\xe2\x80\xa9", "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80"};

    if (len && isspace((unsigned char)*s))
        return 1;
    if (len >= 3 && memcmp(s, "\xe2\x80", 2) == 0 && (unsigned char)s[2] >= 0x80 && (unsigned char)s[2] <= 0x8a)
        return 3;
    for (size_t i = 0; i < ARRAY_LEN(wide); i++)
        if (len >= strlen(wide[i]) && memcmp(s, wide[i], strlen(wide[i])) == 0)
            return strlen(wide[i]);
    return 0;
}

static struct cel_value string_trim(struct cel_eval *ev, const struct cel_value *a, size_t count)
{
    struct cel_value bad;
    size_t from = 0, to, n;

    if (!strings(ev, a, count, &bad))
        return bad;
    struct cel_string s = a->s;
    while ((n = blank_at(s.data + from, s.len - from)))
        from += n;
    to = from;
    for (size_t i = from; i < s.len; i += n ? n : 1) {
        n = blank_at(s.data + i, s.len - i);
        if (!n)
            to = i + 1;
    }
    return part(s, from, to);
}

static struct cel_value string_reverse(struct cel_eval *ev, const struct cel_value *a, size_t count)
{
    struct cel_value bad;

    if (!strings(ev, a, count, &bad))
        return bad;
    char *text = arena_alloc(&ev->arena, a->s.len + 1);
    size_t out = a->s.len;
    for (size_t i = 0, n; i < a->s.len; i += n) {
        for (n = 1; i + n < a->s.len && is_continuation(a->s.data[i + n]); n++)
            ;
        out -= n;
        memcpy(text + out, a->s.data + i, n);
    }
    return cel_string_value(text, a->s.len);
}

static struct cel_value string_replace(struct cel_eval *ev, const struct cel_value *a, size_t count)
{
    _cleanup_(strbuf_free) struct strbuf out = {0};
    struct cel_value bad;
    size_t at = 0;

    if (!strings(ev, a, 3, &bad))
        return bad;
    if (count == 4 && !cel_is(&a[3], CEL_INT))
        return cel_no_overload();
    int64_t left = count == 4 ? a[3].i : -1;
    struct cel_string s = a[0].s, old = a[1].s, new = a[2].s;
    while (left != 0) {
        const char *hit = find_text(s, at, old);
        if (!hit)
            break;
        size_t next = (size_t)(hit - s.data);
        if (cel_charge(ev, (new.len + next - at) / 10 + 1) || out.len > CEL_MEMORY_MAX)
            return cel_exhausted();
        strbuf_add(&out, s.data + at, next - at);
        strbuf_add(&out, new.data, new.len);
        at = next + old.len;
        left -= left > 0;
        if (old.len == 0) { /* before every character, and at the end */
            if (at >= s.len)
                break;
            int64_t one = cel_char_offset((struct cel_string){s.data + at, s.len - at}, 1);
            strbuf_add(&out, s.data + at, (size_t)one);
            at += (size_t)one;
        }
    }
    strbuf_add(&out, s.data + at, s.len - at);
    return cel_string_take(ev, &out);
}

/* Values while their number is not known. */
struct values {
    struct cel_value *items;
    size_t count, capacity;
};

static void values_free(struct values *v)
{
    free(v->items);
}

static bool values_add(struct cel_eval *ev, struct values *v, struct cel_value item)
{
    GROW(v->items, v->capacity, v->count + 1);
    v->items[v->count++] = item;
    return !cel_charge(ev, 1);
}

static struct cel_value values_list(struct cel_eval *ev, const struct values *v)
{
    struct cel_value *copy = arena_array(&ev->arena, v->count, sizeof(*copy));

    if (v->count)
        memcpy(copy, v->items, v->count * sizeof(*copy));
    return cel_list_value(ev, copy, v->count);
}

static struct cel_value string_split(struct cel_eval *ev, const struct cel_value *a, size_t count)
{
    _cleanup_(values_free) struct values parts = {0};
    struct cel_value bad;
    size_t at = 0;

    if (!strings(ev, a, 2, &bad))
        return bad;
    if (count == 3 && !cel_is(&a[2], CEL_INT))
        return cel_no_overload();
    int64_t limit = count == 3 ? a[2].i : -1;
    struct cel_string s = a[0].s, by = a[1].s;
    if (limit == 0)
        return values_list(ev, &parts);
    while (limit < 0 || (int64_t)parts.count < limit - 1) {
        const char *hit = by.len ? find_text(s, at, by) : NULL;
        if (by.len == 0) { /* single characters */
            int64_t one = cel_char_offset((struct cel_string){s.data + at, s.len - at}, 1);
            if (one < 0 || at + (size_t)one >= s.len)
                break;
            hit = s.data + at + one;
        }
        if (!hit)
            break;
        if (!values_add(ev, &parts, part(s, at, (size_t)(hit - s.data))))
            return cel_exhausted();
        at = (size_t)(hit - s.data) + by.len;
    }
    if (!(by.len == 0 && s.len == 0) && !values_add(ev, &parts, part(s, at, s.len)))
        return cel_exhausted();
    return values_list(ev, &parts);
}

static struct cel_value list_join(struct cel_eval *ev, const struct cel_value *a, size_t count)
{
    _cleanup_(strbuf_free) struct strbuf out = {0};

    if (!cel_is(&a[0], CEL_LIST) || (count == 2 && !cel_is(&a[1], CEL_STRING)))
        return cel_no_overload();
    for (size_t i = 0; i < cel_list_size(a[0].list); i++) {
        struct cel_value item = cel_list_at(ev, a[0].list, i);
        if (!cel_is(&item, CEL_STRING))
            return cel_no_overload();
        if (i && count == 2)
            strbuf_add(&out, a[1].s.data, a[1].s.len);
        strbuf_add(&out, item.s.data, item.s.len);
        if (charge_text(ev, item.s) || out.len > CEL_MEMORY_MAX)
            return cel_exhausted();
    }
    return cel_string_take(ev, &out);
}

static struct cel_value strings_quote(struct cel_eval *ev, const struct cel_value *a, size_t count)
{
    _cleanup_(strbuf_free) struct strbuf out = {0};
    struct cel_value bad;

    if (!strings(ev, a, count, &bad))
        return bad;
    field_quote(a->s.data, a->s.len, &out);
    return cel_string_take(ev, &out);
}

/* ---- size ---- */

static struct cel_value size_of(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    switch (a->type) {
    case CEL_STRING:
        return charge_text(ev, a->s) ? cel_exhausted() : cel_int((int64_t)cel_char_count(a->s));
    case CEL_BYTES:
        return cel_int((int64_t)a->s.len);
    case CEL_LIST:
        return cel_int((int64_t)cel_list_size(a->list));
    case CEL_MAP:
        return cel_int((int64_t)cel_map_size(a->map));
    default:
        return cel_no_overload();
    }
}

/* ---- regular expressions ---- */

int cel_add_pattern(struct cel_program *p, struct cel_string text, struct error *err)
{
    char *copy = arena_strndup(&p->arena, text.data, text.len);
    struct regex *re = regex_compile(copy, err);

    if (!re)
        return -EINVAL;
    struct cel_pattern *x = arena_alloc(&p->arena, sizeof(*x));
    *x = (struct cel_pattern){.next = p->patterns, .text = {copy, text.len}, .regex = re};
    p->patterns = x;
    return 0;
}

static bool same_text(struct cel_string a, struct cel_string b)
{
    return a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

/* NULL with *ret an error. */
static struct regex *pattern(struct cel_eval *ev, struct cel_string text, struct cel_value *ret)
{
    _cleanup_error_ struct error err = ERROR_INIT;

    for (const struct cel_pattern *p = ev->program->patterns; p; p = p->next)
        if (same_text(p->text, text))
            return p->regex;
    if (ev->last.regex && same_text(ev->last.text, text))
        return ev->last.regex;
    if (cel_charge(ev, text.len * 10 + 100)) {
        *ret = cel_exhausted();
        return NULL;
    }
    const char *copy = arena_strndup(&ev->arena, text.data, text.len);
    regex_free(ev->last.regex);
    ev->last = (struct cel_pattern){.text = {copy, text.len}, .regex = regex_compile(copy, &err)};
    if (!ev->last.regex)
        *ret = cel_errorf(ev, "%s", error_text(&err));
    return ev->last.regex;
}

/* The pattern in a[1], for the text in a[0]; what a match costs is paid for. */
static struct regex *open_match(struct cel_eval *ev, const struct cel_value *a, struct cel_value *ret)
{
    if (!strings(ev, a, 2, ret))
        return NULL;
    struct regex *re = pattern(ev, a[1].s, ret);
    if (re && cel_charge(ev, (a[0].s.len / 10 + 1) * (a[1].s.len / 4 + 1))) {
        *ret = cel_exhausted();
        return NULL;
    }
    return re;
}

/* all() and exists() go on after errors: this one costs what it took, and so cannot be had many times. */
#define HARD_MATCH_COST (CEL_COST_MAX / 20)

static struct cel_value too_hard(struct cel_eval *ev)
{
    if (cel_charge(ev, HARD_MATCH_COST))
        return cel_exhausted();
    return cel_errorf(ev, "the regular expression takes too long on this text");
}

static struct cel_value string_matches(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    struct cel_value bad;
    struct regex *re = open_match(ev, a, &bad);

    if (!re)
        return bad;
    int r = regex_find(re, a[0].s.data, a[0].s.len, 0, NULL, NULL);
    return r < 0 ? too_hard(ev) : cel_bool(r);
}

static struct cel_value string_find(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    struct cel_value bad;
    struct regex *re = open_match(ev, a, &bad);
    size_t start = 0, end = 0;

    if (!re)
        return bad;
    int r = regex_find(re, a[0].s.data, a[0].s.len, 0, &start, &end);
    return r < 0 ? too_hard(ev) : part(a[0].s, start, r ? end : start);
}

static struct cel_value string_find_all(struct cel_eval *ev, const struct cel_value *a, size_t count)
{
    _cleanup_(values_free) struct values found = {0};
    struct cel_value bad;
    struct regex *re = open_match(ev, a, &bad);
    struct cel_string s = a[0].s;

    if (!re)
        return bad;
    if (count == 3 && !cel_is(&a[2], CEL_INT))
        return cel_no_overload();
    for (size_t at = 0; at <= s.len && (count == 2 || a[2].i < 0 || (int64_t)found.count < a[2].i);) {
        size_t start, end;
        int r = regex_find(re, s.data, s.len, at, &start, &end);
        if (r < 0)
            return too_hard(ev);
        if (r == 0)
            break;
        if (!values_add(ev, &found, part(s, start, end)) || cel_charge(ev, (end - at) / 10 + 1))
            return cel_exhausted();
        int64_t one = cel_char_offset((struct cel_string){s.data + end, s.len - end}, 1);
        at = end > start ? end : one < 0 ? s.len + 1 : end + (size_t)one;
    }
    return values_list(ev, &found);
}

const struct cel_function cel_string_functions[] = {
    {"size", false, 1, 1, CEL_INT, size_of},
    {"size", true, 1, 1, CEL_INT, size_of},
    {"contains", true, 2, 2, CEL_BOOL, string_contains},
    {"startsWith", true, 2, 2, CEL_BOOL, string_starts},
    {"endsWith", true, 2, 2, CEL_BOOL, string_ends},
    {"matches", true, 2, 2, CEL_BOOL, string_matches},
    {"matches", false, 2, 2, CEL_BOOL, string_matches},
    {"find", true, 2, 2, CEL_STRING, string_find},
    {"findAll", true, 2, 3, CEL_LIST, string_find_all},
    {"split", true, 2, 3, CEL_LIST, string_split},
    {"join", true, 1, 2, CEL_STRING, list_join},
    {"replace", true, 3, 4, CEL_STRING, string_replace},
    {"lowerAscii", true, 1, 1, CEL_STRING, string_lower},
    {"upperAscii", true, 1, 1, CEL_STRING, string_upper},
    {"trim", true, 1, 1, CEL_STRING, string_trim},
    {"reverse", true, 1, 1, CEL_STRING, string_reverse},
    {"substring", true, 2, 3, CEL_STRING, string_substring},
    {"charAt", true, 2, 2, CEL_STRING, string_char_at},
    {"indexOf", true, 2, 3, CEL_INT, index_of},
    {"lastIndexOf", true, 2, 3, CEL_INT, last_index_of},
    {"strings.quote", false, 1, 1, CEL_STRING, strings_quote},
    {0},
};
