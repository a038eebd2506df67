/* config.json: what must be in it, whatever the request, and what must not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "base/cleanup.h"
#include "base/codec.h"
#include "base/must.h"
#include "server/runtime/oci/bundle.h"
#include "server/runtime/oci/seccomp.h"
#include "json/json.h"

static const char *const args[] = {"/opt/opensandbox/execd", "init", NULL};
static const char *const env[] = {"A=1", "B=\"x\ny\"", NULL};

static struct bundle base_bundle(void)
{
    return (struct bundle){
        .rootfs = "/run/x/rootfs",
        .hostname = "box",
        .args = args,
        .env = env,
        .cwd = "/",
        .id_first = 100000,
        .id_count = 65536,
        .shm_bytes = 64 << 20,
        .seccomp = "default",
        .no_new_privileges = true,
    };
}

static struct json *write_bundle(const struct bundle *b)
{
    cleanup_(buf_done) struct buf out = BUF_INIT(1 << 20);
    struct err e = {0};
    if (bundle_write(b, &out, &e) < 0) {
        fail_msg("%s", e.msg);
    }
    struct json *j = json_parse(buf_str(&out), &e);
    if (!j) {
        fail_msg("%s", e.msg);
    }
    return j;
}

static bool list_has(const struct json *list, const char *word)
{
    for (size_t i = 0; i < json_len(list); i++) {
        struct json *it = json_item(list, i);
        struct str s = json_is_string(it) ? json_str(it) : json_str(json_get(it, "type"));
        if (str_eq(s, str_from(word))) {
            return true;
        }
    }
    return false;
}

static void test_isolation(void **state)
{
    struct bundle b = base_bundle();
    cleanup_(json_free) struct json *j = write_bundle(&b);
    (void)state;
    static const char *const namespaces[] = {"pid", "mount", "ipc", "uts", "user"};
    for (size_t i = 0; i < ARRAY_LEN(namespaces); i++) {
        assert_true(list_has(json_at(j, "linux.namespaces"), namespaces[i]));
    }
    /* The engine is started in the sandbox's: a new one would belong to the sandbox's root. */
    assert_false(list_has(json_at(j, "linux.namespaces"), "network"));
    assert_true(json_bool(json_at(j, "process.noNewPrivileges"), false));
    assert_int_equal(json_int(json_get(json_item(json_at(j, "linux.uidMappings"), 0), "hostID"), 0),
                     100000);
    assert_int_equal(json_int(json_get(json_item(json_at(j, "linux.gidMappings"), 0), "size"), 0),
                     65536);
    assert_true(list_has(json_at(j, "linux.maskedPaths"), "/proc/kcore"));
    assert_true(list_has(json_at(j, "linux.readonlyPaths"), "/proc/sys"));
    struct json *first = json_item(json_at(j, "process.env"), 1);
    assert_string_equal(json_cstr(first), env[1]);
}

static void test_capabilities(void **state)
{
    static const char *const never[] = {
        "CAP_SYS_ADMIN", "CAP_SYS_PTRACE", "CAP_NET_ADMIN", "CAP_NET_RAW",  "CAP_SYS_MODULE",
        "CAP_MKNOD",     "CAP_SYS_RAWIO",  "CAP_BPF",       "CAP_SYS_BOOT", "CAP_DAC_READ_SEARCH"};
    struct bundle b = base_bundle();
    cleanup_(json_free) struct json *j = write_bundle(&b);
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(never); i++) {
        assert_false(list_has(json_at(j, "process.capabilities.bounding"), never[i]));
    }
    assert_true(list_has(json_at(j, "process.capabilities.effective"), "CAP_CHOWN"));
    assert_null(json_at(j, "process.capabilities.ambient"));
    const char *own[] = {"kill", "cap_net_raw"};
    struct str_list list = {own, 2};
    b.capabilities = &list;
    cleanup_(json_free) struct json *k = write_bundle(&b);
    assert_int_equal(json_len(json_at(k, "process.capabilities.permitted")),
                     3); /* and the shield */
    assert_true(list_has(json_at(k, "process.capabilities.permitted"), "CAP_NET_RAW"));
    own[0] = "CAP_EVERYTHING";
    cleanup_(buf_done) struct buf out = BUF_INIT(1 << 20);
    struct err e = {0};
    assert_int_equal(bundle_write(&b, &out, &e), -1);
    assert_non_null(strstr(e.msg, "CAP_EVERYTHING"));
}

