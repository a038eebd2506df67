/* A WebSocket connection on a stream.
 *
 *   OPEN      messages both ways
 *   CLOSING   we have sent Close and wait for the peer's; messages are still read
 *   LINGER    on_close has been called: what is queued goes out, what comes is dropped, until the
 *             peer has closed or HTTP_WS_CLOSE_MS have passed
 *   DEAD      the stream is gone; the memory goes when this turn is over
 *
 * on_close is called when the outcome is known, not when the socket is gone: the user has nothing
 * to wait for in LINGER. Callbacks come from events, timers and deferred work, never from inside a
 * function that the user called. */

#include <errno.h>
#include <string.h>

#include "base/must.h"
#include "base/rand.h"
#include "http/outq.h"
#include "http/ws_internal.h"
#include "http/ws_reader.h"
#include "io/timer.h"

#define READ_CHUNK (32u << 10)
#define READS_PER_EVENT 8

enum ws_state { WS_OPEN, WS_CLOSING, WS_LINGER, WS_DEAD };

struct ws_conn {
    struct io_owned owned; /* a user who has left does not see to its end: the loop does */
    enum ws_state state;
    struct io_stream *stream;
    struct io_loop *loop;
    struct ws_ops ops;
    void *arg;
    struct ws_opts opts;
    struct ws_reader reader;
    struct outq out;
    struct buf in;              /* read, but not handled while paused */
    struct io_timer ping, idle; /* idle is also the deadline of CLOSING and LINGER */
    bool is_server, paused, blocked, was_full, broken, scheduled, half_closed;
};

static void on_event(struct io_stream *s, unsigned events, void *arg);

/* ---- life ---- */

static void ws_free(void *arg)
{
    free(arg);
}

/* Everything but the memory goes. */
static void let_go(struct ws_conn *ws)
{
    ws->state = WS_DEAD;
    list_del(&ws->owned.node);
    io_timer_stop(&ws->ping);
    io_timer_stop(&ws->idle);
    if (ws->broken) {
        io_stream_abort(ws->stream);
    } else {
        io_stream_close(ws->stream);
    }
    outq_done(&ws->out);
    buf_done(&ws->in);
    ws_reader_done(&ws->reader);
}

/* The memory stays until this turn is over, because callers further up, and work deferred before
 * this, still look at the state. */
static void die(struct ws_conn *ws)
{
    if (ws->state != WS_DEAD) {
        let_go(ws);
        io_defer(ws->loop, ws_free, ws);
    }
}

static void forget(struct io_owned *o)
{
    struct ws_conn *ws = container_of(o, struct ws_conn, owned);
    let_go(ws);
    ws_free(ws); /* the loop has run what was deferred */
}

static void want(struct ws_conn *ws)
{
    /* A peer that floods us with pings and does not read its pongs is not read any further. */
    bool held = ws->out.queued >= HTTP_OUT_HIGH && ws->state != WS_LINGER;
    bool readable = (!ws->paused || ws->state != WS_OPEN) && !held;
    io_stream_want(ws->stream, (readable ? IO_READABLE : 0) | (ws->blocked ? IO_WRITABLE : 0));
}

static void flush(struct ws_conn *ws)
{
    int r = outq_flush(&ws->out, ws->stream);
    ws->blocked = r == -EAGAIN;
    if (r < 0 && r != -EAGAIN) {
        ws->broken = true;
    }
}

/* In LINGER: once all is out our side is closed, and the peer's end is awaited. Closing the socket
 * at once could reset it while our Close frame is still under way. */
static void linger_step(struct ws_conn *ws)
{
    if (ws->broken) {
        die(ws);
    } else if (outq_empty(&ws->out) && !ws->half_closed) {
        ws->half_closed = true;
        if (io_stream_shutdown(ws->stream) < 0) {
            die(ws);
        }
    }
}

