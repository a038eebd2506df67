/* Where metrics go, what they look like, and the small resolver behind it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "base/must.h"
#include "execd/histogram.h"
#include "execd/limits.h"
#include "execd/lookup.h"
#include "execd/system_stat.h"
#include "execd/telemetry_config.h"

static void test_endpoint(void **state)
{
    static const struct {
        const char *url, *host;
        unsigned port;
        const char *target; /* NULL: refused */
    } cases[] = {
        {"http://c:4318", "c", 4318, "/v1/metrics"},
        {"http://c", "c", 80, "/v1/metrics"},
        {"HTTP://c:1/", "c", 1, "/v1/metrics"},
        {"http://c:1/base/", "c", 1, "/base/v1/metrics"},
        {"http://c:1/v1/metrics", "c", 1, "/v1/metrics"},
        {"http://[::1]:4318", "::1", 4318, "/v1/metrics"},
        {"http://[::1]", "::1", 80, "/v1/metrics"},
        {"https://c:4318", NULL, 0, NULL},
        {"grpc://c", NULL, 0, NULL},
        {"c:4318", NULL, 0, NULL},
        {"http://", NULL, 0, NULL},
        {"http://c:0", NULL, 0, NULL},
        {"http://c:99999", NULL, 0, NULL},
        {"http://u@c:1", NULL, 0, NULL},
        {"http://c:1/a\r\nb", NULL, 0, NULL},
        {"http://c:1?x", NULL, 0, NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct arena a = {0};
        struct err e = {0};
        struct telemetry_config c = {0};
        int r = telemetry_endpoint(&a, str_from(cases[i].url), &c, &e);
        if ((r == 0) != (cases[i].target != NULL)) {
            fail_msg("%s", cases[i].url);
        }
        if (r == 0) {
            assert_string_equal(c.host, cases[i].host);
            assert_int_equal(c.port, cases[i].port);
            assert_string_equal(c.target, cases[i].target);
        }
        arena_done(&a);
    }
}

static const char *fake_env(const char *name, void *arg)
{
    const char *const *pairs = arg;
    for (; *pairs; pairs += 2) {
        if (strcmp(*pairs, name) == 0) {
            return pairs[1];
        }
    }
    return NULL;
}

static void test_config(void **state)
{
    struct arena a = {0};
    struct err e = {0};
    struct telemetry_config c;
    const char *none[] = {NULL};
    assert_int_equal(telemetry_config_read(&a, fake_env, none, STR(""), &c, &e), 0);
    assert_int_equal(telemetry_config_read(&a, fake_env, none, STR("x=y\n10.0.0.7 z\n"), &c, &e),
                     1);
    assert_string_equal(c.host, "10.0.0.7");
    assert_int_equal(c.port, 4318);
    const char *ip[] = {"HOST_IP", "fd00::1", NULL};
    assert_int_equal(telemetry_config_read(&a, fake_env, ip, STR("10.0.0.7"), &c, &e), 1);
    assert_string_equal(c.host, "fd00::1");
    const char *both[] = {"OTEL_EXPORTER_OTLP_ENDPOINT",
                          "http://general:1",
                          "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
                          "http://metrics:2",
                          "OPENSANDBOX_ID",
                          "sb",
                          "OPENSANDBOX_EXECD_METRICS_EXTRA_ATTRS",
                          " team = a b ,bad,=x, k=v=w,empty=",
                          "OTEL_METRIC_EXPORT_INTERVAL",
                          "250",
                          NULL};
    assert_int_equal(telemetry_config_read(&a, fake_env, both, STR(""), &c, &e), 1);
    assert_string_equal(c.host, "metrics");
    assert_string_equal(c.sandbox_id, "sb");
    assert_int_equal(c.period_ms, 250);
    assert_int_equal(c.n_attrs, 3);
    assert_true(str_eq(c.attrs[0].key, STR("team")) && str_eq(c.attrs[0].value, STR("a b")));
    const char *tls[] = {"OTEL_EXPORTER_OTLP_ENDPOINT", "https://c", NULL};
    assert_int_equal(telemetry_config_read(&a, fake_env, tls, STR(""), &c, &e), -1);
    assert_non_null(strstr(e.msg, "https"));
    arena_done(&a);
}

static void test_histogram(void **state)
{
    struct histogram h = {"m", {"op", "result"}};
    const struct str ok[3] = {STR("a"), STR("success")}, bad[3] = {STR("a"), STR("failure")};
    histogram_add(&h, ok, 0);
    histogram_add(&h, ok, 5);
    histogram_add(&h, ok, 5.1);
    histogram_add(&h, ok, 1e9);
    histogram_add(&h, bad, 1);
    assert_int_equal(map_len(&h.series), 2);
    struct buf out = BUF_INIT(8192);
    struct json_out o;
    const struct otlp_pair shared = {STR("k"), STR("v")};
    const struct otlp_common c = {&shared, 1, 1, 2};
    json_out_init(&o, &out);
    histogram_encode(&h, &c, &o);
    struct err e = {0};
    struct json *j = json_parse(buf_str(&out), &e);
    assert_non_null(j);
    struct json *points = json_at(j, "histogram.dataPoints");
    assert_int_equal(json_len(points), 2);
    for (size_t i = 0; i < 2; i++) {
        struct json *p = json_item(points, i);
        struct json *buckets = json_get(p, "bucketCounts");
        assert_int_equal(json_len(buckets), OTLP_BOUNDS + 1);
        assert_int_equal(json_len(json_get(p, "attributes")), 3);
        if (strcmp(json_cstr(json_get(p, "count")), "4") == 0) {
            assert_string_equal(json_cstr(json_item(buckets, 0)), "1");
            assert_string_equal(json_cstr(json_item(buckets, 1)), "1");
            assert_string_equal(json_cstr(json_item(buckets, 2)), "1");
            assert_string_equal(json_cstr(json_item(buckets, OTLP_BOUNDS)), "1");
        } else {
            assert_string_equal(json_cstr(json_get(p, "count")), "1");
        }
    }
    json_free(j);
    for (int i = 0; i < 2 * TELEMETRY_MAX_SERIES; i++) {
        char text[16];
        (void)snprintf(text, sizeof(text), "%d", i);
        const struct str many[3] = {str_from(text), STR("success")};
        histogram_add(&h, many, 1);
    }
    assert_int_equal(map_len(&h.series), TELEMETRY_MAX_SERIES);
    buf_done(&out);
    histogram_done(&h);
}

