/* Addresses and their names through nftables' text and back. */

#include "egress/restore.h"

#include "../test.h"
#include "base/cleanup.h"

static struct ip ip(const char *text)
{
    struct ip v;
    assert_int_equal(ip_parse(str_from(text), &v), 0);
    return v;
}

static void listings(void **state)
{
    struct learned l;
    struct ip a = ip("198.51.100.10"), b = ip("198.51.100.11"), c = ip("2001:db8::7");
    learned_init(&l, 8);
    assert_int_equal(restore_addresses(
                         &l,
                         STR("table inet opensandbox {\n\tset learned_v4 {\n\t\ttype ipv4_addr\n"
                             "\t\tsize 65535\n\t\tflags timeout\n"
                             "\t\telements = { 198.51.100.10 timeout 1m30s expires 1m19s976ms "
                             "comment \"good.test www.good.test\",\n"
                             "\t\t\t     198.51.100.11 timeout 80s expires 2s comment \"b.test\",\n"
                             "\t\t\t     198.51.100.12 timeout 80s expires 2s }\n\t}\n}\n"),
                         1000),
                     3);
    assert_true(learned_is_of(&l, &a, STR("good.test"), 80975));
    assert_true(learned_is_of(&l, &a, STR("www.good.test"), 80975));
    assert_false(learned_is_of(&l, &a, STR("good.test"), 80976));
    assert_true(learned_is_of(&l, &b, STR("b.test"), 2999));
    assert_false(learned_is_of(&l, &b, STR("b.test"), 3000));
    assert_int_equal(
        restore_addresses(&l, STR("elements = { 2001:db8::7 comment \"c.test\" }"), 50), 1);
    assert_non_null(learned_find(&l, &c)); /* known, and over */
    assert_false(learned_is_of(&l, &c, STR("c.test"), 50));
    learned_done(&l);
}

static void nonsense(void **state)
{
    static const char *const texts[] = {
        "",
        "elements = {",
        "elements = { }",
        "elements = { x comment \"a\" }",
        "elements = { 1.2.3.4 expires 5 comment \"a\" }",
        "elements = { 1.2.3.4 expires 5y comment \"a\" }",
        "elements = { 1.2.3.4 expires s comment \"a\" }",
        "elements = { 1.2.3.4 comment \"",
        "elements = { 1.2.3.4 expires 99999999999s comment \"a\" }",
    };
    struct learned l;
    uint32_t mark;
    char digest[RESTORE_DIGEST_LEN + 1];
    learned_init(&l, 8);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        assert_int_equal(restore_addresses(&l, str_from(texts[i]), 1), 0);
        assert_false(restore_generation(str_from(texts[i]), &mark, digest));
    }
    learned_done(&l);
}

static void what_goes_in_comes_out(void **state)
{
    cleanup_(buf_done) struct buf out = BUF_INIT(4096);
    struct learned l, again;
    struct ip a = ip("198.51.100.10"), dropped;
    char longer[200] = {0};
    memset(longer, 'x', 150);
    learned_init(&l, 8);
    learned_init(&again, 8);
    static const char *const names[] = {"a.test", "B\"} ; flush ruleset", "has space.test",
                                        "b-2_x.test", "line\nbreak"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void)learned_add(&l, &a, str_from(names[i]), 0, 90000, &dropped);
    }
    (void)learned_add(&l, &a, str_from(longer), 0, 90000, &dropped);
    (void)buf_add_cstr(&out, "elements = { 198.51.100.10 expires 5s");
    restore_comment(&out, learned_find(&l, &a));
    (void)buf_add_cstr(&out, " }");
    assert_string_equal(buf_cstr(&out),
                        "elements = { 198.51.100.10 expires 5s comment \"a.test b-2_x.test\" }");
    assert_int_equal(restore_addresses(&again, buf_str(&out), 0), 2);
    assert_true(learned_is_of(&again, &a, STR("b-2_x.test"), 4000));
    learned_done(&l);
    learned_done(&again);
}

static void generations(void **state)
{
    uint32_t mark = 0;
    char digest[RESTORE_DIGEST_LEN + 1];
    assert_true(restore_generation(STR("chain pass {\n ct mark set 0x0badcafe accept comment "
                                       "\"policy 0123456789abcdef0123456789abcdef\"\n}"),
                                   &mark, digest));
    assert_true(mark == 0x0badcafe);
    assert_string_equal(digest, "0123456789abcdef0123456789abcdef");
    assert_false(restore_generation(STR("ct mark set 0x00000000 accept comment "
                                        "\"policy 0123456789abcdef0123456789abcdef\""),
                                    &mark, digest));
    assert_false(
        restore_generation(STR("ct mark set 0x1 accept comment \"policy 01\""), &mark, digest));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(listings),
        cmocka_unit_test(nonsense),
        cmocka_unit_test(what_goes_in_comes_out),
        cmocka_unit_test(generations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
