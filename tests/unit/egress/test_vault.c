#include "egress/vault/vault.h"

#include <fcntl.h>
#include <stdio.h>

#include "../test.h"
#include "base/must.h"
#include "egress/vault/keep.h"
#include "egress/vault/limits.h"
#include "egress/vault/secret.h"

#define RULES                                                                                      \
    "{\"egress\":[{\"action\":\"allow\",\"target\":\"api.example.com\"},"                          \
    "{\"action\":\"allow\",\"target\":\"*.wild.example\"},"                                        \
    "{\"action\":\"allow\",\"target\":\"code.example.com\"}]}"
#define CRED                                                                                       \
    "\"credentials\":[{\"name\":\"t\",\"source\":{\"type\":\"inline\",\"value\":\"s3cret+/=\"}}]"

static struct policy *policy;

static int setup(void **state)
{
    struct err e = {0};
    policy = policy_parse(STR(RULES), &e);
    assert_non_null(policy);
    return 0;
}

static int teardown(void **state)
{
    policy_free(policy);
    return 0;
}

static struct vault_state *create(const char *text)
{
    struct err e = {0};
    struct vault_state *s = vault_create(str_from(text), policy, &e);
    if (!s) {
        print_error("%s\n", e.msg);
    }
    assert_non_null(s);
    return s;
}

static void refused(const char *text, const char *why)
{
    struct err e = {0};
    struct vault_state *s = vault_create(str_from(text), policy, &e);
    if (s || !strstr(e.msg, why)) {
        print_error("%s\n gave %s, not %s\n", text, s ? "a vault" : e.msg, why);
    }
    assert_null(s);
    assert_int_equal(e.code, ERR_INVALID);
    assert_non_null(strstr(e.msg, why));
    assert_null(strstr(e.msg, "s3cret"));
}

static void shapes(void **state)
{
    struct buf b = BUF_INIT(1u << 20);
    struct vault_state *s = create(
        "{" CRED ",\"Bindings\":["
        "{\"name\":\" b "
        "\",\"match\":{\"hosts\":[\"API.example.com.\",\"api.example.com\"],\"ports\":[443,443]},"
        "\"auth\":{\"type\":\"apiKey\",\"name\":\"PRIVATE-TOKEN\",\"credential\":\"t\"}},"
        "{\"name\":\"a\",\"match\":{\"hosts\":[\"*.wild.example\"],\"methods\":[\"head\"],"
        "\"schemes\":[\"HTTP\"],\"ports\":[80],\"paths\":[\"/x\"]},"
        "\"auth\":{\"type\":\"bearer\",\"credential\":\"t\"}}]} trailing");
    vault_format(s, &b);
    assert_string_equal(
        buf_cstr(&b),
        "{\"revision\":1,\"credentials\":[{\"name\":\"t\",\"sourceType\":\"inline\",\"revision\":1}"
        "],"
        "\"bindings\":[{\"name\":\"a\",\"revision\":1,\"match\":{\"schemes\":[\"http\"],\"ports\":["
        "80],"
        "\"hosts\":[\"*.wild.example\"],\"methods\":[\"HEAD\"],\"paths\":[\"/x\"]},"
        "\"auth\":{\"type\":\"bearer\"}},"
        "{\"name\":\"b\",\"revision\":1,\"match\":{\"schemes\":[\"https\"],\"ports\":[443],"
        "\"hosts\":[\"api.example.com\"],\"methods\":[\"GET\",\"POST\",\"PUT\",\"PATCH\","
        "\"DELETE\"],"
        "\"paths\":[\"/*\"]},\"auth\":{\"type\":\"apiKey\",\"name\":\"Private-Token\"}}]}");
    buf_clear(&b);
    assert_int_equal(vault_format_credential(s, STR("t"), &b), 0);
    assert_string_equal(buf_cstr(&b), "{\"name\":\"t\",\"sourceType\":\"inline\",\"revision\":1}");
    assert_true(vault_format_binding(s, STR("zzz"), &b) < 0);
    assert_true(secret_block_is_locked(s->secrets) || getuid() != 0);
    buf_done(&b);
    vault_state_unref(s);
    vault_state_unref(create("{}"));
}

static void binding_refused(const char *match, const char *auth, const char *why)
{
    char text[2048];
    (void)snprintf(text, sizeof(text),
                   "{" CRED ",\"bindings\":[{\"name\":\"b\",\"match\":%s,\"auth\":%s}]}", match,
                   auth);
    refused(text, why);
}

