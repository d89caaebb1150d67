#include "base/strutil.h"

#include "base/memory.h"

#include <ctype.h>
#include <errno.h>

const char *str_skip_prefix(const char *s, const char *prefix)
{
    size_t n = strlen(prefix);

    return strncmp(s, prefix, n) == 0 ? s + n : NULL;
}

bool str_has_suffix(const char *s, const char *suffix)
{
    size_t ls = strlen(s), lx = strlen(suffix);

    return ls >= lx && streq(s + ls - lx, suffix);
}

bool parse_u64(const char *s, uint64_t *ret)
{
    uint64_t value = 0;

    if (!*s)
        return false;
    for (; *s; s++) {
        if (*s < '0' || *s > '9')
            return false;
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, (uint64_t)(*s - '0'), &value))
            return false;
    }
    *ret = value;
    return true;
}

bool parse_i64(const char *s, int64_t *ret)
{
    bool negative = *s == '-';
    uint64_t value;

    if (!parse_u64(s + negative, &value) || value > (uint64_t)INT64_MAX + negative)
        return false;
    *ret = negative ? -(int64_t)(value - 1) - 1 : (int64_t)value;
    if (negative && value == 0)
        *ret = 0;
    return true;
}

size_t utf8_len(const char *text, const char *end)
{
    const unsigned char *p = (const unsigned char *)text;
    size_t n = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : p[0] < 0xf5 ? 4 : 0;

    if (!n || (size_t)(end - text) < n)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    bool overlong = (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xf0 && p[1] < 0x90);
    bool outside = (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf4 && p[1] > 0x8f);

    return overlong || outside ? 0 : n;
}

bool utf8_valid(const char *s, size_t len)
{
    for (const char *end = s + len; s < end;) {
        size_t n = utf8_len(s, end);
        if (!n)
            return false;
        s += n;
    }
    return true;
}

size_t utf8_cut(const char *s, size_t len, size_t max)
{
    if (len <= max)
        return len;
    while (max > 0 && ((unsigned char)s[max] & 0xc0) == 0x80)
        max--;
    return max;
}

bool parse_duration(const char *s, int64_t *ret_ns)
{
    static const struct {
        const char *unit;
        int64_t ns;
    } units[] = {{"ms", 1000000}, {"us", 1000}, {"ns", 1}, {"h", 3600000000000}, {"m", 60000000000}, {"s", 1000000000}};
    int64_t total = 0, plain;

    if (parse_i64(s, &plain))
        return plain >= 0 && !__builtin_mul_overflow(plain, 1000000000, ret_ns);
    if (!*s)
        return false;
    while (*s) {
        int64_t n = 0, part = 0;
        const char *start = s;

        for (; isdigit((unsigned char)*s); s++)
            if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, *s - '0', &n))
                return false;
        if (s == start)
            return false;
        size_t i;
        for (i = 0; i < ARRAY_LEN(units); i++) {
            const char *rest = str_skip_prefix(s, units[i].unit);
            if (rest) {
                s = rest;
                break;
            }
        }
        if (i == ARRAY_LEN(units) || __builtin_mul_overflow(n, units[i].ns, &part) ||
            __builtin_add_overflow(total, part, &total))
            return false;
    }
    *ret_ns = total;
    return true;
}

size_t strv_len(char *const *v)
{
    size_t n = 0;

    while (v && v[n])
        n++;
    return n;
}

char **strv_append(char **v, char *s)
{
    size_t n = strv_len(v);

    v = xreallocarray(v, n + 2, sizeof(*v));
    v[n] = s;
    v[n + 1] = NULL;
    return v;
}

char **strv_copy(char *const *v)
{
    size_t n = strv_len(v);
    char **copy = xcalloc(n + 1, sizeof(*copy));

    for (size_t i = 0; i < n; i++)
        copy[i] = xstrdup(v[i]);
    return copy;
}

void strv_free(char **v)
{
    for (size_t i = 0; v && v[i]; i++)
        free(v[i]);
    free(v);
}

uint32_t fnv1a32(const char *s)
{
    uint32_t h = 2166136261u;

    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 16777619u;
    return h;
}
