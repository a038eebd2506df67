/* Payloads of the Redis list: an id that fits, or an error. */

#include <stdint.h>

#include "base/must.h"
#include "server/proxy/redis.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char id[SANDBOX_ID_MAX];
    if (renew_intent_parse(str_n((const char *)data, size), 0, id) == 0) {
        must(id[0] && strlen(id) < sizeof(id));
    }
    return 0;
}
