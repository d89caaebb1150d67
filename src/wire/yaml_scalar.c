#include "wire/yaml_scalar.h"

#include "base/memory.h"
#include "base/strutil.h"

#include <ctype.h>
#include <math.h>

/* Above this doubles are no longer exact integers. */
#define EXACT_DOUBLE_MAX 9007199254740992.0

static bool one_of(const char *s, const char *const *list)
{
    for (size_t i = 0; list[i]; i++)
        if (streq(s, list[i]))
            return true;
    return false;
}

/* The base of what stands behind the sign, and how long its prefix is. */
static int base_of(const char *digits, size_t *ret_prefix)
{
    *ret_prefix = 2;
    if (digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X'))
        return 16;
    if (digits[0] == '0' && (digits[1] == 'b' || digits[1] == 'B'))
        return 2;
    if (digits[0] == '0' && (digits[1] == 'o' || digits[1] == 'O'))
        return 8;
    *ret_prefix = digits[0] == '0' && digits[1] ? 1 : 0;
    return *ret_prefix ? 8 : 10;
}

static int digit_value(char c)
{
    unsigned char u = (unsigned char)c;

    return isdigit(u) ? u - '0' : isxdigit(u) ? tolower(u) - 'a' + 10 : 99;
}

static bool parse_integer(const char *s, int64_t *ret)
{
    bool negative = *s == '-';
    const char *p = s + (*s == '-' || *s == '+');
    size_t prefix;
    int base = base_of(p, &prefix);
    int64_t value = 0; /* counted downwards: the range reaches one further there */

    p += prefix;
    if (!*p)
        return false;
    for (; *p; p++) {
        int d = digit_value(*p);
        if (d >= base || __builtin_mul_overflow(value, base, &value) || __builtin_sub_overflow(value, d, &value))
            return false;
    }
    if (!negative && value == INT64_MIN)
        return false;
    *ret = negative ? value : -value;
    return true;
}

/* [-+]? ( .digits | digits [. digits?] ) ( [eE] [-+]? digits )? */
static bool is_float(const char *s)
{
    s += *s == '-' || *s == '+';
    size_t whole = strspn(s, "0123456789");
    s += whole;
    if (*s == '.') {
        size_t fraction = strspn(++s, "0123456789");
        if (!whole && !fraction)
            return false;
        s += fraction;
    } else if (!whole) {
        return false;
    }
    if (*s == 'e' || *s == 'E') {
        s++;
        s += *s == '-' || *s == '+';
        size_t exponent = strspn(s, "0123456789");
        if (!exponent)
            return false;
        s += exponent;
    }
    return !*s;
}

static struct json *number(const char *text)
{
    _cleanup_free_ char *plain = xstrdup(text);
    char *out = plain;
    int64_t i;

    for (const char *p = text; *p; p++)
        if (*p != '_')
            *out++ = *p;
    *out = '\0';
    if (*plain != '.' && parse_integer(plain, &i))
        return json_int(i);
    if (!is_float(plain))
        return json_string(text);
    double d = strtod(plain, NULL); /* the locale is never set: the point is a point */
    if (!isfinite(d))
        return json_string(text);
    return trunc(d) == d && fabs(d) < EXACT_DOUBLE_MAX ? json_int((int64_t)d) : json_double(d);
}

int yaml_resolve(const char *text, struct json **ret)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const trues[] = {"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON", "y", "Y", NULL};
    static const char *const falses[] = {"false", "False", "FALSE", "no", "No", "NO",
                                         "off",   "Off",   "OFF",   "n",  "N",  NULL};
    static const char *const unspeakable[] = {".nan",  ".NaN",  ".NAN",  ".inf",  ".Inf",  ".INF", "+.inf",
                                              "+.Inf", "+.INF", "-.inf", "-.Inf", "-.INF", NULL};

    *ret = NULL;
    if (one_of(text, unspeakable))
        return -ERANGE;
    if (one_of(text, nulls))
        return 0;
    if (one_of(text, trues) || one_of(text, falses))
        *ret = json_boolean(one_of(text, trues));
    else if (isdigit((unsigned char)*text) || *text == '-' || *text == '+' || *text == '.')
        *ret = number(text);
    else
        *ret = json_string(text);
    return 0;
}
