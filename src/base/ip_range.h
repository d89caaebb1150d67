/* IP addresses and ranges of them (CIDR), of both families. */
#pragma once

#include "base/strbuf.h"

struct ip_address {
    unsigned char bytes[16];
    bool v4;
};

struct ip_range {
    struct ip_address ip; /* bits behind the prefix may be set: "10.0.0.7/8" */
    unsigned bits;
};

/* Of exactly len bytes; an IPv4 address within an IPv6 one is refused: it is two things at once. */
bool ip_parse(const char *text, size_t len, struct ip_address *ret);
/* "10.0.0.0/8": the prefix without a leading zero, and no longer than the address. */
bool ip_range_parse(const char *text, size_t len, struct ip_range *ret);
void ip_write(const struct ip_address *ip, struct strbuf *out);
bool ip_equal(const struct ip_address *a, const struct ip_address *b);
unsigned ip_width(const struct ip_address *ip); /* 32 or 128 */
/* Whether the first `bits` bits of both are the same. */
bool ip_same_prefix(const unsigned char *a, const unsigned char *b, unsigned bits);
/* Whether all addresses that share the first `bits` bits of ip are in r. */
bool ip_range_holds(const struct ip_range *r, const struct ip_address *ip, unsigned bits);
