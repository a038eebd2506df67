/* Tunnels: bytes both ways between two streams.
 *
 * Theory of operation: each direction is in one of three states: nothing held (it waits for its
 * source to be readable), something held (it waits for its target to be writable and does not read
 * on: that is the backpressure), ended (the end was passed on as a half-close). Small amounts go
 * through a scratch buffer that all relays of a loop share; only what the target did not take is
 * kept in a buffer of the relay's own. When a read fills a good part of the scratch and both sides
 * are plain descriptors, the direction goes over to splice(2) through a pipe, which it borrows from
 * the loop and gives back as soon as it is empty. So an idle relay holds nothing. */

#include "io/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "io/internal.h"

struct direction {
    struct io_stream *from, *to;
    uint64_t n_bytes;
    char *held; /* what `to` has not taken yet */
    size_t at, len;
    int pipe[2]; /* -1, or borrowed from the loop */
    size_t in_pipe;
    bool bulk, no_splice;
    bool eof;   /* nothing more comes from `from` */
    bool ended; /* and `to` knows */
};

struct io_relay {
    struct io_owned owned;
    struct io_loop *loop;
    struct io_stream *a, *b;
    struct direction ab, ba;
    struct io_timer idle;
    uint64_t idle_ms;
    int error;
    bool reset; /* a source broke off: the other side must not take it for an orderly end */
    io_relay_cb *cb;
    void *arg;
    void (*on_traffic)(void *arg);
    void *traffic_arg;
};

/* ---- what the loop lends ---- */

static char *scratch(struct io_loop *l)
{
    if (!l->scratch) {
        l->scratch = xmalloc(IO_RELAY_BUFFER);
    }
    return l->scratch;
}

static bool borrow_pipe(struct io_loop *l, struct direction *d)
{
    if (d->pipe[0] >= 0) {
        return true;
    }
    if (l->n_pipes > 0) {
        l->n_pipes--;
        d->pipe[0] = l->pipes[l->n_pipes][0];
        d->pipe[1] = l->pipes[l->n_pipes][1];
        return true;
    }
    if (pipe2(d->pipe, O_CLOEXEC | O_NONBLOCK) < 0) {
        d->pipe[0] = d->pipe[1] = -1;
        return false; /* short of descriptors: copying needs none */
    }
    return true;
}

static void return_pipe(struct io_loop *l, struct direction *d)
{
    if (d->pipe[0] < 0) {
        return;
    }
    if (d->in_pipe == 0 && l->n_pipes < IO_LOOP_PIPES) {
        l->pipes[l->n_pipes][0] = d->pipe[0];
        l->pipes[l->n_pipes][1] = d->pipe[1];
        l->n_pipes++;
    } else {
        (void)close(d->pipe[0]);
        (void)close(d->pipe[1]);
    }
    d->pipe[0] = d->pipe[1] = -1;
    d->in_pipe = 0;
}

/* ---- one direction ---- */

static bool holds(const struct direction *d)
{
    return d->len > 0 || d->in_pipe > 0;
}

static void drop(struct io_relay *r, struct direction *d)
{
    free(d->held);
    d->held = NULL;
    d->at = d->len = 0;
    return_pipe(r->loop, d);
}

static void hold(struct direction *d, const char *p, size_t n)
{
    d->held = xmalloc(n);
    memcpy(d->held, p, n);
    d->at = 0;
    d->len = n;
}

static void moved(struct io_relay *r, struct direction *d, size_t n)
{
    d->n_bytes += n;
    if (r->idle_ms) {
        io_timer_start(&r->idle, r->idle_ms);
    }
    if (r->on_traffic) {
        r->on_traffic(r->traffic_arg);
    }
}

