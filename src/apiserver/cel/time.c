/* Timestamps and durations: their texts and their parts. */
#include "apiserver/cel/internal.h"
#include "base/memory.h"
#include "base/timeutil.h"

#include <ctype.h>
#include <inttypes.h>

/* ---- the calendar ---- */

/* Days since 1970-01-01 in the proleptic Gregorian calendar; years from March make leap days the last of a year. */
static int64_t days_from_date(int64_t y, int m, int d)
{
    y -= m <= 2;
    int64_t era = (y >= 0 ? y : y - 399) / 400, year = y - era * 400;
    int64_t day = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;

    return era * 146097 + year * 365 + year / 4 - year / 100 + day - 719468;
}

static void date_from_days(int64_t days, int64_t *ret_y, int *ret_m, int *ret_d)
{
    days += 719468;
    int64_t era = (days >= 0 ? days : days - 146096) / 146097, day = days - era * 146097;
    int64_t year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
    int64_t rest = day - (365 * year + year / 4 - year / 100), month = (5 * rest + 2) / 153;

    *ret_d = (int)(rest - (153 * month + 2) / 5 + 1);
    *ret_m = (int)(month < 10 ? month + 3 : month - 9);
    *ret_y = year + era * 400 + (*ret_m <= 2);
}

static bool leap_year(int64_t y)
{
    return (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;
}

/* count digits at *p; -1 if there are not as many. */
static int64_t digits(const char **p, int count)
{
    int64_t value = 0;

    for (int i = 0; i < count; i++, (*p)++) {
        if (!isdigit((unsigned char)**p))
            return -1;
        value = value * 10 + (**p - '0');
    }
    return value;
}

static bool literal(const char **p, char c)
{
    return *(*p)++ == c;
}

static bool read_date(const char **p, int64_t *ret_days)
{
    static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int64_t y = digits(p, 4), m, d;

    if (y < 1 || !literal(p, '-') || (m = digits(p, 2)) < 1 || m > 12 || !literal(p, '-') || (d = digits(p, 2)) < 1)
        return false;
    if (d > lengths[m - 1] + (m == 2 && leap_year(y)))
        return false;
    *ret_days = days_from_date(y, (int)m, (int)d);
    return true;
}

/* "Z", "+01:00"; in seconds. */
static bool read_offset(const char **p, int64_t *ret)
{
    int sign = **p == '-' ? -1 : 1;
    int64_t h, m;

    *ret = 0;
    if (**p == 'Z' || **p == 'z') {
        (*p)++;
        return true;
    }
    if (**p != '+' && **p != '-')
        return false;
    (*p)++;
    if ((h = digits(p, 2)) < 0 || h > 23 || !literal(p, ':') || (m = digits(p, 2)) < 0 || m > 59)
        return false;
    *ret = sign * (h * 3600 + m * 60);
    return true;
}

static bool parse_timestamp(const char *p, struct cel_time *ret)
{
    int64_t days, h, m, s, offset;
    int32_t nanos = 0, unit = 100000000;

    if (!read_date(&p, &days) || (*p != 'T' && *p != 't'))
        return false;
    p++;
    if ((h = digits(&p, 2)) < 0 || h > 23 || !literal(&p, ':') || (m = digits(&p, 2)) < 0 || m > 59 ||
        !literal(&p, ':') || (s = digits(&p, 2)) < 0 || s > 59)
        return false;
    if (*p == '.') {
        if (!isdigit((unsigned char)p[1]))
            return false;
        for (p++; isdigit((unsigned char)*p); p++, unit /= 10)
            nanos += (*p - '0') * unit;
    }
    if (!read_offset(&p, &offset) || *p)
        return false;
    *ret = (struct cel_time){days * 86400 + h * 3600 + m * 60 + s - offset, nanos};
    return true;
}

#define TIME_TEXT_MAX 64

bool cel_parse_timestamp(struct cel_string s, struct cel_time *ret)
{
    char text[TIME_TEXT_MAX + 1];

    if (s.len > TIME_TEXT_MAX)
        return false;
    memcpy(text, s.data, s.len);
    text[s.len] = '\0';
    return strlen(text) == s.len && parse_timestamp(text, ret);
}

bool cel_parse_date(struct cel_string s, struct cel_time *ret)
{
    char text[11];
    const char *p = text;
    int64_t days;

    if (s.len != 10)
        return false;
    memcpy(text, s.data, 10);
    text[10] = '\0';
    if (!read_date(&p, &days) || *p)
        return false;
    *ret = (struct cel_time){days * 86400, 0};
    return true;
}

/* Go's form: "1h30m", "-1.5s", "0". */
bool cel_parse_duration(struct cel_string s, int64_t *ret_ns)
{
    static const struct {
        const char *unit;
        int64_t ns;
    } units[] = {{"ns", 1},       {"us", 1000},      {"\xc2\xb5s", 1000}, {"\xce\xbcs", 1000},
                 {"ms", 1000000}, {"s", 1000000000}, {"m", 60000000000},  {"h", 3600000000000}};
    char text[TIME_TEXT_MAX + 1];
    const char *p = text;
    __int128 total = 0;

    if (s.len == 0 || s.len > TIME_TEXT_MAX)
        return false;
    memcpy(text, s.data, s.len);
    text[s.len] = '\0';
    bool negative = *p == '-';
    if (*p == '-' || *p == '+')
        p++;
    if (strcmp(p, "0") == 0) {
        *ret_ns = 0;
        return true;
    }
    if (!*p)
        return false;
    while (*p) {
        __int128 whole = 0, fraction = 0, scale = 1;
        bool any = false;
        size_t i;
        for (; isdigit((unsigned char)*p); p++, any = true)
            if ((whole = whole * 10 + (*p - '0')) > INT64_MAX)
                return false;
        if (*p == '.')
            for (p++; isdigit((unsigned char)*p); p++, any = true)
                if (scale < 1000000000000000) {
                    fraction = fraction * 10 + (*p - '0');
                    scale *= 10;
                }
        for (i = 0; i < ARRAY_LEN(units); i++)
            if (strncmp(p, units[i].unit, strlen(units[i].unit)) == 0)
                break;
        if (!any || i == ARRAY_LEN(units))
            return false;
        p += strlen(units[i].unit);
        total += whole * units[i].ns + fraction * units[i].ns / scale;
        if (total > INT64_MAX)
            return false;
    }
    *ret_ns = (int64_t)(negative ? -total : total);
    return (size_t)(p - text) == s.len;
}

static void write_fraction(int64_t nanos, struct strbuf *out)
{
    int width = 9;

    if (nanos == 0)
        return;
    for (; nanos % 10 == 0; width--)
        nanos /= 10;
    strbuf_addf(out, ".%0*" PRId64, width, nanos);
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

void cel_write_timestamp(struct cel_time t, struct strbuf *out)
{
    int64_t days = floor_div(t.seconds, 86400), rest = t.seconds - days * 86400, y;
    int m, d;

    date_from_days(days, &y, &m, &d);
    strbuf_addf(out, "%04" PRId64 "-%02d-%02dT%02d:%02d:%02d", y, m, d, (int)(rest / 3600), (int)(rest / 60 % 60),
                (int)(rest % 60));
    write_fraction(t.nanos, out);
    strbuf_addc(out, 'Z');
}

/* Seconds and their fraction, as string(duration) is in CEL. */
void cel_write_duration(int64_t ns, struct strbuf *out)
{
    uint64_t abs = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;

    strbuf_addf(out, "%s%" PRIu64, ns < 0 ? "-" : "", abs / 1000000000);
    write_fraction((int64_t)(abs % 1000000000), out);
    strbuf_addc(out, 's');
}

/* ---- functions ---- */

static struct cel_value make_timestamp(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    struct cel_time t;

    if (cel_is(a, CEL_TIMESTAMP))
        return *a;
    if (cel_is(a, CEL_INT))
        return cel_time_value(ev, (struct cel_time){a->i, 0});
    if (!cel_is(a, CEL_STRING))
        return cel_no_overload();
    return cel_parse_timestamp(a->s, &t) ? cel_time_value(ev, t) : cel_errorf(ev, "invalid timestamp");
}

static struct cel_value make_duration(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    int64_t ns;

    if (cel_is(a, CEL_DURATION))
        return *a;
    if (!cel_is(a, CEL_STRING))
        return cel_no_overload();
    return cel_parse_duration(a->s, &ns) ? (struct cel_value){.type = CEL_DURATION, .i = ns}
                                         : cel_errorf(ev, "invalid duration");
}

enum part { YEAR, MONTH, DAY_OF_YEAR, DAY_OF_MONTH, DATE, DAY_OF_WEEK, HOURS, MINUTES, SECONDS, MILLISECONDS };

/* "UTC", "+01:00", "-02:30"; time zones by name are not known here. */
static bool zone_offset(const struct cel_value *zone, int64_t *ret)
{
    char text[8];
    const char *p = text;

    if (!cel_is(zone, CEL_STRING) || zone->s.len >= sizeof(text))
        return false;
    memcpy(text, zone->s.data, zone->s.len);
    text[zone->s.len] = '\0';
    if (strcmp(text, "UTC") == 0 || strcmp(text, "") == 0) {
        *ret = 0;
        return true;
    }
    if (isdigit((unsigned char)*p)) { /* a sign may be missing */
        int64_t h = digits(&p, 2), m = literal(&p, ':') ? digits(&p, 2) : -1;
        *ret = h * 3600 + m * 60;
        return h >= 0 && h < 24 && m >= 0 && m < 60 && !*p;
    }
    return *p != 'Z' && *p != 'z' && read_offset(&p, ret) && !*p;
}

static struct cel_value time_part(struct cel_eval *ev, const struct cel_value *a, size_t count, enum part part)
{
    int64_t offset = 0, y;
    int m, d;

    if (count == 2 && !zone_offset(&a[1], &offset))
        return cel_errorf(ev, "unknown time zone");
    int64_t seconds = a->time->seconds + offset, days = floor_div(seconds, 86400), rest = seconds - days * 86400;
    date_from_days(days, &y, &m, &d);
    switch (part) {
    case YEAR:
        return cel_int(y);
    case MONTH:
        return cel_int(m - 1);
    case DAY_OF_YEAR:
        return cel_int(days - days_from_date(y, 1, 1));
    case DAY_OF_MONTH:
        return cel_int(d - 1);
    case DATE:
        return cel_int(d);
    case DAY_OF_WEEK:
        return cel_int(((days + 4) % 7 + 7) % 7);
    case HOURS:
        return cel_int(rest / 3600);
    case MINUTES:
        return cel_int(rest / 60 % 60);
    case SECONDS:
        return cel_int(rest % 60);
    case MILLISECONDS:
        return cel_int(a->time->nanos / 1000000);
    }
    return cel_no_overload();
}

/* Of a duration: the whole of it in that unit, except for milliseconds. */
static struct cel_value duration_part(int64_t ns, enum part part)
{
    switch (part) {
    case HOURS:
        return cel_int(ns / 3600000000000);
    case MINUTES:
        return cel_int(ns / 60000000000);
    case SECONDS:
        return cel_int(ns / 1000000000);
    case MILLISECONDS:
        return cel_int(ns / 1000000 % 1000);
    default:
        return cel_no_overload();
    }
}

static struct cel_value get(struct cel_eval *ev, const struct cel_value *a, size_t count, enum part part)
{
    if (cel_is(a, CEL_DURATION) && count == 1)
        return duration_part(a->i, part);
    return cel_is(a, CEL_TIMESTAMP) ? time_part(ev, a, count, part) : cel_no_overload();
}

#define GETTER(name, part)                                                                                             \
    static struct cel_value name(struct cel_eval *ev, const struct cel_value *a, size_t count)                         \
    {                                                                                                                  \
        return get(ev, a, count, part);                                                                                \
    }
GETTER(get_year, YEAR)
GETTER(get_month, MONTH)
GETTER(get_day_of_year, DAY_OF_YEAR)
GETTER(get_day_of_month, DAY_OF_MONTH)
GETTER(get_date, DATE)
GETTER(get_day_of_week, DAY_OF_WEEK)
GETTER(get_hours, HOURS)
GETTER(get_minutes, MINUTES)
GETTER(get_seconds, SECONDS)
GETTER(get_milliseconds, MILLISECONDS)

const struct cel_function cel_time_functions[] = {
    {"timestamp", false, 1, 1, CEL_TIMESTAMP, make_timestamp},
    {"duration", false, 1, 1, CEL_DURATION, make_duration},
    {"getFullYear", true, 1, 2, CEL_INT, get_year},
    {"getMonth", true, 1, 2, CEL_INT, get_month},
    {"getDayOfYear", true, 1, 2, CEL_INT, get_day_of_year},
    {"getDayOfMonth", true, 1, 2, CEL_INT, get_day_of_month},
    {"getDate", true, 1, 2, CEL_INT, get_date},
    {"getDayOfWeek", true, 1, 2, CEL_INT, get_day_of_week},
    {"getHours", true, 1, 2, CEL_INT, get_hours},
    {"getMinutes", true, 1, 2, CEL_INT, get_minutes},
    {"getSeconds", true, 1, 2, CEL_INT, get_seconds},
    {"getMilliseconds", true, 1, 2, CEL_INT, get_milliseconds},
    {0},
};
