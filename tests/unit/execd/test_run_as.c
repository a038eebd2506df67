/* Users of images: names, numbers, groups. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "execd/passwd.h"
#include "execd/run_as.h"

static const char passwd[] = "root:x:0:0:root:/root:/bin/sh\n"
                             "app:x:1234:1235::/home/app:/bin/sh\n"
                             "77:x:88:89::relative:/bin/sh\n";
static const char group[] = "root:x:0:\napp:x:1235:\nextra:x:1300:root,app\nstaff:x:50:\n";

static int parse(const char *text, struct run_as *r, struct err *e)
{
    struct passwd_db db;
    passwd_parse(&db, str_from(passwd), str_from(group));
    int ok = run_as_parse(r, &db, text, e);
    passwd_done(&db);
    return ok;
}

static void test_forms(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uid_t uid;
        gid_t gid;
        size_t n_groups;
        const char *home;
    } rows[] = {
        {"app", 1234, 1235, 2, "/home/app"},
        {"1234", 1234, 1235, 2, "/home/app"},
        {"app:staff", 1234, 50, 1, "/home/app"},
        {"app:7", 1234, 7, 1, "/home/app"},
        {"5000", 5000, 0, 1, "/"},
        {"5000:5001", 5000, 5001, 1, "/"},
        {"77", 88, 89, 1, "/"}, /* a name before a number; a home that is none */
        {"root:app", 0, 1235, 1, "/root"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct run_as r;
        struct err e = {0};
        assert_int_equal(parse(rows[i].text, &r, &e), 0);
        assert_true(r.is_set);
        assert_int_equal(r.uid, rows[i].uid);
        assert_int_equal(r.gid, rows[i].gid);
        assert_int_equal(r.n_groups, rows[i].n_groups);
        assert_int_equal(r.groups[0], rows[i].gid);
        assert_string_equal(r.home, rows[i].home);
    }
}

static void test_unknown_names(void **state)
{
    (void)state;
    static const char *const bad[] = {"nobody-here", "app:nogroup", "-1", "4294967296", ":app"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct run_as r;
        struct err e = {0};
        assert_int_equal(parse(bad[i], &r, &e), -1);
        assert_int_equal(e.code, ERR_NOT_FOUND);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_unknown_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
