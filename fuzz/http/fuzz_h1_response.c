/* Response heads, for the request method that the first byte picks. */

#include <stdint.h>

#include "base/must.h"
#include "http/h1.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct str methods[] = {{"GET", 3}, {"HEAD", 4}, {"CONNECT", 7}};
    static struct h1_head h, part;
    if (size == 0) {
        return 0;
    }
    struct str method = methods[data[0] % ARRAY_LEN(methods)];
    size--;
    char *p = xmalloc(size ? size : 1);
    memcpy(p, data + 1, size);
    size_t len = 0, part_len = 0;
    enum h1_result r = h1_parse_response(p, size, method, &h, &len);
    if (r == H1_DONE) {
        must(len <= size && h.status >= 100 && h.status <= 999);
        must(!(h.chunked && h.content_length >= 0));
        must(h.chunked || h.content_length >= 0 || !h.keep_alive);
        must(h1_is_field_value(h.reason));
    }
    size_t cut = r == H1_DONE ? len - 1 : size;
    for (size_t n = 0; n <= cut; n += 1 + cut / 64) {
        enum h1_result pr = h1_parse_response(p, n, method, &part, &part_len);
        must(pr != H1_DONE && (pr != H1_BAD || r == H1_BAD));
    }
    free(p);
    return 0;
}
