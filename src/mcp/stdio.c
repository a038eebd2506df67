/* The stdio transport: messages are lines. One session, from the first byte to the end of input. */

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "mcp/frame.h"
#include "mcp/mcp.h"

struct stdio {
    struct sink base;
    pthread_mutex_t lock;
    int fd;
    atomic_bool broken; /* nobody reads what we write */
    struct session *session;
};

static bool write_all(int fd, struct str s)
{
    while (s.n > 0) {
        ssize_t n = write(fd, s.p, s.n);
        if (n < 0 && errno != EINTR) {
            return false;
        }
        s = str_sub(s, n > 0 ? (size_t)n : 0, s.n);
    }
    return true;
}

static void stdio_send(struct sink *s, struct str message, bool is_reply)
{
    struct stdio *x = container_of(s, struct stdio, base);
    (void)pthread_mutex_lock(&x->lock);
    if (!atomic_load(&x->broken) && (!write_all(x->fd, message) || !write_all(x->fd, STR("\n")))) {
        atomic_store(&x->broken, true);
    }
    (void)pthread_mutex_unlock(&x->lock);
}

static void stdio_done(struct sink *s)
{
    (void)s; /* lines need no end */
}

static void stdio_free(struct sink *s)
{
    struct stdio *x = container_of(s, struct stdio, base);
    (void)pthread_mutex_destroy(&x->lock);
    free(x);
}

static void refuse(struct stdio *x, enum rpc_code code, const char *why)
{
    cleanup_(buf_done) struct buf b = BUF_INIT(8192);
    rpc_error(&b, NULL, code, why);
    stdio_send(&x->base, buf_str(&b), true);
}

static void on_line(struct str line, bool too_long, void *arg)
{
    struct stdio *x = arg;
    struct rpc_in in;
    struct err e = {0};
    if (too_long) {
        refuse(x, RPC_INVALID, "the message is larger than 16 MiB");
    } else if (rpc_read(line, &in, &e) < 0) {
        refuse(x, RPC_PARSE, e.msg);
    } else {
        rpc_run(x->session, &in, &x->base);
        rpc_in_done(&in);
    }
}

static int read_all(struct stdio *x, int fd)
{
    char chunk[64u << 10];
    struct frame_reader r;
    int result = 0;
    frame_init(&r, MCP_MAX_MESSAGE);
    while (!atomic_load(&x->broken)) {
        ssize_t n = read(fd, chunk, sizeof(chunk));
        if (n > 0) {
            frame_feed(&r, str_n(chunk, (size_t)n), on_line, x);
        } else if (n == 0 || errno != EINTR) {
            result = n == 0 ? 0 : 1;
            break;
        }
    }
    frame_end(&r, on_line, x);
    frame_done(&r);
    return result;
}

int stdio_serve(struct mcp *m, int in_fd, int out_fd)
{
    struct stdio *x = NEW(struct stdio);
    x->base = (struct sink){.send = stdio_send, .done = stdio_done, .free = stdio_free};
    atomic_init(&x->base.refs, 1);
    atomic_init(&x->broken, false);
    (void)pthread_mutex_init(&x->lock, NULL);
    x->fd = out_fd;
    x->session = session_new(m);
    int r = read_all(x, in_fd);
    /* What was asked last may still be answered; what takes longer than that is given up. */
    if (!mcp_wait_idle(m, atomic_load(&x->broken) ? 0 : MCP_END_GRACE_MS)) {
        session_cancel(x->session);
        (void)mcp_wait_idle(m, MCP_END_GRACE_MS);
    }
    session_unref(x->session);
    sink_unref(&x->base);
    return r;
}
