#include "egress/policy.h"

#include "../test.h"
#include "base/cleanup.h"
#include "egress/learned.h"
#include "egress/ruleset.h"

static struct policy *parse(const char *text)
{
    struct err e = {0};
    struct policy *p = policy_parse(str_from(text), &e);
    if (!p) {
        fail_msg("%s: %s", text, e.msg);
    }
    return p;
}

static struct ip ip(const char *text)
{
    struct ip v;
    assert_int_equal(ip_parse(str_from(text), &v), 0);
    return v;
}

static void names(void **state)
{
    cleanup_(policy_free) struct policy *p =
        parse("{\"egress\":[{\"action\":\"allow\",\"target\":\"*.example.com\"},"
              "{\"action\":\"deny\",\"target\":\"api.example.com\"},"
              "{\"action\":\"allow\",\"target\":\"Exact.test.\"}]}");
    assert_true(policy_allows_name(p, STR("api.example.com")));
    assert_true(policy_allows_name(p, STR("a.b.EXAMPLE.com.")));
    assert_false(policy_allows_name(p, STR("example.com")));
    assert_false(policy_allows_name(p, STR("notexample.com")));
    assert_true(policy_allows_name(p, STR("exact.test")));
    assert_false(policy_allows_name(p, STR("x.exact.test")));
    assert_false(policy_allows_name(p, STR("")));
    assert_string_equal(policy_mode(p), "enforcing");
}

static void long_names_are_never_allowed(void **state)
{
    cleanup_(policy_free) struct policy *p = parse("{\"defaultAction\":\"allow\"}");
    char name[600];
    memset(name, 'a', sizeof(name));
    assert_false(policy_allows_name(p, str_n(name, sizeof(name))));
    assert_string_equal(policy_mode(p), "allow_all");
}

static void addresses(void **state)
{
    cleanup_(policy_free) struct policy *p =
        parse("{\"egress\":[{\"action\":\"allow\",\"target\":\"10.1.2.3/8\"},"
              "{\"action\":\"deny\",\"target\":\"10.9.0.0/16\"},"
              "{\"action\":\"allow\",\"target\":\"2001:db8::/32\"}]}");
    struct ip a = ip("10.200.0.1"), b = ip("10.9.1.1"), c = ip("11.0.0.1"), d = ip("2001:db8::5");
    assert_int_equal(policy_check_ip(p, &a), POLICY_ALLOWED);
    assert_int_equal(policy_check_ip(p, &b), POLICY_DENIED);
    assert_int_equal(policy_check_ip(p, &c), POLICY_BY_DEFAULT);
    assert_int_equal(policy_check_ip(p, &d), POLICY_ALLOWED);
}

static void patching(void **state)
{
    struct err e = {0};
    cleanup_(policy_free) struct policy *none = policy_deny_all();
    cleanup_(policy_free) struct policy *p =
        policy_patch(none,
                     STR("[{\"action\":\"allow\",\"target\":\"example.com\"},"
                         "{\"action\":\"deny\",\"target\":\"EXAMPLE.com\"}]"),
                     &e);
    assert_non_null(p);
    assert_int_equal(p->n_rules, 1);
    assert_int_equal(p->rules[0].action, POLICY_ALLOW);
    size_t removed = 9;
    cleanup_(policy_free) struct policy *q =
        policy_without(p, STR("[\"other\", \" Example.COM\"]"), &removed, &e);
    assert_int_equal(removed, 1);
    assert_int_equal(q->n_rules, 0);
}

static void lives_of_addresses(void **state)
{
    static const uint32_t want[][2] = {{0, 60}, {10, 70}, {120, 180}, {300, 360}, {9999, 360}};
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        assert_int_equal(learned_timeout_s(want[i][0]), want[i][1]);
    }
}

static bool not_a(struct str name, void *arg)
{
    return !str_eq(name, STR("a.test"));
}

