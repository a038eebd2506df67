/* Which limits of the disk an engine can keep, and which it says it has left out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "server/runtime/docker/docker.h"

static void test_mount_options(void **state)
{
    (void)state;
    struct str text = STR("22 1 254:0 / / rw,relatime - ext4 /dev/vda rw,prjquota\n"
                          "42 27 7:0 / /a rw - xfs /dev/loop0 rw,inode64,noquota\n"
                          "43 27 7:1 / /b rw shared:1 - xfs /dev/loop1 rw,inode64,prjquota\n"
                          "short line\n7:2");
    assert_true(mount_has_quota(text, 254, 0));
    assert_false(mount_has_quota(text, 7, 0));
    assert_true(mount_has_quota(text, 7, 1));
    assert_false(mount_has_quota(text, 7, 2));
    assert_false(mount_has_quota(STR_NULL, 7, 1));
}

static void test_what_is_refused(void **state)
{
    (void)state;
    struct docker d = {.storage = "overlay2 on extfs"};
    struct runtime_limits l = {.disk_bytes = 1};
    struct err e = {0};
    assert_int_equal(engine_disk_check(&d, &l, &e), -1);
    assert_int_equal(e.code, ERR_INVALID);
    assert_non_null(strstr(e.msg, "overlay2 on extfs"));
    d.can_quota = true;
    assert_int_equal(engine_disk_check(&d, &l, &e), 0);
    l = (struct runtime_limits){.io = {[IO_WRITE_IOPS] = 5}};
    assert_int_equal(engine_disk_check(&d, &l, &e), -1);
    char disk[] = "/dev/vda";
    d.disk = disk;
    assert_int_equal(engine_disk_check(&d, &l, &e), 0);
    struct json *host = json_object_new();
    engine_disk_into(&d, &l, host);
    const struct json *one = json_item(json_get(host, "BlkioDeviceWriteIOps"), 0);
    assert_string_equal(json_cstr(json_get(one, "Path")), "/dev/vda");
    assert_int_equal(json_int(json_get(one, "Rate"), 0), 5);
    assert_null(json_get(host, "StorageOpt"));
    assert_null(json_get(host, "BlkioDeviceReadBps"));
    json_free(host);
}

static void test_what_the_engine_left_out(void **state)
{
    (void)state;
    struct err e = {0};
    struct json *w = json_parse(
        STR("[\"Your kernel does not support swap limit capabilities. Memory limited without "
            "swap.\","
            "\"Your kernel does not support BPS Block I/O read limit. Block I/O BPS read limit "
            "discarded.\", 7]"),
        &e);
    assert_non_null(w);
    struct runtime_limits memory = {.memory_bytes = 1}, io = {.io = {[IO_READ_BPS] = 1}};
    assert_int_equal(limits_kept(w, &memory, &e), 0);
    assert_int_equal(limits_kept(w, &io, &e), -1);
    assert_int_equal(e.code, ERR_INVALID);
    assert_int_equal(limits_kept(NULL, &io, &e), 0);
    json_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mount_options),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_what_the_engine_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
