/* Addresses and prefixes: formatted and read again they are the same, and a prefix contains its
 * own network. */

#include <stddef.h>
#include <stdint.h>

#include "base/must.h"
#include "net/cidr.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str s = str_n((const char *)data, size);
    struct ip ip, ip2;
    char text[IP_TEXT_MAX + 4];
    if (ip_parse(s, &ip) == 0) {
        must(ip.family == 4 || ip.family == 6);
        must(ip_parse(str_from(ip_format(&ip, text)), &ip2) == 0);
        must(memcmp(&ip, &ip2, sizeof(ip)) == 0);
        must(!ip_is_loopback(&ip) || ip_is_internal(&ip));
        must(!ip_is_metadata(&ip) || ip_is_internal(&ip));
        must(!ip_is_link_local(&ip) || ip_is_internal(&ip));
    }
    struct cidr c, c2;
    if (cidr_parse(s, &c) == 0) {
        must(c.bits <= (c.net.family == 6 ? 128 : 32));
        must(cidr_parse(str_from(cidr_format(&c, text)), &c2) == 0);
        must(memcmp(&c, &c2, sizeof(c)) == 0);
        must(cidr_contains(&c, &c.net));
    }
    if (size >= 18) { /* binary addresses too */
        ip = (struct ip){.family = data[0] & 1 ? 4 : 6};
        memcpy(ip.b, data + 1, ip.family == 4 ? 4 : 16);
        (void)ip_is_internal(&ip);
        must(ip_parse(str_from(ip_format(&ip, text)), &ip2) == 0);
        c = (struct cidr){ip, (uint8_t)(data[17] % (ip.family == 4 ? 33 : 129))};
        must(cidr_contains(&c, &c.net) || ip2.family != ip.family);
    }
    return 0;
}
