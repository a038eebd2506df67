/* Image names: what is a registry, what a tag, and what is refused. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/image/ref.h"

#define HEX64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void assert_ref(const char *in, const char *want)
{
    struct image_ref r;
    struct err e = {0};
    char out[1024];
    if (image_ref_parse(str_from(in), &r, &e) < 0) {
        fail_msg("%s: %s", in, e.msg);
    }
    assert_int_equal(image_ref_format(&r, out, sizeof(out)), 0);
    assert_string_equal(out, want);
}

static void names_are_completed(void **state)
{
    (void)state;
    assert_ref("python", "docker.io/library/python:latest");
    assert_ref("python:3.11-slim", "docker.io/library/python:3.11-slim");
    assert_ref("team/tool", "docker.io/team/tool:latest");
    assert_ref("localhost/tool:1", "localhost/tool:1");
    assert_ref("localhost:5000/a/b/c:1", "localhost:5000/a/b/c:1");
    assert_ref("reg.example:443/x", "reg.example:443/x:latest");
    assert_ref("[::1]:5000/x:1", "[::1]:5000/x:1");
    assert_ref("a__b/c-d--e.f", "docker.io/a__b/c-d--e.f:latest");
    assert_ref("x@sha256:" HEX64, "docker.io/library/x@sha256:" HEX64);
    assert_ref("x:tag@sha256:" HEX64, "docker.io/library/x@sha256:" HEX64);
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "UPPER",
                                      "a//b",
                                      "/a",
                                      "a/",
                                      "a:",
                                      "a:b:c",
                                      "a:-x",
                                      "a@sha256:00",
                                      "a@md5:" HEX64,
                                      "a b",
                                      "../etc",
                                      "a/../b",
                                      "-a",
                                      "a-",
                                      "a..b",
                                      "x\ny",
                                      "reg.ex?/a",
                                      "a@",
                                      "a@sha256:" HEX64 "0",
                                      ".a/b",
                                      "a/.b",
                                      "reg.io/",
                                      "a/b:" HEX64 HEX64 "1"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct image_ref r;
        struct err e = {0};
        if (image_ref_parse(str_from(bad[i]), &r, &e) == 0) {
            fail_msg("accepted '%s'", bad[i]);
        }
        assert_int_equal(e.code, ERR_INVALID);
        assert_true(e.msg[0] != '\0');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_completed),
        cmocka_unit_test(nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
