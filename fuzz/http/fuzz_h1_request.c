/* Request heads: no prefix of an accepted head is accepted, a refused prefix stays refused, and all
 * views lie inside the input. */

#include <stdint.h>

#include "base/must.h"
#include "http/h1.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_view(struct str s, const char *p, size_t n)
{
    must(s.n == 0 || (s.p >= p && s.p + s.n <= p + n));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct h1_head h, part;
    /* A copy of the exact size, so that reading over the end is noticed. */
    char *p = xmalloc(size ? size : 1);
    memcpy(p, data, size);
    size_t len = 0, part_len = 0;
    enum h1_result r = h1_parse_request(p, size, &h, &len);
    if (r == H1_DONE) {
        must(len <= size && len <= HTTP_MAX_HEAD);
        must(!(h.chunked && h.content_length >= 0));
        check_view(h.method, p, len);
        check_view(h.target, p, len);
        check_view(h.host, p, len);
        for (size_t i = 0; i < h.n_headers; i++) {
            check_view(h.headers[i].name, p, len);
            check_view(h.headers[i].value, p, len);
            must(h1_is_token(h.headers[i].name) && h1_is_field_value(h.headers[i].value));
        }
        must(h1_parse_request(p, len, &part, &part_len) == H1_DONE && part_len == len);
    }
    size_t cut = r == H1_DONE ? len - 1 : size;
    for (size_t n = 0; n <= cut; n += 1 + cut / 64) {
        enum h1_result pr = h1_parse_request(p, n, &part, &part_len);
        must(pr != H1_DONE);
        must(pr != H1_BAD || (r == H1_BAD && part.bad_status == h.bad_status));
    }
    free(p);
    return 0;
}
