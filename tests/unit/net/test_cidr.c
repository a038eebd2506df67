#include "net/cidr.h"

#include <errno.h>
#include <stdio.h>

#include "../test.h"

static struct ip ip(const char *text)
{
    struct ip v;
    assert_int_equal(ip_parse(str_from(text), &v), 0);
    return v;
}

static struct cidr cidr(const char *text)
{
    struct cidr c;
    assert_int_equal(cidr_parse(str_from(text), &c), 0);
    return c;
}

static void addresses(void **state)
{
    static const struct {
        const char *in, *out;
        int family;
    } good[] = {
        {"0.0.0.0", "0.0.0.0", 4},
        {"255.255.255.255", "255.255.255.255", 4},
        {"::", "::", 6},
        {"::1", "::1", 6},
        {"2001:DB8:0:0:0:0:0:1", "2001:db8::1", 6},
        {"1:0:0:2::3", "1:0:0:2::3", 6},
        {"::ffff:10.1.2.3", "10.1.2.3", 4},
        {"::ffff:a01:203", "10.1.2.3", 4},
        {"64:ff9b::10.0.0.1", "64:ff9b::a00:1", 6},
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct ip v = ip(good[i].in);
        char text[IP_TEXT_MAX];
        assert_int_equal(v.family, good[i].family);
        assert_string_equal(ip_format(&v, text), good[i].out);
    }
    static const char *const bad[] = {"",
                                      "1",
                                      "1.2.3",
                                      "1.2.3.4.5",
                                      "1.2.3.256",
                                      "01.2.3.4",
                                      "1.2.3.04",
                                      "1.2.3.4 ",
                                      " 1.2.3.4",
                                      "0x1.2.3.4",
                                      "1.2.3.-4",
                                      ":::",
                                      "1::2::3",
                                      "12345::",
                                      "::g",
                                      "fe80::1%1",
                                      "fe80::1%eth0",
                                      "[::1]",
                                      "::1.2.3",
                                      "1:2:3:4:5:6:7",
                                      "1:2:3:4:5:6:7:8:9",
                                      "::ffff:1.2.3.256",
                                      "localhost"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct ip v;
        assert_int_equal(ip_parse(str_from(bad[i]), &v), -EINVAL);
    }
    struct ip v;
    assert_int_equal(ip_parse(STR("1.2.3.4\0"), &v), -EINVAL);
}

static void prefixes(void **state)
{
    static const struct {
        const char *in, *out;
    } good[] = {
        {"10.1.2.3/8", "10.0.0.0/8"},
        {"10.1.2.3", "10.1.2.3/32"},
        {"10.1.2.3/32", "10.1.2.3/32"},
        {"10.1.2.255/25", "10.1.2.128/25"},
        {"1.2.3.4/0", "0.0.0.0/0"},
        {"::1", "::1/128"},
        {"2001:db8:ffff::/33", "2001:db8:8000::/33"},
        {"ffff::/1", "8000::/1"},
        {"::/0", "::/0"},
        {"::ffff:10.1.2.3/104", "10.0.0.0/8"},
        {"::ffff:10.1.2.3/128", "10.1.2.3/32"},
        {"::ffff:0:0/96", "0.0.0.0/0"},
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct cidr c = cidr(good[i].in);
        char text[IP_TEXT_MAX + 4];
        assert_string_equal(cidr_format(&c, text), good[i].out);
        struct cidr again = cidr(text);
        assert_memory_equal(&c, &again, sizeof(c));
    }
    struct cidr wide = cidr("::ffff:1.2.3.4/95"); /* more than the mapped block: stays IPv6 */
    assert_int_equal(wide.net.family, 6);
    assert_int_equal(wide.bits, 95);
    static const char *const bad[] = {"",
                                      "/",
                                      "/8",
                                      "10.0.0.0/",
                                      "10.0.0.0/33",
                                      "10.0.0.0/-1",
                                      "10.0.0.0/+8",
                                      "10.0.0.0/08",
                                      "10.0.0.0/8/8",
                                      "10.0.0.0/ 8",
                                      "::/129",
                                      "::/0128",
                                      "10/8",
                                      "10.0.0.0/255.0.0.0",
                                      "10.0.0.0/99999999999999999999"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct cidr c;
        assert_int_equal(cidr_parse(str_from(bad[i]), &c), -EINVAL);
    }
}

static bool contains(const char *c, const char *i)
{
    struct cidr net = cidr(c);
    struct ip addr = ip(i);
    return cidr_contains(&net, &addr);
}

static void containment(void **state)
{
    assert_true(contains("10.0.0.0/8", "10.255.255.255"));
    assert_false(contains("10.0.0.0/8", "11.0.0.0"));
    assert_true(contains("10.0.0.0/9", "10.127.0.1"));
    assert_false(contains("10.0.0.0/9", "10.128.0.1"));
    assert_true(contains("0.0.0.0/0", "1.2.3.4"));
    assert_false(contains("0.0.0.0/0", "::1"));
    assert_false(contains("::/0", "1.2.3.4"));
    assert_true(contains("10.0.0.0/8", "::ffff:10.0.0.1"));
    assert_true(contains("1.2.3.4", "1.2.3.4"));
    assert_false(contains("1.2.3.4", "1.2.3.5"));
    assert_true(contains("fe80::/10", "febf::1"));
    assert_false(contains("fe80::/10", "fec0::1"));
    assert_true(contains("::1/128", "::1"));
    struct ip mapped = {6, {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1}}; /* made by hand */
    struct cidr set[] = {cidr("192.168.0.0/16"), cidr("10.0.0.0/8")};
    assert_true(cidr_set_contains(set, 2, &mapped));
    assert_false(cidr_set_contains(set, 1, &mapped));
    assert_false(cidr_set_contains(NULL, 0, &mapped));
}