/* The outcome is known. */
static void finish(struct ws_conn *ws, unsigned code, struct str reason)
{
    if (ws->state >= WS_LINGER) {
        return;
    }
    ws->state = WS_LINGER;
    io_timer_stop(&ws->ping);
    io_timer_start(&ws->idle, HTTP_WS_CLOSE_MS);
    ws_reader_done(&ws->reader); /* nothing is read into it any more, and it can be large */
    if (ws->ops.on_close) {
        ws->ops.on_close(ws, code, reason, ws->arg);
    }
    if (ws->state == WS_LINGER) {
        linger_step(ws);
    }
    if (ws->state == WS_LINGER) {
        want(ws);
    }
}

/* The connection is of no use any more: no farewell. */
static void lost(struct ws_conn *ws)
{
    if (ws->state < WS_LINGER) {
        ws->broken = true;
        finish(ws, 1006, STR_NULL);
        die(ws);
    } else {
        die(ws);
    }
}

/* ---- deferred work ---- */

static void process_kept(struct ws_conn *ws);

static void tell_writable(struct ws_conn *ws)
{
    if (ws->was_full && ws->out.queued <= HTTP_OUT_LOW && ws->state == WS_OPEN) {
        ws->was_full = false;
        if (ws->ops.on_writable) {
            ws->ops.on_writable(ws, ws->arg);
        }
    }
}

static void run_scheduled(void *arg)
{
    struct ws_conn *ws = arg;
    ws->scheduled = false;
    if (ws->state != WS_DEAD) {
        if (ws->broken) {
            lost(ws);
        } else {
            process_kept(ws);
        }
    }
    if (ws->state != WS_DEAD) {
        want(ws);
    }
}

static void schedule(struct ws_conn *ws)
{
    if (!ws->scheduled && ws->state != WS_DEAD) {
        ws->scheduled = true;
        io_defer(ws->loop, run_scheduled, ws);
    }
}

/* ---- sending ---- */

static void send_iov(struct ws_conn *ws, const struct iovec *iov, int n)
{
    if (ws->broken || ws->state == WS_DEAD) {
        return;
    }
    if (ws->blocked) {
        for (int i = 0; i < n; i++) {
            outq_add(&ws->out, str_n(iov[i].iov_base, iov[i].iov_len));
        }
        return;
    }
    if (outq_writev(&ws->out, ws->stream, iov, n) < 0) {
        ws->broken = true;
        schedule(ws);
        return;
    }
    if (!outq_empty(&ws->out)) {
        ws->blocked = true;
        want(ws);
    }
}

static void send_frame(struct ws_conn *ws, enum ws_opcode op, struct str data)
{
    struct ws_frame f = {.opcode = op, .fin = true, .masked = !ws->is_server, .len = data.n};
    char head[WS_FRAME_MAX];
    char *masked = NULL;
    if (f.masked) { /* by a fresh key: nobody may predict the bytes on the wire (RFC 6455 10.3) */
        rand_bytes(f.mask, sizeof(f.mask));
        masked = xmalloc(data.n ? data.n : 1);
        if (data.n > 0) {
            memcpy(masked, data.p, data.n);
        }
        ws_mask(masked, data.n, f.mask, 0);
        data.p = masked;
    }
    struct iovec iov[2] = {{head, ws_frame_format(&f, head)}, {(void *)(uintptr_t)data.p, data.n}};
    send_iov(ws, iov, data.n > 0 ? 2 : 1);
    free(masked);
}

void ws_conn_send_raw(struct ws_conn *ws, struct str data)
{
    struct iovec iov = {(void *)(uintptr_t)data.p, data.n};
    send_iov(ws, &iov, 1);
}

bool ws_send(struct ws_conn *ws, enum ws_opcode op, struct str data)
{
    bool control = op == WS_PING || op == WS_PONG;
    if (bug_if(!control && op != WS_TEXT && op != WS_BINARY) || bug_if(control && data.n > 125)) {
        return true;
    }
    if (ws->state != WS_OPEN || ws->out.queued >= HTTP_WS_MAX_QUEUE) {
        return false;
    }
    send_frame(ws, op, data);
    ws->was_full = ws->out.queued >= HTTP_OUT_HIGH;
    return !ws->was_full;
}

