/* Names with compression: reading ends, stays inside, and text means one wire form. */

#include <stddef.h>
#include <stdint.h>

#include "base/must.h"
#include "net/dns.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) {
        return 0;
    }
    struct str msg = str_n((const char *)data + 1, size - 1);
    size_t at = msg.n ? data[0] % msg.n : 0, from = at;
    char text[DNS_TEXT_MAX], text2[DNS_TEXT_MAX];
    uint8_t wire[DNS_WIRE_NAME_MAX];
    if (dns_name_parse(msg, &at, text) == 0) {
        must(at > from && at <= msg.n);
        int n = dns_name_format(str_from(text), wire);
        must(n > 0 && n <= DNS_WIRE_NAME_MAX);
        size_t zero = 0;
        must(dns_name_parse(str_n((const char *)wire, (size_t)n), &zero, text2) == 0);
        must(zero == (size_t)n && strcmp(text, text2) == 0);
    }
    int n = dns_name_format(msg, wire);
    if (n > 0) {
        at = 0;
        must(dns_name_parse(str_n((const char *)wire, (size_t)n), &at, text) == 0);
    }
    return 0;
}
