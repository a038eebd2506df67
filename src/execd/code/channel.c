/* ZeroMQ connections on the loop. */

#include "execd/code/channel.h"

#include <errno.h>

#include "base/must.h"
#include "execd/limits.h"

#define DIAL_AGAIN_MS 10u
#define DIAL_TIMEOUT_MS 2000u
#define READS_PER_TURN 16
#define PONGS_MAX (64u << 10)

static void dial(struct channel *c);

void channel_stop(struct channel *c)
{
    c->stopped = true;
    c->open = false;
    io_timer_stop(&c->again);
    if (c->dial) {
        io_dial_cancel(c->dial);
        c->dial = NULL;
    }
    io_stream_close(c->s);
    c->s = NULL;
    zmtp_reader_done(&c->reader);
    buf_done(&c->out);
}

/* A connection that was never open is tried again: something else may have answered, or a kernel
 * that was not yet there. */
static void lost(struct channel *c)
{
    if (c->open) {
        channel_stop(c);
        c->on_lost(c);
        return;
    }
    io_stream_close(c->s);
    c->s = NULL;
    io_timer_start(&c->again, DIAL_AGAIN_MS);
}

static void update_wanted(struct channel *c)
{
    io_stream_want(c->s, (c->paused ? 0u : IO_READABLE) | (c->out.len ? IO_WRITABLE : 0u));
}

static bool write_out(struct channel *c)
{
    if (buf_failed(&c->out)) {
        return false;
    }
    while (c->out.len) {
        ssize_t n = io_stream_write(c->s, c->out.p, c->out.len);
        if (n == -EAGAIN) {
            break;
        }
        if (n < 0) {
            return false;
        }
        buf_consume(&c->out, (size_t)n);
    }
    if (c->out.len == 0) {
        buf_done(&c->out);
    }
    return true;
}

/* Everything that is there as a whole. False when the connection is not what it should be. */
static bool take_messages(struct channel *c)
{
    while (!c->paused && !c->stopped) {
        struct zmtp_message m;
        switch (zmtp_reader_next(&c->reader, &m)) {
        case ZMTP_MORE:
            return true;
        case ZMTP_READY:
            c->open = true;
            if (c->role == ZMTP_SUB) {
                zmtp_add_subscribe(&c->out);
            }
            c->on_open(c);
            break;
        case ZMTP_PING:
            if (c->out.len < PONGS_MAX) { /* who reads none of them needs no more */
                zmtp_add_pong(&c->out, m.parts[0]);
            }
            break;
        case ZMTP_MESSAGE:
            c->on_message(c, &m);
            break;
        case ZMTP_BAD:
            return false;
        }
    }
    return true;
}

static void pump(struct channel *c)
{
    bool ok = take_messages(c);
    for (int i = 0; ok && !c->paused && !c->stopped && i < READS_PER_TURN; i++) {
        size_t room;
        char *p = zmtp_reader_space(&c->reader, &room);
        ssize_t n = io_stream_read(c->s, p, room);
        if (n == -EAGAIN) {
            break;
        }
        ok = n > 0;
        if (ok) {
            zmtp_reader_fill(&c->reader, (size_t)n);
            ok = take_messages(c);
        }
    }
    if (c->stopped) {
        return;
    }
    if (!ok || !write_out(c)) {
        lost(c);
        return;
    }
    update_wanted(c);
}

static void on_stream(struct io_stream *s, unsigned events, void *arg)
{
    pump(arg);
}

static void on_dialled(struct io_stream *s, int error, void *arg)
{
    struct channel *c = arg;
    c->dial = NULL;
    if (!s) {
        io_timer_start(&c->again, DIAL_AGAIN_MS);
        return;
    }
    c->s = s;
    io_stream_set_cb(s, on_stream, c);
    zmtp_reader_done(&c->reader);
    zmtp_reader_init(&c->reader, c->reader.max);
    buf_clear(&c->out);
    zmtp_add_hello(&c->out, c->role);
    pump(c);
}

static void dial(struct channel *c)
{
    c->dial = io_dial_start(c->loop, &c->addr, -1, DIAL_TIMEOUT_MS, on_dialled, c);
}

static void on_again(struct io_timer *t)
{
    struct channel *c = container_of(t, struct channel, again);
    if (c->s) {
        pump(c);
    } else {
        dial(c);
    }
}

void channel_start(struct channel *c, size_t max_message)
{
    io_timer_init(&c->again, c->loop, on_again);
    buf_init(&c->out, EXECD_KERNEL_SEND_MAX);
    zmtp_reader_init(&c->reader, max_message);
    dial(c);
}

void channel_flush(struct channel *c)
{
    if (!c->open) {
        buf_clear(&c->out); /* on_lost has been, or will be, called */
    } else if (write_out(c)) {
        update_wanted(c);
    } else {
        io_timer_start(&c->again, 0); /* told from there, not from inside a call */
    }
}

void channel_pause(struct channel *c, bool on)
{
    if (c->paused == on) {
        return;
    }
    c->paused = on;
    if (!c->s) {
        return;
    }
    if (on) {
        update_wanted(c);
    } else {
        io_timer_start(&c->again, 0);
    }
}
