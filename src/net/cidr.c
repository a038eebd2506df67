/* IP addresses, prefixes, and which of them belong to nobody on the outside. */

#include "net/cidr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/must.h"
#include "base/num.h"

static const uint8_t v4_mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

/* As written, without turning ::ffff:a.b.c.d into IPv4. inet_pton() knows neither zones nor leading
 * zeros. */
static int parse_raw(struct str s, struct ip *ret)
{
    char text[IP_TEXT_MAX];
    struct ip ip = {0};
    if (str_to_cstr(s, text, sizeof(text)) < 0) {
        return -EINVAL;
    }
    ip.family = strchr(text, ':') ? 6 : 4;
    if (inet_pton(ip.family == 6 ? AF_INET6 : AF_INET, text, ip.b) != 1) {
        return -EINVAL;
    }
    *ret = ip;
    return 0;
}

static bool is_mapped(const struct ip *ip)
{
    return ip->family == 6 && memcmp(ip->b, v4_mapped, sizeof(v4_mapped)) == 0;
}

static struct ip unmapped(const struct ip *ip)
{
    struct ip v4 = {.family = 4};
    memcpy(v4.b, ip->b + 12, 4);
    return v4;
}

int ip_parse(struct str s, struct ip *ret)
{
    struct ip ip;
    int r = parse_raw(s, &ip);
    if (r < 0) {
        return r;
    }
    *ret = is_mapped(&ip) ? unmapped(&ip) : ip;
    return 0;
}

const char *ip_format(const struct ip *ip, char out[IP_TEXT_MAX])
{
    must(inet_ntop(ip->family == 6 ? AF_INET6 : AF_INET, ip->b, out, IP_TEXT_MAX));
    return out;
}

static void clear_host_bits(struct cidr *c)
{
    for (unsigned i = 0; i < 16; i++) {
        unsigned keep = c->bits > i * 8 ? MIN(c->bits - i * 8, 8u) : 0;
        c->net.b[i] = (uint8_t)(c->net.b[i] & (0xff00u >> keep));
    }
}

int cidr_parse(struct str s, struct cidr *ret)
{
    struct str rest = s;
    struct str addr = str_cut(&rest, '/');
    struct cidr c = {0};
    if (parse_raw(addr, &c.net) < 0) {
        return -EINVAL;
    }
    unsigned width = c.net.family == 6 ? 128 : 32;
    uint64_t bits = width;
    if (rest.p && (parse_u64(rest, &bits) < 0 || bits > width || rest.n > 3 ||
                   (rest.n > 1 && rest.p[0] == '0'))) {
        return -EINVAL;
    }
    c.bits = (uint8_t)bits;
    if (is_mapped(&c.net) && c.bits >= 96) {
        c.net = unmapped(&c.net);
        c.bits = (uint8_t)(c.bits - 96);
    }
    clear_host_bits(&c);
    *ret = c;
    return 0;
}

const char *cidr_format(const struct cidr *c, char out[IP_TEXT_MAX + 4])
{
    char addr[IP_TEXT_MAX];
    (void)snprintf(out, IP_TEXT_MAX + 4, "%s/%u", ip_format(&c->net, addr), (unsigned)c->bits);
    return out;
}

bool cidr_contains(const struct cidr *c, const struct ip *ip)
{
    struct ip plain = is_mapped(ip) ? unmapped(ip) : *ip;
    if (c->net.family != plain.family) {
        return false;
    }
    unsigned whole = c->bits / 8;
    unsigned rest = c->bits % 8;
    if (memcmp(c->net.b, plain.b, whole) != 0) {
        return false;
    }
    return rest == 0 || ((c->net.b[whole] ^ plain.b[whole]) & (0xff00u >> rest) & 0xff) == 0;
}

bool cidr_set_contains(const struct cidr *set, size_t n, const struct ip *ip)
{
    for (size_t i = 0; i < n; i++) {
        if (cidr_contains(&set[i], ip)) {
            return true;
        }
    }
    return false;
}

#define V4(a, b, c, d, n)                                                                          \
    {                                                                                              \
        {4, {a, b, c, d}}, n                                                                       \
    }