/* Bit by bit. */
static void containment_agrees_with_the_definition(void **state)
{
    uint64_t seed = 61;
    for (int i = 0; i < 50000; i++) {
        struct cidr c = {.net.family = test_rand(&seed) % 2 ? 4 : 6};
        unsigned width = c.net.family == 4 ? 32 : 128;
        c.bits = (uint8_t)(test_rand(&seed) % (width + 1));
        struct ip v = {.family = c.net.family};
        for (unsigned k = 0; k < width / 8; k++) {
            c.net.b[k] = v.b[k] = (uint8_t)test_rand(&seed);
        }
        c.net.b[0] |= 0x80; /* not a mapped address */
        v.b[0] |= 0x80;
        unsigned flip = 1 + test_rand(&seed) % (width - 1);
        if (test_rand(&seed) % 4) {
            v.b[flip / 8] = (uint8_t)(v.b[flip / 8] ^ (0x80u >> flip % 8));
            assert_int_equal(cidr_contains(&c, &v), flip >= c.bits);
        } else {
            assert_true(cidr_contains(&c, &v));
        }
        char text[IP_TEXT_MAX + 4];
        struct cidr back = cidr(cidr_format(&c, text));
        assert_int_equal(back.bits, c.bits);
        assert_true(cidr_contains(&back, &c.net));
    }
}

static void kinds(void **state)
{
    static const char *const internal[] = {
        "0.0.0.0",
        "10.0.0.1",
        "100.64.0.1",
        "100.127.255.255",
        "127.0.0.1",
        "127.255.0.1",
        "169.254.1.1",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "224.0.0.1",
        "255.255.255.255",
        "198.18.0.1",
        "192.0.0.1",
        "168.63.129.16",
        "::",
        "::1",
        "::10.0.0.1",
        "fc00::1",
        "fdff::1",
        "fe80::1",
        "fec0::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "64:ff9b::10.0.0.1",
        "64:ff9b::169.254.169.254",
        "64:ff9b:1::1",
        "2002:7f00:1::",
        "2002:a00:1::1",
        "fd00:ec2::254",
    };
    for (size_t i = 0; i < sizeof(internal) / sizeof(internal[0]); i++) {
        struct ip v = ip(internal[i]);
        if (!ip_is_internal(&v)) {
            print_error("%s\n", internal[i]);
            fail();
        }
    }
    static const char *const external[] = {
        "1.1.1.1",          "9.255.255.255",   "11.0.0.0",        "100.63.255.255",
        "100.128.0.0",      "126.255.255.255", "128.0.0.1",       "169.253.255.255",
        "169.255.0.0",      "172.15.255.255",  "172.32.0.0",      "192.167.255.255",
        "192.169.0.0",      "223.255.255.255", "2606:4700::1111", "2001:4860:4860::8888",
        "64:ff9b::8.8.8.8", "2002:808:808::1", "::ffff:8.8.8.8",  "fbff::1",
    };
    for (size_t i = 0; i < sizeof(external) / sizeof(external[0]); i++) {
        struct ip v = ip(external[i]);
        if (ip_is_internal(&v) || ip_is_metadata(&v)) {
            print_error("%s\n", external[i]);
            fail();
        }
    }
    static const char *const metadata[] = {"169.254.169.254",
                                           "169.254.170.2",
                                           "100.100.100.200",
                                           "168.63.129.16",
                                           "192.0.0.192",
                                           "fd00:ec2::254",
                                           "fd20:ce::254",
                                           "::ffff:169.254.169.254",
                                           "64:ff9b::169.254.169.254"};
    for (size_t i = 0; i < sizeof(metadata) / sizeof(metadata[0]); i++) {
        struct ip v = ip(metadata[i]);
        assert_true(ip_is_metadata(&v));
        assert_true(ip_is_internal(&v));
    }
    struct ip v = ip("169.254.169.253");
    assert_false(ip_is_metadata(&v));
    v = ip("127.1.2.3");
    assert_true(ip_is_loopback(&v));
    v = ip("::1");
    assert_true(ip_is_loopback(&v));
    v = ip("::2");
    assert_false(ip_is_loopback(&v));
    v = ip("169.254.0.1");
    assert_true(ip_is_link_local(&v));
    v = ip("fe80::1");
    assert_true(ip_is_link_local(&v));
    v = ip("fd00::1");
    assert_false(ip_is_link_local(&v));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses),   cmocka_unit_test(prefixes),
        cmocka_unit_test(containment), cmocka_unit_test(containment_agrees_with_the_definition),
        cmocka_unit_test(kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
