/* Time: nanoseconds as int64_t everywhere; wall clock (since 1970, UTC) and monotonic; RFC 3339 text. */
#pragma once

#include "base/macros.h"

#include <stdbool.h>
#include <stdint.h>

#define NSEC_PER_SEC 1000000000LL
#define NSEC_PER_MSEC 1000000LL
#define NSEC_PER_USEC 1000LL
#define TIME_RFC3339_MAX 40

int64_t time_now_ns(void);       /* wall clock */
int64_t time_monotonic_ns(void); /* for measuring and timers */

/* digits: 0, 3, 6 or 9 of the fraction. "2026-11-30T22:42:37Z", "…37.123456Z". */
void time_format_rfc3339(int64_t ns, int digits, char out[TIME_RFC3339_MAX]);
/* Accepts fractions and numeric offsets; the result is UTC. false on anything that is no date-time. */
bool time_parse_rfc3339(const char *s, int64_t *ret_ns);

/* Things that depend on time take a clock, so that tests can turn it. */
struct clock {
    int64_t (*now_ns)(const struct clock *clock);
    int64_t fixed_ns; /* for test clocks */
};
extern const struct clock clock_system;
static inline int64_t clock_now(const struct clock *clock)
{
    return clock->now_ns(clock);
}
