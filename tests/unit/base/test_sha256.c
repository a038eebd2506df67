/* SHA-256 and its HMAC against published vectors, however the input is split. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/must.h"
#include "base/sha256.h"

static void to_hex(const uint8_t sum[SHA256_LEN], char out[2 * SHA256_LEN + 1])
{
    for (size_t i = 0; i < SHA256_LEN; i++) {
        (void)snprintf(out + 2 * i, 3, "%02x", sum[i]);
    }
}

static void hash_hex(struct str s, size_t piece, char out[2 * SHA256_LEN + 1])
{
    struct sha256 h;
    uint8_t sum[SHA256_LEN];
    sha256_init(&h);
    while (s.n > 0) {
        size_t n = MIN(piece, s.n);
        sha256_add(&h, str_n(s.p, n));
        s = str_n(s.p + n, s.n - n);
    }
    sha256_done(&h, sum);
    to_hex(sum, out);
}

static void test_vectors(void **state)
{
    /* FIPS 180-4 examples */
    static const struct {
        struct str in;
        const char *hex;
    } cases[] = {
        {{"", 0}, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {{"abc", 3}, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {{"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56},
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    char hex[2 * SHA256_LEN + 1];
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        hash_hex(cases[i].in, SIZE_MAX, hex);
        assert_string_equal(hex, cases[i].hex);
    }
}

static void test_split(void **state)
{
    char text[1000], whole[2 * SHA256_LEN + 1], pieces[2 * SHA256_LEN + 1];
    memset(text, 'a', sizeof(text));
    hash_hex(str_n(text, sizeof(text)), SIZE_MAX, whole);
    assert_string_equal(whole, "41edece42d63e8d9bf515a9ba6932e1c20cbc9f5a5d134645adb5db1b9737ea3");
    for (size_t piece = 1; piece < 200; piece++) {
        hash_hex(str_n(text, sizeof(text)), piece, pieces);
        assert_string_equal(pieces, whole);
    }
}

static void test_hmac(void **state)
{
    /* RFC 4231, test cases 2 and 6 (a key longer than a block) */
    char long_key[131], hex[2 * SHA256_LEN + 1];
    memset(long_key, 0xaa, sizeof(long_key));
    const struct {
        struct str key, data;
        const char *hex;
    } cases[] = {
        {STR("Jefe"), STR("what do ya want for nothing?"),
         "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
        {{long_key, sizeof(long_key)},
         STR("Test Using Larger Than Block-Size Key - Hash Key First"),
         "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct hmac_sha256 m;
        uint8_t sum[SHA256_LEN];
        hmac_sha256_init(&m, cases[i].key);
        hmac_sha256_add(&m, str_sub(cases[i].data, 0, 5));
        hmac_sha256_add(&m, str_sub(cases[i].data, 5, cases[i].data.n));
        hmac_sha256_done(&m, sum);
        to_hex(sum, hex);
        assert_string_equal(hex, cases[i].hex);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_hmac),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
