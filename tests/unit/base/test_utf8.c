#include "base/utf8.h"

#include <errno.h>

#include "../test.h"

/* By the definition: decode, then ask whether the shortest form was used. */
static int naive_next(const uint8_t *p, size_t n, uint32_t *ret_cp)
{
    if (n == 0) {
        return 0;
    }
    int len = p[0] < 0x80             ? 1
              : (p[0] & 0xe0) == 0xc0 ? 2
              : (p[0] & 0xf0) == 0xe0 ? 3
              : (p[0] & 0xf8) == 0xf0 ? 4
                                      : 0;
    if (len == 0 || (size_t)len > n) {
        return 0;
    }
    uint32_t cp = len == 1 ? p[0] : p[0] & (0x7fu >> len);
    for (int i = 1; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            return 0;
        }
        cp = cp << 6 | (p[i] & 0x3fu);
    }
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (cp < least[len] || cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000)) {
        return 0;
    }
    *ret_cp = cp;
    return len;
}

static bool naive_valid(const uint8_t *p, size_t n)
{
    while (n) {
        uint32_t cp;
        int len = naive_next(p, n, &cp);
        if (len == 0) {
            return false;
        }
        p += len;
        n -= (size_t)len;
    }
    return true;
}

/* -1 exactly when some continuation makes the bytes valid. */
static bool naive_unfinished(const uint8_t *p, size_t n)
{
    if (n == 0 || n > 3) {
        return n == 0;
    }
    uint8_t full[4] = {0};
    memcpy(full, p, n);
    static const uint8_t tails[] = {0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf};
    for (size_t a = 0; a < 6; a++) {
        full[n] = tails[a];
        for (size_t len = n + 1; len <= 4; len++) {
            uint32_t cp;
            if (len > n + 1) {
                full[len - 1] = 0x80;
            }
            if (naive_next(full, len, &cp) == (int)len) {
                return true;
            }
        }
    }
    return false;
}

static const uint8_t interesting[] = {0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf,
                                      0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xec, 0xed, 0xee,
                                      0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xf8, 0xff};
enum { N = sizeof(interesting) };

static void next_agrees_with_the_definition(void **state)
{
    uint8_t p[4];
    for (size_t i = 0; i < (size_t)N * N * N * N; i++) {
        size_t v = i;
        for (size_t k = 0; k < 4; k++, v /= N) {
            p[k] = interesting[v % N];
        }
        for (size_t n = 1; n <= 4; n++) {
            uint32_t want = 0, got = 0;
            int len = naive_next(p, n, &want);
            int r = utf8_next(str_n((const char *)p, n), &got);
            if (len) {
                assert_int_equal(r, len);
                assert_int_equal(got, want);
            } else {
                assert_int_equal(r, naive_unfinished(p, n) ? -1 : 0);
            }
        }
    }
    assert_int_equal(utf8_next(STR_NULL, NULL), -1);
}

static void every_code_point_is_read(void **state)
{
    for (uint32_t cp = 0x80; cp <= 0x10ffff; cp += cp < 0x3000 ? 1 : 37) {
        uint8_t p[4];
        int n = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
        for (int i = n - 1; i > 0; i--) {
            p[i] = (uint8_t)(0x80 | (cp >> (6 * (n - 1 - i)) & 0x3f));
        }
        p[0] = (uint8_t)(0xf00u >> n | cp >> (6 * (n - 1)));
        uint32_t got = 0;
        bool surrogate = cp >= 0xd800 && cp < 0xe000;
        assert_int_equal(utf8_next(str_n((const char *)p, (size_t)n), &got), surrogate ? 0 : n);
        assert_int_equal(got, surrogate ? 0 : cp);
    }
}

