/* The server object: hooks, limits, listening, draining, being freed. */

#include "harness.h"

static void get_hello(struct http_req *req)
{
    fx_track(req);
    http_resp_send(req, 200, NULL, STR("hello"));
}

static const struct http_route routes[] = {
    {"GET", "/hold", HTTP_STREAM, .stream = fx_hold},
    {"GET", "/hello", HTTP_STREAM, .stream = get_hello},
    {"POST", "/hello", HTTP_STREAM, .stream = get_hello},
    {"GET", "/open", HTTP_STREAM, .stream = get_hello, .flags = 1},
    {0},
};

static const struct http_route *seen_route;

static bool before(struct http_req *req, const struct http_route *route)
{
    seen_route = route;
    if (!(route && route->flags) && !http_req_header(req, STR("Key")).p) {
        http_resp_send(req, 401, NULL, STR("who are you"));
        return false;
    }
    return true;
}

static void not_found(struct http_req *req, bool path_known)
{
    http_resp_send(req, path_known ? 405 : 404, NULL, STR("my own page"));
}

static void error_body(int status, const char *reason, struct buf *out, const char **ret_ctype)
{
    (void)buf_printf(out, "<%d %s>", status, reason);
    *ret_ctype = "text/x-own";
}

static void test_before(void **state)
{
    fx_start(&(struct http_server_opts){.routes = routes, .before = before});
    fx_expect(LIT(REQ("GET", "/hello", "")), 401, false, "who are you");
    assert_ptr_equal(seen_route, &routes[1]);
    assert_int_equal(fx->last_status, 401);
    fx_expect(LIT(REQ("GET", "/hello", "Key: x\r\n")), 200, false, "hello");
    fx_expect(LIT(REQ("GET", "/open", "")), 200, false, "hello");
    fx_expect(LIT(REQ("GET", "/nowhere", "")), 401, false, NULL);
    assert_null(seen_route);
    fx_expect(LIT(REQ("GET", "/nowhere", "Key: x\r\n")), 404, false, NULL);
    assert_int_equal(fx->n_after, 5);
    fx_stop();
}

static void test_error_pages(void **state)
{
    fx_start(&(struct http_server_opts){
        .routes = routes, .not_found = not_found, .error_body = error_body});
    fx_expect(LIT(REQ("GET", "/nowhere", "")), 404, false, "my own page");
    fx_expect(LIT(REQ("PUT", "/hello", "")), 405, false, "my own page");
    fx_expect(LIT(REQ("PUT", "/hello", "")), 405, false, "Allow: GET, HEAD, POST\r\n");
    fx_expect(LIT("GET /\n"), 400, true, "<400 malformed request target>");
    fx_expect(LIT("GET /\n"), 400, true, "Content-Type: text/x-own\r\n");
    fx_stop();
    fx_start(&(struct http_server_opts){.routes = routes});
    fx_expect(LIT(REQ("GET", "/nowhere", "")), 404, false,
              "{\"code\":\"not_found\",\"message\":\"no such path\"}");
    fx_expect(LIT(REQ("PUT", "/hold", "")), 405, false, "Allow: GET, HEAD\r\n");
    fx_expect(LIT(REQ("OPTIONS", "*", "")), 404, false, NULL);
    fx_expect(LIT("CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n"), 404, false, NULL);
    fx_stop();
}

static void test_max_connections(void **state)
{
    fx_start(&(struct http_server_opts){.routes = routes, .max_connections = 2});
    int a = fx_connect(), b = fx_connect();
    assert_int_equal(http_server_connections(fx->server), 2);
    fx_expect(LIT(REQ("GET", "/hello", "")), 503, true, "Retry-After: 1");
    assert_int_equal(http_server_connections(fx->server), 2);
    (void)close(a);
    fx_turns(2);
    fx_expect(LIT(REQ("GET", "/hello", "")), 200, false, NULL);
    (void)close(b);
    fx_stop();
}

static int n_idle;

static void on_idle(void *arg)
{
    n_idle++;
}

