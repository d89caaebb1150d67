#include "kube/quantity.h"

#include "base/memory.h"
#include "base/strutil.h"

#include <ctype.h>
#include <inttypes.h>

#define NANO ((__int128)1000000000)
#define EXA ((__int128)1000000000000000000)
/* 2^63 units: what a quantity may hold at most. */
#define LIMIT ((__int128)INT64_MAX * NANO)
/* While the digits are read: a suffix that makes the number smaller is still to come. */
#define DIGITS_LIMIT (LIMIT * NANO)

static const struct suffix {
    const char *text;
    int base, exponent; /* 1000^exponent or 1024^exponent */
} suffixes[] = {{"n", 1000, -3}, {"u", 1000, -2}, {"m", 1000, -1}, {"", 1000, 0},  {"k", 1000, 1},  {"M", 1000, 2},
                {"G", 1000, 3},  {"T", 1000, 4},  {"P", 1000, 5},  {"E", 1000, 6}, {"Ki", 1024, 1}, {"Mi", 1024, 2},
                {"Gi", 1024, 3}, {"Ti", 1024, 4}, {"Pi", 1024, 5}, {"Ei", 1024, 6}};

/* value * factor, clamped to limit. */
static __int128 scale_up(__int128 value, int64_t factor, __int128 limit)
{
    __int128 result;

    return __builtin_mul_overflow(value, (__int128)factor, &result) || result > limit ? limit : result;
}

static __int128 scale_down(__int128 value, int64_t divisor)
{
    return value / divisor + (value % divisor != 0);
}

static __int128 power(__int128 value, int64_t base, int64_t exponent)
{
    for (; exponent > 0 && value < LIMIT; exponent--)
        value = scale_up(value, base, LIMIT);
    for (; exponent < 0 && value > 1; exponent++)
        value = scale_down(value, base);
    return value;
}

/* Digits with at most one point, in nano-units; *p moves behind them. */
static bool parse_number(const char **p, __int128 *ret)
{
    __int128 value = 0, unit = NANO;
    bool digits = false, point = false;

    for (; **p == '.' || isdigit((unsigned char)**p); (*p)++) {
        if (**p == '.') {
            if (point)
                return false;
            point = true;
            continue;
        }
        digits = true;
        int d = **p - '0';
        if (!point) {
            value = scale_up(value, 10, DIGITS_LIMIT);
            value = MIN(value + d * NANO, DIGITS_LIMIT);
        } else if (unit > 1) {
            unit /= 10;
            value += d * unit;
        } else if (d > 0 && unit == 1) {
            value += 1; /* finer than we hold: up, once */
            unit = 0;
        }
    }
    *ret = value;
    return digits;
}

static int bad(const char *text, struct error *err)
{
    return error_set(err, EINVAL, "\"%s\" is not a quantity such as 100m, 1.5 or 512Mi", text);
}

int quantity_parse(const char *text, struct quantity *ret, struct error *err)
{
    const char *p = text;
    bool negative = *p == '-';
    __int128 value;

    if (*p == '-' || *p == '+')
        p++;
    if (!parse_number(&p, &value))
        return bad(text, err);
    *ret = (struct quantity){0};
    if ((*p == 'e' || *p == 'E') && (isdigit((unsigned char)p[1]) || p[1] == '-' || p[1] == '+')) {
        int64_t exponent;
        if (!parse_i64(p[1] == '+' ? p + 2 : p + 1, &exponent) || exponent > 1000 || exponent < -1000)
            return bad(text, err);
        value = power(value, 10, exponent);
    } else {
        size_t i;
        for (i = 0; i < ARRAY_LEN(suffixes) && !streq(suffixes[i].text, p); i++)
            ;
        if (i == ARRAY_LEN(suffixes))
            return bad(text, err);
        value = power(value, suffixes[i].base, suffixes[i].exponent);
        ret->binary = suffixes[i].base == 1024;
    }
    value = MIN(value, LIMIT);
    ret->nano = negative ? -value : value;
    return 0;
}

int quantity_compare(const struct quantity *a, const struct quantity *b)
{
    return a->nano < b->nano ? -1 : a->nano > b->nano;
}

static int64_t round_up(__int128 nano, __int128 unit)
{
    __int128 v = nano / unit;

    if (nano % unit != 0)
        v += nano > 0 ? 1 : -1;
    return v > INT64_MAX ? INT64_MAX : v < INT64_MIN ? INT64_MIN : (int64_t)v;
}

int64_t quantity_value(const struct quantity *q)
{
    return round_up(q->nano, NANO);
}

int64_t quantity_milli(const struct quantity *q)
{
    return round_up(q->nano, NANO / 1000);
}

int quantity_parse_bytes(const char *text, int64_t *ret, struct error *err)
{
    struct quantity q;
    int r = quantity_parse(text, &q, err);

    if (r == 0)
        *ret = quantity_value(&q);
    return r;
}

int quantity_parse_milli(const char *text, int64_t *ret, struct error *err)
{
    struct quantity q;
    int r = quantity_parse(text, &q, err);

    if (r == 0)
        *ret = quantity_milli(&q);
    return r;
}

char *quantity_format(const struct quantity *q)
{
    __int128 abs = q->nano < 0 ? -q->nano : q->nano;
    const char *sign = q->nano < 0 ? "-" : "";
    size_t best = 0;

    if (abs == 0)
        return xstrdup("0");
    /* The largest suffix of its family that leaves a whole number. Binary needs whole units. */
    bool binary = q->binary && abs % NANO == 0 && abs / NANO >= 1024;
    for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
        __int128 unit = power(NANO, suffixes[i].base, suffixes[i].exponent);
        if ((suffixes[i].base == 1024) != binary && !(binary && !*suffixes[i].text))
            continue;
        if (abs % unit == 0)
            best = i;
    }
    __int128 unit = power(NANO, suffixes[best].base, suffixes[best].exponent);
    __int128 count = abs / unit;
    /* printf has nothing for 128 bits: the part above 10^18 goes first. */
    int64_t high = (int64_t)(count / EXA), low = (int64_t)(count % EXA);
    if (high)
        return xasprintf("%s%" PRId64 "%018" PRId64 "%s", sign, high, low, suffixes[best].text);
    return xasprintf("%s%" PRId64 "%s", sign, low, suffixes[best].text);
}

char *quantity_json_text(const struct json *v)
{
    return json_is(v, JSON_STRING) ? xstrdup(json_str(v)) : json_text(v);
}

int quantity_of_json(const struct json *v, struct quantity *ret)
{
    _cleanup_free_ char *text = quantity_json_text(v);

    return quantity_parse(text, ret, NULL);
}
