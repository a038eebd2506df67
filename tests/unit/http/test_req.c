/* What a handler can ask a request. */

#include "base/rand.h"
#include "harness.h"

static char answer[1024];
static void (*probe)(struct http_req *req);

static void handle(struct http_req *req)
{
    fx_track(req);
    probe(req);
    if (!http_resp_started(req)) {
        http_resp_send(req, 200, NULL, STR(""));
    }
}

static void passed_on(struct http_req *req)
{
    fx->n_begun++;
    http_req_on_end(req, fx_on_end, NULL);
    (void)snprintf(answer, sizeof(answer), "%.*s %.*s", STR_FMT(http_req_path(req)),
                   STR_FMT(http_req_query(req)));
    http_resp_send(req, 200, NULL, str_from(answer));
}

static void circle(struct http_req *req)
{
    http_req_redispatch(req, STR("/circle"));
}

static void pass(struct http_req *req)
{
    http_req_redispatch(req, http_req_query_get(req, "to", 0));
}

static const struct http_route routes[] = {
    {"*", "/probe/{a}/{rest...}", HTTP_STREAM, .stream = handle, .flags = 7},
    {"GET", "/pass", HTTP_STREAM, .stream = pass},
    {"GET", "/passed/{on}", HTTP_STREAM, .stream = passed_on},
    {"GET", "/circle", HTTP_STREAM, .stream = circle},
    {0},
};

static int app;

static struct http_server_opts opts = {.routes = routes, .app = &app};

static void run(const char *text, void (*fn)(struct http_req *req))
{
    probe = fn;
    int before = fx->n_completed;
    free(fx_talk(str_from(text), NULL));
    assert_int_equal(fx->n_completed, before + 1);
}

static void check_facts(struct http_req *req)
{
    size_t n;
    assert_true(str_eq(http_req_method(req), STR("PUT")));
    assert_true(str_eq(http_req_target(req), STR("/probe/x%2Fy/b/c?k=v&k=w%20w")));
    assert_true(str_eq(http_req_path(req), STR("/probe/x%2Fy/b/c")));
    assert_true(str_eq(http_req_query(req), STR("k=v&k=w%20w")));
    assert_true(str_eq(http_req_host(req), STR("h:8")));
    assert_int_equal(http_req_minor(req), 1);
    assert_true(str_eq(http_req_header(req, STR("x-one")), STR("1")));
    assert_null(http_req_header(req, STR("x-two")).p);
    const struct h1_header *h = http_req_headers(req, &n);
    assert_int_equal(n, 3);
    assert_true(str_eq(h[1].name, STR("X-One")));
    assert_int_equal(http_req_content_length(req), 2);
    assert_true(http_req_has_body(req));
    assert_false(http_req_is_upgrade(req, STR("websocket")));
    assert_ptr_equal(http_req_app(req), &app);
    assert_ptr_equal(http_req_loop(req), fx->loop);
    assert_ptr_equal(http_req_server(req), fx->server);
    assert_int_equal(http_req_route(req)->flags, 7);
    struct io_addr peer;
    assert_int_equal(http_req_peer(req, &peer), 0);
    http_req_set_data(req, &app);
    assert_ptr_equal(http_req_data(req), &app);
    assert_false(http_req_client_gone(req));
}

static void test_facts(void **state)
{
    run("PUT /probe/x%2Fy/b/c?k=v&k=w%20w HTTP/1.1\r\nHost: h:8\r\nX-One: 1\r\n"
        "Content-Length: 2\r\n\r\nab",
        check_facts);
}

