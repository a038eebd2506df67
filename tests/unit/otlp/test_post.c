/* A document on its way to a collector that is made of raw sockets: what it gets to read, what
 * becomes of each kind of answer, and what the log says of it. */

#include "../test.h"

#include <sys/mman.h>

#include "../http/upstream.h"
#include "base/log.h"
#include "io/stream.h"
#include "otlp/post.h"

#define TIMEOUT_MS 5000
#define BIG (8u << 20)

struct fixture {
    struct io_loop *loop;
    struct upstream up;
    struct http_client *client;
    struct otlp_post post;
    int log_fd;
};

static const struct otlp_pair extra[] = {{{"X-Key", 5}, {"secret", 6}},
                                         {{"no header", 9}, {"x", 1}},
                                         {{"X-Split", 7}, {"a\r\nX-Evil: b", 12}}};

static int setup(void **state)
{
    struct fixture *f = NEW(struct fixture);
    f->loop = io_loop_new();
    upstream_open(&f->up, f->loop);
    f->client = http_client_new(f->loop, NULL);
    f->post = (struct otlp_post){.client = f->client,
                                 .authority = "collector:4318",
                                 .target = STR("/v1/metrics?a=b"),
                                 .headers = extra,
                                 .n_headers = ARRAY_LEN(extra),
                                 .timeout_ms = TIMEOUT_MS};
    f->log_fd = memfd_create("log", MFD_CLOEXEC);
    assert_true(f->log_fd >= 0);
    log_init(LOG_INFO, LOG_JSON, f->log_fd);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    http_client_free(f->client);
    upstream_close(&f->up);
    io_loop_free(f->loop);
    log_init(LOG_INFO, LOG_HUMAN, STDERR_FILENO);
    (void)close(f->log_fd);
    assert_int_equal(io_stream_count(), 0);
    assert_int_equal(bug_count(), 0);
    free(f);
    return 0;
}

static void post(struct fixture *f, struct str text)
{
    struct buf body = BUF_INIT(2 * BIG);
    assert_int_equal(buf_add_str(&body, text), 0);
    f->post.is_busy = true;
    otlp_post_start(&f->post, &f->up.addr, &body);
    buf_done(&body); /* the owner keeps nothing of it */
}

static void serve(struct fixture *f, int fd, const char *want, const char *answer)
{
    struct buf in = BUF_INIT(1 << 20);
    peer_read(f->loop, fd, &in, strlen(want));
    assert_string_equal(buf_cstr(&in), want);
    buf_done(&in);
    if (answer) {
        peer_send(f->loop, fd, str_from(answer));
    }
}

static void expect_end(struct fixture *f, int status, bool failing)
{
    wait_for(f->loop, !f->post.is_busy);
    assert_null(f->post.call);
    assert_int_equal(f->post.status, status);
    assert_int_equal(f->post.is_failing, failing);
}

/* How many lines were written since the last time, all of them with `text`. */
static int logged(struct fixture *f, const char *text)
{
    char b[4096];
    int n = 0;
    ssize_t len = pread(f->log_fd, b, sizeof(b) - 1, 0);
    assert_true(len >= 0);
    b[len] = '\0';
    for (char *line = b, *end; (end = strchr(line, '\n')); line = end + 1, n++) {
        *end = '\0';
        assert_non_null(strstr(line, text));
        assert_non_null(strstr(line, "collector:4318"));
        assert_null(strstr(line, "secret"));
    }
    assert_int_equal(ftruncate(f->log_fd, 0), 0);
    assert_int_equal(lseek(f->log_fd, 0, SEEK_SET), 0);
    return n;
}

#define HEAD(len)                                                                                  \
    "POST /v1/metrics?a=b HTTP/1.1\r\nHost: collector:4318\r\nContent-Type: "                      \
    "application/json\r\nX-Key: secret\r\nContent-Length: " len "\r\n\r\n"
#define OK "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"

static void test_success(void **state)
{
    struct fixture *f = *state;
    post(f, STR("{\"a\":1}"));
    assert_true(f->post.is_busy);
    int fd = upstream_accept(&f->up);
    serve(f, fd, HEAD("7") "{\"a\":1}", OK);
    expect_end(f, 200, false);
    post(f, STR("{}")); /* on the same connection */
    serve(f, fd, HEAD("2") "{}", "HTTP/1.1 202 Yes\r\nContent-Length: 0\r\n\r\n");
    expect_end(f, 202, false);
    assert_int_equal(logged(f, ""), 0);
    (void)close(fd);
}

/* Told when it begins and when it is over, not each time. */
static void test_refused_by_the_collector(void **state)
{
    struct fixture *f = *state;
    post(f, STR("{}"));
    int fd = upstream_accept(&f->up);
    serve(f, fd, HEAD("2") "{}", "HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy");
    expect_end(f, 503, true);
    assert_int_equal(logged(f, "\"status\":503"), 1);
    post(f, STR("{}"));
    serve(f, fd, HEAD("2") "{}", "HTTP/1.1 302 Go\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n");
    expect_end(f, 302, true); /* nothing is followed */
    assert_int_equal(logged(f, ""), 0);
    post(f, STR("{}"));
    serve(f, fd, HEAD("2") "{}", OK);
    expect_end(f, 200, false);
    assert_int_equal(logged(f, "exported again"), 1);
    (void)close(fd);
}

