#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "mcp/frame.h"

static void on_line(struct str line, bool too_long, void *arg)
{
    (void)buf_printf(arg, too_long ? "<long>%.*s" : "<%.*s>", STR_FMT(line));
}

/* The same however the bytes are cut. */
static void check(const char *text, const char *want)
{
    size_t n = strlen(text);
    for (size_t step = 1; step <= n; step++) {
        struct frame_reader r;
        cleanup_(buf_done) struct buf got = BUF_INIT(4096);
        frame_init(&r, 8);
        for (size_t i = 0; i < n; i += step) {
            frame_feed(&r, str_n(text + i, MIN(step, n - i)), on_line, &got);
        }
        frame_end(&r, on_line, &got);
        frame_done(&r);
        assert_string_equal(buf_cstr(&got), want);
    }
}

static void lines(void **state)
{
    check("a\nbc\r\n\n  \nlast", "<a><bc><last>");
    check("12345678\n", "<12345678>");
}

static void too_long(void **state)
{
    check("123456789\nok\n", "<long><ok>");
    check("x\n1234567890123456789\ny", "<x><long><y>");
    check("1234567890", "<long>");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lines), cmocka_unit_test(too_long)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