static void test_variants(void **state)
{
    struct bundle b = base_bundle();
    struct bundle_tmpfs t = {"/scratch", 1 << 20};
    (void)state;
    b.id_count = 0;
    b.read_only = true;
    b.seccomp = "unconfined";
    b.tmpfs = &t;
    b.n_tmpfs = 1;
    b.cgroup_ns = true;
    b.cgroup_path = "/p/id/init";
    cleanup_(json_free) struct json *j = write_bundle(&b);
    assert_false(list_has(json_at(j, "linux.namespaces"), "user"));
    assert_true(list_has(json_at(j, "linux.namespaces"), "cgroup"));
    assert_null(json_at(j, "linux.uidMappings"));
    assert_null(json_at(j, "linux.seccomp"));
    assert_true(json_bool(json_at(j, "root.readonly"), false));
    assert_string_equal(json_cstr(json_at(j, "linux.cgroupsPath")), "/p/id/init");
    bool found = false;
    for (size_t i = 0; i < json_len(json_get(j, "mounts")); i++) {
        struct json *m = json_item(json_get(j, "mounts"), i);
        found = found || (str_eq(json_str(json_get(m, "destination")), STR("/scratch")) &&
                          list_has(json_get(m, "options"), "size=1024k"));
    }
    assert_true(found);
}

static void test_too_large(void **state)
{
    struct bundle b = base_bundle();
    cleanup_(buf_done) struct buf out = BUF_INIT(1000);
    struct err e = {0};
    (void)state;
    assert_int_equal(bundle_write(&b, &out, &e), -1);
    assert_int_equal(e.code, ERR_LIMIT);
}

static void test_seccomp(void **state)
{
    static const char *const never[] = {
        "mount",           "umount2",
        "unshare",         "setns",
        "pivot_root",      "bpf",
        "keyctl",          "add_key",
        "request_key",     "init_module",
        "finit_module",    "kexec_load",
        "reboot",          "open_by_handle_at",
        "perf_event_open", "userfaultfd",
        "io_uring_setup",  "swapon",
        "clone3",          "fsopen",
        "move_mount",      "iopl",
        "quotactl",        "settimeofday",
        "mount_setattr",   "open_tree",
    };
    static const char *const needed[] = {"openat", "execve",  "clone", "futex",      "epoll_wait",
                                         "socket", "connect", "mmap",  "getdents64", "prctl"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(never); i++) {
        if (seccomp_allows(never[i])) {
            fail_msg("%s is allowed", never[i]);
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(needed); i++) {
        assert_true(seccomp_allows(needed[i]));
    }
    struct bundle b = base_bundle();
    cleanup_(json_free) struct json *j = write_bundle(&b);
    struct json *s = json_at(j, "linux.seccomp");
    assert_string_equal(json_cstr(json_get(s, "defaultAction")), "SCMP_ACT_ERRNO");
    assert_int_equal(json_int(json_get(s, "defaultErrnoRet"), 0), ENOSYS);
}

static void test_compiled_seccomp(void **state)
{
    cleanup_(buf_done) struct buf text = BUF_INIT(1 << 20);
    struct err e = {0};
    (void)state;
    if (seccomp_compile(&text, &e) < 0) {
        fail_msg("%s", e.msg);
    }
    unsigned char program[1 << 16];
    ssize_t n = base64_decode(buf_str(&text), program, sizeof(program));
    assert_true(n > 1000 && n % 8 == 0); /* instructions of eight bytes */
    struct bundle b = base_bundle();
    b.seccomp_program = buf_cstr(&text);
    cleanup_(json_free) struct json *j = write_bundle(&b);
    struct json *a = json_get(json_get(j, "annotations"), "run.oci.seccomp_bpf_data");
    assert_string_equal(json_cstr(a), buf_cstr(&text));
    assert_null(json_at(j, "linux.seccomp"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_isolation), cmocka_unit_test(test_capabilities),
        cmocka_unit_test(test_variants),  cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_seccomp),   cmocka_unit_test(test_compiled_seccomp),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
