#include "apiserver/formats.h"

#include "apiserver/cel/internal.h"
#include "base/memory.h"
#include "base/strutil.h"

#include <arpa/inet.h>
#include <ctype.h>

/* Texts come NUL-terminated and without a NUL inside. */
struct format {
    const char *name;
    bool (*check)(const char *s);
};

static struct cel_string whole(const char *s)
{
    return (struct cel_string){s, strlen(s)};
}

static bool check_date_time(const char *s)
{
    struct cel_time t;

    return cel_parse_timestamp(whole(s), &t);
}

static bool check_date(const char *s)
{
    struct cel_time t;

    return cel_parse_date(whole(s), &t);
}

static bool check_duration(const char *s)
{
    int64_t ns;

    return cel_parse_duration(whole(s), &ns);
}

static bool check_byte(const char *s)
{
    size_t len = strlen(s), pad = 0;

    for (; pad < 2 && pad < len && s[len - 1 - pad] == '='; pad++)
        ;
    for (size_t i = 0; i < len - pad; i++)
        if (!isalnum((unsigned char)s[i]) && s[i] != '+' && s[i] != '/')
            return false;
    return len % 4 == 0;
}

/* Hexadecimal digits in groups of these sizes; dashes may be left out. */
static bool check_groups(const char *s, char version)
{
    static const int groups[] = {8, 4, 4, 4, 12};

    for (size_t g = 0; g < ARRAY_LEN(groups); g++) {
        if (g > 0 && *s == '-')
            s++;
        if (g == 2 && version && *s != version)
            return false;
        if (g == 3 && (version == '4' || version == '5') && !strchr("89abAB", *s))
            return false;
        for (int i = 0; i < groups[g]; i++, s++)
            if (!isxdigit((unsigned char)*s))
                return false;
    }
    return !*s;
}

static bool check_uuid(const char *s)
{
    return check_groups(s, 0);
}

static bool check_uuid3(const char *s)
{
    return check_groups(s, '3');
}

static bool check_uuid4(const char *s)
{
    return check_groups(s, '4');
}

static bool check_uuid5(const char *s)
{
    return check_groups(s, '5');
}

static bool check_ipv4(const char *s)
{
    struct in_addr a;

    return inet_pton(AF_INET, s, &a) == 1;
}

static bool check_ipv6(const char *s)
{
    struct in6_addr a;

    return inet_pton(AF_INET6, s, &a) == 1;
}

static bool check_cidr(const char *s)
{
    const char *slash = strchr(s, '/');
    uint64_t bits;

    if (!slash || !parse_u64(slash + 1, &bits) || (slash[1] == '0' && slash[2]))
        return false;
    _cleanup_free_ char *address = xstrndup(s, (size_t)(slash - s));
    return (check_ipv4(address) && bits <= 32) || (check_ipv6(address) && bits <= 128);
}

/* Bytes in hexadecimal with ':' or '-' between them: 6, 8 or 20 of them. */
static bool check_mac(const char *s)
{
    size_t len = strlen(s), bytes = (len + 1) / 3;
    char separator = len > 2 ? s[2] : '\0';

    if ((separator != ':' && separator != '-') || (len + 1) % 3 || (bytes != 6 && bytes != 8 && bytes != 20))
        return false;
    for (size_t i = 0; i < len; i++)
        if (i % 3 == 2 ? s[i] != separator : !isxdigit((unsigned char)s[i]))
            return false;
    return true;
}

/* An absolute URI, or a path from the root. */
static bool check_uri(const char *s)
{
    for (const char *p = s; *p; p++)
        if ((unsigned char)*p <= ' ' || *p == 0x7f)
            return false;
    if (*s == '/')
        return true;
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.");
    return n > 0 && isalpha((unsigned char)*s) && s[n] == ':' && s[n + 1];
}

static bool check_hostname(const char *s)
{
    size_t len = strlen(s), part = 0;

    if (len == 0 || len > 255)
        return false;
    for (size_t i = 0; i <= len; i++) {
        if (i == len || s[i] == '.') {
            if (part == 0 ? i != len : part > 63 || s[i - 1] == '-')
                return false;
            part = 0;
            continue;
        }
        if (!isalnum((unsigned char)s[i]) && (s[i] != '-' || part == 0))
            return false;
        part++;
    }
    return true;
}

static bool check_email(const char *s)
{
    const char *at = strrchr(s, '@');

    if (!at || at == s || s[0] == '.' || at[-1] == '.' || strstr(s, ".."))
        return false;
    for (const char *p = s; p < at; p++)
        if (!isalnum((unsigned char)*p) && !strchr(".!#$%&'*+/=?^_`{|}~-", *p))
            return false;
    return check_hostname(at + 1);
}

static bool all_digits(const char *s, size_t *ret_count)
{
    *ret_count = 0;
    for (; *s; s++) {
        if (*s == '-' || *s == ' ')
            continue;
        if (!isdigit((unsigned char)*s))
            return false;
        ++*ret_count;
    }
    return true;
}

static bool check_credit_card(const char *s)
{
    size_t n;

    return all_digits(s, &n) && n >= 13 && n <= 19;
}

static bool check_ssn(const char *s)
{
    static const char shape[] = "000-00-0000";

    if (strlen(s) != sizeof(shape) - 1)
        return false;
    for (size_t i = 0; shape[i]; i++)
        if (shape[i] == '0' ? !isdigit((unsigned char)s[i]) : s[i] != '-' && s[i] != ' ')
            return false;
    return true;
}

static bool check_hex_color(const char *s)
{
    s += *s == '#';
    size_t len = strlen(s);
    return (len == 3 || len == 6) && strspn(s, "0123456789abcdefABCDEF") == len;
}

static bool check_quantity(const char *s)
{
    struct quantity q;

    return *s && quantity_parse(s, &q, NULL) == 0;
}

static const struct format formats[] = {
    {"date-time", check_date_time},
    {"datetime", check_date_time},
    {"date", check_date},
    {"duration", check_duration},
    {"byte", check_byte},
    {"uuid", check_uuid},
    {"uuid3", check_uuid3},
    {"uuid4", check_uuid4},
    {"uuid5", check_uuid5},
    {"ipv4", check_ipv4},
    {"ipv6", check_ipv6},
    {"cidr", check_cidr},
    {"mac", check_mac},
    {"uri", check_uri},
    {"hostname", check_hostname},
    {"email", check_email},
    {"creditcard", check_credit_card},
    {"ssn", check_ssn},
    {"hexcolor", check_hex_color},
    {"quantity", check_quantity},
};

const struct format *format_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(formats); i++)
        if (streq(formats[i].name, name))
            return &formats[i];
    return NULL;
}

bool format_check(const struct format *f, const char *text, size_t len)
{
    return strlen(text) == len && f->check(text);
}

const char *format_name(const struct format *f)
{
    return f->name;
}
