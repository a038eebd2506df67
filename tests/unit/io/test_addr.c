/* Addresses to and from text. */

#include "util.h"

#include "io/addr.h"

static void check_ip(const char *in, const char *ip, const char *full, bool loopback)
{
    struct io_addr a;
    char text[IO_ADDR_TEXT_MAX];

    assert_int_equal(io_addr_ip(str_from(in), 80, &a), 0);
    assert_string_equal(io_addr_format_ip(&a, text), ip);
    assert_string_equal(io_addr_format(&a, text), full);
    assert_int_equal(io_addr_port(&a), 80);
    assert_int_equal(io_addr_is_loopback(&a), loopback);
}

static void test_ip(void **state)
{
    (void)state;
    check_ip("127.0.0.1", "127.0.0.1", "127.0.0.1:80", true);
    check_ip("127.9.9.9", "127.9.9.9", "127.9.9.9:80", true);
    check_ip("10.0.0.1", "10.0.0.1", "10.0.0.1:80", false);
    check_ip("::1", "::1", "[::1]:80", true);
    check_ip("[::1]", "::1", "[::1]:80", true);
    check_ip("2001:DB8::0:1", "2001:db8::1", "[2001:db8::1]:80", false);
    check_ip("::ffff:127.0.0.1", "::ffff:127.0.0.1", "[::ffff:127.0.0.1]:80", true);
}

static void test_ip_refused(void **state)
{
    static const char *const bad[] = {"",          "localhost", "1.2.3",  "1.2.3.4.5", "01.2.3.4",
                                      "[1.2.3.4]", "[::1",      "::1]",   " ::1",      "1.2.3.4 ",
                                      ":::",       "256.1.1.1", "::1%lo", "[]"};
    struct io_addr a = {.len = 77};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(io_addr_ip(str_from(bad[i]), 1, &a), -EINVAL);
    }
    assert_int_equal(io_addr_ip(str_n("1.2.3.4\0", 8), 1, &a), -EINVAL);
    assert_int_equal(a.len, 77); /* written on success only */
}

static void test_unix(void **state)
{
    struct io_addr a, b;
    char text[IO_ADDR_TEXT_MAX], longest[200];

    (void)state;
    assert_int_equal(io_addr_unix(STR("/run/x.sock"), &a), 0);
    assert_string_equal(io_addr_format(&a, text), "unix:/run/x.sock");
    assert_true(io_addr_is_loopback(&a));
    assert_int_equal(io_addr_port(&a), 0);
    assert_int_equal(io_addr_unix(STR("@name"), &b), 0);
    assert_string_equal(io_addr_format(&b, text), "unix:@name");
    assert_false(io_addr_eq(&a, &b));
    assert_true(io_addr_eq(&b, &b));
    memset(longest, 'x', sizeof(longest));
    assert_int_equal(io_addr_unix(str_n(longest, sizeof(a.un.sun_path)), &a), -ENAMETOOLONG);
    assert_int_equal(io_addr_unix(str_n(longest, sizeof(a.un.sun_path) - 1), &a), 0);
    assert_int_equal(strlen(io_addr_format(&a, text)), 5 + sizeof(a.un.sun_path) - 1);
    assert_int_equal(io_addr_unix(STR(""), &a), -EINVAL);
    assert_int_equal(io_addr_unix(str_n("a\0b", 3), &a), -EINVAL);
}

static void test_eq(void **state)
{
    struct io_addr a, b;

    (void)state;
    assert_int_equal(io_addr_ip(STR("1.2.3.4"), 1, &a), 0);
    assert_int_equal(io_addr_ip(STR("1.2.3.4"), 1, &b), 0);
    assert_true(io_addr_eq(&a, &b));
    assert_int_equal(io_addr_ip(STR("1.2.3.4"), 2, &b), 0);
    assert_false(io_addr_eq(&a, &b));
    assert_int_equal(io_addr_ip(STR("::1"), 1, &b), 0);
    assert_false(io_addr_eq(&a, &b));
    assert_int_equal(io_addr_ip(STR("0:0::1"), 1, &a), 0);
    assert_true(io_addr_eq(&a, &b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ip),
        cmocka_unit_test(test_ip_refused),
        cmocka_unit_test(test_unix),
        cmocka_unit_test(test_eq),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
