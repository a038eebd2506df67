/* The metadata filter of a list: pairs without NUL and with distinct keys, or a 400. */

#include <stdint.h>

#include "base/must.h"
#include "server/api/api.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a = {0};
    struct str_map m = {0};
    struct problem p = {0};
    if (query_metadata(&a, str_n((const char *)data, size), &m, &p) < 0) {
        must(p.status == 400);
    }
    for (size_t i = 0; i < m.n; i++) {
        must(str_map_get(&m, m.v[i].key) == m.v[i].value);
    }
    problem_done(&p);
    arena_done(&a);
    return 0;
}
