/* Range values against sizes: what is satisfiable lies inside the file and is not empty. */

#include <errno.h>
#include <stdint.h>

#include "base/must.h"
#include "http/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t len;
    if (size < sizeof(len)) {
        return 0;
    }
    memcpy(&len, data, sizeof(len));
    struct http_range r;
    int got =
        http_range_parse(str_n((const char *)data + sizeof(len), size - sizeof(len)), len, &r);
    must(got == 0 || got == 1 || got == -ERANGE);
    must(got != 1 || (r.len > 0 && r.len <= len && r.start <= len - r.len));
    return 0;
}
