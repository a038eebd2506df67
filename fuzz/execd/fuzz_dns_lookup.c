/* Answers of a name server to our one question. */
#include <stdint.h>
#include <stdlib.h>

#include "execd/lookup.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct io_addr addr;
    uint16_t id = size >= 2 ? (uint16_t)(data[0] << 8 | data[1]) : 0;
    for (int i = 0; i < 2; i++) {
        int r = dns_answer_parse(data, size, id, i ? DNS_A : DNS_AAAA, 53, &addr);
        if (r == 0 && io_addr_port(&addr) != 53) {
            abort();
        }
    }
    return 0;
}
