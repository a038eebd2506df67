#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "cli/settings.h"
#include "json/toml.h"

static void edit(const char *text, const char *section, const char *field, const char *value,
                 const char *want)
{
    cleanup_(buf_done) struct buf b = BUF_INIT(1u << 20);
    assert_int_equal(settings_edit(str_from(text), str_from(section), str_from(field), value, &b),
                     0);
    assert_string_equal(buf_cstr(&b), want);
}

static void edits(void **state)
{
    edit("[a]\n# x = 1\ny = 2\n", "a", "x", "5", "[a]\nx = 5\ny = 2\n");
    edit("[a]\nx = 1 # old\n[b]\nx = 2\n", "b", "x", "t", "[a]\nx = 1 # old\n[b]\nx = \"t\"\n");
    edit("[a]\ny = 2\n\n[b]\n", "a", "x", "true", "[a]\ny = 2\nx = true\n\n[b]\n");
    edit("[a]\n# x is nice\n", "c", "x", "1.5", "[a]\n# x is nice\n\n[c]\nx = 1.5\n");
    edit("", "c", "x", "a\"b\\c", "[c]\nx = \"a\\\"b\\\\c\"\n");
    edit("[a]\n# x = 1\nx = 2\n", "a", "x", "3", "[a]\n# x = 1\nx = 3\n");
}

static void template_is_toml(void **state)
{
    struct err e = {0};
    cleanup_(json_free) struct json *j = toml_parse(str_from(settings_template), &e);
    assert_non_null(j);
    assert_int_equal(json_len(j), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(edits), cmocka_unit_test(template_is_toml)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
