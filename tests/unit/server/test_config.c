#include "server/config/config.h"

#include <stdlib.h>

#include "../test.h"

static struct config *parse(const char *text, struct err *e)
{
    *e = (struct err){0};
    return config_parse("x.toml", str_from(text), NULL, e);
}

static void defaults(void **state)
{
    struct err e;
    struct config *c = parse("", &e);
    assert_non_null(c);
    assert_string_equal(c->server.host, "127.0.0.1");
    assert_int_equal(c->server.port, 8080);
    assert_null(c->server.api_key);
    assert_int_equal(c->server.api_keys.n, 0);
    assert_string_equal(c->runtime.type, "oci");
    assert_string_equal(c->oci.engine, "crun");
    assert_int_equal(c->oci.tmpfs_bytes, 64 << 20);
    assert_int_equal(c->storage.allowed_host_paths.n, 0);
    assert_true(c->server.data_dir[0] == '/');
    assert_non_null(strstr(c->store.path, "/opensandbox.db"));
    config_unref(c);
}

static void values(void **state)
{
    struct err e;
    struct config *c = parse("[server]\nport = 0\napi_keys = ['aaaaaaaa', 'bbbbbbbb']\n"
                             "data_dir = '/x'\n[oci]\ntmpfs_bytes = 65536\nlog_max_bytes = '1Mi'\n"
                             "[oci.rootfs]\nbusybox = '/r'\n[renew_intent]\nenabled = true\n"
                             "redis.enabled = true\nredis.dsn = 'redis://h'\n",
                             &e);
    assert_non_null(c);
    assert_int_equal(c->server.port, 0);
    assert_string_equal(c->server.api_keys.v[1], "bbbbbbbb");
    assert_string_equal(c->store.path, "/x/opensandbox.db");
    assert_int_equal(c->oci.log_max_bytes, 1 << 20);
    assert_string_equal(str_map_get(&c->oci.rootfs, "busybox"), "/r");
    assert_true(c->renew.redis_enabled);
    config_unref(c);
}

static void wrong_values_name_file_line_and_reason(void **state)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"[server]\n\nport = 70000\n", "x.toml:3: server.port: 70000 is not between"},
        {"[server]\nport = true\n", "x.toml:2: server.port: expected an integer"},
        {"server.host = ''\n", "server.host: must not be empty"},
        {"[server]\nhost = 'nowhere'\n", "x.toml:2: server.host: \"nowhere\" is not an IP address"},
        {"[server]\nmax_sandbox_timeout_seconds = 59\n", "must be 60 or more"},
        {"[server]\napi_keys = ['short']\n", "shorter than 8"},
        {"[server]\napi_keys = [1]\n", "entry 1 is not a string"},
        {"[log]\nlevel = 'loud'\n", "x.toml:2: log.level"},
        {"[runtime]\ntype = 'podman'\n", "is not one of \"oci\", \"docker\""},
        {"[docker]\npublish_address = 'here'\n", "docker.publish_address: \"here\" is not"},
        {"[docker]\nseccomp_profile = 'x.json'\n", "docker.seccomp_profile: must be"},
        {"[oci]\nsubnet = '10.0.0.0/30'\n", "x.toml:2: oci.subnet"},
        {"[oci]\nsubnet = 'fd00::/64'\n", "no IPv4 network"},
        {"[oci]\nbridge = 'a-name-that-is-too-long'\n", "longer than 15"},
        {"[oci]\nid_base = 4294900000\n", "beyond the last user id"},
        {"[oci]\nseccomp = 'x'\n", "absolute path"},
        {"[oci]\nhost_image_paths = ['opt']\n", "not an absolute path"},
        {"[oci]\ndefault_memory = 'lots'\n", "no size"},
        {"[secure_runtime]\ntype = 'kata'\n", "x.toml:2: secure_runtime.type"},
        {"[renew_intent]\nredis.enabled = true\n", "renew_intent.redis.dsn: is required"},
        {"[renew_intent]\nredis = {enabled = true, dsn = 'http://x'}\n",
         "must begin with redis://"},
        {"[server]\ndata_dir = 'rel'\n", "not an absolute path"},
        {"[server\n", "x.toml: line 1"},
        {"[server]\nport = 1\nport = 2\n", "x.toml: line 3"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct err e;
        struct config *c = parse(cases[i].text, &e);
        if (c || !strstr(e.msg, cases[i].want)) {
            fail_msg("%s: got '%s'", cases[i].text, c ? "no error" : e.msg);
        }
    }
}

