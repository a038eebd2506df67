/* Chunked bodies: the same verdict, data and rest whatever the split (the first byte picks it). */

#include <stdint.h>

#include "base/must.h"
#include "http/h1.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
    int r;
    size_t used, n;
    uint64_t hash;
};

static struct outcome decode(struct str in, size_t step)
{
    struct h1_chunked c = {0};
    struct outcome o = {.hash = 14695981039346656037u};
    while (o.r == 0 && o.used < in.n) {
        struct str piece = str_sub(in, o.used, o.used + step), data;
        size_t before = piece.n;
        while ((o.r = h1_chunked_next(&c, &piece, &data)) == 1) {
            must(data.n > 0);
            for (size_t i = 0; i < data.n; i++) {
                o.hash = (o.hash ^ (uint8_t)data.p[i]) * 1099511628211u;
            }
            o.n += data.n;
        }
        must(o.r != 0 || piece.n == 0);
        o.used += before - piece.n;
    }
    return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    struct str in = str_n((const char *)data + 1, size - 1);
    struct outcome whole = decode(in, in.n ? in.n : 1);
    struct outcome pieces = decode(in, 1 + data[0] % 16);
    must(whole.r == pieces.r && whole.n == pieces.n && whole.hash == pieces.hash);
    must(whole.r < 0 || whole.used == pieces.used);
    return 0;
}