static void validation(void **state)
{
    static const char *const hosts[] = {"api.example.com:443",
                                        "api_example.com",
                                        "localhost",
                                        "*.localhost",
                                        "*.example.com:443",
                                        "10.0.0.1",
                                        "*",
                                        "a.*.com",
                                        "",
                                        "https://a.b",
                                        "a.b/c",
                                        "-a.b"};
    char text[512];
    for (size_t i = 0; i < ARRAY_LEN(hosts); i++) {
        (void)snprintf(text, sizeof(text), "{\"hosts\":[\"%s\"]}", hosts[i]);
        binding_refused(text, "{\"type\":\"bearer\",\"credential\":\"t\"}", "host");
    }
    const char *ok = "{\"hosts\":[\"api.example.com\"]}";
    binding_refused(ok, "{\"type\":\"Bearer\",\"credential\":\"t\"}", "auth.type");
    binding_refused(ok, "{\"type\":\"bearer\"}", "credential is required");
    binding_refused(ok, "{\"type\":\"bearer\",\"credential\":\"nope\"}", "does not exist");
    binding_refused(ok, "{\"type\":\"apiKey\",\"name\":\"Host\",\"credential\":\"t\"}",
                    "must not be set");
    binding_refused(ok, "{\"type\":\"apiKey\",\"name\":\"a b\",\"credential\":\"t\"}", "malformed");
    binding_refused(ok, "{\"type\":\"customHeaders\",\"headers\":[]}", "at least one");
    binding_refused(
        ok,
        "{\"type\":\"customHeaders\",\"headers\":[{\"name\":\"X-A\",\"credential\":\"t\"},"
        "{\"name\":\"x-a\",\"credential\":\"t\"}]}",
        "named twice");
    binding_refused(ok, "{\"type\":\"passthrough\",\"credential\":\"t\"}", "belongs to another");
    binding_refused(ok, "{\"type\":\"passthrough\"}", "substitutions");
    binding_refused(ok,
                    "{\"type\":\"passthrough\",\"substitutions\":[{\"credential\":\"t\","
                    "\"placeholder\":\"abcd\",\"in\":[\"cookie\"]}]}",
                    "substitutions.in");
    binding_refused(ok, "{\"type\":\"bearer\",\"credential\":\"t\",\"extra\":1}", "extra");
    binding_refused("{\"hosts\":[\"api.example.com\"],\"ports\":[8443]}",
                    "{\"type\":\"bearer\",\"credential\":\"t\"}", "not intercepted");
    binding_refused("{\"hosts\":[\"api.example.com\"],\"paths\":[\"x\"]}",
                    "{\"type\":\"bearer\",\"credential\":\"t\"}", "path");
    binding_refused("{\"hosts\":[\"other.example.com\"]}",
                    "{\"type\":\"bearer\",\"credential\":\"t\"}", "not allowed by a rule");
    refused("{\"credentials\":[{\"name\":\"t\",\"source\":{\"value\":\"s3cret\\nX: y\"}}]}",
            "control");
    refused("{\"credentials\":[{\"name\":\"t\",\"source\":{\"value\":\" s3cret\"}}]}", "space");
    refused(
        "{\"credentials\":[{\"name\":\"t\",\"source\":{\"type\":\"env\",\"value\":\"s3cret\"}}]}",
        "inline");
    refused("{\"credentials\":[{\"name\":\"t\",\"source\":{}}]}", "empty");
    refused("{\"credentials\":[{\"name\":\" \",\"source\":{\"value\":\"x\"}}]}", "name");
    refused("{\"credentials\":[{\"name\":\"t\",\"value\":\"s3cret\"}]}", "value");
    refused("{\"credentials\":[\"s3cret", "");
    refused("", "");
    refused("[]", "object");
    refused("{" CRED "," CRED "}", "duplicate");
}

#define BIND(name, host, path)                                                                     \
    "{\"name\":\"" name "\",\"match\":{\"hosts\":[\"" host "\"],\"paths\":[\"" path                \
    "\"]},\"auth\":{\"type\":\"bearer\",\"credential\":\"t\"}}"

