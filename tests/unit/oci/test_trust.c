/* Paths in layers, as an overlay would show them, and trust stores for Java. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/must.h"
#include "base/sha1.h"
#include "server/runtime/oci/browser.h"
#include "server/runtime/oci/keystore.h"
#include "server/runtime/oci/merged.h"

static char dir[64], layer[3][80];
static struct rootfs image;

static int setup(void **state)
{
    (void)snprintf(dir, sizeof(dir), "/var/tmp/test-trust-XXXXXX");
    must(mkdtemp(dir));
    image = (struct rootfs){.n_layers = 3, .n_binds = 1, .binds = {"/usr"}};
    for (int i = 0; i < 3; i++) {
        (void)snprintf(layer[i], sizeof(layer[i]), "%s/%d", dir, i);
        must(mkdir(layer[i], 0755) == 0);
        image.layers[i] = layer[i];
    }
    return 0;
}

static int teardown(void **state)
{
    (void)dir_remove(AT_FDCWD, dir, true);
    return 0;
}

static const char *at(int i, const char *path)
{
    static char full[256];
    (void)snprintf(full, sizeof(full), "%s/%s", layer[i], path);
    for (char *p = full + strlen(layer[i]) + 1; (p = strchr(p, '/')); p++) {
        *p = 0;
        (void)mkdir(full, 0755);
        *p = '/';
    }
    return full;
}

static void file(int i, const char *path, const char *text)
{
    int fd = open(at(i, path), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    must(fd >= 0 && fd_write_full(fd, text, strlen(text)) == 0);
    (void)close(fd);
}

static void check(const char *path, const char *where, const char *text)
{
    struct merged m;
    struct buf b = BUF_INIT(1000);
    assert_int_equal(merged_find(&image, path, &m), 0);
    assert_string_equal(m.path, where);
    assert_int_equal(merged_read(&image, &m, &b), 0);
    assert_string_equal(buf_cstr(&b), text);
    buf_done(&b);
}

static void check_gone(const char *path, int error)
{
    struct merged m;
    assert_int_equal(merged_find(&image, path, &m), error);
}

static void test_layers_and_links(void **state)
{
    file(2, "etc/ssl/one", "lowest");
    file(1, "etc/ssl/one", "middle");
    file(2, "etc/ssl/two", "two");
    check("etc/ssl/one", "etc/ssl/one", "middle");
    check("/etc//ssl/./two", "etc/ssl/two", "two");
    /* A link of the top layer into directories of the others, and back. */
    must(symlink("../etc/ssl", at(0, "opt/ssl")) == 0);
    must(symlink("/opt/ssl/two", at(2, "etc/ssl/three")) == 0);
    must(symlink("../../../../etc/ssl/one", at(1, "out")) == 0);
    check("opt/ssl/one", "etc/ssl/one", "middle");
    check("opt/ssl/three", "etc/ssl/two", "two");
    check("out", "etc/ssl/one", "middle"); /* ".." of the root is the root */
    must(symlink("loop", at(0, "loop")) == 0);
    check_gone("loop/x", -ELOOP);
    must(symlink("/usr/share/x", at(0, "far")) == 0);
    check_gone("far", -EXDEV);
    check_gone("usr/local", -EXDEV);
    check_gone("etc/none", -ENOENT);
    check_gone("etc/ssl/one/below", -ENOENT);
}

static void test_what_a_layer_hides(void **state)
{
    if (geteuid() != 0) {
        skip(); /* attributes and devices of overlayfs */
    }
    file(2, "a/gone", "x");
    file(2, "a/b/hidden", "x");
    file(2, "a/file/below", "x");
    file(1, "a/b/shown", "y");
    must(mknod(at(1, "a/gone"), S_IFCHR, 0) == 0);
    must(setxattr(at(1, "a/b"), "trusted.overlay.opaque", "y", 1, 0) == 0);
    file(0, "a/file", "now a file");
    check_gone("a/gone", -ENOENT);
    check_gone("a/b/hidden", -ENOENT);
    check_gone("a/file/below", -ENOENT);
    check("a/b/shown", "a/b/shown", "y");
    check("a/file", "a/file", "now a file");
}