static void test_nobody_listens(void **state)
{
    struct fixture *f = *state;
    upstream_close(&f->up);
    post(f, STR("{}"));
    assert_true(f->post.is_busy); /* never from inside */
    expect_end(f, 0, true);
    assert_int_equal(logged(f, "\"errno\":111"), 1);
    post(f, STR("{}"));
    expect_end(f, 0, true);
    assert_int_equal(logged(f, ""), 0);
    upstream_open(&f->up, f->loop);
    post(f, STR("{}"));
    int fd = upstream_accept(&f->up);
    serve(f, fd, HEAD("2") "{}", OK);
    expect_end(f, 200, false);
    assert_int_equal(logged(f, "exported again"), 1);
    (void)close(fd);
}

/* The status of the post before is not the status of one that never was. */
static void test_nothing_to_post(void **state)
{
    struct fixture *f = *state;
    post(f, STR("{}"));
    int fd = upstream_accept(&f->up);
    serve(f, fd, HEAD("2") "{}", OK);
    expect_end(f, 200, false);
    f->post.is_busy = true;
    otlp_post_failed(&f->post, -EHOSTUNREACH);
    expect_end(f, 0, true);
    assert_int_equal(logged(f, "\"errno\":113"), 1);
    struct buf small = BUF_INIT(4);
    assert_true(buf_add_str(&small, STR("too long")) < 0);
    f->post.is_busy = true;
    otlp_post_start(&f->post, &f->up.addr, &small);
    expect_end(f, 0, true);
    buf_done(&small);
    settle(f->loop);
    assert_int_equal(try_accept(&f->up), -1);
    (void)close(fd);
}

static void late(struct fixture *f)
{
    settle(f->loop);
    io_clock_advance(f->loop, TIMEOUT_MS - 1);
    settle(f->loop);
    assert_true(f->post.is_busy);
    io_clock_advance(f->loop, 1);
}

static void test_slow_collector(void **state)
{
    struct fixture *f = *state;
    io_clock_fake(f->loop);
    post(f, STR("{}")); /* reads, and says nothing */
    int fd = upstream_accept(&f->up);
    serve(f, fd, HEAD("2") "{}", NULL);
    late(f);
    expect_end(f, 0, true);
    assert_int_equal(logged(f, "\"errno\":110"), 1);
    peer_wait_closed(f->loop, fd);
    (void)close(fd);

    post(f, STR("{}")); /* stops inside its answer */
    fd = upstream_accept(&f->up);
    serve(f, fd, HEAD("2") "{}", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe");
    wait_for(f->loop, f->post.status == 200);
    late(f);
    expect_end(f, 200, true);
    peer_wait_closed(f->loop, fd);
    (void)close(fd);

    char *big = calloc(1, BIG);
    post(f, str_n(big, BIG)); /* does not even read */
    fd = upstream_accept(&f->up);
    late(f);
    expect_end(f, 0, true);
    (void)close(fd);
    free(big);
}

/* More than any collector has to say is read and dropped; the connection is good afterwards. */
static void test_big_answer(void **state)
{
    struct fixture *f = *state;
    struct buf answer = BUF_INIT(2 * BIG);
    assert_int_equal(buf_printf(&answer, "HTTP/1.1 200 OK\r\nContent-Length: %u\r\n\r\n", BIG), 0);
    for (unsigned i = 0; i < BIG / 16; i++) {
        assert_int_equal(buf_add(&answer, "0123456789abcdef", 16), 0);
    }
    post(f, STR("{}"));
    int fd = upstream_accept(&f->up);
    serve(f, fd, HEAD("2") "{}", NULL);
    peer_send(f->loop, fd, buf_str(&answer));
    expect_end(f, 200, false);
    buf_done(&answer);
    post(f, STR("{}"));
    serve(f, fd, HEAD("2") "{}", OK);
    expect_end(f, 200, false);
    (void)close(fd);
}

static void test_broken_answers(void **state)
{
    static const char *const answers[] = {"", "HTTP/1.1 2", "hello\r\n\r\n",
                                          "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"};
    struct fixture *f = *state;
    for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
        post(f, STR("{}"));
        int fd = upstream_accept(&f->up);
        serve(f, fd, HEAD("2") "{}", answers[i]);
        (void)close(fd);
        wait_for(f->loop, !f->post.is_busy);
        assert_true(f->post.is_failing); /* whatever the head said */
    }
    assert_int_equal(logged(f, "cannot be exported"), 1);
}

static void test_shutdown(void **state)
{
    struct fixture *f = *state;
    otlp_post_cancel(&f->post); /* there is none */
    post(f, STR("{}"));
    otlp_post_cancel(&f->post); /* before it is connected, as far as we know */
    assert_false(f->post.is_busy);
    settle(f->loop);
    int fd = try_accept(&f->up);
    if (fd >= 0) {
        peer_wait_closed(f->loop, fd);
        (void)close(fd);
    }

    post(f, STR("{}")); /* while the answer is awaited */
    fd = upstream_accept(&f->up);
    serve(f, fd, HEAD("2") "{}", NULL);
    otlp_post_cancel(&f->post);
    assert_false(f->post.is_busy);
    assert_null(f->post.call);
    peer_wait_closed(f->loop, fd);
    (void)close(fd);
    assert_false(f->post.is_failing);
    assert_int_equal(logged(f, ""), 0);

    f->post.is_busy = true; /* a worker has it: that is for the owner to know */
    otlp_post_cancel(&f->post);
    assert_true(f->post.is_busy);

    /* The client goes first: nobody is told, and cancelling would be too late. */
    post(f, STR("{}"));
    settle(f->loop);
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_success),        T(test_refused_by_the_collector),
        T(test_nobody_listens), T(test_nothing_to_post),
        T(test_slow_collector), T(test_big_answer),
        T(test_broken_answers), T(test_shutdown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