static void ambiguity(void **state)
{
    refused("{" CRED ",\"bindings\":[" BIND("a", "api.example.com",
                                            "/v1/*") "," BIND("b", "api.example.com", "/v1/x") "]}",
            "ambiguous");
    refused("{" CRED ",\"bindings\":[" BIND("a", "*.wild.example",
                                            "/*") "," BIND("b", "*.deep.wild.example", "/x") "]}",
            "ambiguous");
    struct vault_state *s = create("{" CRED ",\"bindings\":[" BIND(
        "a", "*.wild.example", "/v1/*") "," BIND("b", "x.wild.example", "/v1/x") "]}");
    const struct vault_binding *b = NULL;
    struct vault_request q = {VAULT_HTTPS, 443, STR("x.wild.example"), STR("GET"), STR("/v1/x")};
    assert_int_equal(vault_find(s, &q, &b), VAULT_MATCH);
    assert_string_equal(b->name, "b");
    q.path = STR("/v1/y");
    assert_int_equal(vault_find(s, &q, &b), VAULT_MATCH);
    assert_string_equal(b->name, "a");
    q.host = STR("wild.example");
    assert_int_equal(vault_find(s, &q, &b), VAULT_NO_MATCH);
    q.host = STR("notwild.example");
    assert_int_equal(vault_find(s, &q, &b), VAULT_NO_MATCH);
    q.host = STR("x.wild.example");
    q.method = STR("HEAD");
    assert_int_equal(vault_find(s, &q, &b), VAULT_NO_MATCH);
    q.method = STR("GET");
    q.port = 80;
    assert_int_equal(vault_find(s, &q, &b), VAULT_NO_MATCH);
    assert_true(vault_has_host(s, VAULT_HTTPS, 443, STR("y.wild.example")));
    assert_false(vault_has_host(s, VAULT_HTTP, 443, STR("y.wild.example")));
    assert_false(vault_has_host(NULL, VAULT_HTTPS, 443, STR("y.wild.example")));
    assert_true(vault_has_port(s, VAULT_HTTPS, 443));
    assert_false(vault_has_port(s, VAULT_HTTP, 80));
    vault_state_unref(s);
}

static struct vault_state *patched(struct vault_state *take_old, const char *text)
{
    struct err e = {0};
    struct vault_state *s = vault_patch(take_old, str_from(text), policy, &e);
    if (!s) {
        print_error("%s\n", e.msg);
    }
    assert_non_null(s);
    vault_state_unref(take_old);
    return s;
}

static void patch_refused(struct vault_state *s, const char *text, enum err_code code,
                          const char *why)
{
    struct err e = {0};
    assert_null(vault_patch(s, str_from(text), policy, &e));
    assert_int_equal(e.code, code);
    if (!strstr(e.msg, why)) {
        print_error("%s is not %s\n", e.msg, why);
    }
    assert_non_null(strstr(e.msg, why));
}

static void patching(void **state)
{
    struct vault_state *s =
        create("{" CRED ",\"bindings\":[" BIND("a", "api.example.com", "/v1/*") "]}");
    patch_refused(s, "{\"expectedRevision\":2}", ERR_CONFLICT, "expectedRevision");
    patch_refused(s, "{\"credentials\":{\"delete\":[\"t\"]}}", ERR_INVALID, "does not exist");
    patch_refused(s, "{\"credentials\":{\"delete\":[\"u\"]}}", ERR_INVALID, "does not exist");
    patch_refused(s, "{\"bindings\":{\"add\":[" BIND("a", "code.example.com", "/") "]}}",
                  ERR_INVALID, "exists already");
    patch_refused(
        s, "{\"bindings\":{\"delete\":[\"a\"],\"add\":[" BIND("a", "code.example.com", "/") "]}}",
        ERR_INVALID, "two operations");
    patch_refused(
        s, "{\"bindings\":{\"replace\":[" BIND("expectedRevision", "code.example.com", "/") "]}}",
        ERR_INVALID, "does not exist");
    patch_refused(s, "{\"oops\":1}", ERR_INVALID, "oops");
    s = patched(s, "{\"expectedRevision\":1}");
    assert_int_equal(s->revision, 2);
    s = patched(s, "{\"credentials\":{\"add\":[{\"name\":\"u\",\"source\":{\"value\":\"other\"}}]},"
                   "\"bindings\":{\"add\":[" BIND("z", "code.example.com", "/*") "]}}");
    assert_int_equal(s->n_bindings, 2);
    assert_int_equal(s->credentials[0].revision, 1);
    assert_int_equal(s->credentials[1].revision, 3);
    s = patched(
        s, "{\"credentials\":{\"replace\":[{\"name\":\"t\",\"source\":{\"value\":\"new\"}}]}}");
    assert_int_equal(s->credentials[0].revision, 4);
    assert_str(s->credentials[0].value, "new");
    assert_ptr_equal(s->bindings[0].headers[0].value, &s->credentials[0]);
    s = patched(s,
                "{\"bindings\":{\"delete\":[\"a\",\"z\"]},\"credentials\":{\"delete\":[\"t\"]}}");
    assert_int_equal(s->n_bindings, 0);
    assert_int_equal(s->n_credentials, 1);
    vault_state_unref(s);
}