static void learning_is_bounded_and_forgets(void **state)
{
    struct learned l;
    struct ip one = ip("1.0.0.1"), two = ip("1.0.0.2"), three = ip("1.0.0.3"), gone;
    learned_init(&l, 3);
    assert_int_equal(learned_add(&l, &one, STR("a.test"), 0, 100, &gone), LEARNED_NEW);
    assert_int_equal(learned_add(&l, &one, STR("b.test"), 0, 90, &gone), LEARNED_KNOWN);
    assert_int_equal(learned_add(&l, &two, STR("a.test"), 0, 100, &gone), LEARNED_NEW);
    assert_true(learned_is_of(&l, &one, STR("A.test."), 99));
    assert_false(learned_is_of(&l, &one, STR("a.test"), 100));
    assert_false(learned_is_of(&l, &two, STR("b.test"), 0));
    /* Full: the pair (one, a) goes, but the address has another name. */
    assert_int_equal(learned_add(&l, &three, STR("c.test"), 0, 100, &gone), LEARNED_NEW);
    assert_int_equal(gone.family, 0);
    assert_int_equal(learned_find(&l, &one)->expires_ms, 90);
    assert_int_equal(learned_add(&l, &three, STR("d.test"), 0, 100, &gone), LEARNED_KNOWN);
    assert_memory_equal(&gone, &one, sizeof(one));
    learned_filter(&l, not_a, NULL);
    assert_null(learned_find(&l, &two));
    assert_int_equal(l.n_names, 2);
    learned_done(&l);
}

static bool may_all(const struct ip *ip, struct str name, void *arg)
{
    return true;
}

static bool may_not(const struct ip *ip, struct str name, void *arg)
{
    return memcmp(ip, arg, sizeof(*ip)) != 0;
}

/* `want` NULL: none. */
static void other_is(const struct learned *l, const char *of, const char *name, uint64_t now_ms,
                     const char *want)
{
    struct ip a = ip(of), got = {0}, expected = want ? ip(want) : (struct ip){0};
    assert_int_equal(learned_other(l, &a, str_from(name), now_ms, may_all, NULL, &got),
                     want != NULL);
    assert_memory_equal(&got, &expected, sizeof(got));
}

static void another_address_of_the_same_name(void **state)
{
    static const struct {
        const char *ip, *name;
        uint64_t expires_ms;
    } heard[] = {{"2001:db8::1", "a.test", 100}, {"2001:db8::1", "b.test", 50},
                 {"1.0.0.1", "a.test", 90},      {"1.0.0.2", "a.test", 80},
                 {"1.0.0.9", "b.test", 40},      {"2001:db8::7", "c.test", 100}};
    struct learned l;
    struct ip gone, four = ip("1.0.0.2"), got = {0};
    learned_init(&l, 10);
    for (size_t i = 0; i < ARRAY_LEN(heard); i++) {
        struct ip a = ip(heard[i].ip);
        (void)learned_add(&l, &a, str_from(heard[i].name), 0, heard[i].expires_ms, &gone);
    }
    other_is(&l, "2001:db8::1", "A.test", 0, "1.0.0.2"); /* heard of last */
    other_is(&l, "2001:db8::1", "a.test", 80, "1.0.0.1");
    other_is(&l, "2001:db8::1", "a.test", 90, NULL);
    other_is(&l, "2001:db8::1", "b.test", 0, "1.0.0.9");
    other_is(&l, "1.0.0.1", "a.test", 0, "2001:db8::1");
    other_is(&l, "1.0.0.1", "a.test", 95, NULL); /* its own time is over */
    other_is(&l, "1.0.0.1", "b.test", 0, NULL);  /* somebody only says so */
    other_is(&l, "2001:db8::7", "c.test", 0, NULL);
    other_is(&l, "2001:db8::7", "a.test", 0, NULL);
    other_is(&l, "2001:db8::8", "a.test", 0, NULL);
    other_is(&l, "2001:db8::1", "", 0, NULL); /* of two names */
    other_is(&l, "2001:db8::1", "", 60, "1.0.0.2");
    other_is(&l, "2001:db8::8", "", 0, NULL);
    struct ip six = ip("2001:db8::1");
    assert_true(learned_other(&l, &six, STR("a.test"), 0, may_not, &four, &got));
    four = ip("1.0.0.1");
    assert_memory_equal(&got, &four, sizeof(got));
    learned_done(&l);
}

static void resolvers_over_https(void **state)
{
    struct cidr own;
    assert_int_equal(cidr_parse(STR("198.51.100.0/24"), &own), 0);
    const struct egress_config none = {0}, some = {.doh = &own, .n_doh = 1};
    struct ip google = ip("8.8.8.8"), six = ip("2606:4700:4700::1111"), ours = ip("198.51.100.7");
    assert_true(ruleset_is_doh_ip(&none, &google) && ruleset_is_doh_ip(&some, &six));
    assert_false(ruleset_is_doh_ip(&none, &ours));
    assert_true(ruleset_is_doh_ip(&some, &ours));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(long_names_are_never_allowed),
        cmocka_unit_test(addresses),
        cmocka_unit_test(patching),
        cmocka_unit_test(lives_of_addresses),
        cmocka_unit_test(learning_is_bounded_and_forgets),
        cmocka_unit_test(another_address_of_the_same_name),
        cmocka_unit_test(resolvers_over_https),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
