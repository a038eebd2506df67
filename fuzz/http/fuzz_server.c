/* The whole server on a socket pair. The input is what the client sends, cut into pieces; the query
 * of a /chaos request is a script of calls that its handler makes, from inside the handler, from
 * body callbacks and from later turns of the loop. Whatever comes: every request that began ends
 * exactly once, no connection is left, and what was sent parses as responses. */

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/must.h"
#include "http/h1.h"
#include "http/server.h"
#include "io/loop.h"
#include "io/stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MAX_OUT (32u << 20)

static struct io_loop *loop;
static struct http_server *server;
static size_t n_begun, n_ended, n_after;
static bool readable; /* what was sent can be told apart: no HEAD, no cut, no take-over */

struct chaos {
    struct http_req *req; /* NULL once it is over */
    char script[64];
    size_t at, n, n_deferred;
    bool done;
};

static void play(struct chaos *c);

static void chaos_unref(struct chaos *c)
{
    if (c->done && c->n_deferred == 0) {
        free(c);
    }
}

static void on_later(void *arg)
{
    struct chaos *c = arg;
    c->n_deferred--;
    if (c->req) {
        play(c);
    }
    chaos_unref(c);
}

static void on_body(struct http_req *req, struct str data, bool is_last, void *arg)
{
    play(arg);
}

static void on_collect(struct http_req *req, struct str body, void *arg)
{
    play(arg);
}

static void on_writable(struct http_req *req, void *arg)
{
    play(arg);
}

static void on_end(struct http_req *req, bool completed, void *arg)
{
    struct chaos *c = arg;
    must(c->req == req);
    c->req = NULL;
    c->done = true;
    n_ended++;
    chaos_unref(c);
}

static void take_away(struct http_req *req)
{
    struct buf early = BUF_INIT(1u << 20);
    readable = false;
    io_stream_close(http_req_take_stream(req, &early));
    buf_done(&early);
}

static void send_file(struct http_req *req)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    must(fd >= 0 && ftruncate(fd, 1000) == 0);
    http_resp_sendfile(req, fd, 0, 5);
}

/* Calls that touch the response. */
static void play_resp(struct http_req *req, char op)
{
    static char large[300u << 10];
    switch (op) {
    case 'h':
        http_resp_header(req, STR("X-H"), STR("v"));
        break;
    case 's':
        if (!http_resp_started(req)) {
            http_resp_send(req, 200, "text/plain", STR("sent"));
        }
        break;
    case 'S':
    case 'L':
        if (!http_resp_started(req)) {
            http_resp_start(req, 200, NULL, op == 'S' ? -1 : 10);
        }
        break;
    case 'w':
    case 'W':
        if (http_resp_started(req)) {
            (void)http_resp_write(req, str_n(large, op == 'w' ? 5 : sizeof(large)));
        }
        break;
    case 'f':
        if (http_resp_started(req)) {
            send_file(req);
        }
        break;
    case 'e':
        if (http_resp_started(req)) {
            http_resp_end(req);
        }
        break;
    case 'a':
        readable = false;
        http_resp_abort(req);
        break;
    case 'c':
        http_resp_close_after(req);
        break;
    case 'C':
        http_resp_continue(req);
        break;
    default:
        break;
    }
}

/* Runs the script up to its next pause ('.', or the end). */
static void play(struct chaos *c)
{
    while (c->req && c->at < c->n) {
        char op = c->script[c->at++];
        switch (op) {
        case 'b':
            http_req_on_body(c->req, on_body, c);
            return;
        case 'k':
            http_req_collect(c->req, 20, on_collect, c);
            return;
        case 'p':
            http_req_pause(c->req);
            break;
        case 'r':
            http_req_resume(c->req);
            break;
        case 't':
            if (!http_resp_started(c->req)) {
                take_away(c->req);
            }
            return;
        case '.':
            c->n_deferred++;
            io_defer(loop, on_later, c);
            return;
        default:
            play_resp(c->req, op);
            break;
        }
    }
}

static void get_chaos(struct http_req *req)
{
    struct chaos *c = xcalloc(1, sizeof(*c));
    struct str q = http_req_query(req);
    c->req = req;
    c->n = MIN(q.n, sizeof(c->script));
    if (c->n) {
        memcpy(c->script, q.p, c->n);
    }
    n_begun++;
    http_req_on_end(req, on_end, c);
    http_resp_on_writable(req, on_writable, c);
    play(c);
}

static void get_hello(struct http_req *req)
{
    http_resp_send(req, 200, NULL, STR("hello"));
}

static void after(struct http_req *req, int status, uint64_t bytes_out, uint64_t us)
{
    readable &= !str_eq(http_req_method(req), STR("HEAD"));
    n_after++;
}

static const struct http_route routes[] = {
    {"GET", "/hello", HTTP_STREAM, .stream = get_hello},
    {"*", "/chaos", HTTP_STREAM, .stream = get_chaos},
    {0},
};

static void drain(int fd, struct buf *out)
{
    static char chunk[256u << 10];
    ssize_t n;
    while ((n = recv(fd, chunk, sizeof(chunk), 0)) > 0) {
        (void)buf_add(out, chunk, (size_t)n);
    }
}

/* True when the whole of `in` is responses, the last maybe unfinished. */
static bool parses(struct str in)
{
    static struct h1_head h;
    while (in.n > 0) {
        size_t len;
        enum h1_result r = h1_parse_response(in.p, in.n, STR("GET"), &h, &len);
        if (r == H1_NEED_MORE) {
            return true;
        }
        if (r == H1_BAD) {
            return false;
        }
        in = str_sub(in, len, in.n);
        if (h.chunked) {
            struct h1_chunked c = {0};
            struct str data;
            int k;
            while ((k = h1_chunked_next(&c, &in, &data)) == 1) {
            }
            if (k < 0) {
                return false;
            }
        } else if (h.content_length < 0) {
            return true;
        } else {
            in = str_sub(in, (size_t)h.content_length, in.n);
        }
    }
    return true;
}

static void start(void)
{
    log_init(LOG_ERROR, LOG_HUMAN, open("/dev/null", O_WRONLY | O_CLOEXEC));
    loop = io_loop_new();
    io_clock_fake(loop);
    server = http_server_new(loop, &(struct http_server_opts){.routes = routes, .after = after});
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int sv[2];
    if (!loop) {
        start();
    }
    if (size < 2) {
        return 0;
    }
    size_t step = 1 + data[0], read_every = 1 + data[1] % 8;
    struct buf out = BUF_INIT(MAX_OUT);
    readable = true;
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sv) == 0);
    http_server_serve(server, io_stream_from_fd(loop, sv[0], NULL, NULL));
    for (size_t at = 2, i = 0; at < size; at += step, i++) {
        (void)send(sv[1], data + at, MIN(step, size - at), MSG_NOSIGNAL); /* small: fits */
        io_loop_turn(loop, false);
        if (i % read_every == 0) {
            drain(sv[1], &out);
        }
    }
    for (int i = 0; i < 20; i++) {
        io_loop_turn(loop, false);
        drain(sv[1], &out);
    }
    if (data[1] & 0x80) {
        io_clock_advance(loop, 100000);
    }
    (void)close(sv[1]);
    for (int i = 0; i < 5; i++) {
        io_loop_turn(loop, false);
    }
    must(http_server_connections(server) == 0 && io_stream_count() == 0);
    must(n_begun == n_ended);
    must(!readable || out.failed || parses(buf_str(&out)));
    buf_done(&out);
    return 0;
}