static void redaction(void **state)
{
    struct buf b = BUF_INIT(4096);
    struct vault_state *s = create("{" CRED "}");
    vault_redact(s, STR("a s3cret+/= Bearer s3cret+/=; q=s3cret%2B%2F%3D s3cret+/"), &b);
    assert_string_equal(buf_cstr(&b), "a [REDACTED] [REDACTED]; q=[REDACTED] s3cret+/");
    buf_done(&b);
    vault_state_unref(s);
}

static void policy_changes(void **state)
{
    struct err e = {0};
    struct vault_state *s =
        create("{" CRED ",\"bindings\":[" BIND("a", "*.wild.example", "/") "]}");
    static const char *const bad[] = {
        "{}",
        "{\"defaultAction\":\"allow\"}",
        "{\"egress\":[{\"action\":\"allow\",\"target\":\"x.wild.example\"}]}",
        ("{\"egress\":[{\"action\":\"deny\",\"target\":\"*.wild.example\"},"
         "{\"action\":\"allow\",\"target\":\"*.wild.example\"}]}"),
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct policy *p = policy_parse(str_from(bad[i]), &e);
        assert_non_null(p);
        assert_true(vault_check_policy(s, p, &e) < 0);
        policy_free(p);
    }
    struct policy *p =
        policy_parse(STR("{\"egress\":[{\"action\":\"allow\",\"target\":\"*.example\"}]}"), &e);
    assert_int_equal(vault_check_policy(s, p, &e), 0);
    policy_free(p);
    vault_state_unref(s);
}

static void over_a_crash(void **state)
{
    struct err e = {0};
    struct buf text = BUF_INIT(1u << 20), before = BUF_INIT(1u << 20), after = BUF_INIT(1u << 20);
    struct vault_state *s = patched(
        create("{" CRED ",\"bindings\":[" BIND(
            "a", "api.example.com", "/v1/*") ","
                                             "{\"name\":\"c\",\"match\":{\"hosts\":[\"code.example."
                                             "com\"],\"schemes\":[\"http\",\"https\"],"
                                             "\"ports\":[80,443]},\"auth\":{\"type\":"
                                             "\"customHeaders\",\"headers\":[{\"name\":\"X-A\","
                                             "\"credential\":\"t\"},{\"name\":\"X-B\","
                                             "\"credential\":\"t\"}],\"substitutions\":["
                                             "{\"credential\":\"t\",\"placeholder\":\"__TOKEN__\","
                                             "\"in\":[\"path\",\"body\"]}]}}]}"),
        "{}");
    int fd = vault_keep_create();
    assert_true(fd >= 0);
    struct vault_keep *k = vault_keep_open(fd, &e);
    assert_non_null(k);
    assert_null(vault_keep_read(k).p);
    assert_int_equal(vault_keep_write(k, STR("first")), 0);
    assert_int_equal(vault_serialize(s, &text), 0);
    assert_int_equal(vault_keep_write(k, buf_str(&text)), 0);
    vault_keep_close(k); /* as a kill would */
    k = vault_keep_open(fd, &e);
    assert_non_null(k);
    struct vault_state *t = vault_restore(vault_keep_read(k), &e);
    assert_non_null(t);
    vault_format(s, &before);
    vault_format(t, &after);
    assert_string_equal(buf_cstr(&before), buf_cstr(&after));
    assert_str(t->credentials[0].value, "s3cret+/=");
    assert_int_equal(t->bindings[1].n_substitutions, 1);
    assert_int_equal(t->bindings[1].substitutions[0].in, VAULT_PATH | VAULT_BODY);
    assert_int_equal(vault_keep_write(k, STR("")), 0);
    assert_null(vault_keep_read(k).p);
    vault_keep_close(k);
    (void)close(fd);
    int other = open("/dev/null", O_RDWR);
    assert_null(vault_keep_open(other, &e));
    (void)close(other);
    vault_state_unref(s);
    vault_state_unref(t);
    buf_done(&text);
    buf_done(&before);
    buf_done(&after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes),       cmocka_unit_test(validation),
        cmocka_unit_test(ambiguity),    cmocka_unit_test(patching),
        cmocka_unit_test(redaction),    cmocka_unit_test(policy_changes),
        cmocka_unit_test(over_a_crash),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