static void test_drain(void **state)
{
    struct buf out = BUF_INIT(1u << 20);
    fx_start(&(struct http_server_opts){.routes = routes});
    n_idle = 0;
    int idle = fx_connect(), busy = fx_connect(), partial = fx_connect();
    fx_send(busy, LIT(REQ("GET", "/hold", "")));
    fx_send(partial, LIT("GET /hello HTTP/1.1\r\n"));
    http_server_drain(fx->server, on_idle, NULL);
    assert_true(fx_recv(idle, &out));
    assert_int_equal(out.len, 0);
    assert_int_equal(http_server_connections(fx->server), 2);
    fx_send(partial, LIT("Host: t\r\n\r\n")); /* what had begun is answered */
    assert_true(fx_recv(partial, &out));
    assert_non_null(strstr(buf_cstr(&out), "Connection: close\r\n"));
    (void)close(partial);
    fx_turns(3);
    assert_int_equal(n_idle, 0);
    http_resp_send(fx_held, 200, NULL, STR("last"));
    buf_clear(&out);
    assert_true(fx_recv(busy, &out));
    assert_non_null(strstr(buf_cstr(&out), "Connection: close\r\n"));
    (void)close(busy);
    fx_turns(3);
    assert_int_equal(n_idle, 1);
    int late = fx_connect();
    assert_true(fx_recv(late, &out));
    (void)close(late);
    (void)close(idle);
    fx_stop();
    assert_int_equal(n_idle, 1);
    buf_done(&out);
}

static void test_drain_when_idle(void **state)
{
    fx_start(&(struct http_server_opts){.routes = routes});
    n_idle = 0;
    http_server_drain(fx->server, on_idle, NULL);
    assert_int_equal(n_idle, 0);
    fx_turns(2);
    assert_int_equal(n_idle, 1);
    fx_stop();
}

static void test_free_while_busy(void **state)
{
    struct buf out = BUF_INIT(1u << 20);
    fx_start(&(struct http_server_opts){.routes = routes});
    int a = fx_connect(), b = fx_connect();
    fx_send(a, LIT(REQ("GET", "/hold", "")));
    fx_send(b, LIT("GET /"));
    assert_non_null(fx_held);
    fx_stop(); /* checks that the request ended, once */
    assert_null(fx_held);
    (void)close(a);
    (void)close(b);
    buf_done(&out);
}

/* A real socket, with both families of addresses of a listener. */
static void test_listen(void **state)
{
    struct io_addr addr, bound;
    struct err e = {0};
    char text[64];
    fx_start(&(struct http_server_opts){.routes = routes});
    must(io_addr_ip(STR("127.0.0.1"), 0, &addr) == 0);
    assert_int_equal(http_server_listen(fx->server, &addr, &(struct io_listen_opts){0}, &bound, &e),
                     0);
    assert_true(io_addr_port(&bound) > 0);
    assert_int_equal(http_server_listen(fx->server, &bound, &(struct io_listen_opts){0}, NULL, &e),
                     -1);
    assert_int_equal(e.sys, EADDRINUSE);
    (void)snprintf(text, sizeof(text), "@osb-test-http-%d", getpid());
    must(io_addr_unix(str_from(text), &addr) == 0);
    assert_int_equal(http_server_listen(fx->server, &addr, &(struct io_listen_opts){0}, NULL, &e),
                     0);
    const struct io_addr *both[] = {&bound, &addr};
    for (size_t i = 0; i < ARRAY_LEN(both); i++) {
        struct buf out = BUF_INIT(1u << 20);
        int fd = socket(both[i]->sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        must(connect(fd, &both[i]->sa, both[i]->len) == 0);
        must(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
        fx_turns(3);
        fx_send(fd, LIT(REQ("GET", "/hello", "")));
        struct pollfd p = {.fd = fd, .events = POLLIN};
        assert_int_equal(poll(&p, 1, 10000), 1);
        assert_false(fx_recv(fd, &out));
        assert_int_equal(fx_status(buf_cstr(&out)), 200);
        (void)close(fd);
        buf_done(&out);
    }
    fx_turns(3);
    fx_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_before),          cmocka_unit_test(test_error_pages),
        cmocka_unit_test(test_max_connections), cmocka_unit_test(test_drain),
        cmocka_unit_test(test_drain_when_idle), cmocka_unit_test(test_free_while_busy),
        cmocka_unit_test(test_listen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
