#pragma once
/* A client, a raw upstream, and a record of what a call said; for the tests of the HTTP client.
 * Include after cmocka.h. */

#include "http/client.h"
#include "io/stream.h"
#include "upstream.h"

struct fixture {
    struct io_loop *loop;
    struct upstream up;
    struct http_client *client;
    struct http_target target;
};

static inline int setup(void **state)
{
    struct fixture *f = NEW(struct fixture);
    f->loop = io_loop_new();
    upstream_open(&f->up, f->loop);
    f->client = http_client_new(f->loop, NULL);
    f->target = (struct http_target){.key = STR("up"), .addr = f->up.addr, .netns_fd = -1};
    *state = f;
    return 0;
}

static inline int teardown(void **state)
{
    struct fixture *f = *state;
    http_client_free(f->client);
    upstream_close(&f->up);
    io_loop_free(f->loop);
    assert_int_equal(io_stream_count(), 0);
    assert_int_equal(bug_count(), 0);
    free(f);
    return 0;
}

/* What a call has said so far, and what it shall do when it says something. */
struct record {
    struct http_call *call;
    int status;
    int64_t content_length;
    struct buf body;
    size_t n_pieces;
    int n_writable, n_end, error;
    enum {
        DO_NOTHING,
        CANCEL_IN_HEAD,
        CANCEL_IN_BODY,
        PAUSE_IN_HEAD,
        PAUSE_IN_BODY,
        TAKE_IN_HEAD,
        FREE_CLIENT_IN_BODY
    } act;
    struct io_stream *taken;
    struct fixture *f;
};

static inline void on_writable(struct http_call *c, void *arg)
{
    struct record *r = arg;
    assert_int_equal(r->n_end, 0);
    r->n_writable++;
}

static inline void on_head(struct http_call *c, const struct h1_head *head, void *arg)
{
    struct record *r = arg;
    assert_ptr_equal(c, r->call);
    assert_int_equal(r->status, 0);
    r->status = head->status;
    r->content_length = head->content_length;
    if (r->act == CANCEL_IN_HEAD) {
        http_call_cancel(c);
    } else if (r->act == PAUSE_IN_HEAD) {
        http_call_pause(c);
    } else if (r->act == TAKE_IN_HEAD) {
        r->taken = http_call_take_stream(c, &r->body);
    }
}

static inline void on_body(struct http_call *c, struct str data, void *arg)
{
    struct record *r = arg;
    assert_true(r->status != 0 && r->n_end == 0 && data.n > 0);
    assert_int_equal(buf_add_str(&r->body, data), 0);
    r->n_pieces++;
    if (r->act == CANCEL_IN_BODY) {
        http_call_cancel(c);
    } else if (r->act == PAUSE_IN_BODY) {
        http_call_pause(c);
    } else if (r->act == FREE_CLIENT_IN_BODY) {
        http_client_free(take_ptr(&r->f->client));
    }
}

static inline void on_end(struct http_call *c, int error, void *arg)
{
    struct record *r = arg;
    r->n_end++;
    r->error = error;
    http_call_cancel(c); /* too late, and harmless */
}

static const struct http_call_ops ops = {on_writable, on_head, on_body, on_end};

static inline void start(struct fixture *f, struct record *r, struct http_call_opts o)
{
    r->body = BUF_INIT(64u << 20);
    r->f = f;
    if (!o.method.p) {
        o.method = STR("GET");
    }
    if (!o.target.p) {
        o.target = STR("/a%2Fb?c=%20&d");
    }
    r->call = http_call_start(f->client, &f->target, &o, &ops, r);
}

static inline void record_done(struct record *r)
{
    buf_done(&r->body);
}

/* Accepts, reads the head, checks it. */
static inline int serve_head(struct fixture *f, const char *want)
{
    struct buf in = BUF_INIT(1 << 20);
    int fd = upstream_accept(&f->up);
    peer_read(f->loop, fd, &in, 0);
    if (want) {
        assert_string_equal(buf_cstr(&in), want);
    }
    buf_done(&in);
    return fd;
}

static inline void again_head(struct fixture *f, int fd)
{
    struct buf in = BUF_INIT(1 << 20);
    peer_read(f->loop, fd, &in, 0);
    buf_done(&in);
}

static inline void expect_end(struct fixture *f, struct record *r, int error, int status,
                              const char *body)
{
    wait_for(f->loop, r->n_end > 0);
    assert_int_equal(r->error, error);
    assert_int_equal(r->status, status);
    if (body) {
        assert_string_equal(buf_cstr(&r->body), body);
    }
    record_done(r);
}

static const char OK5[] = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

/* One exchange that leaves a connection in the pool. */
static inline int warm(struct fixture *f)
{
    struct record r = {0};
    start(f, &r, (struct http_call_opts){0});
    int fd = serve_head(f, NULL);
    peer_send(f->loop, fd, str_from(OK5));
    expect_end(f, &r, 0, 200, "hello");
    return fd;
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