size_t ws_queued(const struct ws_conn *ws)
{
    return ws->out.queued;
}

static void send_close(struct ws_conn *ws, unsigned code, struct str reason)
{
    char payload[125] = {(char)(code >> 8), (char)code};
    size_t n = utf8_floor(reason, MIN(reason.n, sizeof(payload) - 2));
    if (reason.p && n > 0) {
        memcpy(payload + 2, reason.p, n);
    }
    send_frame(ws, WS_CLOSE, str_n(payload, code == 1005 ? 0 : 2 + n));
}

void ws_close(struct ws_conn *ws, unsigned code, struct str reason)
{
    if (ws->state != WS_OPEN) {
        return;
    }
    if (bug_if(!ws_close_code_valid(code) && code != 1005)) {
        code = 1011;
    }
    send_close(ws, code, reason);
    ws->state = WS_CLOSING;
    io_timer_stop(&ws->ping);
    io_timer_start(&ws->idle, HTTP_WS_CLOSE_MS);
    if (ws->paused) {
        schedule(ws); /* the peer's Close must be found behind what was not wanted */
    }
    want(ws);
}

void ws_leave(struct ws_conn *ws, unsigned code, struct str reason)
{
    ws->ops = (struct ws_ops){0};
    ws_close(ws, code, reason);
}

void ws_abort(struct ws_conn *ws)
{
    ws->broken = true;
    die(ws);
}

/* ---- receiving ---- */

static void on_peer_close(struct ws_conn *ws, const struct ws_event *ev)
{
    char reason[125];
    size_t n = ev->data.p ? MIN(ev->data.n, sizeof(reason)) : 0;
    if (n > 0) {
        memcpy(reason, ev->data.p, n); /* the frame's memory does not outlive what follows */
    }
    if (ws->state == WS_OPEN) {
        send_close(ws, ev->code, STR_NULL);
    }
    finish(ws, ev->code, str_n(reason, n));
}

static void on_ws_event(struct ws_conn *ws, const struct ws_event *ev)
{
    switch (ev->opcode) {
    case WS_TEXT:
    case WS_BINARY:
        /* Closing while paused: the user has said that it wants no more. */
        if (ws->ops.on_message && !ws->paused) {
            ws->ops.on_message(ws, ev->opcode, ev->data, ws->arg);
        }
        return;
    case WS_PING:
        if (ws->state == WS_OPEN) {
            send_frame(ws, WS_PONG, ev->data);
        }
        return;
    case WS_PONG:
        if (ws->ops.on_pong) {
            ws->ops.on_pong(ws, ev->data, ws->arg);
        }
        return;
    case WS_CLOSE:
        on_peer_close(ws, ev);
        return;
    case WS_CONT:
        break;
    }
    must(!"a fragment is no event");
}

/* Works through the input; returns how much of it is left when the user paused. */
static size_t process(struct ws_conn *ws, char *p, size_t n)
{
    while (ws->state < WS_LINGER && !(ws->paused && ws->state == WS_OPEN) && !ws->broken) {
        struct ws_event ev;
        int r = ws_reader_next(&ws->reader, &p, &n, &ev);
        if (r == 0) {
            return 0;
        }
        if (r < 0) {
            if (ws->state == WS_OPEN) {
                send_close(ws, (unsigned)-r, STR_NULL);
            }
            finish(ws, (unsigned)-r, STR_NULL);
            return 0;
        }
        on_ws_event(ws, &ev);
    }
    return ws->state < WS_LINGER ? n : 0;
}

static void process_kept(struct ws_conn *ws)
{
    struct buf in = ws->in;
    if (in.len == 0) {
        return;
    }
    ws->in = BUF_INIT(READ_CHUNK + HTTP_WS_MAX_EARLY);
    size_t left = process(ws, in.p, in.len);
    if (left > 0 && ws->state != WS_DEAD) {
        must(buf_add(&ws->in, in.p + in.len - left, left) == 0);
    }
    buf_done(&in);
}