static void check_sum(struct str s)
{
    static const char salt[] = "\0c\0h\0a\0n\0g\0e\0i\0tMighty Aphrodite";
    struct sha1 h;
    uint8_t sum[SHA1_LEN];
    sha1_init(&h);
    sha1_add(&h, str_n(salt, sizeof(salt) - 1));
    sha1_add(&h, str_sub(s, 0, s.n - SHA1_LEN));
    sha1_done(&h, sum);
    assert_memory_equal(sum, s.p + s.n - SHA1_LEN, SHA1_LEN);
}

static void test_keystore(void **state)
{
    static const char pem[] = "# words\n-----BEGIN CERTIFICATE-----\nYWJj\r\nZGVm\n"
                              "-----END CERTIFICATE-----\n-----BEGIN CERTIFICATE-----\n!!!\n"
                              "-----END CERTIFICATE-----\n-----BEGIN CERTIFICATE-----\neA==\n"
                              "-----END CERTIFICATE-----\n-----BEGIN CERTIFICATE-----\neA==";
    static const char want[] = "\xfe\xed\xfe\xed\0\0\0\2\0\0\0\2"
                               "\0\0\0\2\0\6root-0\0\0\0\0\0\0\0\0\0\5X.509\0\0\0\6"
                               "abcdef"
                               "\0\0\0\2\0\6root-1\0\0\0\0\0\0\0\0\0\5X.509\0\0\0\1x";
    struct buf b = BUF_INIT(1000), more = BUF_INIT(1000);
    assert_int_equal(keystore_from_pem(str_from(pem), &b), 0);
    assert_int_equal(b.len, sizeof(want) - 1 + SHA1_LEN);
    assert_memory_equal(b.p, want, sizeof(want) - 1);
    check_sum(buf_str(&b));
    assert_int_equal(keystore_extend(buf_str(&b), str_from(pem), &more), 0);
    assert_int_equal(more.p[11], 4);
    assert_memory_equal(more.p + 12, b.p + 12, b.len - 12 - SHA1_LEN);
    check_sum(buf_str(&more));
    assert_int_equal(keystore_extend(STR("short"), str_from(pem), &more), -EINVAL);
    b.p[0] = 0x30; /* the newer format begins so */
    assert_int_equal(keystore_extend(buf_str(&b), str_from(pem), &more), -EINVAL);
    buf_done(&b);
    b = BUF_INIT(20);
    assert_int_equal(keystore_from_pem(str_from(pem), &b), -ENOSPC);
    buf_done(&b);
    buf_done(&more);
}

static void test_browsers(void **state)
{
    struct buf out = BUF_INIT(BROWSER_POLICY_MAX);
    assert_int_equal(browser_firefox(STR(""), "/ca.pem", &out), 0);
    struct buf again = BUF_INIT(BROWSER_POLICY_MAX);
    assert_int_equal(browser_firefox(buf_str(&out), "/ca.pem", &again), 0);
    assert_string_equal(buf_cstr(&again), buf_cstr(&out)); /* not twice */
    buf_clear(&out);
    assert_int_equal(
        browser_firefox(STR("{\"policies\":{\"DisableTelemetry\":true,\"Certificates\":"
                            "{\"Install\":[\"own.pem\"]}}}"),
                        "/ca.pem", &out),
        0);
    assert_non_null(strstr(buf_cstr(&out), "DisableTelemetry"));
    assert_non_null(strstr(buf_cstr(&out), "own.pem"));
    assert_non_null(strstr(buf_cstr(&out), "/ca.pem"));
    const char *odd[] = {"{", "[]", "{\"policies\":[]}", "{\"policies\":{\"Certificates\":1}}",
                         "{\"policies\":{\"Certificates\":{\"Install\":\"x\"}}}"};
    for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
        assert_int_equal(browser_firefox(str_from(odd[i]), "/ca.pem", &out), -EINVAL);
    }
    buf_clear(&out);
    assert_int_equal(browser_chromium(STR("# text\n-----BEGIN CERTIFICATE-----\nAAAA\nBB==\n"
                                          "-----END CERTIFICATE-----\n-----BEGIN CERTIFICATE-----\n"
                                          "CC\n-----END CERTIFICATE-----\n-----BEGIN"),
                                      &out),
                     0);
    assert_string_equal(buf_cstr(&out), "{\"CACertificates\":[\"AAAABB==\",\"CC\"]}");
    buf_done(&out);
    buf_done(&again);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_layers_and_links),
        T(test_what_a_layer_hides),
        T(test_keystore),
        cmocka_unit_test(test_browsers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
