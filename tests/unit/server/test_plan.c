#include "server/lifecycle/plan.h"

#include <errno.h>

#include "../test.h"

static struct config *cfg;

static int setup(void **state)
{
    struct err e = {0};
    cfg = config_parse("t",
                       STR("[server]\nmax_sandbox_timeout_seconds = 3600\n"
                           "[oci]\nallowed_engines = ['runc']\n"),
                       NULL, &e);
    return cfg ? 0 : -1;
}

static int teardown(void **state)
{
    config_unref(cfg);
    return 0;
}

#define BASE "\"image\":{\"uri\":\"host\"},\"entrypoint\":[\"sleep\",\"9\"],\"resourceLimits\":{}"

static void sizes(void **state)
{
    static const struct {
        const char *text;
        uint64_t want;
    } good[] = {{"1", 1},
                {"512Mi", 512u << 20},
                {"512mi", 512u << 20},
                {"2G", 2000000000},
                {"2gb", 2000000000},
                {" 3k ", 3000},
                {"1ti", UINT64_C(1) << 40},
                {"1.5Gi", 1610612736},
                {"500m", 500000000}};
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        uint64_t v = 0;
        assert_int_equal(plan_parse_bytes(str_from(good[i].text), &v), 0);
        assert_int_equal(v, good[i].want);
    }
    static const char *const bad[] = {"",
                                      "0",
                                      "-1",
                                      "1x",
                                      "MiB",
                                      "1 Gi b",
                                      "nan",
                                      "1e400",
                                      "99999999999999999999",
                                      "18446744073709551615Ti"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        uint64_t v;
        if (plan_parse_bytes(str_from(bad[i]), &v) == 0) {
            fail_msg("'%s' was accepted", bad[i]);
        }
    }
}

static void shell_words(void **state)
{
    static const struct {
        const char *text;
        const char *want[6];
    } good[] = {
        {"a b  c", {"a", "b", "c"}},
        {"sh -c 'echo \"x y\"'", {"sh", "-c", "echo \"x y\""}},
        {"a\\ b \"c d\"'e f'", {"a b", "c de f"}},
        {"\"a\\\"b\\n\" ''", {"a\"b\\n", ""}},
        {"  ", {NULL}},
    };
    struct arena a = {0};
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        struct str_list l;
        assert_int_equal(plan_shell_split(&a, str_from(good[i].text), &l), 0);
        size_t n = 0;
        while (good[i].want[n]) {
            assert_string_equal(l.v[n], good[i].want[n]);
            n++;
        }
        assert_int_equal(l.n, n);
    }
    struct str_list l;
    assert_int_equal(plan_shell_split(&a, STR("a 'b"), &l), -EINVAL);
    assert_int_equal(plan_shell_split(&a, STR("a \"b"), &l), -EINVAL);
    assert_int_equal(plan_shell_split(&a, STR("a \\"), &l), -EINVAL);
    arena_done(&a);
}

static void a_whole_request(void **state)
{
    struct problem p = {0};
    struct create_plan *plan = NULL;
    int r = plan_build(
        STR("{\"image\":{\"uri\":\" host \",\"auth\":{\"username\":\"u\",\"password\":\"secret\"}},"
            "\"entrypoint\":[\"sh -c 'sleep 1'\"],\"resourceLimits\":{\"cpu\":\"500m\",\"memory\":"
            "\"64Mi\",\"pids\":\"50\"},\"env\":{\"A\":\"1\",\"B\":null,\"C\":\"\"},\"timeout\":60,"
            "\"metadata\":{\"k\":\"v\"},\"platform\":{\"os\":\"Linux\",\"arch\":\" AMD64\"},"
            "\"extensions\":{\"access.renew.extend.seconds\":\" 300 \",\"oci.engine\":\"runc\","
            "\"oci.network\":\"none\"},\"networkPolicy\":{},\"unknown\":1}"),
        cfg, &plan, &p);
    if (r < 0) {
        fail_msg("%s", p.message);
    }
    assert_string_equal(plan->image, "host");
    assert_int_equal(plan->entrypoint.n, 3);
    assert_string_equal(plan->spec.entrypoint[2], "sleep 1");
    assert_null(plan->spec.entrypoint[3]);
    assert_int_equal(plan->spec.n_env, 2);
    assert_string_equal(plan->spec.env[1].key, "C");
    assert_int_equal(plan->spec.limits.cpu_millis, 500);
    assert_int_equal(plan->spec.limits.memory_bytes, 64 << 20);
    assert_int_equal(plan->spec.limits.pids, 50);
    assert_int_equal(plan->timeout_s, 60);
    assert_int_equal(plan->renew_extend_s, 300);
    assert_string_equal(plan->os, "linux");
    assert_string_equal(plan->arch, "amd64");
    assert_string_equal(plan->spec.engine, "runc");
    assert_int_equal(plan->spec.network, NETWORK_NONE);
    assert_string_equal(plan->spec.egress_policy, "{\"egress\":[]}");
    assert_true(plan->had_auth);
    assert_string_equal(plan->spec.image_password, "secret");
    assert_null(strstr(plan->spec_json, "secret"));
    assert_string_equal(plan->metadata_json, "{\"k\":\"v\"}");
    /* What is kept gives the same plan again. */
    struct create_plan *again = NULL;
    assert_int_equal(plan_build(str_from(plan->spec_json), cfg, &again, &p), 0);
    assert_string_equal(again->entrypoint_json, plan->entrypoint_json);
    assert_false(again->had_auth);
    plan_free(again);
    plan_free(plan);
}

