#include "base/buf.h"

#include <errno.h>
#include <fcntl.h>

#include "../test.h"

static void appends_and_grows(void **state)
{
    struct buf b = BUF_INIT(100000);
    for (int i = 0; i < 10000; i++) {
        assert_int_equal(buf_add_char(&b, (char)('a' + i % 26)), 0);
        assert_true(b.len <= b.cap && b.cap <= b.max);
    }
    assert_int_equal(b.len, 10000);
    assert_int_equal(b.p[27], 'b');
    assert_int_equal(strlen(buf_cstr(&b)), 10000);
    buf_done(&b);
    assert_null(b.p);
    assert_int_equal(b.max, 100000);
}

static void appends_each_kind(void **state)
{
    struct buf b = BUF_INIT(1000);
    buf_add(&b, "ab", 2);
    buf_add_str(&b, STR("cd"));
    buf_add_str(&b, STR_NULL);
    buf_add_cstr(&b, "ef");
    buf_add_u64(&b, 0);
    buf_add_u64(&b, UINT64_MAX);
    buf_printf(&b, "[%d %s]", -7, "x");
    assert_string_equal(buf_cstr(&b), "abcdef018446744073709551615[-7 x]");
    buf_done(&b);
}

static void is_empty_without_memory(void **state)
{
    struct buf b = BUF_INIT(10);
    assert_string_equal(buf_cstr(&b), "");
    assert_int_equal(buf_add(&b, NULL, 0), 0);
    assert_int_equal(buf_str(&b).n, 0);
    buf_consume(&b, 0);
    char *taken = buf_take(&b);
    assert_string_equal(taken, "");
    free(taken);
    buf_done(&b);
}

static void stops_at_the_maximum(void **state)
{
    struct buf b = BUF_INIT(5);
    assert_int_equal(buf_add_cstr(&b, "abc"), 0);
    assert_int_equal(buf_add_cstr(&b, "def"), -ENOSPC);
    assert_true(buf_failed(&b));
    assert_string_equal(buf_cstr(&b), "abc");
    /* what would fit is refused too: half a text must not look whole */
    assert_int_equal(buf_add_char(&b, 'd'), -ENOSPC);
    assert_int_equal(buf_printf(&b, "d"), -ENOSPC);
    buf_clear(&b);
    assert_false(buf_failed(&b));
    assert_int_equal(buf_add_cstr(&b, "12345"), 0);
    assert_int_equal(buf_add_char(&b, '6'), -ENOSPC);
    buf_done(&b);

    struct buf none = BUF_INIT(0);
    assert_int_equal(buf_add_char(&none, 'x'), -ENOSPC);
    assert_string_equal(buf_cstr(&none), "");
    buf_done(&none);
}

static void printf_at_every_edge(void **state)
{
    for (size_t max = 0; max < 140; max++) {
        for (size_t have = 0; have <= max; have += 7) {
            struct buf b = BUF_INIT(max);
            for (size_t i = 0; i < have; i++) {
                assert_int_equal(buf_add_char(&b, 'x'), 0);
            }
            int r = buf_printf(&b, "%064d", 7);
            assert_int_equal(r, have + 64 <= max ? 0 : -ENOSPC);
            assert_int_equal(b.len, r == 0 ? have + 64 : have);
            assert_int_equal(strlen(buf_cstr(&b)), b.len);
            buf_done(&b);
        }
    }
}

static void reserves(void **state)
{
    struct buf b = BUF_INIT(100);
    assert_int_equal(buf_reserve(&b, 40), 0);
    memset(b.p + b.len, 'r', 40);
    b.len += 40;
    assert_int_equal(buf_reserve(&b, 61), -ENOSPC);
    assert_false(buf_failed(&b));
    assert_int_equal(buf_reserve(&b, 60), 0);
    assert_int_equal(buf_reserve(&b, SIZE_MAX), -ENOSPC);
    buf_done(&b);
}

static void consumes_from_the_front(void **state)
{
    struct buf b = BUF_INIT(100);
    buf_add_cstr(&b, "hello world");
    buf_consume(&b, 6);
    assert_string_equal(buf_cstr(&b), "world");
    buf_consume(&b, 5);
    assert_int_equal(b.len, 0);
    buf_done(&b);
}

static void consume_too_much(void)
{
    struct buf b = BUF_INIT(100);
    buf_add_cstr(&b, "abc");
    buf_consume(&b, 4);
}
static void consuming_too_much_aborts(void **state)
{
    assert_aborts(consume_too_much);
}

static void moves_the_bytes_out(void **state)
{
    struct buf b = BUF_INIT(100);
    buf_add_cstr(&b, "mine");
    char *p = buf_take(&b);
    assert_string_equal(p, "mine");
    free(p);
    assert_int_equal(b.len, 0);
    assert_int_equal(b.max, 100);
    assert_int_equal(buf_add_cstr(&b, "more"), 0);
    buf_done(&b);
}

static int pipe_with(size_t n)
{
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    for (size_t i = 0; i < n; i++) {
        char c = (char)('a' + i % 26);
        assert_int_equal(write(fds[1], &c, 1), 1);
    }
    close(fds[1]);
    return fds[0];
}

static void reads_a_descriptor_to_its_end(void **state)
{
    static const size_t sizes[] = {0, 1, 63, 64, 65, 4096, 5000};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct buf b = BUF_INIT(5000);
        int fd = pipe_with(sizes[i]);
        assert_int_equal(buf_read_fd(&b, fd), 0);
        assert_int_equal(b.len, sizes[i]);
        close(fd);
        buf_done(&b);
    }
    struct buf b = BUF_INIT(100);
    int fd = pipe_with(101);
    assert_int_equal(buf_read_fd(&b, fd), -ENOSPC);
    assert_int_equal(b.len, 100);
    close(fd);
    buf_clear(&b);
    assert_int_equal(buf_read_fd(&b, -1), -EBADF);
    buf_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appends_and_grows),       cmocka_unit_test(appends_each_kind),
        cmocka_unit_test(is_empty_without_memory), cmocka_unit_test(stops_at_the_maximum),
        cmocka_unit_test(printf_at_every_edge),    cmocka_unit_test(reserves),
        cmocka_unit_test(consumes_from_the_front), cmocka_unit_test(consuming_too_much_aborts),
        cmocka_unit_test(moves_the_bytes_out),     cmocka_unit_test(reads_a_descriptor_to_its_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
