/* IP addresses and CIDR ranges. */
#include "apiserver/cel/internal.h"
#include "base/strutil.h"

#include <arpa/inet.h>

struct cel_ip {
    unsigned char bytes[16];
    bool v4;
};

struct cel_range {
    struct cel_ip ip;
    unsigned bits;
};

static unsigned width(const struct cel_ip *ip)
{
    return ip->v4 ? 32 : 128;
}

static bool parse_ip(struct cel_string s, struct cel_ip *ret)
{
    char text[INET6_ADDRSTRLEN];

    if (s.len >= sizeof(text) || memchr(s.data, 0, s.len))
        return false;
    memcpy(text, s.data, s.len);
    text[s.len] = '\0';
    *ret = (struct cel_ip){.v4 = !strchr(text, ':')};
    if (inet_pton(ret->v4 ? AF_INET : AF_INET6, text, ret->bytes) != 1)
        return false;
    /* An IPv4 address within an IPv6 one is two things at once, and refused. */
    return ret->v4 || !strchr(text, '.');
}

static bool parse_range(struct cel_string s, struct cel_range *ret)
{
    const char *slash = memchr(s.data, '/', s.len);
    char text[4] = "";
    uint64_t bits;

    if (!slash || !parse_ip((struct cel_string){s.data, (size_t)(slash - s.data)}, &ret->ip))
        return false;
    size_t len = s.len - (size_t)(slash + 1 - s.data);
    if (len == 0 || len >= sizeof(text) || (slash[1] == '0' && len > 1))
        return false;
    memcpy(text, slash + 1, len);
    if (strlen(text) != len || !parse_u64(text, &bits) || bits > width(&ret->ip))
        return false;
    ret->bits = (unsigned)bits;
    return true;
}

void cel_write_ip(const struct cel_ip *ip, struct strbuf *out)
{
    char text[INET6_ADDRSTRLEN];

    strbuf_adds(out, inet_ntop(ip->v4 ? AF_INET : AF_INET6, ip->bytes, text, sizeof(text)));
}

void cel_write_cidr(const struct cel_range *r, struct strbuf *out)
{
    cel_write_ip(&r->ip, out);
    strbuf_addf(out, "/%u", r->bits);
}

