/* The formats of string schemas that Kubernetes checks. Unknown formats are not checked. */
#include "apiserver/structural_internal.h"

#include "base/strutil.h"
#include "base/timeutil.h"
#include "kube/quantity.h"

#include <arpa/inet.h>
#include <ctype.h>

static bool is_date_time(const char *s)
{
    int64_t ns;

    return time_parse_rfc3339(s, &ns);
}

static bool is_date(const char *s)
{
    char full[32];
    int64_t ns;

    return strlen(s) == 10 && (size_t)snprintf(full, sizeof(full), "%sT00:00:00Z", s) < sizeof(full) &&
           time_parse_rfc3339(full, &ns);
}

static bool is_ipv4(const char *s)
{
    struct in_addr a;

    return inet_pton(AF_INET, s, &a) == 1;
}

static bool is_ipv6(const char *s)
{
    struct in6_addr a;

    return inet_pton(AF_INET6, s, &a) == 1;
}

static bool is_uuid(const char *s)
{
    for (int i = 0; i < 36; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? s[i] != '-' : !isxdigit((unsigned char)s[i]))
            return false;
    }
    return s[36] == '\0';
}

static bool is_base64(const char *s)
{
    size_t n = strlen(s), padding = 0;

    while (n && padding < 2 && s[n - 1] == '=') {
        n--;
        padding++;
    }
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)s[i]) && s[i] != '+' && s[i] != '/')
            return false;
    return (n + padding) % 4 == 0;
}

static bool is_duration(const char *s)
{
    int64_t ns;

    return parse_duration(s, &ns);
}

static bool is_quantity(const char *s)
{
    struct quantity q;

    return quantity_parse(s, &q, NULL) == 0;
}

bool structural_format_matches(const char *format, const char *text)
{
    static const struct {
        const char *name;
        bool (*matches)(const char *s);
    } formats[] = {{"date-time", is_date_time}, {"date", is_date},        {"ipv4", is_ipv4},
                   {"ipv6", is_ipv6},           {"uuid", is_uuid},        {"byte", is_base64},
                   {"duration", is_duration},   {"quantity", is_quantity}};

    for (size_t i = 0; i < ARRAY_LEN(formats); i++)
        if (streq(format, formats[i].name))
            return formats[i].matches(text);
    return true;
}
