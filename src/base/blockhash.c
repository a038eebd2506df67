/* Blocks and padding. */

#include "base/blockhash.h"

#include <string.h>

#include "base/must.h"

uint32_t blockhash_load(const uint8_t *p)
{
    return ((uint32_t)p[0] << 24) | ((uint32_t)p[1] << 16) | ((uint32_t)p[2] << 8) | p[3];
}

static void store(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t)(v >> 24);
    p[1] = (uint8_t)(v >> 16);
    p[2] = (uint8_t)(v >> 8);
    p[3] = (uint8_t)v;
}

void blockhash_add(struct blockhash *b, blockhash_fn *fn, struct str data)
{
    while (data.n > 0) {
        size_t at = (size_t)(b->n % BLOCKHASH_BLOCK);
        size_t n = MIN(BLOCKHASH_BLOCK - at, data.n);
        if (n == BLOCKHASH_BLOCK) {
            fn(b->h, (const uint8_t *)data.p);
        } else {
            memcpy(b->block + at, data.p, n);
            if (at + n == BLOCKHASH_BLOCK) {
                fn(b->h, b->block);
            }
        }
        b->n += n;
        data = str_n(data.p + n, data.n - n);
    }
}

void blockhash_done(struct blockhash *b, blockhash_fn *fn, uint8_t *out, size_t n_words)
{
    static const char zeros[BLOCKHASH_BLOCK];
    uint8_t bits[8];
    store(bits, (uint32_t)(b->n >> 29));
    store(bits + 4, (uint32_t)(b->n << 3));
    blockhash_add(b, fn, STR("\x80"));
    size_t used = (size_t)((b->n + sizeof(bits)) % BLOCKHASH_BLOCK);
    blockhash_add(b, fn, str_n(zeros, used ? BLOCKHASH_BLOCK - used : 0));
    blockhash_add(b, fn, str_n((const char *)bits, sizeof(bits)));
    for (size_t i = 0; i < n_words; i++) {
        store(out + 4 * i, b->h[i]);
    }
}
