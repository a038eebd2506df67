/* A target with two addresses: the second is tried when the first refuses, and only then. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "http/client.h"
#include "http/server.h"

struct result {
    bool ended;
    int status, error;
};

static void hello(struct http_req *req)
{
    http_resp_send(req, 200, "text/plain", STR("hello"));
}

static const struct http_route routes[] = {{"GET", "/", HTTP_STREAM, .stream = hello}, {0}};

static void on_head(struct http_call *c, const struct h1_head *head, void *arg)
{
    ((struct result *)arg)->status = head->status;
}

static void on_end(struct http_call *c, int error, void *arg)
{
    struct result *r = arg;
    r->ended = true;
    r->error = error;
}

static struct result get(struct io_loop *l, struct http_client *c, const struct http_target *t)
{
    static const struct http_call_ops ops = {.on_head = on_head, .on_end = on_end};
    const struct h1_header host = {STR("Host"), STR("x")};
    const struct http_call_opts o = {
        .method = STR("GET"), .target = STR("/"), .headers = &host, .n_headers = 1};
    struct result r = {0};
    (void)http_call_start(c, t, &o, &ops, &r);
    while (!r.ended) {
        io_loop_turn(l, true);
    }
    return r;
}

static void test_alt(void **state)
{
    struct err e = {0};
    struct io_loop *l = io_loop_new();
    struct http_server *s = http_server_new(l, &(struct http_server_opts){.routes = routes});
    struct http_client *c = http_client_new(l, &(struct http_client_opts){0});
    struct io_addr six, four, bound;
    assert_int_equal(io_addr_ip(STR("::1"), 0, &six), 0);
    if (http_server_listen(s, &six, &(struct io_listen_opts){0}, &bound, &e) < 0) {
        skip(); /* a machine without IPv6 */
    }
    assert_int_equal(io_addr_ip(STR("127.0.0.1"), io_addr_port(&bound), &four), 0);
    struct http_target t = {.key = STR("a"), .addr = four, .netns_fd = -1};
    assert_int_equal(get(l, c, &t).error, -ECONNREFUSED);
    t.alt = &bound;
    struct result r = get(l, c, &t);
    assert_int_equal(r.error, 0);
    assert_int_equal(r.status, 200);
    t.key = STR("b");
    t.alt = &four; /* refuses as well */
    assert_int_equal(get(l, c, &t).error, -ECONNREFUSED);
    http_client_free(c);
    http_server_free(s);
    io_loop_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_alt)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
