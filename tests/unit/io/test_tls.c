/* TLS between two streams of the same loop, with a certificate made on the spot. */

#include "on_loop.h"

#include <openssl/ssl.h>
#include <sys/mman.h>

#include "../certificate.h"
#include "io/internal.h"
#include "io/relay.h"
#include "io/tls.h"

static char dir[] = "/tmp/io-tls-XXXXXX";
static char cert_file[64], key_file[64];
static struct io_tls_ctx *server, *client;

struct side {
    struct io_stream *s;
    struct err e;
    int n_done;
    int n_readable;
};

static int group_setup(void **state)
{
    struct err e = {0};

    assert_non_null(mkdtemp(dir));
    (void)snprintf(cert_file, sizeof(cert_file), "%s/cert.pem", dir);
    (void)snprintf(key_file, sizeof(key_file), "%s/key.pem", dir);
    make_certificate(cert_file, key_file);
    server = io_tls_server_new(
        &(struct io_tls_server_opts){.cert_file = cert_file, .key_file = key_file}, &e);
    client = io_tls_client_new(&(struct io_tls_client_opts){.ca_file = cert_file}, &e);
    assert_non_null(server);
    assert_non_null(client);
    return first_loop(state);
}

static int group_teardown(void **state)
{
    (void)state;
    io_tls_ctx_unref(server);
    io_tls_ctx_unref(client);
    (void)unlink(cert_file);
    (void)unlink(key_file);
    return rmdir(dir);
}

static void on_tls(struct io_stream *s, const struct err *e, void *arg)
{
    struct side *side = arg;

    assert_int_equal(s == NULL, e != NULL);
    side->s = s;
    side->n_done++;
    if (e) {
        side->e = *e;
    } else {
        assert_true(io_stream_is_tls(s));
        assert_int_equal(io_stream_fd(s), -1);
        assert_int_equal(io_stream_wanted(s), 0);
    }
}

static struct io_stream *plain(int fd)
{
    return io_stream_from_fd(loop, fd, NULL, NULL);
}

static void handshake(struct side *srv, struct side *cli, struct io_tls_ctx *sc,
                      struct io_tls_ctx *cc, const char *name)
{
    int fd[2];

    *srv = *cli = (struct side){0};
    socket_pair(fd);
    (void)io_tls_accept(sc, plain(fd[0]), on_tls, srv);
    (void)io_tls_connect(cc, plain(fd[1]), name, on_tls, cli);
    assert_int_equal(srv->n_done + cli->n_done, 0);
    TURN_UNTIL(loop, srv->n_done && cli->n_done);
}

static void connect_pair(struct side *srv, struct side *cli)
{
    handshake(srv, cli, server, client, "box.test");
    assert_non_null(srv->s);
    assert_non_null(cli->s);
}

static void close_pair(struct side *srv, struct side *cli)
{
    io_stream_close(srv->s);
    io_stream_close(cli->s);
}

static void test_names(void **state)
{
    static const char *const good[] = {"box.test", "127.0.0.1", "::1", "[::1]"};
    static const char *const bad[] = {"other.test", "127.0.0.2", "::2", "x.box.test", "test"};
    struct side a, b;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        handshake(&a, &b, server, client, good[i]);
        assert_non_null(b.s);
        close_pair(&a, &b);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        handshake(&a, &b, server, client, bad[i]);
        assert_null(b.s);
        assert_int_equal(b.e.code, ERR_DENIED);
        close_pair(&a, &b);
    }
    int fd[2];
    b = (struct side){0};
    socket_pair(fd);
    (void)io_tls_connect(client, plain(fd[0]), NULL, on_tls, &b);
    TURN_UNTIL(loop, b.n_done);
    assert_int_equal(b.e.code, ERR_INVALID); /* nothing to verify against */
    (void)close(fd[1]);
}

