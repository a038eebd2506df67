#include "net/url.h"

#include <errno.h>

#include "../test.h"

static void splits(void **state)
{
    struct url u;
    assert_int_equal(url_parse(STR("https://us%40er:p:w@host.example:8443/a/b?x=1?y#frag?z"), &u),
                     0);
    assert_str(u.scheme, "https");
    assert_str(u.user, "us%40er");
    assert_str(u.password, "p:w");
    assert_str(u.host, "host.example");
    assert_int_equal(u.port, 8443);
    assert_str(u.path, "/a/b");
    assert_str(u.query, "x=1?y");

    assert_int_equal(url_parse(STR("http://h"), &u), 0);
    assert_str(u.host, "h");
    assert_int_equal(u.port, 0);
    assert_str(u.path, "");
    assert_null(u.query.p);
    assert_null(u.user.p);
    assert_int_equal(url_parse(STR("http://h?q"), &u), 0);
    assert_str(u.path, "");
    assert_str(u.query, "q");
    assert_int_equal(url_parse(STR("http://h/?"), &u), 0);
    assert_str(u.path, "/");
    assert_true(u.query.p && u.query.n == 0);
    assert_int_equal(url_parse(STR("WSS://[2001:db8::1]:9/"), &u), 0);
    assert_str(u.host, "2001:db8::1");
    assert_int_equal(u.port, 9);
    assert_int_equal(url_parse(STR("http://[::ffff:1.2.3.4]"), &u), 0);
    assert_str(u.host, "::ffff:1.2.3.4");
    assert_int_equal(url_parse(STR("unix:///run/docker.sock"), &u), 0);
    assert_str(u.host, "");
    assert_str(u.path, "/run/docker.sock");
    assert_int_equal(url_parse(STR("redis://:secret@h:6379/0"), &u), 0);
    assert_str(u.user, "");
    assert_str(u.password, "secret");
    assert_int_equal(url_parse(STR("http://u@h/@/x:y"), &u), 0);
    assert_str(u.path, "/@/x:y");
    assert_null(u.password.p);
    assert_int_equal(url_parse(STR("http://h/\xc3\xa9"), &u), 0);
    assert_int_equal(url_parse(STR("http://h#f"), &u), 0);
    assert_str(u.host, "h");
}

static void refuses(void **state)
{
    static const char *const bad[] = {
        "",
        "h",
        "//h",
        "http:/h",
        "http:h",
        "http://",
        "http:///x",
        "http://?q",
        "http://#f",
        "://h",
        "1http://h",
        "ht tp://h",
        "h_t://h",
        "http://h:0",
        "http://h:",
        "http://h:65536",
        "http://h:080",
        "http://h:8x",
        "http://h:+8",
        "http://h: 8",
        "http://h h/",
        "http://h/\n",
        "http://h/\x7f",
        "http://h/ x",
        "http://a@b@c/",
        "http://a@",
        "http://@/",
        "http://h\\x/",
        "http://h\\@b/",
        "http://%68/",
        "http://[::1",
        "http://::1/",
        "http://[::1]x",
        "http://[::1]8",
        "http://[h]/",
        "http://[]/",
        "http://[::1%25eth0]/",
        "http://\xc3\xa9/",
        "http://h:1:2/",
        "http://<h>/",
        "unix://",
        "unix://@/x",
        "http://h\t/",
        "\thttp://h",
        "http://[12]/",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct url u = {.port = 7};
        if (url_parse(str_from(bad[i]), &u) != -EINVAL) {
            print_error("accepted %s\n", bad[i]);
            fail();
        }
        assert_int_equal(u.port, 7);
    }
    struct url u;
    assert_int_equal(url_parse(STR("http://h/\0"), &u), -EINVAL);
    assert_int_equal(url_parse(STR_NULL, &u), -EINVAL);
}

static void authorities(void **state)
{
    struct str host;
    uint16_t port;
    assert_int_equal(authority_parse(STR("example.com"), &host, &port), 0);
    assert_str(host, "example.com");
    assert_int_equal(port, 0);
    assert_int_equal(authority_parse(STR("my_host-1:80"), &host, &port), 0);
    assert_str(host, "my_host-1");
    assert_int_equal(port, 80);
    assert_int_equal(authority_parse(STR("[::1]:443"), &host, &port), 0);
    assert_str(host, "::1");
    assert_int_equal(port, 443);
    assert_int_equal(authority_parse(STR("[fe80::A]"), &host, &port), 0);
    assert_str(host, "fe80::A");
    static const char *const bad[] = {"",      ":80",    "h:",      "h:0",  "::1",
                                      "a:b:1", "[::1]:", "[::1]80", "[::1", "[]:1",
                                      "u@h",   "h/",     "h:99999", " h",   "h\r"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(authority_parse(str_from(bad[i]), &host, &port), -EINVAL);
    }
    assert_int_equal(authority_parse(STR("h\0"), &host, &port), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splits),
        cmocka_unit_test(refuses),
        cmocka_unit_test(authorities),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
