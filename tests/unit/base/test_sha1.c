/* SHA-1 against the published vectors, and however the input is split. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/must.h"
#include "base/sha1.h"

static void hash_hex(struct str s, size_t piece, char out[2 * SHA1_LEN + 1])
{
    struct sha1 h;
    sha1_init(&h);
    while (s.n > 0) {
        size_t n = MIN(piece, s.n);
        sha1_add(&h, str_n(s.p, n));
        s = str_n(s.p + n, s.n - n);
    }
    uint8_t sum[SHA1_LEN];
    sha1_done(&h, sum);
    for (size_t i = 0; i < SHA1_LEN; i++) {
        (void)snprintf(out + 2 * i, 3, "%02x", sum[i]);
    }
}

static void test_vectors(void **state)
{
    static const struct {
        const char *in, *hex;
    } cases[] = {
        {"", "da39a3ee5e6b4b0d3255bfef95601890afd80709"},
        {"abc", "a9993e364706816aba3e25717850c26c9cd0d89d"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "84983e441c3bd26ebaae4aa1f95129e5e54670f1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrl"
         "m"
         "nopqrsmnopqrstnopqrstu",
         "a49b2446a02c645bf419f995b67091253a04a259"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char hex[2 * SHA1_LEN + 1] = "";
        for (size_t piece = 1; piece < 130; piece++) {
            hash_hex(str_from(cases[i].in), piece, hex);
            assert_string_equal(hex, cases[i].hex);
        }
    }
}

static void test_million(void **state)
{
    static char a[1000000];
    memset(a, 'a', sizeof(a));
    char hex[2 * SHA1_LEN + 1];
    hash_hex(str_n(a, sizeof(a)), 4099, hex);
    assert_string_equal(hex, "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_million),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
