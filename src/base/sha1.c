/* SHA-1, straight from the standard; it hashes some sixty bytes per WebSocket handshake. */

#include "base/sha1.h"

#include <string.h>

static uint32_t rotl(uint32_t v, unsigned n)
{
    return (v << n) | (v >> (32 - n));
}

static uint32_t load_be32(const uint8_t *p)
{
    return ((uint32_t)p[0] << 24) | ((uint32_t)p[1] << 16) | ((uint32_t)p[2] << 8) | p[3];
}

static void store_be32(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t)(v >> 24);
    p[1] = (uint8_t)(v >> 16);
    p[2] = (uint8_t)(v >> 8);
    p[3] = (uint8_t)v;
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

static void sha1_block(struct sha1 *s, const uint8_t *p)
{
    uint32_t w[80];
    for (size_t i = 0; i < 16; i++) {
        w[i] = load_be32(p + 4 * i);
    }
    for (unsigned i = 16; i < 80; i++) {
        w[i] = rotl(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    }
    uint32_t a = s->h[0], b = s->h[1], c = s->h[2], d = s->h[3], e = s->h[4];
    for (unsigned i = 0; i < 80; i++) {
        uint32_t t = rotl(a, 5) + sha1_f(i, b, c, d) + e + w[i];
        e = d;
        d = c;
        c = rotl(b, 30);
        b = a;
        a = t;
    }
    s->h[0] += a;
    s->h[1] += b;
    s->h[2] += c;
    s->h[3] += d;
    s->h[4] += e;
}

void sha1_init(struct sha1 *s)
{
    *s = (struct sha1){.h = {0x67452301u, 0xefcdab89u, 0x98badcfeu, 0x10325476u, 0xc3d2e1f0u}};
}

void sha1_add(struct sha1 *s, struct str data)
{
    while (data.n > 0) {
        size_t at = (size_t)(s->n % sizeof(s->block));
        size_t n = sizeof(s->block) - at;
        if (n > data.n) {
            n = data.n;
        }
        memcpy(s->block + at, data.p, n);
        s->n += n;
        data.p += n;
        data.n -= n;
        if (at + n == sizeof(s->block)) {
            sha1_block(s, s->block);
        }
    }
}

void sha1_done(struct sha1 *s, uint8_t out[SHA1_LEN])
{
    uint64_t bits = s->n * 8;
    uint8_t tail[8];
    store_be32(tail, (uint32_t)(bits >> 32));
    store_be32(tail + 4, (uint32_t)bits);
    sha1_add(s, STR("\x80"));
    while (s->n % sizeof(s->block) != sizeof(s->block) - sizeof(tail)) {
        sha1_add(s, (struct str){"\0", 1});
    }
    sha1_add(s, (struct str){(const char *)tail, sizeof(tail)});
    for (size_t i = 0; i < 5; i++) {
        store_be32(out + 4 * i, s->h[i]);
    }
}
