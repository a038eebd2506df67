/* What a collector gets to read: to the letter, because the encoding is what it is about. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/must.h"
#include "otlp/document.h"

#define TIMES "\"startTimeUnixNano\":\"1\",\"timeUnixNano\":\"18446744073709551615\","
#define ATTR(k, v) "{\"key\":\"" k "\",\"value\":{\"stringValue\":\"" v "\"}}"

static void test_pairs(void **state)
{
    struct otlp_pair p[OTLP_MAX_PAIRS];
    struct buf many = BUF_INIT(4096);
    assert_int_equal(otlp_pairs(STR_NULL, p), 0);
    assert_int_equal(otlp_pairs(STR(" team = a b ,bad,=x, k=v=w,empty="), p), 3);
    assert_true(str_eq(p[0].key, STR("team")) && str_eq(p[0].value, STR("a b")));
    assert_true(str_eq(p[1].key, STR("k")) && str_eq(p[1].value, STR("v=w")));
    assert_true(str_eq(p[2].key, STR("empty")) && p[2].value.n == 0);
    for (int i = 0; i < 2 * OTLP_MAX_PAIRS; i++) {
        (void)buf_add_cstr(&many, "k=v,");
    }
    assert_int_equal(otlp_pairs(buf_str(&many), p), OTLP_MAX_PAIRS);
    buf_done(&many);
}

static void test_document(void **state)
{
    const struct otlp_pair resource = {STR("service.name"), STR("s")},
                           shared = {STR("k"), STR("v")}, own = {STR("way"), STR("\"in\"")};
    const struct otlp_common c = {&shared, 1, 1, UINT64_MAX};
    struct buf out = BUF_INIT(4096);
    struct json_out o;
    json_out_init(&o, &out);
    otlp_document_begin(&o, "scope/x", &resource, 1);
    otlp_metric_begin(&o, "g", NULL, OTLP_GAUGE);
    otlp_put_double(&o, &c, 0.5);
    otlp_metric_end(&o);
    otlp_metric_begin(&o, "n", "By", OTLP_COUNTER);
    otlp_put_int(&o, &c, &own, 1, 7);
    otlp_put_int(&o, &c, NULL, 0, 8);
    otlp_metric_end(&o);
    otlp_document_end(&o);
    (void)buf_add_char(&out, '\0');
    assert_string_equal(
        out.p, "{\"resourceMetrics\":[{\"resource\":{\"attributes\":[" ATTR(
                   "service.name",
                   "s") "]},"
                        "\"scopeMetrics\":[{\"scope\":{\"name\":\"scope/x\"},\"metrics\":["
                        "{\"name\":\"g\",\"gauge\":{\"dataPoints\":["
                        "{" TIMES "\"attributes\":[" ATTR(
                            "k", "v") "],\"asDouble\":0.5}]}},"
                                      "{\"name\":\"n\",\"unit\":\"By\",\"sum\":{"
                                      "\"aggregationTemporality\":2,\"isMonotonic\":true,"
                                      "\"dataPoints\":["
                                      "{" TIMES "\"attributes\":[" ATTR("k", "v") "," ATTR(
                                          "way", "\\\"in\\\"") "],"
                                                               "\"asInt\":\"7\"},"
                                                               "{" TIMES "\"attributes\":[" ATTR(
                                                                   "k", "v") "],\"asInt\":\"8\"}]}}"
                                                                             "]}]}]}");
    buf_done(&out);
}

static void test_buckets(void **state)
{
    const struct otlp_view *const views[] = {&otlp_view_ms, &otlp_view_s};
    static const char *const want[] = {
        "{\"name\":\"d\",\"histogram\":{\"aggregationTemporality\":2,\"dataPoints\":["
        "{" TIMES "\"attributes\":[],\"count\":\"4\",\"sum\":20010.5,\"bucketCounts\":"
        "[\"1\",\"1\",\"1\",\"0\",\"0\",\"0\",\"0\",\"0\",\"0\",\"0\",\"0\",\"0\",\"0\",\"0\","
        "\"0\",\"1\"],\"explicitBounds\":"
        "[0,5,10,25,50,75,100,250,500,750,1000,2500,5000,7500,10000]}]}}",
        "{\"name\":\"d\",\"histogram\":{\"aggregationTemporality\":2,\"dataPoints\":["
        "{" TIMES "\"attributes\":[],\"count\":\"4\",\"sum\":20.0105,\"bucketCounts\":"
        "[\"2\",\"1\",\"0\",\"0\",\"0\",\"0\",\"0\",\"0\",\"0\",\"0\",\"0\",\"0\",\"0\",\"0\","
        "\"1\"],\"explicitBounds\":"
        "[0.005,0.01,0.025,0.05,0.075,0.1,0.25,0.5,0.75,1,2.5,5,7.5,10]}]}}",
    };
    const struct otlp_common c = {NULL, 0, 1, UINT64_MAX};
    for (size_t i = 0; i < ARRAY_LEN(views); i++) {
        struct otlp_buckets b = {0};
        struct buf out = BUF_INIT(4096);
        struct json_out o;
        otlp_buckets_add(&b, views[i], 0);
        otlp_buckets_add(&b, views[i], 5); /* a bound belongs to the bucket below it */
        otlp_buckets_add(&b, views[i], 5.5);
        otlp_buckets_add(&b, views[i], 20000);
        json_out_init(&o, &out);
        otlp_metric_begin(&o, "d", NULL, OTLP_HISTOGRAM);
        otlp_put_buckets(&o, &c, NULL, 0, &b, views[i]);
        otlp_metric_end(&o);
        (void)buf_add_char(&out, '\0');
        assert_string_equal(out.p, want[i]);
        buf_done(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_document),
        cmocka_unit_test(test_buckets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
