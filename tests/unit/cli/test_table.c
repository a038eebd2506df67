#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "cli/table.h"

static void layout(void **state)
{
    struct table t = {.title = "T", .n_cols = 2, .head = {"ID", "STATUS"}};
    cleanup_(buf_done) struct buf b = BUF_INIT(1u << 20);
    const char *const rows[][2] = {{"a", "● up"}, {"längst", NULL}};
    table_add(&t, rows[0]);
    table_add(&t, rows[1]);
    table_render(&t, &b);
    table_done(&t);
    assert_string_equal(buf_cstr(&b), "         T\n"
                                      "╭────────┬────────╮\n"
                                      "│ ID     │ STATUS │\n"
                                      "├────────┼────────┤\n"
                                      "│ a      │ ● up   │\n"
                                      "│ längst │ -      │\n"
                                      "╰────────┴────────╯\n");
}

static void wraps(void **state)
{
    struct table t = {.n_cols = 2, .head = {"Key", "Value"}, .lines = true, .width = 22};
    cleanup_(buf_done) struct buf b = BUF_INIT(1u << 20);
    const char *const rows[][2] = {{"k", "abcdefghijklmnop"}, {"m", "x\ny"}};
    table_add(&t, rows[0]);
    table_add(&t, rows[1]);
    table_render(&t, &b);
    table_done(&t);
    assert_string_equal(buf_cstr(&b), "╭─────┬──────────────╮\n"
                                      "│ Key │ Value        │\n"
                                      "├─────┼──────────────┤\n"
                                      "│ k   │ abcdefghijkl │\n"
                                      "│     │ mnop         │\n"
                                      "├─────┼──────────────┤\n"
                                      "│ m   │ x            │\n"
                                      "│     │ y            │\n"
                                      "╰─────┴──────────────╯\n");
    assert_int_equal(text_width(str_from("日本")), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(layout), cmocka_unit_test(wraps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