static void test_proc_net(void **state)
{
    uint64_t in = 0, out = 0;
    net_dev_parse(STR("Inter-|   Receive  |  Transmit\n face |bytes packets|bytes\n"
                      "    lo: 9 9 9 9 9 9 9 9 9 9\n"
                      "  eth0:100 2 0 0 0 0 0 0 200 3 0 0 0 0 0 0\n"
                      "  eth1: 1 2 0 0 0 0 0 0 2 3 0 0 0 0 0 0\n"),
                  &in, &out);
    assert_int_equal(in, 101);
    assert_int_equal(out, 202);
    struct str tcp = STR("  sl  local_address rem_address   st tx_queue\n"
                         "   0: 0100007F:1 00000000:0000 0A 0:0 x\n"
                         "   1: 0100007F:1 0100007F:2 01 0:0 x\n");
    assert_int_equal(net_sockets_count(tcp, 1), 1);
    assert_int_equal(net_sockets_count(tcp, 0), 2);
    assert_int_equal(net_sockets_count(STR(""), 0), 0);
}

static void test_hosts(void **state)
{
    struct io_addr a;
    char text[IO_ADDR_TEXT_MAX];
    struct str hosts =
        STR("# c 1.1.1.1\n127.0.0.1\tlocalhost\n10.0.0.5 c.d c # x\n::1 six\nbad y\n");
    assert_int_equal(hosts_find(hosts, STR("C"), 7, &a), 0);
    assert_string_equal(io_addr_format(&a, text), "10.0.0.5:7");
    assert_int_equal(hosts_find(hosts, STR("six"), 7, &a), 0);
    assert_string_equal(io_addr_format(&a, text), "[::1]:7");
    assert_int_equal(hosts_find(hosts, STR("x"), 7, &a), -ENOENT);
    assert_int_equal(hosts_find(hosts, STR("y"), 7, &a), -ENOENT);
    assert_int_equal(lookup_host(STR("127.0.0.9"), 80, &a), 0);
    assert_string_equal(io_addr_format(&a, text), "127.0.0.9:80");
}

static void test_dns(void **state)
{
    uint8_t q[DNS_QUERY_MAX];
    int n = dns_query_format(STR("a.bc."), DNS_A, 0x1234, q);
    static const uint8_t want[] = {0x12, 0x34, 1,   0, 0,   1,   0, 0, 0, 0, 0,
                                   0,    1,    'a', 2, 'b', 'c', 0, 0, 1, 0, 1};
    assert_int_equal(n, sizeof(want));
    assert_memory_equal(q, want, sizeof(want));
    assert_int_equal(dns_query_format(STR(""), DNS_A, 1, q), -EINVAL);
    assert_int_equal(dns_query_format(STR("a..b"), DNS_A, 1, q), -EINVAL);

    /* an alias, then the address */
    static const uint8_t answer[] = {
        0x12, 0x34, 0x81, 0x80, 0,    1,  0, 2, 0, 0, 0, 0, 1, 'a', 2,  'b', 'c', 0,
        0,    1,    0,    1,    0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 9,   0,  4,   1,   'x',
        0xc0, 14,   0xc0, 12,   0,    1,  0, 1, 0, 0, 0, 9, 0, 4,   10, 1,   2,   3};
    struct io_addr a;
    char text[IO_ADDR_TEXT_MAX];
    assert_int_equal(dns_answer_parse(answer, sizeof(answer), 0x1234, DNS_A, 80, &a), 0);
    assert_string_equal(io_addr_format(&a, text), "10.1.2.3:80");
    assert_int_equal(dns_answer_parse(answer, sizeof(answer), 0x1235, DNS_A, 80, &a), -EPROTO);
    assert_int_equal(dns_answer_parse(answer, sizeof(answer), 0x1234, DNS_AAAA, 80, &a), -ENOENT);
    for (size_t cut = 0; cut < sizeof(answer); cut++) {
        assert_int_equal(dns_answer_parse(answer, cut, 0x1234, DNS_A, 80, &a), -EPROTO);
    }
    uint8_t refused[sizeof(answer)];
    memcpy(refused, answer, sizeof(answer));
    refused[3] = 0x83;
    assert_int_equal(dns_answer_parse(refused, sizeof(refused), 0x1234, DNS_A, 80, &a), -ENOENT);
    refused[3] = 0x82;
    assert_int_equal(dns_answer_parse(refused, sizeof(refused), 0x1234, DNS_A, 80, &a), -EAGAIN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_endpoint),  cmocka_unit_test(test_config),
        cmocka_unit_test(test_histogram), cmocka_unit_test(test_proc_net),
        cmocka_unit_test(test_hosts),     cmocka_unit_test(test_dns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
