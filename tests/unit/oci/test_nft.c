/* The packet rules as text: who is kept from whom, and that only checked addresses get in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "server/runtime/oci/nft.h"

static void rules(struct nft_rules *r)
{
    *r = (struct nft_rules){.table = "t1", .bridge = "br9"};
    assert_int_equal(cidr_parse(STR("10.9.0.0/16"), &r->subnet), 0);
}

static void assert_has(struct buf *b, const char *line)
{
    if (!strstr(buf_cstr(b), line)) {
        fail_msg("'%s' is not in:\n%s", line, buf_cstr(b));
    }
}

static void test_rules(void **state)
{
    cleanup_(buf_done) struct buf out = BUF_INIT(1 << 16);
    struct nft_rules r;
    (void)state;
    rules(&r);
    const char *block[] = {"192.168.0.0/16", "10.1.2.3"}, *allow[] = {"169.254.7.0/24"};
    struct str_list blocked = {block, 2}, allowed = {allow, 1};
    struct ip dns;
    assert_int_equal(ip_parse(STR("169.254.169.253"), &dns), 0);
    r.blocked = &blocked;
    r.allowed = &allowed;
    r.resolvers = &dns;
    r.n_resolvers = 1;
    assert_int_equal(nft_rules_format(&r, &out, NULL), 0);
    assert_has(&out, "delete table inet t1");
    assert_has(&out, "iifname \"br9\" goto outbound");
    assert_has(&out, "oifname \"br9\" drop");
    assert_has(&out, "iifname \"br9\" goto to_host");
    assert_has(&out, "ip saddr != 10.9.0.0/16 drop");
    assert_has(&out, "ip saddr 10.9.0.0/16 oifname != \"br9\" masquerade");
    assert_has(&out, "169.254.0.0/16");
    assert_has(&out, "192.168.0.0/16, 10.1.2.3/32");
    assert_has(&out, "elements = { 169.254.7.0/24 }");
    /* A resolver inside a blocked network is reachable for names, and for nothing else. */
    assert_has(&out, "ip daddr 169.254.169.253 udp dport 53 accept");
    assert_has(&out, "meta nfproto != ipv4 drop");
}

static void test_ipv6(void **state)
{
    cleanup_(buf_done) struct buf out = BUF_INIT(1 << 16);
    struct nft_rules r;
    struct cidr v6;
    (void)state;
    rules(&r);
    assert_int_equal(cidr_parse(STR("fd6f:7362:a09::/64"), &v6), 0);
    const char *block[] = {"192.168.0.0/16", "2001:db8:1::/48"}, *allow[] = {"fd00:ec2::254"};
    struct str_list blocked = {block, 2}, allowed = {allow, 1};
    struct ip dns;
    assert_int_equal(ip_parse(STR("2001:db8::53"), &dns), 0);
    r.subnet6 = &v6;
    r.blocked = &blocked;
    r.allowed = &allowed;
    r.resolvers = &dns;
    r.n_resolvers = 1;
    assert_int_equal(nft_rules_format(&r, &out, NULL), 0);
    assert_has(&out, "oifname \"br9\" drop\n    meta nfproto ipv6 goto outbound6\n");
    assert_has(&out, "ip6 saddr != fd6f:7362:a09::/64 drop");
    assert_has(&out, "ip6 saddr fd6f:7362:a09::/64 oifname != \"br9\" masquerade");
    assert_has(&out, "fd00:ec2::/32");
    assert_has(&out, "2001:db8:1::/48 }");
    assert_has(&out, "elements = { fd00:ec2::254/128 }");
    assert_has(&out, "ip6 daddr 2001:db8::53 udp dport 53 accept");
    assert_has(&out, "169.254.0.0/16, 100.100.100.200/32"); /* each family in its own set */
    assert_has(&out, "nd-neighbor-solicit");
}

static void test_nothing_unchecked_gets_in(void **state)
{
    cleanup_(buf_done) struct buf out = BUF_INIT(1 << 16);
    struct nft_rules r;
    struct err e = {0};
    (void)state;
    rules(&r);
    const char *v[] = {"1.2.3.4 } ; flush ruleset ; #"};
    struct str_list list = {v, 1};
    r.blocked = &list;
    assert_int_equal(nft_rules_format(&r, &out, &e), -1);
    assert_int_equal(e.code, ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_ipv6),
        cmocka_unit_test(test_nothing_unchecked_gets_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
