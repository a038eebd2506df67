/* SHA-1, straight from the standard; it hashes some sixty bytes per WebSocket handshake. */

#include "base/sha1.h"

#include <string.h>

static uint32_t rotl(uint32_t v, unsigned n)
{
    return (v << n) | (v >> (32 - n));
}

static uint32_t sha1_f(unsigned round, uint32_t b, uint32_t c, uint32_t d)
{
    switch (round / 20) {
    case 0:
        return ((b & c) | (~b & d)) + 0x5a827999u;
    case 1:
        return (b ^ c ^ d) + 0x6ed9eba1u;
    case 2:
        return ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdcu;
    default:
        return (b ^ c ^ d) + 0xca62c1d6u;
    }
}

static void sha1_block(uint32_t *h, const uint8_t *p)
{
    uint32_t w[80];
    for (size_t i = 0; i < 16; i++) {
        w[i] = blockhash_load(p + 4 * i);
    }
    for (unsigned i = 16; i < 80; i++) {
        w[i] = rotl(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    }
    uint32_t a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];
    for (unsigned i = 0; i < 80; i++) {
        uint32_t t = rotl(a, 5) + sha1_f(i, b, c, d) + e + w[i];
        e = d;
        d = c;
        c = rotl(b, 30);
        b = a;
        a = t;
    }
    h[0] += a;
    h[1] += b;
    h[2] += c;
    h[3] += d;
    h[4] += e;
}

void sha1_init(struct sha1 *s)
{
    *s = (struct sha1){.hash.h = {0x67452301u, 0xefcdab89u, 0x98badcfeu, 0x10325476u, 0xc3d2e1f0u}};
}

void sha1_add(struct sha1 *s, struct str data)
{
    blockhash_add(&s->hash, sha1_block, data);
}

void sha1_done(struct sha1 *s, uint8_t out[SHA1_LEN])
{
    blockhash_done(&s->hash, sha1_block, out, SHA1_LEN / 4);
}
