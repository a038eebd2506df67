/* SHA-256, straight from the standard, and HMAC. */

#include "base/sha256.h"

#include <string.h>

#include "base/must.h"

static const uint32_t round_keys[64] = {
    0x428a2f98u, 0x71374491u, 0xb5c0fbcfu, 0xe9b5dba5u, 0x3956c25bu, 0x59f111f1u, 0x923f82a4u,
    0xab1c5ed5u, 0xd807aa98u, 0x12835b01u, 0x243185beu, 0x550c7dc3u, 0x72be5d74u, 0x80deb1feu,
    0x9bdc06a7u, 0xc19bf174u, 0xe49b69c1u, 0xefbe4786u, 0x0fc19dc6u, 0x240ca1ccu, 0x2de92c6fu,
    0x4a7484aau, 0x5cb0a9dcu, 0x76f988dau, 0x983e5152u, 0xa831c66du, 0xb00327c8u, 0xbf597fc7u,
    0xc6e00bf3u, 0xd5a79147u, 0x06ca6351u, 0x14292967u, 0x27b70a85u, 0x2e1b2138u, 0x4d2c6dfcu,
    0x53380d13u, 0x650a7354u, 0x766a0abbu, 0x81c2c92eu, 0x92722c85u, 0xa2bfe8a1u, 0xa81a664bu,
    0xc24b8b70u, 0xc76c51a3u, 0xd192e819u, 0xd6990624u, 0xf40e3585u, 0x106aa070u, 0x19a4c116u,
    0x1e376c08u, 0x2748774cu, 0x34b0bcb5u, 0x391c0cb3u, 0x4ed8aa4au, 0x5b9cca4fu, 0x682e6ff3u,
    0x748f82eeu, 0x78a5636fu, 0x84c87814u, 0x8cc70208u, 0x90befffau, 0xa4506cebu, 0xbef9a3f7u,
    0xc67178f2u,
};

static uint32_t rotr(uint32_t v, unsigned n)
{
    return (v >> n) | (v << (32 - n));
}

static void sha256_block(uint32_t *h, const uint8_t *p)
{
    uint32_t w[64], v[8];
    for (size_t i = 0; i < 16; i++) {
        w[i] = blockhash_load(p + 4 * i);
    }
    for (unsigned i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        uint32_t s0 = rotr(a, 7) ^ rotr(a, 18) ^ (a >> 3);
        uint32_t s1 = rotr(b, 17) ^ rotr(b, 19) ^ (b >> 10);
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    memcpy(v, h, sizeof(v));
    for (unsigned i = 0; i < 64; i++) {
        uint32_t a = v[0], e = v[4];
        uint32_t s1 = rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25);
        uint32_t t1 = v[7] + s1 + ((e & v[5]) ^ (~e & v[6])) + round_keys[i] + w[i];
        uint32_t s0 = rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22);
        uint32_t t2 = s0 + ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof(v[0]));
        v[4] += t1;
        v[0] = t1 + t2;
    }
    for (size_t i = 0; i < 8; i++) {
        h[i] += v[i];
    }
}

void sha256_init(struct sha256 *s)
{
    *s = (struct sha256){.hash.h = {0x6a09e667u, 0xbb67ae85u, 0x3c6ef372u, 0xa54ff53au, 0x510e527fu,
                                    0x9b05688cu, 0x1f83d9abu, 0x5be0cd19u}};
}

void sha256_add(struct sha256 *s, struct str data)
{
    blockhash_add(&s->hash, sha256_block, data);
}

void sha256_done(struct sha256 *s, uint8_t out[SHA256_LEN])
{
    blockhash_done(&s->hash, sha256_block, out, SHA256_LEN / 4);
}

void hmac_sha256_init(struct hmac_sha256 *m, struct str key)
{
    uint8_t k[64] = {0}, pad[64];
    if (key.n > sizeof(k)) {
        struct sha256 s;
        sha256_init(&s);
        sha256_add(&s, key);
        sha256_done(&s, k);
    } else if (key.n) {
        memcpy(k, key.p, key.n);
    }
    for (size_t i = 0; i < sizeof(k); i++) {
        pad[i] = k[i] ^ 0x36;
    }
    sha256_init(&m->inner);
    sha256_add(&m->inner, str_n((const char *)pad, sizeof(pad)));
    for (size_t i = 0; i < sizeof(k); i++) {
        pad[i] = k[i] ^ 0x5c;
    }
    sha256_init(&m->outer);
    sha256_add(&m->outer, str_n((const char *)pad, sizeof(pad)));
}

void hmac_sha256_add(struct hmac_sha256 *m, struct str data)
{
    sha256_add(&m->inner, data);
}

void hmac_sha256_done(struct hmac_sha256 *m, uint8_t out[SHA256_LEN])
{
    sha256_done(&m->inner, out);
    sha256_add(&m->outer, str_n((const char *)out, SHA256_LEN));
    sha256_done(&m->outer, out);
}
