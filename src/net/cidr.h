#pragma once
/* IP addresses, prefixes and sets of them; IPv4 inside IPv6 (::ffff:a.b.c.d) counts as IPv4. */
#include "base/str.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
struct ip {
    uint8_t family; /* 4 or 6 */
    uint8_t b[16];  /* network order; IPv4 in the first four */
};
struct cidr {
    struct ip net;
    uint8_t bits;
};
#define IP_TEXT_MAX 46
int ip_parse(struct str s, struct ip *ret); /* strict: no leading zeros, no zone */
const char *ip_format(const struct ip *ip, char out[IP_TEXT_MAX]);
int cidr_parse(struct str s,
               struct cidr *ret); /* a bare address is a /32 or /128; host bits are cleared */
const char *cidr_format(const struct cidr *c, char out[IP_TEXT_MAX + 4]);
bool cidr_contains(const struct cidr *c, const struct ip *ip);
bool cidr_set_contains(const struct cidr *set, size_t n, const struct ip *ip);
/* Loopback, private, link-local, unique-local, multicast, unspecified, CGNAT, metadata services. */
bool ip_is_internal(const struct ip *ip);
bool ip_is_loopback(const struct ip *ip);
bool ip_is_link_local(const struct ip *ip);
bool ip_is_metadata(const struct ip *ip); /* 169.254.169.254, fd00:ec2::254, 100.100.100.200, ... */