static void test_trust(void **state)
{
    struct side a, b;
    struct err e = {0};

    (void)state;
    struct io_tls_ctx *stranger = io_tls_client_new(&(struct io_tls_client_opts){0}, &e);
    assert_non_null(stranger);
    handshake(&a, &b, server, stranger, "box.test");
    assert_null(b.s);
    assert_int_equal(b.e.code, ERR_DENIED);
    close_pair(&a, &b);
    io_tls_ctx_unref(stranger);
    struct io_tls_ctx *careless =
        io_tls_client_new(&(struct io_tls_client_opts){.insecure = true}, &e);
    handshake(&a, &b, server, careless, NULL);
    assert_non_null(b.s);
    close_pair(&a, &b);
    io_tls_ctx_unref(careless);
}

static void test_alpn(void **state)
{
    static const struct {
        const char *srv, *cli;
        bool ok;
    } cases[] = {
        {"http/1.1", "http/1.1", true},
        {"http/1.1", NULL, true},
        {NULL, "http/1.1", true},
        {"http/1.1", "h2", false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct side a, b;
        struct err e = {0};
        struct io_tls_ctx *s =
            io_tls_server_new(&(struct io_tls_server_opts){cert_file, key_file, cases[i].srv}, &e);
        struct io_tls_ctx *c = io_tls_client_new(
            &(struct io_tls_client_opts){.ca_file = cert_file, .alpn = cases[i].cli}, &e);
        handshake(&a, &b, s, c, "box.test");
        assert_int_equal(a.s != NULL, cases[i].ok);
        assert_int_equal(b.s != NULL, cases[i].ok);
        close_pair(&a, &b);
        io_tls_ctx_unref(s);
        io_tls_ctx_unref(c);
    }
}

static void test_bad_files(void **state)
{
    struct err e = {0};

    (void)state;
    assert_null(
        io_tls_server_new(&(struct io_tls_server_opts){"/proc/nonexistent", key_file, NULL}, &e));
    assert_int_equal(e.code, ERR_INVALID);
    assert_non_null(strstr(e.msg, "/proc/nonexistent"));
    assert_null(io_tls_server_new(&(struct io_tls_server_opts){cert_file, cert_file, NULL}, &e));
    assert_null(io_tls_client_new(&(struct io_tls_client_opts){.ca_file = key_file}, &e));
}

static void on_readable(struct io_stream *s, unsigned events, void *arg)
{
    struct side *side = arg;
    char c;

    side->n_readable++;
    (void)io_stream_read(s, &c, 1);
}

/* One record arrives in one piece; the reader takes a byte each time it is called. The kernel has
 * nothing more to say after the first. */
static void test_read_ahead_is_announced(void **state)
{
    struct side a, b;

    (void)state;
    connect_pair(&a, &b);
    assert_int_equal(io_stream_write(b.s, "0123456789", 10), 10);
    io_stream_set_cb(a.s, on_readable, &a);
    io_stream_want(a.s, IO_READABLE);
    TURN_UNTIL(loop, a.n_readable >= 4);
    io_stream_want(a.s, 0);
    io_loop_turn(loop, false);
    io_loop_turn(loop, false);
    int n = a.n_readable;
    assert_true(n < 10);
    io_stream_want(a.s, IO_READABLE);
    TURN_UNTIL(loop, a.n_readable == 10);
    io_loop_turn(loop, false);
    io_loop_turn(loop, false);
    assert_int_equal(a.n_readable, 10);
    close_pair(&a, &b);
}

static void on_readable_close(struct io_stream *s, unsigned events, void *arg)
{
    on_readable(s, events, arg);
    if (((struct side *)arg)->n_readable == 3) {
        io_stream_close(s);
    }
}

static void test_close_with_read_ahead(void **state)
{
    struct side a, b;

    (void)state;
    connect_pair(&a, &b);
    assert_int_equal(io_stream_write(b.s, "0123456789", 10), 10);
    io_stream_set_cb(a.s, on_readable_close, &a);
    io_stream_want(a.s, IO_READABLE);
    TURN_UNTIL(loop, a.n_readable == 3);
    io_loop_turn(loop, false);
    assert_int_equal(a.n_readable, 3);
    io_stream_close(b.s);
}

static void test_half_close_and_cut(void **state)
{
    struct side a, b;
    char got[8];

    (void)state;
    connect_pair(&a, &b);
    assert_int_equal(io_stream_shutdown(b.s), 0);
    assert_int_equal(io_stream_shutdown(b.s), 0);
    TURN_UNTIL(loop, io_stream_read(a.s, got, 8) == 0);
    assert_int_equal(io_stream_write(a.s, "still", 5), 5);
    TURN_UNTIL(loop, io_stream_read(b.s, got, 8) == 5);
    assert_int_equal(io_stream_write(b.s, "x", 1), -EPROTO);
    close_pair(&a, &b);

    connect_pair(&a, &b);
    io_stream_close(b.s); /* says goodbye */
    TURN_UNTIL(loop, io_stream_read(a.s, got, 8) == 0);
    io_stream_close(a.s);

    connect_pair(&a, &b);
    io_stream_abort(b.s); /* does not */
    ssize_t r = -EAGAIN;
    TURN_UNTIL(loop, (r = io_stream_read(a.s, got, 8)) != -EAGAIN);
    assert_int_equal(r, -ECONNRESET);
    assert_int_equal(io_stream_read(a.s, got, 8), -EPROTO); /* and stays broken */
    assert_int_equal(io_stream_write(a.s, "x", 1), -EPROTO);
    io_stream_close(a.s);
}

/* An answer given while the other side still writes is readable after the writing has failed. */
static void test_answer_before_the_reset(void **state)
{
    struct side a, b;
    char waste[4096] = {0}, got[8];
    ssize_t r;

    (void)state;
    connect_pair(&a, &b);
    assert_int_equal(io_stream_write(b.s, waste, sizeof(waste)), sizeof(waste));
    assert_int_equal(io_stream_write(a.s, "413", 3), 3);
    io_stream_close(a.s); /* with unread bytes: a reset */
    TURN_UNTIL(loop, (r = io_stream_write(b.s, waste, sizeof(waste))) < 0 && r != -EAGAIN);
    assert_int_equal(io_stream_read(b.s, got, sizeof(got)), 3);
    assert_memory_equal(got, "413", 3);
    assert_int_equal(io_stream_write(b.s, waste, sizeof(waste)), -EPROTO);
    TURN_UNTIL(loop, (r = io_stream_read(b.s, got, sizeof(got))) != -EAGAIN);
    assert_true(r <= 0);
    io_stream_close(b.s);
}

/* Random vectors in, random pieces out, both ways at once, against full sockets. */
struct flow {
    struct io_stream *from, *to;
    size_t sent, got, total;
};

static unsigned char byte_at(size_t i)
{
    return (unsigned char)((i * 2654435761u) >> 9);
}

static void flow_step(struct flow *f)
{
    unsigned char out[60000], in[40000];
    struct iovec v[5];
    size_t n = 0;
    int n_v = 0;

    /* Always what comes next, so that a repeated write repeats its bytes; never less than before,
     * so only the cuts are random. */
    size_t left = MIN(f->total - f->sent, sizeof(out));
    for (size_t i = 0; i < left; i++) {
        out[i] = byte_at(f->sent + i);
    }
    while (n_v < 5 && n < left) {
        size_t part = n_v == 4 ? left - n : rand_below(2) ? rand_below(100) : rand_below(left - n);
        v[n_v++] = (struct iovec){out + n, part};
        n += part;
    }
    if (n_v > 0 && n == left) {
        ssize_t r = io_stream_writev(f->from, v, n_v);
        assert_true(r > 0 || r == -EAGAIN || (r == 0 && left == 0));
        f->sent += r > 0 ? (size_t)r : 0;
    }
    ssize_t r = io_stream_read(f->to, in, 1 + rand_below(sizeof(in)));
    assert_true(r > 0 || r == -EAGAIN);
    for (ssize_t i = 0; i < r; i++, f->got++) {
        if (in[i] != byte_at(f->got)) {
            fail_msg("byte %zu is wrong", f->got);
        }
    }
}

static void test_bulk_both_ways(void **state)
{
    struct side a, b;

    (void)state;
    connect_pair(&a, &b);
    struct flow ab = {a.s, b.s, .total = 3000000}, ba = {b.s, a.s, .total = 2000000};
    while (ab.got < ab.total || ba.got < ba.total) {
        if (ab.got < ab.total) {
            flow_step(&ab);
        }
        if (ba.got < ba.total) {
            flow_step(&ba);
        }
    }
    close_pair(&a, &b);
}

static void test_sendfile(void **state)
{
    struct side a, b;
    char block[5000], got[5000];
    off_t at = 100;
    size_t n = 0;

    (void)state;
    rand_bytes(block, sizeof(block));
    int fd = memfd_create("io-tls", MFD_CLOEXEC);
    assert_int_equal(write(fd, block, sizeof(block)), sizeof(block));
    connect_pair(&a, &b);
    assert_int_equal(io_stream_sendfile(a.s, fd, &at, 1u << 20), 4900);
    assert_int_equal(at, 5000);
    assert_int_equal(io_stream_sendfile(a.s, fd, &at, 1u << 20), 0);
    TURN_UNTIL(loop, ({
                   ssize_t r = io_stream_read(b.s, got + n, sizeof(got) - n);
                   n += r > 0 ? (size_t)r : 0;
                   n == 4900;
               }));
    assert_memory_equal(got, block + 100, 4900);
    (void)close(fd);
    close_pair(&a, &b);
}

static void test_strangers(void **state)
{
    struct side a = {0}, b = {0};
    int fd[2];

    (void)state;
    socket_pair(fd);
    (void)io_tls_accept(server, plain(fd[0]), on_tls, &a);
    assert_int_equal(write(fd[1], "GET / HTTP/1.1\r\n\r\n", 18), 18);
    TURN_UNTIL(loop, a.n_done);
    assert_null(a.s);
    assert_int_equal(a.e.code, ERR_UNAVAILABLE);
    (void)close(fd[1]);

    a = (struct side){0};
    socket_pair(fd);
    (void)io_tls_accept(server, plain(fd[0]), on_tls, &a);
    (void)close(fd[1]); /* gone before it said anything */
    TURN_UNTIL(loop, a.n_done);
    assert_null(a.s);

    socket_pair(fd);
    io_tls_cancel(io_tls_accept(server, plain(fd[0]), on_tls, &b));
    (void)close(fd[1]);
    socket_pair(fd);
    struct io_tls_op *op = io_tls_connect(client, plain(fd[0]), "box.test", on_tls, &b);
    for (int i = 0; i < 3; i++) {
        io_loop_turn(loop, false); /* waits for the server's answer now */
    }
    io_tls_cancel(op);
    io_tls_cancel(NULL);
    (void)close(fd[1]);
    socket_pair(fd);
    (void)io_tls_accept(server, plain(fd[0]), on_tls, &b); /* left to the loop's end */
    (void)close(fd[1]);
    assert_int_equal(b.n_done, 0);
}

static void on_count(struct io_stream *s, unsigned events, void *arg)
{
    struct side *side = arg;
    char got[8];

    assert_int_equal(events, IO_READABLE);
    side->n_readable++;
    assert_int_equal(io_stream_read(s, got, sizeof(got)), -EAGAIN);
}

/* OpenSSL may say that a read needs the socket writable: then that is what READABLE waits for, and
 * as soon as it says otherwise it is not. */
static void test_reading_may_wait_for_writable(void **state)
{
    struct side a, b;

    (void)state;
    connect_pair(&a, &b);
    io_stream_set_cb(a.s, on_count, &a);
    a.s->read_needs = UV_WRITABLE;
    io_stream_want(a.s, IO_READABLE);
    assert_int_equal(a.s->armed, UV_WRITABLE);
    for (int i = 0; i < 5; i++) {
        io_loop_turn(loop, false);
    }
    assert_int_equal(a.n_readable, 1);
    assert_int_equal(a.s->read_needs, UV_READABLE);
    assert_int_equal(a.s->armed, UV_READABLE);
    close_pair(&a, &b);
}

/* The peer changes its keys, and asks us to, in the middle of a transfer. */
static void test_new_keys(void **state)
{
    struct side a = {0};
    int fd[2];
    static char block[16384];
    size_t n;

    (void)state;
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    socket_pair(fd);
    (void)io_tls_accept(server, plain(fd[0]), on_tls, &a);
    SSL *peer = SSL_new(ctx);
    assert_int_equal(SSL_set_fd(peer, fd[1]), 1);
    SSL_set_connect_state(peer);
    TURN_UNTIL(loop, SSL_do_handshake(peer) == 1 && a.n_done);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(SSL_key_update(peer, SSL_KEY_UPDATE_REQUESTED), 1);
        assert_int_equal(SSL_write(peer, "hello", 5), 5);
        TURN_UNTIL(loop, io_stream_read(a.s, block, sizeof(block)) == 5);
        assert_int_equal(io_stream_write(a.s, block, 100), 100);
        TURN_UNTIL(loop, SSL_read_ex(peer, block, sizeof(block), &n) == 1 && n == 100);
    }
    SSL_free(peer);
    SSL_CTX_free(ctx);
    (void)close(fd[1]);
    io_stream_close(a.s);
}

