#include "base/rand.h"

#include <string.h>

#include "../test.h"

static void bytes_differ(void **state)
{
    char a[64] = {0}, b[64] = {0};
    rand_bytes(a, sizeof(a));
    rand_bytes(b, sizeof(b));
    assert_memory_not_equal(a, b, sizeof(a));
    static char big[100000]; /* getrandom may return less at once */
    rand_bytes(big, sizeof(big));
    size_t zeros = 0;
    for (size_t i = 0; i < sizeof(big); i++) {
        zeros += big[i] == 0;
    }
    assert_true(zeros > 200 && zeros < 600);
    assert_true(rand_u64() != rand_u64());
}

static void below_is_in_range_and_reaches_all(void **state)
{
    bool seen[7] = {false};
    for (int i = 0; i < 1000; i++) {
        uint64_t v = rand_below(7);
        assert_true(v < 7);
        seen[v] = true;
    }
    for (int i = 0; i < 7; i++) {
        assert_true(seen[i]);
    }
    assert_int_equal(rand_below(1), 0);
    uint64_t large = ((uint64_t)1 << 63) + 1; /* half of all draws are thrown away */
    for (int i = 0; i < 200; i++) {
        assert_true(rand_below(large) < large);
    }
}

static void below_zero(void)
{
    (void)rand_below(0);
}

static void below_zero_aborts(void **state)
{
    assert_aborts(below_zero);
}

static void ids(void **state)
{
    for (int i = 0; i < 100; i++) {
        char id[ID_HEX_LEN + 1], uuid[UUID_LEN + 1];
        rand_id_hex(id);
        assert_int_equal(strlen(id), 32);
        assert_int_equal(strspn(id, "0123456789abcdef"), 32);
        assert_int_equal(id[12], '4');
        assert_non_null(strchr("89ab", id[16]));
        rand_uuid(uuid);
        assert_int_equal(strlen(uuid), 36);
        assert_true(uuid[8] == '-' && uuid[13] == '-' && uuid[18] == '-' && uuid[23] == '-');
        assert_int_equal(uuid[14], '4');
        assert_non_null(strchr("89ab", uuid[19]));
        assert_int_equal(strspn(uuid, "0123456789abcdef-"), 36);
    }
}

static void tokens(void **state)
{
    char t[201];
    rand_token(t, 200);
    assert_int_equal(strlen(t), 200);
    assert_int_equal(strspn(t, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"),
                     200);
    rand_token(t, 0);
    assert_int_equal(t[0], 0);
    size_t count[128] = {0};
    for (int i = 0; i < 500; i++) {
        rand_token(t, 200);
        for (int k = 0; k < 200; k++) {
            count[(unsigned char)t[k]]++;
        }
    }
    for (const char *c = "09AZaz"; *c; c++) { /* about 1613 each */
        assert_in_range(count[(unsigned char)*c], 1200, 2100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_differ),
        cmocka_unit_test(below_is_in_range_and_reaches_all),
        cmocka_unit_test(below_zero_aborts),
        cmocka_unit_test(ids),
        cmocka_unit_test(tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
