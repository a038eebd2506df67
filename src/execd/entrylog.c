/* The entrypoint's log. */

#include "execd/entrylog.h"

#include <errno.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/must.h"
#include "base/str.h"
#include "execd/limits.h"

#define PIPES 2
#define FLUSH_MAX 64 /* reads from one pipe at the end, should something go on writing for ever */

struct entry_pipe {
    struct entry_log *log;
    struct io_stream *s;
    struct buf held; /* an unfinished line */
};

struct entry_log {
    int fds[ENTRY_LOG_FILES];
    size_t n_fds, current;
    uint64_t max, written;
    struct entry_pipe pipes[PIPES];
    size_t n_pipes;
    struct buf out;
};

struct entry_log *entry_log_new(const int *fds, size_t n_fds, uint64_t max_bytes)
{
    must(n_fds >= 1 && n_fds <= ENTRY_LOG_FILES);
    struct entry_log *l = NEW(struct entry_log);
    l->n_fds = n_fds;
    for (size_t i = 0; i < n_fds; i++) {
        l->fds[i] = fds[i];
    }
    l->max = MAX(max_bytes, 4u * EXECD_ENTRY_LINE_MAX);
    /* Each held line and each piece of a read gets a time in front. */
    buf_init(&l->out, 64u * EXECD_READ_CHUNK);
    return l;
}

static void put_line(struct entry_log *l, const char *time, struct str a, struct str b)
{
    (void)buf_add_cstr(&l->out, time);
    (void)buf_add_char(&l->out, ' ');
    (void)buf_add_str(&l->out, a);
    (void)buf_add_str(&l->out, b);
    (void)buf_add_char(&l->out, '\n');
}

/* Whole lines only, so that each file begins with one. */
static void write_out(struct entry_log *l)
{
    if (l->written + l->out.len > l->max && l->written) {
        l->current = (l->current + 1) % l->n_fds;
        l->written = 0;
        if (ftruncate(l->fds[l->current], 0) < 0) {
            l->max = 0; /* what cannot be emptied must not grow either */
        }
    }
    if (l->out.len <= l->max && fd_write_full(l->fds[l->current], l->out.p, l->out.len) == 0) {
        l->written += l->out.len;
    }
    buf_clear(&l->out); /* a full disk costs log lines, not the entrypoint */
}

static void feed(struct entry_pipe *p, struct str in)
{
    struct entry_log *l = p->log;
    char time[RFC3339_MAX];
    rfc3339_format(clock_wall_us(), 6, time);
    while (in.n) {
        ptrdiff_t nl = str_find(in, '\n');
        struct str piece = nl < 0 ? in : str_sub(in, 0, (size_t)nl);
        bool ends = nl >= 0 || p->held.len + piece.n > EXECD_ENTRY_LINE_MAX;
        if (ends) {
            put_line(l, time, buf_str(&p->held), piece);
            buf_clear(&p->held);
        } else {
            (void)buf_add_str(&p->held, piece);
        }
        in = str_sub(in, nl < 0 ? in.n : (size_t)nl + 1, in.n);
        if (l->out.len > 2u * EXECD_ENTRY_LINE_MAX) {
            write_out(l);
        }
    }
    if (l->out.len) {
        write_out(l);
    }
}

static void pipe_end(struct entry_pipe *p)
{
    if (p->held.len) {
        feed(p, STR("\n"));
    }
    buf_done(&p->held);
    io_stream_close(p->s);
    p->s = NULL;
}

/* False when there is nothing more for now. */
static bool read_once(struct entry_pipe *p)
{
    char chunk[EXECD_READ_CHUNK];
    ssize_t n = io_stream_read(p->s, chunk, sizeof(chunk));
    if (n > 0) {
        feed(p, str_n(chunk, (size_t)n));
        return true;
    }
    if (n != -EAGAIN) {
        pipe_end(p);
    }
    return false;
}

static void on_readable(struct io_stream *s, unsigned events, void *arg)
{
    (void)s;
    (void)events;
    (void)read_once(arg); /* once: the loop has others to serve */
}

void entry_log_follow(struct entry_log *l, struct io_stream *take_s)
{
    if (!take_s) {
        return;
    }
    must(l->n_pipes < PIPES);
    struct entry_pipe *p = &l->pipes[l->n_pipes++];
    p->log = l;
    p->s = take_s;
    buf_init(&p->held, EXECD_ENTRY_LINE_MAX);
    io_stream_set_cb(take_s, on_readable, p);
    io_stream_want(take_s, IO_READABLE);
}

void entry_log_flush(struct entry_log *l)
{
    for (size_t i = 0; l && i < l->n_pipes; i++) {
        for (int k = 0; l->pipes[i].s && k < FLUSH_MAX && read_once(&l->pipes[i]); k++) {
        }
    }
}

void entry_log_free(struct entry_log *l)
{
    if (!l) {
        return;
    }
    for (size_t i = 0; i < l->n_pipes; i++) {
        if (l->pipes[i].s) {
            pipe_end(&l->pipes[i]);
        }
    }
    buf_done(&l->out);
    free(l);
}