static ssize_t splice_some(int from, int to, size_t n)
{
    ssize_t r;

    do {
        r = splice(from, NULL, to, NULL, n, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
    } while (r < 0 && errno == EINTR);
    return r < 0 ? -errno : r;
}

/* Hands on what is held. 0: all of it; else -EAGAIN or the error. */
static int flush(struct io_relay *r, struct direction *d)
{
    while (holds(d)) {
        ssize_t n = d->len > 0 ? io_stream_write(d->to, d->held + d->at, d->len)
                               : splice_some(d->pipe[0], io_stream_fd(d->to), d->in_pipe);
        if (n <= 0) {
            return n < 0 ? (int)n : -EIO;
        }
        if (d->len > 0) {
            d->at += (size_t)n;
            d->len -= (size_t)n;
        } else {
            d->in_pipe -= (size_t)n;
        }
        moved(r, d, (size_t)n);
    }
    free(d->held);
    d->held = NULL;
    return 0;
}

static ssize_t fill_by_copy(struct io_relay *r, struct direction *d)
{
    char *buf = scratch(r->loop);
    ssize_t n = io_stream_read(d->from, buf, IO_RELAY_BUFFER);

    if (n <= 0) {
        return n;
    }
    d->bulk = !d->no_splice && (size_t)n >= IO_RELAY_BULK;
    ssize_t put = io_stream_write(d->to, buf, (size_t)n);
    put = MAX(put, 0); /* an error is met again by flush(), which deals with it */
    if (put > 0) {
        moved(r, d, (size_t)put);
    }
    if (put < n) {
        hold(d, buf + put, (size_t)(n - put));
    }
    return n;
}

/* Takes the next bytes from the source and tries to hand them on: count, 0 at the end, -errno. */
static ssize_t fill(struct io_relay *r, struct direction *d)
{
    if (!d->bulk || !borrow_pipe(r->loop, d)) {
        return fill_by_copy(r, d);
    }
    ssize_t n = splice_some(io_stream_fd(d->from), d->pipe[1], IO_RELAY_BUFFER);
    if (n == -EINVAL) {
        d->no_splice = true; /* not every descriptor can */
        d->bulk = false;
        return_pipe(r->loop, d);
        return fill_by_copy(r, d);
    }
    if (n > 0) {
        d->in_pipe = (size_t)n;
    } else {
        d->bulk = false; /* the flood is over */
    }
    return n;
}

/* The target takes no more; what comes the other way may still be worth having. */
static void give_up(struct io_relay *r, struct direction *d, int error)
{
    r->error = r->error ? r->error : error;
    drop(r, d);
    d->eof = d->ended = true;
}

static void pass_end(struct io_relay *r, struct direction *d)
{
    int n = io_stream_shutdown(d->to);

    d->ended = n != -EAGAIN; /* TLS has something to write first; any other failure: it is gone */
}

/* Returns false when the source failed: then the whole relay has. */
static bool pump(struct io_relay *r, struct direction *d)
{
    for (int i = 0; i < IO_RELAY_ROUNDS && !d->ended; i++) {
        int n = flush(r, d);
        if (n == -EAGAIN) {
            return true;
        }
        if (n < 0) {
            give_up(r, d, n);
            return true;
        }
        if (d->eof) {
            pass_end(r, d);
            break;
        }
        ssize_t got = fill(r, d);
        if (got == -EAGAIN) {
            break;
        }
        if (got < 0) {
            r->error = r->error ? r->error : (int)got;
            r->reset = true;
            return false;
        }
        d->eof = got == 0;
    }
    if (!holds(d)) {
        return_pipe(r->loop, d);
    }
    return true;
}

/* ---- both ---- */

/* A source that broke off breaks off its counterpart too; but a reset throws away what is still on
 * its way out, and the end of an answer is worth more than the manner of its end. */
static void close_side(struct io_relay *r, struct io_stream *s)
{
    int unsent = 0;

    if (r->reset && ioctl(s->fd, SIOCOUTQ, &unsent) == 0 && unsent == 0) {
        io_stream_abort(s);
    } else {
        io_stream_close(s);
    }
}

static void relay_free(struct io_relay *r)
{
    list_del(&r->owned.node);
    io_timer_stop(&r->idle);
    drop(r, &r->ab);
    drop(r, &r->ba);
    close_side(r, r->a);
    close_side(r, r->b);
    free(r);
}

static void finish(struct io_relay *r)
{
    struct io_relay_end end = {r->ab.n_bytes, r->ba.n_bytes, r->error};
    io_relay_cb *cb = r->cb;
    void *arg = r->arg;

    relay_free(r);
    if (cb) {
        cb(&end, arg);
    }
}

static void want(struct io_relay *r)
{
    const struct direction *ab = &r->ab, *ba = &r->ba;

    io_stream_want(r->a, (!ab->eof && !holds(ab) ? IO_READABLE : 0) |
                             (holds(ba) || (ba->eof && !ba->ended) ? IO_WRITABLE : 0));
    io_stream_want(r->b, (!ba->eof && !holds(ba) ? IO_READABLE : 0) |
                             (holds(ab) || (ab->eof && !ab->ended) ? IO_WRITABLE : 0));
}

static void on_event(struct io_stream *s, unsigned events, void *arg)
{
    struct io_relay *r = arg;
    struct direction *out = s == r->a ? &r->ab : &r->ba, *in = s == r->a ? &r->ba : &r->ab;
    bool ok = true;

    if (events & IO_WRITABLE) {
        ok = pump(r, in);
    }
    if (ok && (events & IO_READABLE)) {
        ok = pump(r, out);
    }
    if (!ok || (r->ab.ended && r->ba.ended)) {
        finish(r);
    } else {
        want(r);
    }
}

static void on_idle(struct io_timer *t)
{
    struct io_relay *r = container_of(t, struct io_relay, idle);

    r->error = r->error ? r->error : -ETIMEDOUT;
    finish(r);
}

static void forget(struct io_owned *o)
{
    relay_free(container_of(o, struct io_relay, owned));
}

static void direction_init(struct direction *d, struct io_stream *from, struct io_stream *to,
                           struct str early)
{
    *d = (struct direction){
        .from = from,
        .to = to,
        .pipe = {-1, -1},
        .no_splice = io_stream_fd(from) < 0 || io_stream_fd(to) < 0,
    };
    if (early.n) {
        hold(d, early.p, early.n);
    }
}

struct io_relay *io_relay_start(struct io_stream *take_a, struct io_stream *take_b,
                                struct str early_a, struct str early_b, uint64_t idle_ms,
                                io_relay_cb *cb, void *arg)
{
    struct io_relay *r = NEW(struct io_relay);

    r->loop = io_stream_loop(take_a);
    must(r->loop == io_stream_loop(take_b));
    r->a = take_a;
    r->b = take_b;
    r->cb = cb;
    r->arg = arg;
    r->idle_ms = idle_ms;
    direction_init(&r->ab, take_a, take_b, early_a);
    direction_init(&r->ba, take_b, take_a, early_b);
    io_loop_own(r->loop, &r->owned, forget);
    io_timer_init(&r->idle, r->loop, on_idle);
    if (idle_ms) {
        io_timer_start(&r->idle, idle_ms);
    }
    io_stream_watch_hup(take_a, false);
    io_stream_watch_hup(take_b, false);
    io_stream_set_cb(take_a, on_event, r);
    io_stream_set_cb(take_b, on_event, r);
    want(r);
    return r;
}

void io_relay_on_traffic(struct io_relay *r, void (*fn)(void *arg), void *arg)
{
    r->on_traffic = fn;
    r->traffic_arg = arg;
}

void io_relay_cancel(struct io_relay *r)
{
    r->error = -ECANCELED;
    finish(r);
}