static void the_hash_ignores_white_space(void **state)
{
    struct problem p = {0};
    struct create_plan *a = NULL, *b = NULL, *c = NULL;
    assert_int_equal(plan_build(STR("{" BASE "}"), cfg, &a, &p), 0);
    assert_int_equal(plan_build(STR(" {" BASE " \n}"), cfg, &b, &p), 0);
    assert_int_equal(plan_build(STR("{" BASE ",\"timeout\":60}"), cfg, &c, &p), 0);
    assert_string_equal(a->hash, b->hash);
    assert_string_not_equal(a->hash, c->hash);
    plan_free(a);
    plan_free(b);
    plan_free(c);
}

static void allowed_host_paths(void **state)
{
    static const struct {
        const char *path, *entry;
        bool want;
    } cases[] = {
        {"/srv/a", "/srv/a", true},   {"/srv/a/b", "/srv/a", true}, {"/srv/a/b", "/srv/a/", true},
        {"/srv/ab", "/srv/a", false}, {"/srv", "/srv/a", false},    {"/anything", "/", true},
        {"C:/x/y", "c:/x", true},     {"D:/x/y", "c:/x", false},    {"/x/y", "c:/x", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bool got = host_path_allowed(str_from(cases[i].path), str_from(cases[i].entry));
        if (got != cases[i].want) {
            fail_msg("%s below %s", cases[i].path, cases[i].entry);
        }
    }
}

static void refusals(void **state)
{
    static const struct {
        const char *text;
        int status;
        const char *code, *want; /* want: part of message or detail */
    } cases[] = {
        {"", 422, CODE_INVALID, "\"missing\""},
        {"{", 422, CODE_INVALID, "json_invalid"},
        {"[]", 422, CODE_INVALID, "model_attributes_type"},
        {"{}", 422, CODE_INVALID, "Value error, exactly one of image and snapshotId"},
        {"{" BASE ",\"snapshotId\":\"s\"}", 422, CODE_INVALID, "exactly one"},
        {"{\"image\":{\"uri\":\" \"},\"resourceLimits\":{}}", 422, CODE_INVALID, "exactly one"},
        {"{\"image\":{\"uri\":\"a\"},\"resourceLimits\":{}}", 422, CODE_INVALID,
         "entrypoint is required"},
        {"{\"image\":{\"uri\":\"a\"},\"entrypoint\":[\"a\"]}", 422, CODE_INVALID,
         "resourceLimits is required"},
        {"{" BASE ",\"timeout\":59}", 422, CODE_INVALID, "[\"body\",\"timeout\"]"},
        {"{" BASE ",\"env\":{\"A\":1}}", 422, CODE_INVALID, "[\"body\",\"env\",\"A\"]"},
        {"{" BASE ",\"env\":[]}", 422, CODE_INVALID, "dict_type"},
        {"{" BASE ",\"credentialProxy\":{\"enabled\":true}}", 422, CODE_INVALID,
         "requires networkPolicy"},
        {"{" BASE ",\"networkPolicy\":{\"defaultAction\":\"dney\"}}", 400, CODE_INVALID,
         "not \"dney\""},
        {"{" BASE ",\"networkPolicy\":{\"egress\":[{\"action\":\"alow\",\"target\":\"a.org\"}]}}",
         400, CODE_INVALID, "egress[0].action"},
        {"{" BASE ",\"networkPolicy\":{\"egress\":[{\"action\":\"Allow\",\"target\":\" *.a.org \"},"
         "{\"action\":\"deny\",\"target\":\"10.0.0.0/"
         "8\"},{\"action\":\"allow\",\"target\":\"10.0.0\"}]}}",
         400, CODE_INVALID, "egress[2].target"},
        {"{" BASE
         ",\"networkPolicy\":{\"egress\":[{\"action\":\"allow\",\"target\":\"https://a.org\"}]}}",
         400, CODE_INVALID, "neither a name"},
        {"{" BASE ",\"volumes\":[{\"name\":\"a\",\"mountPath\":\"/a\"}]}", 422, CODE_INVALID,
         "[\"body\",\"volumes\",0]"},
        {"{" BASE
         ",\"volumes\":[{\"name\":\"a\",\"mountPath\":\"/a\",\"host\":{\"path\":\"/x\"}}]}",
         400, "VOLUME::HOST_PATH_NOT_ALLOWED", "/x"},
        {"{" BASE
         ",\"volumes\":[{\"name\":\"a\",\"mountPath\":\"/dev/x\",\"pvc\":{\"claimName\":\"x\"}}]}",
         400, "VOLUME::INVALID_MOUNT_PATH", "/dev/x"},
        {"{" BASE
         ",\"volumes\":[{\"name\":\"a\",\"mountPath\":\"/a\",\"pvc\":{\"claimName\":\"x\"},"
         "\"subPath\":\"a/../..\"}]}",
         400, "VOLUME::INVALID_SUB_PATH", ".."},
        {"{\"extensions\":{\"poolRef\":\"p\"},\"snapshotId\":\"s\"}", 422, CODE_INVALID, "poolRef"},
        {"{" BASE ",\"extensions\":{\"access.renew.extend.seconds\":\"299\"}}", 400, CODE_INVALID,
         "between 300 and 86400"},
        {"{" BASE ",\"extensions\":{\"access.renew.extend.seconds\":\"\"}}", 400, CODE_INVALID,
         "between"},
        {"{" BASE ",\"extensions\":{\"oci.engine\":\"runsc\"}}", 400, CODE_INVALID,
         "oci.allowed_engines"},
        {"{" BASE ",\"extensions\":{\"oci.network\":\"x\"}}", 400, CODE_INVALID, "oci.network"},
        {"{\"image\":{\"uri\":\"a\"},\"entrypoint\":[\"a 'b\"],\"resourceLimits\":{}}", 400,
         "DOCKER::INVALID_ENTRYPOINT", "not closed"},
        {"{" BASE ",\"metadata\":{\"a b\":\"c\"}}", 400, "SANDBOX::INVALID_METADATA_LABEL", "a b"},
        {"{" BASE ",\"metadata\":{\"opensandbox.io/id\":\"c\"}}", 400,
         "SANDBOX::INVALID_METADATA_LABEL", "reserved"},
        {"{" BASE ",\"platform\":{\"os\":\"plan9\",\"arch\":\"amd64\"}}", 400, CODE_INVALID,
         "plan9"},
        {"{" BASE ",\"timeout\":3601}", 400, CODE_INVALID, "max_sandbox_timeout_seconds"},
        {"{" BASE ",\"secureAccess\":true}", 400, CODE_INVALID, "secureAccess"},
        {"{" BASE ",\"env\":{\"A=B\":\"1\"}}", 400, CODE_INVALID, "A=B"},
        {"{\"image\":{\"uri\":\"a\"},\"entrypoint\":[\"a\"],\"resourceLimits\":{\"memory\":\"x\"}}",
         400, CODE_INVALID, "resourceLimits.memory: 'x'"},
        {"{\"image\":{\"uri\":\"a\"},\"entrypoint\":[\"a\"],\"resourceLimits\":{\"cpu\":\"nan\"}}",
         400, CODE_INVALID, "resourceLimits.cpu"},
        {"{\"image\":{\"uri\":\"a\"},\"entrypoint\":[\"a\"],\"resourceLimits\":{\"cpus\":\"1\"}}",
         400, CODE_INVALID, "no such limit"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct problem p = {0};
        struct create_plan *plan = NULL;
        int r = plan_build(str_from(cases[i].text), cfg, &plan, &p);
        if (r == 0 || p.status != cases[i].status || strcmp(p.code, cases[i].code) != 0 ||
            (!strstr(p.message, cases[i].want) && !(p.detail && strstr(p.detail, cases[i].want)))) {
            fail_msg("%s: %d %s '%s' %s", cases[i].text, p.status, p.code ? p.code : "-", p.message,
                     p.detail ? p.detail : "");
        }
        problem_done(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),           cmocka_unit_test(shell_words),
        cmocka_unit_test(a_whole_request), cmocka_unit_test(the_hash_ignores_white_space),
        cmocka_unit_test(refusals),        cmocka_unit_test(allowed_host_paths),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