static void check_params(struct http_req *req)
{
    struct str a = http_req_param(req, "a");
    assert_true(str_eq(a, STR("x/y z")));
    assert_int_equal(a.p[a.n], 0);
    assert_true(str_eq(http_req_param_raw(req, "a"), STR("x%2Fy%20z")));
    assert_true(str_eq(http_req_param_raw(req, "rest"), STR("b/../c%20d/")));
    assert_null(http_req_param(req, "b").p);
    assert_true(str_eq(http_req_query_get(req, "k", 0), STR("a b&c")));
    assert_true(str_eq(http_req_query_get(req, "k", 1), STR("2")));
    assert_null(http_req_query_get(req, "k", 2).p);
    assert_true(str_eq(http_req_query_get(req, "e f", 0), STR("g")));
    struct str empty = http_req_query_get(req, "empty", 0);
    assert_non_null(empty.p);
    assert_int_equal(empty.n, 0);
    empty = http_req_query_get(req, "bare", 0);
    assert_non_null(empty.p);
    assert_int_equal(empty.n, 0);
    assert_null(http_req_query_get(req, "bad", 0).p);
    assert_null(http_req_query_get(req, "none", 0).p);
}

static void test_params(void **state)
{
    run("GET /probe/x%2Fy%20z/b/../c%20d/?k=a+b%26c&k=2&e%20f=g&empty=&bare&bad=%zz HTTP/1.1\r\n"
        "Host: h\r\n\r\n",
        check_params);
}

static void check_no_query(struct http_req *req)
{
    assert_null(http_req_query(req).p);
    assert_null(http_req_query_get(req, "k", 0).p);
    assert_int_equal(http_req_content_length(req), -1);
    assert_false(http_req_has_body(req));
    assert_null(http_req_param(req, "a").p); /* a malformed escape */
    assert_true(str_eq(http_req_param_raw(req, "rest"), STR("")));
}

static void test_without(void **state)
{
    run("GET /probe/%z HTTP/1.0\r\n\r\n", check_no_query);
}

static void check_absolute(struct http_req *req)
{
    assert_true(str_eq(http_req_target(req), STR("http://h/probe/1?q")));
    assert_true(str_eq(http_req_path(req), STR("/probe/1")));
    assert_true(str_eq(http_req_query(req), STR("q")));
}

static void test_absolute_form(void **state)
{
    run("GET http://h/probe/1?q HTTP/1.1\r\nHost: h\r\n\r\n", check_absolute);
}

static void check_own_id(struct http_req *req)
{
    struct str id = http_req_id(req);
    assert_int_equal(id.n, ID_HEX_LEN);
    assert_true(str_eq(http_req_id(req), id)); /* the same each time */
    http_req_set_id(req, STR("mine"));
    assert_true(str_eq(http_req_id(req), STR("mine")));
    http_req_set_id(req, STR("not\nmine"));
    assert_true(str_eq(http_req_id(req), STR("mine")));
}

static void check_client_id(struct http_req *req)
{
    assert_true(str_eq(http_req_id(req), STR("abc-123")));
}

static void test_id(void **state)
{
    run(REQ("GET", "/probe/1", ""), check_own_id);
    run(REQ("GET", "/probe/1", "X-Request-ID: has space\r\n"), check_own_id);
    run(REQ("GET", "/probe/1", "X-Request-ID:\r\n"), check_own_id);
    run(REQ("GET", "/probe/1", "X-Request-ID: abc-123\r\n"), check_client_id);
    char text[512];
    (void)snprintf(text, sizeof(text), REQ("GET", "/probe/1", "X-Request-ID: %0129d\r\n"), 0);
    run(text, check_own_id);
}

static void test_redispatch(void **state)
{
    fx_expect(LIT(REQ("GET", "/pass?to=/passed/on?x=y", "")), 200, false, "/passed/on x=y");
    fx_expect(LIT(REQ("GET", "/pass?to=/nowhere", "")), 404, false, "not_found");
    fx_expect(LIT(REQ("GET", "/circle", "")), 500, true, "circle");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_SERVER(test_facts),         ON_SERVER(test_params), ON_SERVER(test_without),
        ON_SERVER(test_absolute_form), ON_SERVER(test_id),     ON_SERVER(test_redispatch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