/* IANA special-purpose registries: whatever is not globally reachable, and multicast. */
static const struct cidr internal[] = {
    V4(0, 0, 0, 0, 8),      /* "this" network, unspecified */
    V4(10, 0, 0, 0, 8),     /* private */
    V4(100, 64, 0, 0, 10),  /* CGNAT */
    V4(127, 0, 0, 0, 8),    /* loopback */
    V4(169, 254, 0, 0, 16), /* link-local */
    V4(172, 16, 0, 0, 12),  /* private */
    V4(192, 0, 0, 0, 24),   /* protocol assignments */
    V4(192, 168, 0, 0, 16), /* private */
    V4(198, 18, 0, 0, 15),  /* benchmarking */
    V4(224, 0, 0, 0, 4),    /* multicast */
    V4(240, 0, 0, 0, 4),    /* reserved, broadcast */
    {{6, {0}}, 96},         /* unspecified, loopback, the deprecated ::a.b.c.d */
    {{6, {0x00, 0x64, 0xff, 0x9b, 0x00, 0x01}}, 48}, /* local NAT64 */
    {{6, {0x01}}, 64},                               /* discard-only */
    {{6, {0xfc}}, 7},                                /* unique-local */
    {{6, {0xfe, 0x80}}, 10},                         /* link-local */
    {{6, {0xfe, 0xc0}}, 10},                         /* site-local, deprecated but routed by some */
    {{6, {0xff}}, 8},                                /* multicast */
};

static const struct cidr metadata[] = {
    V4(169, 254, 169, 254, 32), /* AWS, GCP, Azure, OpenStack, DigitalOcean, ... */
    V4(169, 254, 170, 2, 32),   /* AWS ECS task credentials */
    V4(169, 254, 170, 23, 32),  /* AWS EKS pod identity */
    V4(169, 254, 0, 23, 32),    /* Tencent */
    V4(169, 254, 42, 42, 32),   /* Scaleway */
    V4(100, 100, 100, 200, 32), /* Alibaba */
    V4(168, 63, 129, 16, 32),   /* Azure wire server */
    V4(192, 0, 0, 192, 32),     /* Oracle */
    {{6, {0xfd, 0x00, 0x0e, 0xc2, [14] = 0x02, [15] = 0x54}}, 128}, /* AWS */
    {{6, {0xfd, 0x00, 0x0e, 0xc2, [15] = 0x23}}, 128},              /* AWS EKS pod identity */
    {{6, {0xfd, 0x20, 0x00, 0xce, [14] = 0x02, [15] = 0x54}}, 128}, /* GCP */
    {{6, {0xfd, 0x00, 0x00, 0x42, [15] = 0x42}}, 128},              /* Scaleway */
};

/* IPv4 that travels inside IPv6 through a translator or tunnel: the address that is really meant.
 */
static bool embedded_v4(const struct ip *ip, struct ip *ret)
{
    static const uint8_t nat64[12] = {0x00, 0x64, 0xff, 0x9b};
    if (ip->family != 6) {
        return false;
    }
    const uint8_t *from = NULL;
    if (is_mapped(ip) || memcmp(ip->b, nat64, sizeof(nat64)) == 0) {
        from = ip->b + 12;
    } else if (ip->b[0] == 0x20 && ip->b[1] == 0x02) {
        from = ip->b + 2; /* 6to4 */
    } else {
        return false;
    }
    *ret = (struct ip){.family = 4};
    memcpy(ret->b, from, 4);
    return true;
}

bool ip_is_metadata(const struct ip *ip)
{
    struct ip inner;
    return cidr_set_contains(metadata, ARRAY_LEN(metadata), ip) ||
           (embedded_v4(ip, &inner) && cidr_set_contains(metadata, ARRAY_LEN(metadata), &inner));
}

bool ip_is_internal(const struct ip *ip)
{
    struct ip inner;
    return cidr_set_contains(internal, ARRAY_LEN(internal), ip) || ip_is_metadata(ip) ||
           (embedded_v4(ip, &inner) && cidr_set_contains(internal, ARRAY_LEN(internal), &inner));
}

bool ip_is_loopback(const struct ip *ip)
{
    static const struct cidr loopback[] = {V4(127, 0, 0, 0, 8), {{6, {[15] = 1}}, 128}};
    return cidr_set_contains(loopback, ARRAY_LEN(loopback), ip);
}

bool ip_is_link_local(const struct ip *ip)
{
    static const struct cidr link_local[] = {V4(169, 254, 0, 0, 16), {{6, {0xfe, 0x80}}, 10}};
    return cidr_set_contains(link_local, ARRAY_LEN(link_local), ip);
}