/* Random strings from pieces that are often valid. */
static size_t random_text(uint64_t *seed, uint8_t *out, size_t max)
{
    static const char *const pieces[] = {"a",
                                         "plain ascii text",
                                         "\xc3\xa9",
                                         "\xe2\x82\xac",
                                         "\xf0\x9f\x98\x80",
                                         "\xc3",
                                         "\xe2\x82",
                                         "\xf0\x9f\x98",
                                         "\x80",
                                         "\xed\xa0\x80",
                                         "\xff",
                                         "\n"};
    size_t n = 0;
    unsigned count = test_rand(seed) % 12;
    for (unsigned i = 0; i < count; i++) {
        const char *p = pieces[test_rand(seed) % (test_rand(seed) % 4 ? 5 : 12)];
        if (n + strlen(p) > max) {
            break;
        }
        memcpy(out + n, p, strlen(p));
        n += strlen(p);
    }
    return n;
}

static void validity_whole_and_in_pieces(void **state)
{
    uint64_t seed = 21;
    int n_valid = 0;
    for (int i = 0; i < 50000; i++) {
        uint8_t text[256];
        size_t n = random_text(&seed, text, sizeof(text));
        struct str s = str_n((const char *)text, n);
        bool valid = naive_valid(text, n);
        n_valid += valid;
        assert_int_equal(utf8_valid(s), valid);
        struct utf8_check c = {0};
        bool ok = true;
        for (size_t at = 0; at < n && ok;) {
            size_t step = 1 + test_rand(&seed) % 5;
            ok = utf8_check_feed(&c, str_sub(s, at, at + step));
            at += step;
        }
        assert_int_equal(ok && utf8_check_done(&c), valid);
    }
    assert_in_range(n_valid, 5000, 45000); /* both kinds were tried */
}

static void repair_gives_valid_text(void **state)
{
    uint64_t seed = 22;
    for (int i = 0; i < 20000; i++) {
        uint8_t text[256];
        size_t n = random_text(&seed, text, sizeof(text));
        struct buf b = BUF_INIT(1000);
        assert_int_equal(utf8_repair(&b, str_n((const char *)text, n)), 0);
        assert_true(utf8_valid(buf_str(&b)));
        if (naive_valid(text, n)) {
            assert_int_equal(b.len, n);
            assert_true(n == 0 || memcmp(b.p, text, n) == 0);
        }
        buf_done(&b);
    }
    struct buf b = BUF_INIT(100);
    assert_int_equal(utf8_repair(&b, STR("a\xff\xc3\xe2\x82z\xe2\x82")), 0);
    assert_string_equal(
        buf_cstr(&b), "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz\xef\xbf\xbd\xef\xbf\xbd");
    buf_done(&b);
    struct buf small = BUF_INIT(3);
    assert_int_equal(utf8_repair(&small, STR("ab\xff")), -ENOSPC);
    buf_done(&small);
}

static void tail_and_floor(void **state)
{
    assert_int_equal(utf8_tail(STR("")), 0);
    assert_int_equal(utf8_tail(STR("abc")), 0);
    assert_int_equal(utf8_tail(STR("a\xc3")), 1);
    assert_int_equal(utf8_tail(STR("a\xc3\xa9")), 0);
    assert_int_equal(utf8_tail(STR("\xe2\x82")), 2);
    assert_int_equal(utf8_tail(STR("\xf0\x9f\x98")), 3);
    assert_int_equal(utf8_tail(STR("\xf0\x9f\x98\x80")), 0);
    assert_int_equal(utf8_tail(STR("\xed\xa0")), 0); /* a surrogate never becomes valid */
    assert_int_equal(utf8_tail(STR("\xff")), 0);
    assert_int_equal(utf8_tail(STR("\x80\x80\x80\x80")), 0);
    struct str s = STR("a\xe2\x82\xacz");
    static const size_t want[] = {0, 1, 1, 1, 4, 5, 5};
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(utf8_floor(s, i), want[i]);
    }
    assert_int_equal(utf8_floor(STR_NULL, 10), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(next_agrees_with_the_definition),
        cmocka_unit_test(every_code_point_is_read),
        cmocka_unit_test(validity_whole_and_in_pieces),
        cmocka_unit_test(repair_gives_valid_text),
        cmocka_unit_test(tail_and_floor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
