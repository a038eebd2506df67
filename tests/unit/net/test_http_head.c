#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "net/http_head.h"

static void get(void **state)
{
    struct str head =
        STR("HTTP/1.1 200 OK\r\nX-A: 1\r\nx-request-id:  abc \r\nX-A: 2\nEmpty:\r\n\r\n");
    assert_true(str_eq(http_head_get(head, STR("X-Request-ID")), STR("abc")));
    assert_true(str_eq(http_head_get(head, STR("x-a")), STR("1")));
    assert_int_equal(http_head_get(head, STR("Empty")).n, 0);
    assert_non_null(http_head_get(head, STR("Empty")).p);
    assert_null(http_head_get(head, STR("X")).p);
    assert_null(http_head_get(STR_NULL, STR("X")).p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(get)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