static void unknown_keys_are_noted(void **state)
{
    struct err e = {0};
    struct config_notes n = {0};
    struct config *c =
        config_parse("x.toml",
                     STR("[server]\nprot = 1\nloop = 'uvloop'\n[kubernetes]\nnamespace = 'x'\n"
                         "[runtime]\nbridge = 'x'\nbanana = 1\n"),
                     &n, &e);
    assert_non_null(c);
    assert_int_equal(n.n, 5);
    assert_string_equal(
        n.v[0], "x.toml:2: server.prot is no option of this server; did you mean server.port?");
    assert_non_null(strstr(n.v[1], "has no effect here"));
    assert_non_null(strstr(n.v[2], "x.toml:5: kubernetes.namespace has no effect here"));
    assert_non_null(
        strstr(n.v[3], "runtime.bridge is no option of this server; did you mean oci.bridge?"));
    assert_string_equal(n.v[4], "x.toml:8: runtime.banana is no option of this server");
    config_notes_done(&n);
    config_unref(c);
}

static void environment_overrides_the_key(void **state)
{
    struct err e;
    assert_int_equal(setenv("OPENSANDBOX_SERVER_API_KEY", "from-env", 1), 0);
    struct config *c = parse("[server]\napi_key = 'from-file'\napi_keys = ['another-one']\n", &e);
    assert_string_equal(c->server.api_key, "from-env");
    assert_int_equal(c->server.api_keys.n, 0);
    config_unref(c);
    assert_int_equal(setenv("OPENSANDBOX_SERVER_API_KEY", "", 1), 0);
    c = parse("[server]\napi_key = 'from-file'\n", &e);
    assert_string_equal(c->server.api_key, "");
    config_unref(c);
    assert_int_equal(unsetenv("OPENSANDBOX_SERVER_API_KEY"), 0);
}

static void gvisor_means_runsc(void **state)
{
    struct err e;
    struct config *c = parse("[secure_runtime]\ntype = 'gvisor'\n", &e);
    assert_non_null(c);
    assert_string_equal(c->oci.engine, "runsc");
    config_unref(c);
}

static void reload_tells_what_needs_a_restart(void **state)
{
    struct err e;
    struct config *a = parse("[server]\nport = 1\n[oci.rootfs]\na = '/a'\n", &e);
    struct config *b = parse("[server]\nport = 2\neip = 'x'\n[oci.rootfs]\na = '/b'\n"
                             "[limits]\nsandboxes = 5\n",
                             &e);
    struct buf out = BUF_INIT(1024);
    assert_int_equal(config_needs_restart(a, b, &out), 2);
    assert_string_equal(buf_cstr(&out), "server.port, oci.rootfs");
    buf_clear(&out);
    assert_int_equal(config_needs_restart(a, a, &out), 0);
    buf_done(&out);
    config_unref(a);
    config_unref(b);
}

/* Takes away the "# " of keys and tables, and leaves it before words. */
static void uncomment(struct str text, struct buf *out)
{
    while (text.p) {
        struct str line = str_cut(&text, '\n');
        struct str rest = str_starts(line, STR("# ")) ? str_sub(line, 2, line.n) : line;
        size_t key = strspn(rest.n ? rest.p : "", "abcdefghijklmnopqrstuvwxyz0123456789_.\"");
        bool is_key = key && str_starts(str_sub(rest, key, rest.n), STR(" = "));
        (void)buf_add_str(out, is_key || str_starts(rest, STR("[")) ? rest : line);
        (void)buf_add_char(out, '\n');
    }
}

static void what_is_rendered_can_be_read(void **state)
{
    static const char *const examples[] = {NULL, "oci", "docker"};
    for (size_t i = 0; i < 3; i++) {
        struct buf out = BUF_INIT(1u << 20);
        struct err e = {0};
        struct config_notes n = {0};
        assert_int_equal(config_render(&out, examples[i], &e), 0);
        struct config *c = config_parse("x", buf_str(&out), &n, &e);
        if (!c) {
            fail_msg("%s", e.msg);
        }
        if (i == 0) { /* every key of the full one, uncommented, is known and fine */
            assert_int_equal(n.n, 0);
            assert_non_null(strstr(buf_cstr(&out), "# timeout_keep_alive = 30"));
            struct buf all = BUF_INIT(1u << 20);
            uncomment(buf_str(&out), &all);
            struct config *d = config_parse("x", buf_str(&all), &n, &e);
            if (!d || n.n) {
                fail_msg("%s", d ? n.v[0] : e.msg);
            }
            assert_int_equal(d->oci.rootfs.n, 1); /* keys after a table have not become its own */
            assert_int_equal(d->images.ca_files.n, 1);
            config_unref(d);
            buf_done(&all);
        }
        config_notes_done(&n);
        config_unref(c);
        buf_done(&out);
    }
    struct buf out = BUF_INIT(1024);
    struct err e = {0};
    assert_int_equal(config_render(&out, "nothing", &e), -1);
    buf_done(&out);
}

int main(void)
{
    (void)unsetenv("OPENSANDBOX_SERVER_API_KEY");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),
        cmocka_unit_test(values),
        cmocka_unit_test(wrong_values_name_file_line_and_reason),
        cmocka_unit_test(unknown_keys_are_noted),
        cmocka_unit_test(environment_overrides_the_key),
        cmocka_unit_test(gvisor_means_runsc),
        cmocka_unit_test(reload_tells_what_needs_a_restart),
        cmocka_unit_test(what_is_rendered_can_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
