/* The files of an upload: order, errors, nothing half-written and nothing left behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../tempdir.h"
#include "base/fd.h"
#include "base/must.h"
#include "execd/limits.h"
#include "execd/upload_parts.h"

static const char *at(const char *name)
{
    static char path[4][256];
    static unsigned i;
    char *p = path[i++ % 4];
    (void)snprintf(p, sizeof(path[0]), "%s/%s", top, name);
    return p;
}

static void meta(struct upload_set *s, const char *name, const char *more)
{
    char json[512];
    (void)snprintf(json, sizeof(json), "{\"path\":\"%s\"%s}", at(name), more);
    upload_set_meta(s, str_from(json));
}

static void file(struct upload_set *s, const char *content)
{
    upload_set_file_begin(s);
    upload_set_file_data(s, str_from(content));
    upload_set_file_end(s);
}

static void put(const char *name, const char *content)
{
    assert_int_equal(file_write_atomic(AT_FDCWD, at(name), str_from(content), 0640), 0);
}

static void assert_content(const char *name, const char *want)
{
    struct buf b = BUF_INIT(1000);
    int r = file_read(AT_FDCWD, at(name), &b);
    if (!want) {
        assert_int_equal(r, -ENOENT);
    } else {
        assert_int_equal(r, 0);
        assert_string_equal(buf_cstr(&b), want);
    }
    buf_done(&b);
}

static void assert_files(int want)
{
    int n = 0;
    DIR *d = opendir(top);
    assert_non_null(d);
    while (readdir(d)) {
        n++;
    }
    closedir(d);
    assert_int_equal(n - 2, want);
}

static void test_in_order(void **state)
{
    struct upload_set *s = upload_set_new();
    put("a", "old");
    meta(s, "a", "");
    upload_set_file_begin(s);
    upload_set_file_data(s, STR("ne"));
    assert_content("a", "old");
    upload_set_file_data(s, STR("w"));
    upload_set_file_end(s);
    meta(s, "sub/b", ",\"mode\":600,\"owner\":null,\"group\":\"\"");
    file(s, "two");
    assert_content("a", "old"); /* all or nothing: not yet */
    upload_set_finish(s);
    assert_null(upload_set_error(s));
    assert_content("a", "new");
    assert_content("sub/b", "two");
    struct stat st;
    assert_int_equal(stat(at("a"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640); /* an existing file keeps its mode */
    assert_int_equal(stat(at("sub/b"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    upload_set_free(s);
    assert_files(2);
}

static void test_file_first(void **state)
{
    struct upload_set *s = upload_set_new();
    file(s, "one");
    file(s, "two");
    meta(s, "a", "");
    meta(s, "b", "");
    upload_set_finish(s);
    assert_null(upload_set_error(s));
    upload_set_free(s);
    assert_content("a", "one");
    assert_content("b", "two");
}

static void test_broken_off(void **state)
{
    struct upload_set *s = upload_set_new();
    put("a", "old");
    meta(s, "a", "");
    upload_set_file_begin(s);
    upload_set_file_data(s, STR("half"));
    upload_set_free(s);
    assert_content("a", "old");
    assert_files(1);
}

static void test_mismatch(void **state)
{
    struct upload_set *s = upload_set_new();
    meta(s, "a", "");
    file(s, "one");
    meta(s, "b", "");
    upload_set_finish(s);
    assert_string_equal(upload_set_error(s)->msg, "metadata and file count mismatch: 2 vs 1");
    assert_string_equal(upload_set_error(s)->code, "INVALID_FILE");
    upload_set_free(s);
    assert_files(0);
}

static void test_missing_parts(void **state)
{
    struct upload_set *s = upload_set_new();
    upload_set_finish(s);
    assert_string_equal(upload_set_error(s)->code, "INVALID_FILE_METADATA");
    upload_set_free(s);
    s = upload_set_new();
    meta(s, "a", "");
    upload_set_finish(s);
    assert_string_equal(upload_set_error(s)->code, "INVALID_FILE_CONTENT");
    upload_set_free(s);
}

static void test_second_fails(void **state)
{
    struct upload_set *s = upload_set_new();
    put("blocker", "");
    meta(s, "a", "");
    meta(s, "blocker/b", ""); /* its directory cannot be made */
    meta(s, "c", "");
    file(s, "one");
    assert_null(upload_set_error(s));
    upload_set_file_begin(s);
    assert_non_null(upload_set_error(s)); /* as soon as it is certain */
    upload_set_file_data(s, STR("two"));
    upload_set_file_end(s);
    assert_int_equal(upload_set_error(s)->status, 500);
    file(s, "three");
    upload_set_finish(s);
    upload_set_free(s);
    assert_content("a", "one");
    assert_content("c", NULL);
    assert_files(2);
}

static void test_bad_metadata(void **state)
{
    static const struct {
        const char *json, *msg;
    } cases[] = {
        {"", "invalid metadata format"},
        {"{", "invalid metadata format"},
        {"[]", "invalid metadata format"},
        {"{\"path\":5}", "invalid metadata format"},
        {"{\"path\":\"/x\"} x", "invalid metadata format"},
        {"null", "metadata path is empty"},
        {"{}", "metadata path is empty"},
        {"{\"path\":\"\"}", "metadata path is empty"},
        {"{\"path\":null}", "metadata path is empty"},
        {"{\"path\":\"/x\",\"mode\":\"755\"}", "invalid metadata format"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct upload_set *s = upload_set_new();
        upload_set_meta(s, str_from(cases[i].json));
        const struct upload_error *e = upload_set_error(s);
        assert_non_null(e);
        assert_int_equal(e->status, 400);
        assert_string_equal(e->code, "INVALID_FILE_METADATA");
        assert_non_null(strstr(e->msg, cases[i].msg));
        upload_set_free(s);
    }
}

static void test_bad_mode_and_owner(void **state)
{
    static const char *const bad[] = {",\"mode\":888", ",\"mode\":-1", ",\"mode\":10000",
                                      ",\"owner\":\"no such user\"",
                                      ",\"group\":\"no such group\""};
    put("a", "old");
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct upload_set *s = upload_set_new();
        meta(s, "a", bad[i]);
        file(s, "new");
        upload_set_finish(s);
        assert_int_equal(upload_set_error(s)->status, 500);
        upload_set_free(s);
        assert_content("a", "old");
    }
    assert_files(1);
}

static void test_through_link(void **state)
{
    put("real", "old");
    assert_int_equal(symlink("real", at("link")), 0);
    struct upload_set *s = upload_set_new();
    meta(s, "link", "");
    file(s, "new");
    upload_set_finish(s);
    assert_null(upload_set_error(s));
    upload_set_free(s);
    assert_content("real", "new");
    struct stat st;
    assert_int_equal(lstat(at("link"), &st), 0);
    assert_true(S_ISLNK(st.st_mode));
}

static void test_directory_and_fifo(void **state)
{
    assert_int_equal(mkdir(at("dir"), 0700), 0);
    assert_int_equal(mkfifo(at("fifo"), 0600), 0);
    static const char *const names[] = {"dir", "fifo"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct upload_set *s = upload_set_new();
        meta(s, names[i], "");
        file(s, "x");
        assert_int_equal(upload_set_error(s)->status, 500);
        upload_set_free(s);
    }
    assert_files(2);
}

static void test_very_many(void **state)
{
    struct upload_set *s = upload_set_new();
    for (int i = 0; i < 3 * UPLOAD_MAX_HELD; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "f%d", i);
        meta(s, name, "");
        file(s, name);
    }
    assert_content("f0", "f0"); /* the oldest are not held back */
    upload_set_finish(s);
    assert_null(upload_set_error(s));
    upload_set_free(s);
    assert_files(3 * UPLOAD_MAX_HELD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_in_order, top_make, top_remove),
        cmocka_unit_test_setup_teardown(test_file_first, top_make, top_remove),
        cmocka_unit_test_setup_teardown(test_broken_off, top_make, top_remove),
        cmocka_unit_test_setup_teardown(test_mismatch, top_make, top_remove),
        cmocka_unit_test_setup_teardown(test_missing_parts, top_make, top_remove),
        cmocka_unit_test_setup_teardown(test_second_fails, top_make, top_remove),
        cmocka_unit_test_setup_teardown(test_bad_metadata, top_make, top_remove),
        cmocka_unit_test_setup_teardown(test_bad_mode_and_owner, top_make, top_remove),
        cmocka_unit_test_setup_teardown(test_through_link, top_make, top_remove),
        cmocka_unit_test_setup_teardown(test_directory_and_fifo, top_make, top_remove),
        cmocka_unit_test_setup_teardown(test_very_many, top_make, top_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