static struct io_relay_end relay_end;
static int n_relay_ends;

static void on_relay_end(const struct io_relay_end *end, void *arg)
{
    relay_end = *end;
    n_relay_ends++;
}

/* client == TLS == relay -- plain socket */
static void test_relay_over_tls(void **state)
{
    struct side a, b;
    int fd[2];

    (void)state;
    n_relay_ends = 0;
    connect_pair(&a, &b);
    socket_pair(fd);
    struct io_stream *far = plain(fd[1]);
    (void)io_relay_start(a.s, plain(fd[0]), STR_NULL, STR_NULL, 0, on_relay_end, NULL);
    struct flow there = {b.s, far, .total = 700000}, back = {far, b.s, .total = 900000};
    TURN_UNTIL(loop, ({
                   for (int i = 0; i < 10; i++) {
                       if (there.got < there.total) {
                           flow_step(&there);
                       }
                       if (back.got < back.total) {
                           flow_step(&back);
                       }
                       io_loop_turn(loop, false);
                   }
                   there.got == there.total &&back.got == back.total;
               }));
    char c;
    assert_int_equal(io_stream_shutdown(b.s), 0);
    TURN_UNTIL(loop, io_stream_read(far, &c, 1) == 0);
    assert_int_equal(n_relay_ends, 0);
    assert_int_equal(io_stream_shutdown(far), 0);
    TURN_UNTIL(loop, n_relay_ends);
    assert_int_equal(relay_end.error, 0);
    assert_int_equal(relay_end.bytes_ab, 700000);
    assert_int_equal(relay_end.bytes_ba, 900000);
    io_stream_close(b.s);
    io_stream_close(far);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_LOOP(test_names),
        ON_LOOP(test_trust),
        ON_LOOP(test_alpn),
        ON_LOOP(test_bad_files),
        ON_LOOP(test_read_ahead_is_announced),
        ON_LOOP(test_close_with_read_ahead),
        ON_LOOP(test_half_close_and_cut),
        ON_LOOP(test_answer_before_the_reset),
        ON_LOOP(test_bulk_both_ways),
        ON_LOOP(test_sendfile),
        ON_LOOP(test_strangers),
        ON_LOOP(test_reading_may_wait_for_writable),
        ON_LOOP(test_new_keys),
        ON_LOOP(test_relay_over_tls),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