bool cel_ip_equal(const struct cel_ip *a, const struct cel_ip *b)
{
    return a->v4 == b->v4 && memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

bool cel_cidr_equal(const struct cel_range *a, const struct cel_range *b)
{
    return a->bits == b->bits && cel_ip_equal(&a->ip, &b->ip);
}

static struct cel_value ip_value(struct cel_eval *ev, const struct cel_ip *ip)
{
    struct cel_ip *copy = arena_alloc(&ev->arena, sizeof(*copy));

    *copy = *ip;
    return (struct cel_value){.type = CEL_IP, .ip = copy};
}

static struct cel_value range_value(struct cel_eval *ev, const struct cel_range *r)
{
    struct cel_range *copy = arena_alloc(&ev->arena, sizeof(*copy));

    *copy = *r;
    return (struct cel_value){.type = CEL_CIDR, .cidr = copy};
}

static struct cel_value is_ip(struct cel_eval *ev UNUSED, const struct cel_value *a, size_t count UNUSED)
{
    struct cel_ip ip;

    return cel_is(a, CEL_STRING) ? cel_bool(parse_ip(a->s, &ip)) : cel_no_overload();
}

static struct cel_value bad_ip(struct cel_eval *ev, struct cel_string s)
{
    return cel_errorf(ev, "IP Address \"%.*s\" parse error during conversion from string",
                      (int)utf8_cut(s.data, s.len, 100), s.data);
}

static struct cel_value make_ip(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    struct cel_ip ip;

    if (!cel_is(a, CEL_STRING))
        return cel_no_overload();
    return parse_ip(a->s, &ip) ? ip_value(ev, &ip) : bad_ip(ev, a->s);
}

static struct cel_value is_canonical(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    _cleanup_(strbuf_free) struct strbuf text = {0};
    struct cel_ip ip;

    if (!cel_is(a, CEL_STRING))
        return cel_no_overload();
    if (!parse_ip(a->s, &ip))
        return bad_ip(ev, a->s);
    cel_write_ip(&ip, &text);
    return cel_bool(text.len == a->s.len && memcmp(strbuf_str(&text), a->s.data, text.len) == 0);
}

static struct cel_value is_range(struct cel_eval *ev UNUSED, const struct cel_value *a, size_t count UNUSED)
{
    struct cel_range r;

    return cel_is(a, CEL_STRING) ? cel_bool(parse_range(a->s, &r)) : cel_no_overload();
}

static struct cel_value bad_range(struct cel_eval *ev, struct cel_string s)
{
    return cel_errorf(ev, "CIDR address \"%.*s\" parse error during conversion from string",
                      (int)utf8_cut(s.data, s.len, 100), s.data);
}

static struct cel_value make_range(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    struct cel_range r;

    if (!cel_is(a, CEL_STRING))
        return cel_no_overload();
    return parse_range(a->s, &r) ? range_value(ev, &r) : bad_range(ev, a->s);
}

static struct cel_value family(struct cel_eval *ev UNUSED, const struct cel_value *a, size_t count UNUSED)
{
    return cel_is(a, CEL_IP) ? cel_int(a->ip->v4 ? 4 : 6) : cel_no_overload();
}

/* The first `bits` bits of both are the same. */
static bool same_prefix(const unsigned char *a, const unsigned char *b, unsigned bits)
{
    unsigned whole = bits / 8, rest = bits % 8;

    if (memcmp(a, b, whole) != 0)
        return false;
    return rest == 0 || (a[whole] ^ b[whole]) >> (8 - rest) == 0;
}

static bool within(const struct cel_ip *ip, const char *v4, unsigned bits4, const char *v6, unsigned bits6)
{
    unsigned char net[16] = {0};

    return inet_pton(ip->v4 ? AF_INET : AF_INET6, ip->v4 ? v4 : v6, net) == 1 &&
           same_prefix(ip->bytes, net, ip->v4 ? bits4 : bits6);
}

static bool unspecified(const struct cel_ip *ip)
{
    return within(ip, "0.0.0.0", 32, "::", 128);
}

static bool loopback(const struct cel_ip *ip)
{
    return within(ip, "127.0.0.0", 8, "::1", 128);
}

static bool link_local_multicast(const struct cel_ip *ip)
{
    /* In IPv6 the scope is what counts, not the flags before it. */
    return ip->v4 ? within(ip, "224.0.0.0", 24, "::", 0) : ip->bytes[0] == 0xff && (ip->bytes[1] & 0x0f) == 2;
}

static bool link_local(const struct cel_ip *ip)
{
    return within(ip, "169.254.0.0", 16, "fe80::", 10);
}

static bool global(const struct cel_ip *ip)
{
    return !unspecified(ip) && !loopback(ip) && !link_local(ip) && !within(ip, "224.0.0.0", 4, "ff00::", 8) &&
           !(ip->v4 && within(ip, "255.255.255.255", 32, "::", 0));
}

#define PREDICATE(name, test)                                                                                          \
    static struct cel_value name(struct cel_eval *ev UNUSED, const struct cel_value *a, size_t count UNUSED)           \
    {                                                                                                                  \
        return cel_is(a, CEL_IP) ? cel_bool(test(a->ip)) : cel_no_overload();                                          \
    }
PREDICATE(is_unspecified, unspecified)
PREDICATE(is_loopback, loopback)
PREDICATE(is_link_local_multicast, link_local_multicast)
PREDICATE(is_link_local, link_local)
PREDICATE(is_global, global)

static bool contains_range(const struct cel_range *r, const struct cel_ip *ip, unsigned bits)
{
    return r->ip.v4 == ip->v4 && bits >= r->bits && same_prefix(r->ip.bytes, ip->bytes, r->bits);
}

static struct cel_value contains_ip(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    struct cel_ip ip;

    if (!cel_is(&a[0], CEL_CIDR))
        return cel_no_overload();
    if (cel_is(&a[1], CEL_IP))
        return cel_bool(contains_range(a[0].cidr, a[1].ip, width(a[1].ip)));
    if (!cel_is(&a[1], CEL_STRING))
        return cel_no_overload();
    return parse_ip(a[1].s, &ip) ? cel_bool(contains_range(a[0].cidr, &ip, width(&ip))) : bad_ip(ev, a[1].s);
}

static struct cel_value contains_cidr(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    struct cel_range r;

    if (!cel_is(&a[0], CEL_CIDR))
        return cel_no_overload();
    if (cel_is(&a[1], CEL_CIDR))
        return cel_bool(contains_range(a[0].cidr, &a[1].cidr->ip, a[1].cidr->bits));
    if (!cel_is(&a[1], CEL_STRING))
        return cel_no_overload();
    return parse_range(a[1].s, &r) ? cel_bool(contains_range(a[0].cidr, &r.ip, r.bits)) : bad_range(ev, a[1].s);
}

static struct cel_value range_ip(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    return cel_is(a, CEL_CIDR) ? ip_value(ev, &a->cidr->ip) : cel_no_overload();
}

static struct cel_value masked(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    if (!cel_is(a, CEL_CIDR))
        return cel_no_overload();
    struct cel_range r = *a->cidr;
    for (unsigned i = r.bits; i < width(&r.ip); i++)
        r.ip.bytes[i / 8] &= (unsigned char)~(0x80u >> i % 8);
    return range_value(ev, &r);
}

static struct cel_value prefix_length(struct cel_eval *ev UNUSED, const struct cel_value *a, size_t count UNUSED)
{
    return cel_is(a, CEL_CIDR) ? cel_int(a->cidr->bits) : cel_no_overload();
}

const struct cel_function cel_ip_functions[] = {
    {"isIP", false, 1, 1, CEL_BOOL, is_ip},
    {"ip", false, 1, 1, CEL_IP, make_ip},
    {"ip.isCanonical", false, 1, 1, CEL_BOOL, is_canonical},
    {"isCIDR", false, 1, 1, CEL_BOOL, is_range},
    {"cidr", false, 1, 1, CEL_CIDR, make_range},
    {"family", true, 1, 1, CEL_INT, family},
    {"isUnspecified", true, 1, 1, CEL_BOOL, is_unspecified},
    {"isLoopback", true, 1, 1, CEL_BOOL, is_loopback},
    {"isLinkLocalMulticast", true, 1, 1, CEL_BOOL, is_link_local_multicast},
    {"isLinkLocalUnicast", true, 1, 1, CEL_BOOL, is_link_local},
    {"isGlobalUnicast", true, 1, 1, CEL_BOOL, is_global},
    {"containsIP", true, 2, 2, CEL_BOOL, contains_ip},
    {"containsCIDR", true, 2, 2, CEL_BOOL, contains_cidr},
    {"ip", true, 1, 1, CEL_IP, range_ip},
    {"masked", true, 1, 1, CEL_CIDR, masked},
    {"prefixLength", true, 1, 1, CEL_INT, prefix_length},
    {0},
};
