/* IP addresses and CIDR ranges. */
#include "apiserver/cel/internal.h"
#include "base/strutil.h"

#include <arpa/inet.h>

void cel_write_cidr(const struct ip_range *r, struct strbuf *out)
{
    ip_write(&r->ip, out);
    strbuf_addf(out, "/%u", r->bits);
}

bool cel_cidr_equal(const struct ip_range *a, const struct ip_range *b)
{
    return a->bits == b->bits && ip_equal(&a->ip, &b->ip);
}

static struct cel_value ip_value(struct cel_eval *ev, const struct ip_address *ip)
{
    struct ip_address *copy = arena_alloc(&ev->arena, sizeof(*copy));

    *copy = *ip;
    return (struct cel_value){.type = CEL_IP, .ip = copy};
}

static struct cel_value range_value(struct cel_eval *ev, const struct ip_range *r)
{
    struct ip_range *copy = arena_alloc(&ev->arena, sizeof(*copy));

    *copy = *r;
    return (struct cel_value){.type = CEL_CIDR, .cidr = copy};
}

static struct cel_value is_ip(struct cel_eval *ev UNUSED, const struct cel_value *a, size_t count UNUSED)
{
    struct ip_address ip;

    return cel_is(a, CEL_STRING) ? cel_bool(ip_parse(a->s.data, a->s.len, &ip)) : cel_no_overload();
}

static struct cel_value bad_ip(struct cel_eval *ev, struct cel_string s)
{
    return cel_errorf(ev, "IP Address \"%.*s\" parse error during conversion from string",
                      (int)utf8_cut(s.data, s.len, 100), s.data);
}

static struct cel_value make_ip(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    struct ip_address ip;

    if (!cel_is(a, CEL_STRING))
        return cel_no_overload();
    return ip_parse(a->s.data, a->s.len, &ip) ? ip_value(ev, &ip) : bad_ip(ev, a->s);
}

static struct cel_value is_canonical(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    _cleanup_(strbuf_free) struct strbuf text = {0};
    struct ip_address ip;

    if (!cel_is(a, CEL_STRING))
        return cel_no_overload();
    if (!ip_parse(a->s.data, a->s.len, &ip))
        return bad_ip(ev, a->s);
    ip_write(&ip, &text);
    return cel_bool(text.len == a->s.len && memcmp(strbuf_str(&text), a->s.data, text.len) == 0);
}

static struct cel_value is_range(struct cel_eval *ev UNUSED, const struct cel_value *a, size_t count UNUSED)
{
    struct ip_range r;

    return cel_is(a, CEL_STRING) ? cel_bool(ip_range_parse(a->s.data, a->s.len, &r)) : cel_no_overload();
}

static struct cel_value bad_range(struct cel_eval *ev, struct cel_string s)
{
    return cel_errorf(ev, "CIDR address \"%.*s\" parse error during conversion from string",
                      (int)utf8_cut(s.data, s.len, 100), s.data);
}

static struct cel_value make_range(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    struct ip_range r;

    if (!cel_is(a, CEL_STRING))
        return cel_no_overload();
    return ip_range_parse(a->s.data, a->s.len, &r) ? range_value(ev, &r) : bad_range(ev, a->s);
}

static struct cel_value family(struct cel_eval *ev UNUSED, const struct cel_value *a, size_t count UNUSED)
{
    return cel_is(a, CEL_IP) ? cel_int(a->ip->v4 ? 4 : 6) : cel_no_overload();
}

static bool within(const struct ip_address *ip, const char *v4, unsigned bits4, const char *v6, unsigned bits6)
{
    unsigned char net[16] = {0};

    return inet_pton(ip->v4 ? AF_INET : AF_INET6, ip->v4 ? v4 : v6, net) == 1 &&
           ip_same_prefix(ip->bytes, net, ip->v4 ? bits4 : bits6);
}

static bool unspecified(const struct ip_address *ip)
{
    return within(ip, "0.0.0.0", 32, "::", 128);
}

static bool loopback(const struct ip_address *ip)
{
    return within(ip, "127.0.0.0", 8, "::1", 128);
}

static bool link_local_multicast(const struct ip_address *ip)
{
    /* In IPv6 the scope is what counts, not the flags before it. */
    return ip->v4 ? within(ip, "224.0.0.0", 24, "::", 0) : ip->bytes[0] == 0xff && (ip->bytes[1] & 0x0f) == 2;
}

static bool link_local(const struct ip_address *ip)
{
    return within(ip, "169.254.0.0", 16, "fe80::", 10);
}

static bool global(const struct ip_address *ip)
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

static struct cel_value contains_ip(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    struct ip_address ip;

    if (!cel_is(&a[0], CEL_CIDR))
        return cel_no_overload();
    if (cel_is(&a[1], CEL_IP))
        return cel_bool(ip_range_holds(a[0].cidr, a[1].ip, ip_width(a[1].ip)));
    if (!cel_is(&a[1], CEL_STRING))
        return cel_no_overload();
    return ip_parse(a[1].s.data, a[1].s.len, &ip) ? cel_bool(ip_range_holds(a[0].cidr, &ip, ip_width(&ip)))
                                                  : bad_ip(ev, a[1].s);
}

static struct cel_value contains_cidr(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    struct ip_range r;

    if (!cel_is(&a[0], CEL_CIDR))
        return cel_no_overload();
    if (cel_is(&a[1], CEL_CIDR))
        return cel_bool(ip_range_holds(a[0].cidr, &a[1].cidr->ip, a[1].cidr->bits));
    if (!cel_is(&a[1], CEL_STRING))
        return cel_no_overload();
    return ip_range_parse(a[1].s.data, a[1].s.len, &r) ? cel_bool(ip_range_holds(a[0].cidr, &r.ip, r.bits))
                                                       : bad_range(ev, a[1].s);
}

static struct cel_value range_ip(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    return cel_is(a, CEL_CIDR) ? ip_value(ev, &a->cidr->ip) : cel_no_overload();
}

static struct cel_value masked(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    if (!cel_is(a, CEL_CIDR))
        return cel_no_overload();
    struct ip_range r = *a->cidr;
    for (unsigned i = r.bits; i < ip_width(&r.ip); i++)
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
