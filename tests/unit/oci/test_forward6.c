/* IPv6 forwarding in a network namespace of the test's own: which links get it, that everything is
 * as before afterwards, also after a crash, and that nobody else's settings are touched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/must.h"
#include "net/cidr.h"
#include "server/runtime/oci/forward6.h"
#include "server/runtime/oci/net6.h"

static char dir[] = "/tmp/osb-forward6-XXXXXX";

static void link_make(struct netlink *nl, const char *name, const char *addr, const char *via)
{
    struct ip ip;
    assert_int_equal(link_add_bridge(nl, name), 0);
    int index = link_index(nl, name);
    assert_int_equal(link_up(nl, index), 0);
    if (addr) {
        assert_int_equal(ip_parse(str_from(addr), &ip), 0);
        assert_int_equal(addr6_add(nl, index, ip.b, 64), 0);
    }
    if (via) {
        assert_int_equal(ip_parse(str_from(via), &ip), 0);
        assert_int_equal(route6_add_default(nl, index, ip.b), 0);
    }
}

/* up0 has the default route, side0 another network, bare0 nothing; br0 is the server's bridge. */
static int setup(void **state)
{
    static struct netlink nl = NETLINK_INIT;
    if (unshare(CLONE_NEWNET) < 0 || net6_setting_read("all", "disable_ipv6") != 0) {
        return 0; /* each test says that it cannot be */
    }
    assert_non_null(mkdtemp(dir));
    assert_int_equal(netlink_open(&nl), 0);
    link_make(&nl, "up0", "2001:db8:1::2", "2001:db8:1::1");
    link_make(&nl, "side0", "2001:db8:2::2", NULL);
    link_make(&nl, "bare0", NULL, NULL);
    link_make(&nl, "br0", "fd6f:7362:a00::1", NULL);
    *state = &nl;
    return 0;
}

static int teardown(void **state)
{
    if (*state) {
        netlink_close(*state);
        (void)rmdir(dir);
    }
    return 0;
}

static bool is_possible(void **state, bool per_link)
{
    return *state && (!per_link || net6_setting_read("all", "force_forwarding") >= 0);
}

static void expect(const char *name, int up, int side, int bare, int bridge, int all)
{
    const struct {
        const char *link;
        int want;
    } rows[] = {{"up0", up}, {"side0", side}, {"bare0", bare}, {"br0", bridge}, {"all", all}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (net6_setting_read(rows[i].link, name) != rows[i].want) {
            fail_msg("%s/%s is not %d", rows[i].link, name, rows[i].want);
        }
    }
}

static void test_per_link(void **state)
{
    struct forward6 f;
    if (!is_possible(state, true)) {
        skip();
    }
    forward6_init(&f, dir, "br0", false);
    assert_int_equal(forward6_start(&f), 0);
    expect("force_forwarding", 1, 0, 0, 1, 0); /* auto: the default route's only */
    expect("forwarding", 0, 0, 0, 0, 0);
    forward6_stop(&f);
    expect("force_forwarding", 0, 0, 0, 0, 0);
    assert_int_equal(access(f.record, F_OK), -1);

    /* What was on before is not ours; what somebody switched off meanwhile neither. */
    assert_int_equal(net6_setting_write("side0", "force_forwarding", "1"), 0);
    forward6_init(&f, dir, "br0", true);
    assert_int_equal(forward6_start(&f), 0);
    expect("force_forwarding", 1, 1, 0, 1, 0);
    assert_int_equal(net6_setting_write("side0", "force_forwarding", "0"), 0);
    assert_int_equal(net6_setting_write("side0", "force_forwarding", "1"), 0);
    forward6_stop(&f);
    expect("force_forwarding", 0, 1, 0, 0, 0);
    assert_int_equal(net6_setting_write("side0", "force_forwarding", "0"), 0);
}

static void test_crash_and_boot(void **state)
{
    struct forward6 f, again;
    if (!is_possible(state, true)) {
        skip();
    }
    forward6_init(&f, dir, "br0", true);
    assert_int_equal(forward6_start(&f), 0); /* and then nothing more is heard of it */
    forward6_init(&again, dir, "br0", true);
    assert_int_equal(forward6_start(&again), 0);
    expect("force_forwarding", 1, 1, 0, 1, 0);
    forward6_stop(&again);
    expect("force_forwarding", 0, 0, 0, 0, 0);

    /* A record of another boot says nothing about what is now. */
    FILE *file = fopen(f.record, "w");
    assert_non_null(file);
    (void)fprintf(file, "another\nup0 %u force_forwarding 0 1\n", if_nametoindex("up0"));
    (void)fclose(file);
    assert_int_equal(net6_setting_write("up0", "force_forwarding", "1"), 0);
    forward6_stop(&f);
    expect("force_forwarding", 1, 0, 0, 0, 0);
    assert_int_equal(net6_setting_write("up0", "force_forwarding", "0"), 0);
}

static void test_two_servers(void **state)
{
    struct forward6 f;
    if (!is_possible(state, true)) {
        skip();
    }
    struct netlink *nl = *state;
    forward6_init(&f, dir, "br0", true);
    assert_int_equal(forward6_start(&f), 0);
    link_make(nl, "br1", "fd6f:7362:b00::1", NULL);
    forward6_stop(&f);
    expect("force_forwarding", 1, 1, 0, 1, 0);
    assert_int_equal(net6_setting_write("br1", "disable_ipv6", "1"), 0); /* as it stops */
    forward6_stop(&f);
    expect("force_forwarding", 0, 0, 0, 0, 0);
}

static void test_older_kernels(void **state)
{
    struct forward6 f;
    if (!is_possible(state, false)) {
        skip();
    }
    assert_int_equal(net6_setting_write("all", "accept_ra", "1"), 0);
    assert_int_equal(net6_setting_write("bare0", "accept_ra", "0"), 0);
    assert_int_equal(net6_setting_write("side0", "forwarding", "1"), 0);
    forward6_init(&f, dir, "br0", false);
    f.has_no_per_link = true;
    assert_int_equal(forward6_start(&f), -EOPNOTSUPP); /* auto makes no router of the host */
    expect("forwarding", 0, 1, 0, 0, 0);
    f.all_routes = true;
    assert_int_equal(forward6_start(&f), 0);
    expect("forwarding", 1, 1, 1, 1, 1);
    expect("accept_ra", 2, 2, 0, 2, 2); /* still hears its routers */
    forward6_stop(&f);
    expect("forwarding", 0, 1, 0, 0, 0);
    expect("accept_ra", 1, 1, 0, 1, 1);
    assert_int_equal(access(f.record, F_OK), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_per_link),
        cmocka_unit_test(test_crash_and_boot),
        cmocka_unit_test(test_two_servers),
        cmocka_unit_test(test_older_kernels),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
