#include "base/ip_range.h"

#include "base/strutil.h"

#include <arpa/inet.h>

unsigned ip_width(const struct ip_address *ip)
{
    return ip->v4 ? 32 : 128;
}

bool ip_parse(const char *text, size_t len, struct ip_address *ret)
{
    char copy[INET6_ADDRSTRLEN];

    if (len >= sizeof(copy) || memchr(text, 0, len))
        return false;
    memcpy(copy, text, len);
    copy[len] = '\0';
    *ret = (struct ip_address){.v4 = !strchr(copy, ':')};
    if (inet_pton(ret->v4 ? AF_INET : AF_INET6, copy, ret->bytes) != 1)
        return false;
    return ret->v4 || !strchr(copy, '.');
}

bool ip_range_parse(const char *text, size_t len, struct ip_range *ret)
{
    const char *slash = memchr(text, '/', len);
    char copy[4] = "";
    uint64_t bits;

    if (!slash || !ip_parse(text, (size_t)(slash - text), &ret->ip))
        return false;
    size_t rest = len - (size_t)(slash + 1 - text);
    if (rest == 0 || rest >= sizeof(copy) || (slash[1] == '0' && rest > 1))
        return false;
    memcpy(copy, slash + 1, rest);
    if (strlen(copy) != rest || !parse_u64(copy, &bits) || bits > ip_width(&ret->ip))
        return false;
    ret->bits = (unsigned)bits;
    return true;
}

void ip_write(const struct ip_address *ip, struct strbuf *out)
{
    char text[INET6_ADDRSTRLEN];

    strbuf_adds(out, inet_ntop(ip->v4 ? AF_INET : AF_INET6, ip->bytes, text, sizeof(text)));
}

bool ip_equal(const struct ip_address *a, const struct ip_address *b)
{
    return a->v4 == b->v4 && memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

bool ip_same_prefix(const unsigned char *a, const unsigned char *b, unsigned bits)
{
    unsigned whole = bits / 8, rest = bits % 8;

    if (memcmp(a, b, whole) != 0)
        return false;
    return rest == 0 || (a[whole] ^ b[whole]) >> (8 - rest) == 0;
}

bool ip_range_holds(const struct ip_range *r, const struct ip_address *ip, unsigned bits)
{
    return r->ip.v4 == ip->v4 && bits >= r->bits && ip_same_prefix(r->ip.bytes, ip->bytes, r->bits);
}
