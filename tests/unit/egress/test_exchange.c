/* Bodies through an exchange whose peers never take all that is there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "egress/intercept/exchange.h"
#include "egress/intercept/limits.h"

#define TOTAL (8u << 20)

static struct vault_state *no_vault(void *arg)
{
    return NULL;
}

static bool allows(void *arg, struct str host)
{
    return true;
}

static void refused(void *arg, const char *kind, struct str host, const char *detail)
{
    fail_msg("refused: %s", detail);
}

static const struct exchange_hooks hooks = {no_vault, allows, refused, NULL};

static char byte_at(size_t i)
{
    return (char)((i * 2654435761u) >> 11);
}

/* A peer that is ever so slow: it leaves a byte, whatever it is offered. */
struct reader {
    struct buf got; /* the head, then pieces of body */
    size_t n_body;
    bool in_body, chunked;
    struct h1_chunked chunks;
};

static void take(struct reader *r, struct str s)
{
    must(buf_add_str(&r->got, s) == 0);
    if (!r->in_body) {
        ptrdiff_t end = str_find_str(buf_str(&r->got), STR("\r\n\r\n"));
        if (end < 0) {
            return;
        }
        r->in_body = true;
        r->chunked = str_find_str(buf_str(&r->got), STR("chunked")) >= 0;
        buf_consume(&r->got, (size_t)end + 4);
    }
    struct str rest = buf_str(&r->got), data = rest;
    while (rest.n && (r->chunked ? h1_chunked_next(&r->chunks, &rest, &data) == 1 : true)) {
        for (size_t i = 0; i < data.n; i++, r->n_body++) {
            assert_int_equal(data.p[i], byte_at(r->n_body));
        }
        rest = r->chunked ? rest : STR_NULL;
    }
    buf_consume(&r->got, r->got.len - rest.n);
}

static void put_body(struct buf *in, size_t *sent, bool chunked)
{
    static char piece[20000];
    size_t n = MIN(sizeof(piece), TOTAL - *sent);
    for (size_t i = 0; i < n; i++) {
        piece[i] = byte_at(*sent + i);
    }
    if (chunked) {
        must(buf_printf(in, "%zx\r\n", n) == 0);
    }
    must(buf_add(in, piece, n) == 0);
    if (chunked) {
        must(buf_add_cstr(in, *sent + n == TOTAL ? "\r\n0\r\n\r\n" : "\r\n") == 0);
    }
    *sent += n;
}

static void drain(struct exchange *x, struct reader *r, bool up, size_t leave)
{
    struct str s = up ? exchange_up(x) : exchange_down(x);
    if (s.n > leave) {
        take(r, str_sub(s, 0, s.n - leave));
        (up ? exchange_wrote_up : exchange_wrote_down)(x, s.n - leave);
    }
    /* What waits, what was taken off late, and one more filling. */
    assert_in_range(x->up.len, 0, 4 * INTERCEPT_BUFFER);
    assert_in_range(x->down.len, 0, 4 * INTERCEPT_BUFFER);
}

static void transfer(bool up, bool chunked)
{
    struct exchange x;
    struct reader server = {.got = BUF_INIT(1u << 20)}, client = {.got = BUF_INIT(1u << 20)};
    struct reader *to = up ? &server : &client;
    char head[128];
    size_t sent = 0;

    exchange_init(&x, &hooks, NULL);
    (void)snprintf(head, sizeof(head),
                   chunked ? "Transfer-Encoding: chunked\r\n\r\n" : "Content-Length: %u\r\n\r\n",
                   TOTAL);
    must(buf_printf(&x.cin, "%s / HTTP/1.1\r\nHost: a.b\r\n%s", up ? "PUT" : "GET",
                    up ? head : "\r\n") == 0);
    exchange_run(&x);
    if (!up) {
        drain(&x, &server, true, 0);
        must(buf_printf(&x.uin, "HTTP/1.1 200 OK\r\n%s", head) == 0);
    }
    struct buf *in = up ? &x.cin : &x.uin;
    while (sent < TOTAL) {
        assert_int_equal(x.state, EXCHANGE_OPEN);
        if (up ? exchange_wants_client(&x) : exchange_wants_upstream(&x)) {
            put_body(in, &sent, chunked);
        }
        exchange_run(&x);
        drain(&x, to, up, 1);
    }
    for (int i = 0; i < 8; i++) {
        exchange_run(&x);
        drain(&x, to, up, 0);
    }
    assert_int_equal(to->n_body, TOTAL);
    assert_int_equal(x.state, EXCHANGE_OPEN);
    exchange_done(&x);
    buf_done(&server.got);
    buf_done(&client.got);
}

static void test_slow_server(void **state)
{
    transfer(true, false);
    transfer(true, true);
}

static void test_slow_client(void **state)
{
    transfer(false, false);
    transfer(false, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slow_server),
        cmocka_unit_test(test_slow_client),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
