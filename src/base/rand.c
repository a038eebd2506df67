/* Randomness from the kernel. There is no fallback: without getrandom(2) nothing here is safe. */

#include "base/rand.h"

#include <errno.h>
#include <stdio.h>
#include <sys/random.h>

#include "base/must.h"

void rand_bytes(void *p, size_t n)
{
    char *at = p;
    while (n) {
        ssize_t got = getrandom(at, n, 0);
        if (got < 0) {
            must(errno == EINTR);
            continue;
        }
        at += got;
        n -= (size_t)got;
    }
}

uint64_t rand_u64(void)
{
    uint64_t v;
    rand_bytes(&v, sizeof(v));
    return v;
}

uint64_t rand_below(uint64_t n)
{
    must(n > 0);
    /* Values under 2^64 mod n would make the small remainders likelier. */
    uint64_t threshold = (0 - n) % n;
    for (;;) {
        uint64_t v = rand_u64();
        if (v >= threshold) {
            return v % n;
        }
    }
}

static void uuid4(uint8_t b[16])
{
    rand_bytes(b, 16);
    b[6] = (uint8_t)((b[6] & 0x0f) | 0x40);
    b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
}

static char *put_hex(char *at, const uint8_t *b, size_t n)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        *at++ = digits[b[i] >> 4];
        *at++ = digits[b[i] & 15];
    }
    return at;
}

void rand_id_hex(char out[ID_HEX_LEN + 1])
{
    uint8_t b[16];
    uuid4(b);
    *put_hex(out, b, 16) = 0;
}

void rand_uuid(char out[UUID_LEN + 1])
{
    static const uint8_t groups[] = {4, 2, 2, 2, 6};
    uint8_t b[16];
    uuid4(b);
    char *at = out;
    const uint8_t *from = b;
    for (size_t i = 0; i < ARRAY_LEN(groups); i++) {
        if (i) {
            *at++ = '-';
        }
        at = put_hex(at, from, groups[i]);
        from += groups[i];
    }
    *at = 0;
}

void rand_token(char *out, size_t n)
{
    static const char alphabet[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    size_t done = 0;
    while (done < n) {
        uint8_t pool[64];
        rand_bytes(pool, sizeof(pool));
        for (size_t i = 0; i < sizeof(pool) && done < n; i++) {
            if (pool[i] < 62 * 4) { /* the rest of the range would favour some characters */
                out[done++] = alphabet[pool[i] % 62];
            }
        }
    }
    out[n] = 0;
}
