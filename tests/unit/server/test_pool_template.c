#include "../test.h"
#include "server/lifecycle/pool.h"

static struct config *cfg;

static int setup(void **state)
{
    struct err e = {0};
    cfg = config_parse("t", STR("[oci]\nallowed_engines = ['runc']\n"), NULL, &e);
    return cfg ? 0 : -1;
}

static int teardown(void **state)
{
    config_unref(cfg);
    return 0;
}

static struct json *parse(const char *text)
{
    struct err e = {0};
    struct json *j = json_parse(str_from(text), &e);
    assert_non_null(j);
    return j;
}

/* Compares as trees: the order of keys is nobody's business. */
static void same(const struct json *got, const char *want)
{
    struct json *j = parse(want);
    if (!json_eq(got, j)) {
        struct buf b = BUF_INIT(65536);
        (void)json_dump(got, &b, 0);
        fail_msg("%s\nand not\n%s", buf_cstr(&b), want);
    }
    json_free(j);
}

static void templates(void **state)
{
    static const struct {
        const char *from, *to;
    } rows[] = {
        {"{\"image\":\"host\"}", "{\"image\":{\"uri\":\"host\"},\"resourceLimits\":{},"
                                 "\"entrypoint\":[\"tail\",\"-f\",\"/dev/null\"]}"},
        {"{\"image\":{\"uri\":\"a\"},\"resource_limits\":{\"cpu\":\"1\"},\"entrypoint\":[\"x\"],"
         "\"env\":null,\"network_policy\":{}}",
         "{\"image\":{\"uri\":\"a\"},\"resourceLimits\":{\"cpu\":\"1\"},\"entrypoint\":[\"x\"],"
         "\"networkPolicy\":{}}"},
        {"{\"metadata\":{},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\","
         "\"command\":[\"a\"],\"args\":[\"b\"],\"env\":[{\"name\":\"N\",\"value\":\"v\"},"
         "{\"name\":\"E\"}],\"resources\":{\"limits\":{\"cpu\":2,\"memory\":\"1Gi\","
         "\"ephemeral-storage\":\"2Gi\"}}}]}}",
         "{\"image\":{\"uri\":\"i\"},\"entrypoint\":[\"a\",\"b\"],\"env\":{\"N\":\"v\",\"E\":\"\"},"
         "\"resourceLimits\":{\"cpu\":\"2\",\"memory\":\"1Gi\",\"disk\":\"2Gi\"}}"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct problem p = {0};
        struct json *from = parse(rows[i].from), *to = template_to_request(from, &p);
        assert_non_null(to);
        same(to, rows[i].to);
        json_free(from);
        json_free(to);
    }
}

static void strangers(void **state)
{
    static const struct {
        const char *from, *word;
    } rows[] = {
        {"[]", "object"},
        {"{\"timeout\":1}", "timeout"},
        {"{\"metadata\":{\"a\":\"b\"}}", "metadata"},
        {"{\"extensions\":{\"poolRef\":\"p\"}}", "pool itself"},
        {"{\"spec\":{}}", "exactly one"},
        {"{\"spec\":{\"containers\":[{},{}]}}", "exactly one"},
        {"{\"spec\":{\"containers\":[1]}}", "exactly one"},
        {"{\"spec\":{\"containers\":[{}],\"volumes\":[]}}", "spec.volumes"},
        {"{\"spec\":{\"containers\":[{\"volumeMounts\":[]}]}}", "volumeMounts"},
        {"{\"spec\":{\"containers\":[{\"command\":[1]}]}}", "command"},
        {"{\"spec\":{\"containers\":[{\"env\":[{}]}]}}", "names"},
        {"{\"spec\":{\"containers\":[{\"resources\":{\"limits\":{\"cpu\":true}}}]}}", "quantity"},
        {"{\"kind\":\"x\",\"spec\":{\"containers\":[{}]}}", "kind"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct problem p = {0};
        struct json *from = parse(rows[i].from);
        assert_null(template_to_request(from, &p));
        assert_int_equal(p.status, 400);
        assert_non_null(strstr(p.message, rows[i].word));
        problem_done(&p);
        json_free(from);
    }
}

#define TEMPLATE                                                                                   \
    "{\"image\":{\"uri\":\"host\"},\"entrypoint\":[\"t\"],\"env\":{\"A\":\"1\",\"B\":\"1\"},"      \
    "\"resourceLimits\":{\"cpu\":\"1\"},\"extensions\":{\"oci.network\":\"none\"}}"

static struct json *merge(const char *request, struct problem *p)
{
    struct create_plan *plan = NULL;
    assert_int_equal(plan_build(str_from(request), cfg, &plan, p), 0);
    assert_string_equal(plan->pool_ref, "p");
    struct json *t = parse(TEMPLATE), *out = template_merge(t, plan, p);
    json_free(t);
    plan_free(plan);
    return out;
}

static void merging(void **state)
{
    struct problem p = {0};
    struct json *j = merge("{\"extensions\":{\"poolRef\":\" p \"}}", &p);
    assert_non_null(j);
    same(j, TEMPLATE);
    json_free(j);
    j = merge("{\"extensions\":{\"poolRef\":\"p\",\"x\":\"y\",\"oci.network\":\"none\"},"
              "\"env\":{\"B\":\"2\",\"C\":\"3\",\"A\":null},\"entrypoint\":[\"r\"],"
              "\"resource_limits\":{\"memory\":\"1Gi\"},\"metadata\":{\"m\":\"n\"},\"timeout\":60,"
              "\"image\":{\"uri\":\" host \"}}",
              &p);
    assert_non_null(j);
    same(j, "{\"image\":{\"uri\":\"host\"},\"entrypoint\":[\"r\"],"
            "\"env\":{\"A\":\"1\",\"B\":\"2\",\"C\":\"3\"},"
            "\"resourceLimits\":{\"cpu\":\"1\",\"memory\":\"1Gi\"},\"metadata\":{\"m\":\"n\"},"
            "\"timeout\":60,\"extensions\":{\"oci.network\":\"none\",\"x\":\"y\"}}");
    json_free(j);
}

static void not_merged(void **state)
{
    static const struct {
        const char *with, *word;
    } rows[] = {
        {",\"image\":{\"uri\":\"other\"}", "other"},
        {",\"networkPolicy\":{}", "networkPolicy"},
        {",\"platform\":{\"os\":\"linux\",\"arch\":\"amd64\"}", "platform"},
        {",\"secureAccess\":true", "secureAccess"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct problem p = {0};
        char text[512];
        (void)snprintf(text, sizeof(text), "{\"extensions\":{\"poolRef\":\"p\"}%s}", rows[i].with);
        assert_null(merge(text, &p));
        assert_int_equal(p.status, 400);
        assert_non_null(strstr(p.message, rows[i].word));
        problem_done(&p);
    }
    struct problem p = {0};
    assert_null(merge("{\"extensions\":{\"poolRef\":\"p\",\"oci.engine\":\"runc\"}}", &p));
    assert_non_null(strstr(p.message, "oci.engine"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(templates),
        cmocka_unit_test(strangers),
        cmocka_unit_test(merging),
        cmocka_unit_test(not_merged),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
