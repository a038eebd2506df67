/* hex, base64, base36, percent: what decodes encodes back, and what is encoded decodes. */

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/codec.h"
#include "base/must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str s = str_n((const char *)data, size);
    uint8_t *out = xmalloc(size + 1);
    struct buf b = BUF_INIT(size * 4 + 16);

    ssize_t n = base64_decode(s, out, size);
    if (n >= 0) {
        must(base64_encode(&b, out, (size_t)n) == 0);
        must(str_eq(buf_str(&b), s)); /* one text per value */
    }
    buf_clear(&b);
    n = base64url_decode(s, out, size);
    if (n >= 0) {
        must(base64url_encode(&b, out, (size_t)n) == 0);
        must(str_eq(buf_str(&b), s));
    }
    buf_clear(&b);
    n = hex_decode(s, out, size);
    if (n >= 0) {
        must(hex_encode(&b, out, (size_t)n) == 0);
        must(str_eq_nocase(buf_str(&b), s));
    }
    uint64_t v;
    (void)base36_decode(s, &v);

    buf_clear(&b);
    must(base64_encode(&b, data, size) == 0);
    must(base64_decode(buf_str(&b), out, size) == (ssize_t)size);
    must(memcmp(out, data, size) == 0);

    struct buf back = BUF_INIT(size + 1);
    for (int slash = 0; slash < 2; slash++) {
        buf_clear(&b);
        buf_clear(&back);
        must(percent_encode(&b, s, slash) == 0);
        must(percent_decode(&back, buf_str(&b), false) == 0);
        must(str_eq(buf_str(&back), s));
    }
    buf_clear(&back);
    (void)percent_decode(&back, s, true);
    buf_done(&back);
    buf_done(&b);
    free(out);
    return 0;
}