static void read_some(struct ws_conn *ws)
{
    char b[READ_CHUNK];
    for (int i = 0; i < READS_PER_EVENT; i++) {
        ssize_t n = io_stream_read(ws->stream, b, sizeof(b));
        if (n == -EAGAIN) {
            return;
        }
        if (n <= 0) {
            lost(ws);
            return;
        }
        if (ws->state == WS_OPEN && ws->opts.idle_ms) {
            io_timer_start(&ws->idle, ws->opts.idle_ms);
        }
        size_t left = process(ws, b, (size_t)n);
        if (ws->state == WS_DEAD) {
            return;
        }
        if (left > 0) {
            must(buf_add(&ws->in, b + (size_t)n - left, left) == 0);
        }
        bool held = (ws->paused && ws->state == WS_OPEN) || ws->out.queued >= HTTP_OUT_HIGH;
        if (held || (size_t)n < sizeof(b)) {
            return;
        }
    }
}

static void on_event(struct io_stream *s, unsigned events, void *arg)
{
    struct ws_conn *ws = arg;
    if ((events & IO_WRITABLE) && ws->blocked) {
        flush(ws);
        if (ws->broken) {
            lost(ws);
        } else if (ws->state == WS_LINGER) {
            linger_step(ws);
        } else {
            tell_writable(ws);
        }
    }
    if ((events & IO_READABLE) && ws->state != WS_DEAD && (io_stream_wanted(s) & IO_READABLE)) {
        read_some(ws);
    }
    if (ws->state != WS_DEAD) {
        want(ws);
    }
}

void ws_pause(struct ws_conn *ws)
{
    ws->paused = true;
    if (ws->state != WS_DEAD) {
        want(ws);
    }
}

void ws_resume(struct ws_conn *ws)
{
    ws->paused = false;
    if (ws->state != WS_DEAD) {
        want(ws);
        schedule(ws);
    }
}

/* ---- timers ---- */

static void on_ping(struct io_timer *t)
{
    struct ws_conn *ws = container_of(t, struct ws_conn, ping);
    if (!ws->blocked) { /* behind a full queue it would prove nothing */
        send_frame(ws, WS_PING, STR_NULL);
    }
    io_timer_start(&ws->ping, ws->opts.ping_ms);
}

static void on_idle(struct io_timer *t)
{
    struct ws_conn *ws = container_of(t, struct ws_conn, idle);
    if (ws->state == WS_OPEN) {
        send_close(ws, 1001, STR("idle"));
        finish(ws, 1001, STR("idle"));
    } else {
        lost(ws);
    }
}

struct ws_conn *ws_conn_new(struct io_stream *take_s, bool is_server, const struct ws_opts *o,
                            const struct ws_ops *ops, void *arg, struct str early)
{
    struct ws_conn *ws = NEW(struct ws_conn);
    ws->stream = take_s;
    ws->loop = io_stream_loop(take_s);
    io_loop_own(ws->loop, &ws->owned, forget);
    ws->is_server = is_server;
    ws->ops = *ops;
    ws->arg = arg;
    ws->opts = o ? *o : (struct ws_opts){0};
    if (!ws->opts.max_message) {
        ws->opts.max_message = HTTP_WS_MAX_MESSAGE;
    }
    ws_reader_init(&ws->reader, is_server, ws->opts.max_message);
    buf_init(&ws->in, READ_CHUNK + HTTP_WS_MAX_EARLY);
    io_timer_init(&ws->ping, ws->loop, on_ping);
    io_timer_init(&ws->idle, ws->loop, on_idle);
    if (ws->opts.ping_ms) {
        io_timer_start(&ws->ping, ws->opts.ping_ms);
    }
    if (ws->opts.idle_ms) {
        io_timer_start(&ws->idle, ws->opts.idle_ms);
    }
    if (early.n > 0) {
        must(buf_add_str(&ws->in, early) == 0);
        schedule(ws);
    }
    io_stream_set_cb(take_s, on_event, ws);
    io_stream_want(take_s, IO_READABLE);
    return ws;
}

void *ws_arg(const struct ws_conn *ws)
{
    return ws->arg;
}
