/* The client and the proxy over TLS: kept-alive connections, verification, large bodies, deadlines.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../certificate.h"
#include "http/proxy.h"
#include "io/stream.h"
#include "io/tls.h"
#include "upstream.h"

static char dir[] = "/tmp/http-tls-XXXXXX";
static char cert_file[64], key_file[64];

struct fixture {
    struct io_loop *loop;
    struct io_tls_ctx *server_tls, *client_tls;
    struct http_server *server; /* speaks TLS */
    struct http_server *front;  /* plain; proxies to `server` */
    struct http_client *client;
    struct http_target target, front_target;
    /* the call */
    struct buf body;
    int n_end, error, status;
};

/* n bytes, the i-th is i. */
static void get_bytes(struct http_req *req)
{
    static char data[3000000];
    for (size_t i = 0; i < sizeof(data); i++) {
        data[i] = (char)i;
    }
    http_resp_send(req, 200, "x/y", str_n(data, sizeof(data)));
}

static void get_hello(struct http_req *req)
{
    http_resp_send(req, 200, "text/plain", STR("hello"));
}

static void on_echo(struct http_req *req, struct str body, void *arg)
{
    http_resp_send(req, 200, "x/y", body);
}

static void post_echo(struct http_req *req)
{
    http_req_collect(req, 8u << 20, on_echo, NULL);
}

static const struct http_route routes[] = {
    {"GET", "/bytes", HTTP_STREAM, .stream = get_bytes},
    {"GET", "/hello", HTTP_STREAM, .stream = get_hello},
    {"POST", "/echo", HTTP_STREAM, .stream = post_echo},
    {0},
};

static void any_proxy(struct http_req *req)
{
    struct fixture *f = http_req_app(req);
    http_proxy_start(req, f->client, &f->target,
                     &(struct http_proxy_opts){.target = http_req_target(req)});
}

static const struct http_route front_routes[] = {
    {"*", "/{rest...}", HTTP_STREAM, .stream = any_proxy}, {0}};

static int group_setup(void **state)
{
    assert_non_null(mkdtemp(dir));
    (void)snprintf(cert_file, sizeof(cert_file), "%s/cert.pem", dir);
    (void)snprintf(key_file, sizeof(key_file), "%s/key.pem", dir);
    make_certificate(cert_file, key_file);
    return 0;
}

static int group_teardown(void **state)
{
    (void)unlink(cert_file);
    (void)unlink(key_file);
    return rmdir(dir);
}

static int setup(void **state)
{
    struct fixture *f = NEW(struct fixture);
    struct err e = {0};
    struct io_addr any;
    f->loop = io_loop_new();
    f->body = BUF_INIT(16u << 20);
    f->server_tls = io_tls_server_new(
        &(struct io_tls_server_opts){.cert_file = cert_file, .key_file = key_file}, &e);
    f->client_tls = io_tls_client_new(&(struct io_tls_client_opts){.ca_file = cert_file}, &e);
    f->client = http_client_new(f->loop, NULL);
    f->server = http_server_new(f->loop,
                                &(struct http_server_opts){.routes = routes, .tls = f->server_tls});
    f->front =
        http_server_new(f->loop, &(struct http_server_opts){.routes = front_routes, .app = f});
    f->target = (struct http_target){
        .key = STR("tls"), .netns_fd = -1, .tls = f->client_tls, .server_name = "box.test"};
    f->front_target = (struct http_target){.key = STR("front"), .netns_fd = -1};
    assert_int_equal(io_addr_ip(STR("127.0.0.1"), 0, &any), 0);
    const struct io_listen_opts lo = {0};
    assert_int_equal(http_server_listen(f->server, &any, &lo, &f->target.addr, &e), 0);
    assert_int_equal(http_server_listen(f->front, &any, &lo, &f->front_target.addr, &e), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    http_server_free(f->front);
    http_server_free(f->server);
    http_client_free(f->client);
    io_tls_ctx_unref(f->server_tls);
    io_tls_ctx_unref(f->client_tls);
    io_loop_free(f->loop);
    assert_int_equal(io_stream_count(), 0);
    assert_int_equal(bug_count(), 0);
    buf_done(&f->body);
    free(f);
    return 0;
}

static void on_head(struct http_call *c, const struct h1_head *head, void *arg)
{
    ((struct fixture *)arg)->status = head->status;
}

static void on_body(struct http_call *c, struct str data, void *arg)
{
    assert_int_equal(buf_add_str(&((struct fixture *)arg)->body, data), 0);
}

static void on_end(struct http_call *c, int error, void *arg)
{
    struct fixture *f = arg;
    f->n_end++;
    f->error = error;
}

static const struct http_call_ops ops = {.on_head = on_head, .on_body = on_body, .on_end = on_end};

static struct http_call *start(struct fixture *f, const struct http_target *t, const char *path,
                               int64_t body_len)
{
    static const struct h1_header host = {{"Host", 4}, {"box.test", 8}};
    buf_clear(&f->body);
    f->n_end = f->error = f->status = 0;
    return http_call_start(f->client, t,
                           &(struct http_call_opts){.method = body_len ? STR("POST") : STR("GET"),
                                                    .target = str_from(path),
                                                    .headers = &host,
                                                    .n_headers = 1,
                                                    .body_len = body_len},
                           &ops, f);
}

static void test_get_and_reuse(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 3; i++) {
        (void)start(f, &f->target, "/hello", 0);
        wait_for(f->loop, f->n_end > 0);
        assert_int_equal(f->error, 0);
        assert_string_equal(buf_cstr(&f->body), "hello");
        settle(f->loop); /* session tickets on the idle connection are no reason to drop it */
        assert_int_equal(io_stream_count(), 2);
    }
}

