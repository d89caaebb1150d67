#include "base/timeutil.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static int64_t read_clock(clockid_t id)
{
    struct timespec ts;

    if (clock_gettime(id, &ts) < 0)
        return 0;
    return (int64_t)ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

int64_t time_now_ns(void)
{
    return read_clock(CLOCK_REALTIME);
}

int64_t time_monotonic_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

static int64_t system_now(const struct clock *clock UNUSED)
{
    return time_now_ns();
}

const struct clock clock_system = {.now_ns = system_now};

void time_format_rfc3339(int64_t ns, int digits, char out[TIME_RFC3339_MAX])
{
    int64_t sec = ns / NSEC_PER_SEC, frac = ns % NSEC_PER_SEC;
    struct tm tm;
    char base[24];

    if (frac < 0) {
        frac += NSEC_PER_SEC;
        sec--;
    }
    time_t t = (time_t)sec;
    (void)gmtime_r(&t, &tm);
    (void)strftime(base, sizeof(base), "%Y-%m-%dT%H:%M:%S", &tm);
    char fraction[16];
    (void)snprintf(fraction, sizeof(fraction), ".%09u", (unsigned)frac);
    fraction[digits > 0 ? digits + 1 : 0] = '\0';
    (void)snprintf(out, TIME_RFC3339_MAX, "%s%sZ", base, fraction);
}

static bool number(const char **s, int digits, int *ret)
{
    int v = 0;

    for (int i = 0; i < digits; i++, (*s)++) {
        if (!isdigit((unsigned char)**s))
            return false;
        v = v * 10 + (**s - '0');
    }
    *ret = v;
    return true;
}

static bool literal(const char **s, char c)
{
    if (**s != c && tolower((unsigned char)**s) != tolower((unsigned char)c))
        return false;
    (*s)++;
    return true;
}

bool time_parse_rfc3339(const char *s, int64_t *ret_ns)
{
    static const int days[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int year, month, day, hour, minute, second, oh = 0, om = 0;
    int64_t frac = 0;

    if (!number(&s, 4, &year) || !literal(&s, '-') || !number(&s, 2, &month) || !literal(&s, '-') ||
        !number(&s, 2, &day) || !literal(&s, 'T') || !number(&s, 2, &hour) || !literal(&s, ':') ||
        !number(&s, 2, &minute) || !literal(&s, ':') || !number(&s, 2, &second))
        return false;
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    if (month < 1 || month > 12 || day < 1 || day > days[month - 1] || (month == 2 && day == 29 && !leap) ||
        hour > 23 || minute > 59 || second > 60)
        return false;
    if (*s == '.') {
        int64_t unit = NSEC_PER_SEC / 10;

        if (!isdigit((unsigned char)*++s))
            return false;
        for (; isdigit((unsigned char)*s); s++, unit /= 10)
            frac += (*s - '0') * unit;
    }
    int sign = 1;
    if (*s == 'Z' || *s == 'z') {
        s++;
    } else if (*s == '+' || *s == '-') {
        sign = *s++ == '-' ? -1 : 1;
        if (!number(&s, 2, &oh) || !literal(&s, ':') || !number(&s, 2, &om) || oh > 23 || om > 59)
            return false;
    } else {
        return false;
    }
    if (*s)
        return false;
    struct tm tm = {.tm_year = year - 1900,
                    .tm_mon = month - 1,
                    .tm_mday = day,
                    .tm_hour = hour,
                    .tm_min = minute,
                    .tm_sec = second};
    int64_t sec = (int64_t)timegm(&tm) - sign * (oh * 3600 + om * 60);

    /* int64 nanoseconds reach the year 2262: later dates mean "never" and are clamped. */
    if (sec > INT64_MAX / NSEC_PER_SEC - 1)
        *ret_ns = INT64_MAX;
    else if (sec < INT64_MIN / NSEC_PER_SEC + 1)
        *ret_ns = INT64_MIN;
    else
        *ret_ns = sec * NSEC_PER_SEC + frac;
    return true;
}
