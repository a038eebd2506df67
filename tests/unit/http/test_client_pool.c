/* Kept-alive connections of the HTTP client: reuse, staleness, trying once more, limits. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "client_fixture.h"

static void test_idle_close_is_noticed(void **state)
{
    struct fixture *f = *state;
    for (int how = 0; how < 3; how++) {
        int fd = warm(f);
        size_t before = io_stream_count();
        if (how == 0) {
            (void)close(fd);
        } else if (how == 1) {
            peer_reset(fd);
        } else {
            peer_send(f->loop, fd, STR("HTTP/1.1 408 Timeout\r\n\r\n")); /* unasked */
        }
        wait_for(f->loop, io_stream_count() == before - 1);
        if (how == 2) {
            (void)close(fd);
        }
    }
}

/* The idle connection is closed and the loop has not seen it when the next call starts. */
static void test_stale_connection(void **state)
{
    struct fixture *f = *state;
    static const char *const methods[] = {"GET", "POST", "DELETE", "PATCH"};
    for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
        (void)close(warm(f));
        (void)poll(NULL, 0, 5);
        struct record r = {0};
        start(f, &r, (struct http_call_opts){.method = str_from(methods[i])});
        int fd = serve_head(f, NULL); /* a new connection */
        peer_send(f->loop, fd, str_from(OK5));
        expect_end(f, &r, 0, 200, "hello");
        (void)close(fd);
        settle(f->loop);
    }
}

/* The server takes the request on a kept connection and closes without a word. */
static void test_retry_rule(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *method;
        bool retried;
    } cases[] = {{"GET", true},    {"HEAD", true},  {"PUT", true},
                 {"DELETE", true}, {"POST", false}, {"PATCH", false}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int fd = warm(f);
        struct record r = {0};
        start(f, &r, (struct http_call_opts){.method = str_from(cases[i].method)});
        again_head(f, fd);
        peer_reset(fd);
        if (cases[i].retried) {
            fd = serve_head(f, NULL);
            peer_send(f->loop, fd, STR("HTTP/1.1 204 No\r\n\r\n"));
            expect_end(f, &r, 0, 204, "");
            (void)close(fd);
        } else {
            expect_end(f, &r, -ECONNRESET, 0, "");
            assert_true(try_accept(&f->up) < 0);
        }
        settle(f->loop);
    }
}

static void test_retry_only_once_and_not_after_a_byte(void **state)
{
    struct fixture *f = *state;
    int fd = warm(f);
    struct record r = {0}, r2 = {0};
    start(f, &r, (struct http_call_opts){0});
    again_head(f, fd);
    (void)close(fd);
    fd = serve_head(f, NULL);
    (void)close(fd);
    expect_end(f, &r, -ECONNRESET, 0, "");
    fd = warm(f);
    start(f, &r2, (struct http_call_opts){0});
    again_head(f, fd);
    peer_send(f->loop, fd, STR("H"));
    settle(f->loop);
    (void)close(fd);
    expect_end(f, &r2, -ECONNRESET, 0, "");
    assert_true(try_accept(&f->up) < 0);
}

/* A body of which nothing was sent can go to a new connection; one that began cannot. */
static void test_retry_with_body(void **state)
{
    struct fixture *f = *state;
    for (int sent = 0; sent < 2; sent++) {
        int fd = warm(f);
        struct record r = {0};
        start(f, &r, (struct http_call_opts){.method = STR("POST"), .body_len = 3});
        again_head(f, fd);
        if (sent) {
            assert_true(http_call_write(r.call, STR("a")));
            struct buf in = BUF_INIT(10);
            peer_read(f->loop, fd, &in, 1);
            buf_done(&in);
        }
        (void)close(fd);
        if (sent) {
            expect_end(f, &r, -ECONNRESET, 0, "");
            assert_true(try_accept(&f->up) < 0);
            continue;
        }
        fd = serve_head(f, NULL);
        assert_true(http_call_write(r.call, STR("abc")));
        http_call_end_body(r.call);
        struct buf in = BUF_INIT(10);
        peer_read(f->loop, fd, &in, 3);
        assert_string_equal(buf_cstr(&in), "abc");
        buf_done(&in);
        peer_send(f->loop, fd, str_from(OK5));
        expect_end(f, &r, 0, 200, "hello");
        (void)close(fd);
        settle(f->loop);
    }
}

static void test_pool_limits(void **state)
{
    struct fixture *f = *state;
    http_client_free(f->client);
    io_clock_fake(f->loop);
    f->client = http_client_new(
        f->loop, &(struct http_client_opts){.idle_pool_ms = 1000, .max_idle_per_target = 1});
    struct record a = {0}, b = {0};
    start(f, &a, (struct http_call_opts){0});
    int fd_a = serve_head(f, NULL);
    start(f, &b, (struct http_call_opts){0});
    int fd_b = serve_head(f, NULL);
    peer_send(f->loop, fd_a, str_from(OK5));
    expect_end(f, &a, 0, 200, "hello");
    peer_send(f->loop, fd_b, str_from(OK5));
    expect_end(f, &b, 0, 200, "hello");
    peer_wait_closed(f->loop, fd_b); /* one is enough */
    assert_int_equal(io_stream_count(), 1);
    io_clock_advance(f->loop, 1001);
    peer_wait_closed(f->loop, fd_a);
    assert_int_equal(io_stream_count(), 0);
    (void)close(fd_a);
    (void)close(fd_b);
}

static void test_forget(void **state)
{
    struct fixture *f = *state;
    int fd = warm(f);
    http_client_forget(f->client, STR("other"));
    settle(f->loop);
    assert_int_equal(io_stream_count(), 1);
    struct record r = {0};
    start(f, &r, (struct http_call_opts){0});
    again_head(f, fd);
    http_client_forget(f->client, STR("up")); /* in use: closed when it comes back */
    peer_send(f->loop, fd, str_from(OK5));
    expect_end(f, &r, 0, 200, "hello");
    peer_wait_closed(f->loop, fd);
    (void)close(fd);
    fd = warm(f);
    http_client_forget(f->client, STR("up"));
    assert_int_equal(io_stream_count(), 0);
    (void)close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_idle_close_is_noticed),
        T(test_stale_connection),
        T(test_retry_rule),
        T(test_retry_only_once_and_not_after_a_byte),
        T(test_retry_with_body),
        T(test_pool_limits),
        T(test_forget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