static void expect_bytes(struct fixture *f)
{
    wait_for(f->loop, f->n_end > 0);
    assert_int_equal(f->error, 0);
    assert_int_equal(f->status, 200);
    assert_int_equal(f->body.len, 3000000);
    for (size_t i = 0; i < f->body.len; i++) {
        if (f->body.p[i] != (char)i) {
            fail();
        }
    }
}

static void test_large_bodies(void **state)
{
    struct fixture *f = *state;
    const struct http_target *targets[] = {&f->target, &f->front_target};
    char *data = xmalloc(3000000);
    for (size_t i = 0; i < 3000000; i++) {
        data[i] = (char)i;
    }
    for (int i = 0; i < 2; i++) { /* directly, and through the proxy */
        (void)start(f, targets[i], "/bytes", 0);
        expect_bytes(f);
        struct http_call *c = start(f, targets[i], "/echo", 3000000);
        (void)http_call_write(c, str_n(data, 3000000));
        http_call_end_body(c);
        expect_bytes(f);
    }
    free(data);
}

static void test_wrong_name(void **state)
{
    struct fixture *f = *state;
    f->target.server_name = "other.test";
    (void)start(f, &f->target, "/hello", 0);
    wait_for(f->loop, f->n_end > 0);
    assert_true(f->error < 0);
    assert_int_equal(f->status, 0);
}

/* A server that accepts and says nothing; and giving up in the middle of it. */
static void test_handshake_deadline(void **state)
{
    struct fixture *f = *state;
    struct upstream u;
    upstream_open(&u, f->loop);
    f->target.addr = u.addr;
    io_clock_fake(f->loop);
    (void)start(f, &f->target, "/hello", 0);
    int fd = upstream_accept(&u);
    settle(f->loop);
    assert_int_equal(f->n_end, 0);
    io_clock_advance(f->loop, HTTP_CONNECT_TIMEOUT_MS + 1);
    wait_for(f->loop, f->n_end > 0);
    assert_int_equal(f->error, -ETIMEDOUT);
    peer_wait_closed(f->loop, fd);
    (void)close(fd);
    struct http_call *c = start(f, &f->target, "/hello", 0);
    fd = upstream_accept(&u);
    settle(f->loop);
    http_call_cancel(c);
    peer_wait_closed(f->loop, fd);
    assert_int_equal(f->n_end, 0);
    (void)close(fd);
    upstream_close(&u);
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {T(test_get_and_reuse), T(test_large_bodies),
                                       T(test_wrong_name), T(test_handshake_deadline)};
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
