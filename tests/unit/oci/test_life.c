/* The life file, also when somebody inside writes nonsense into it; and resolv.conf. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/must.h"
#include "server/runtime/oci/life.h"
#include "server/runtime/oci/resolv.h"

static void test_ready(void **state)
{
    struct life l;
    (void)state;
    life_parse(STR(""), &l);
    assert_false(l.is_ready);
    life_parse(STR("{\"event\":\"ready\",\"pid\":1}"), &l);
    assert_false(l.is_ready); /* the line is not finished */
    life_parse(STR("{\"event\":\"ready\",\"pid\":1}\n"), &l);
    assert_true(l.is_ready);
    assert_false(l.has_exit);
}

static void test_exits(void **state)
{
    struct life l;
    (void)state;
    life_parse(STR("{\"event\":\"ready\"}\n{\"event\":\"entrypoint_exited\",\"exit_code\":3}\n"),
               &l);
    assert_true(l.has_exit && !l.oom && l.signal == 0);
    assert_int_equal(l.exit_code, 3);
    life_parse(
        STR("{\"event\":\"entrypoint_exited\",\"exit_code\":137,\"signal\":9,\"oom\":true}\n"), &l);
    assert_true(l.oom);
    assert_int_equal(l.signal, 9);
    life_parse(STR("{\"event\":\"entrypoint_failed\",\"error\":\"no such file\"}\n"), &l);
    assert_true(l.has_failed);
    assert_string_equal(l.error, "no such file");
}

static void test_nonsense(void **state)
{
    struct life l;
    char big[4096];
    (void)state;
    life_parse(STR("{\"event\":5}\n[]\nnull\n\n\xff\n{\"event\":\"ready\"\n"), &l);
    assert_false(l.is_ready || l.has_exit || l.has_failed);
    int n =
        snprintf(big, sizeof(big), "{\"event\":\"entrypoint_failed\",\"error\":\"%03000d\"}\n", 1);
    life_parse(str_n(big, (size_t)n), &l);
    assert_true(l.has_failed);
    assert_true(strlen(l.error) < sizeof(l.error));
}

static void test_resolvers(void **state)
{
    struct ip ip[3];
    char text[IP_TEXT_MAX];
    (void)state;
    assert_int_equal(resolv_parse(STR("# x\nnameserver 127.0.0.53\noptions edns0\n"), ip, 3), 0);
    assert_int_equal(resolv_parse(STR("nameserver\t10.0.0.1\nnameserver  10.0.0.2 \n"), ip, 3), 2);
    assert_string_equal(ip_format(&ip[0], text), "10.0.0.1");
    assert_string_equal(ip_format(&ip[1], text), "10.0.0.2");
    assert_int_equal(resolv_parse(STR("nameserver ::1\nnameserver fe80::1\nnameserver x\n"), ip, 3),
                     0);
    assert_int_equal(resolv_parse(STR("nameserver 1.1.1.1\nnameserver 1.1.1.2\nnameserver 1.1.1.3\n"
                                      "nameserver 1.1.1.4\n"),
                                  ip, 3),
                     3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ready),
        cmocka_unit_test(test_exits),
        cmocka_unit_test(test_nonsense),
        cmocka_unit_test(test_resolvers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
