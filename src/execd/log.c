/* Logs of background commands. */

#include "execd/log.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "execd/limits.h"
#include "execd/tmpfile.h"
#include "io/timer.h"

/* How long to wait for a place in the pool. */
#define RETRY_MS 20
/* Old output is given back in steps of this size, so that it is not done for every line. */
#define TRIM_STEP (8u << 20)

struct cmd_log {
    struct execd *x;
    int fd;
    off_t start, end;
    bool cannot_trim; /* the file system keeps what was written: the newest is dropped instead */
    bool freed;
    void (*on_room)(void *arg);
    void *arg;
    struct io_timer retry;
    /* the write under way; belongs to the worker while `busy` */
    bool busy;
    char *piece;
    size_t piece_len;
    off_t trim_to; /* > start: everything before it may go */
    int result;    /* bytes, or -errno */
    bool trim_failed;
};

static void submit(struct cmd_log *l);

static void on_retry(struct io_timer *t)
{
    submit(container_of(t, struct cmd_log, retry));
}

struct cmd_log *cmd_log_new(struct execd *x, void (*on_room)(void *arg), void *arg, struct err *e)
{
    int fd = tmpfile_unnamed(x->cfg.tmp_dir, e);
    if (fd < 0) {
        return NULL;
    }
    struct cmd_log *l = NEW(struct cmd_log);
    *l = (struct cmd_log){.x = x, .fd = fd, .on_room = on_room, .arg = arg};
    io_timer_init(&l->retry, x->loop, on_retry);
    return l;
}

static void destroy(struct cmd_log *l)
{
    (void)close(l->fd);
    free(l->piece);
    free(l);
}

void cmd_log_free(struct cmd_log *l)
{
    if (!l) {
        return;
    }
    l->freed = true;
    if (io_timer_armed(&l->retry)) {
        io_timer_stop(&l->retry);
        l->busy = false;
    }
    if (!l->busy) {
        destroy(l);
    }
}

static void on_written(void *arg)
{
    struct cmd_log *l = arg;
    free(take_ptr(&l->piece));
    l->busy = false;
    if (l->result > 0) {
        l->end += l->result;
    }
    if (l->trim_failed) {
        l->cannot_trim = true;
    } else if (l->trim_to > l->start) {
        l->start = l->trim_to;
    }
    if (l->freed) {
        destroy(l);
    } else {
        l->on_room(l->arg);
    }
}

/* In a worker. A full disk loses output of the log, not the command. */
static void write_piece(void *arg)
{
    struct cmd_log *l = arg;
    size_t done = 0;
    l->result = 0;
    while (done < l->piece_len) {
        ssize_t n = pwrite(l->fd, l->piece + done, l->piece_len - done, l->end + (off_t)done);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            break;
        }
        done += (size_t)n;
    }
    l->result = (int)done;
    if (l->trim_to > l->start) {
        l->trim_failed = fallocate(l->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, l->start,
                                   l->trim_to - l->start) < 0;
    }
    io_post(l->x->loop, on_written, l);
}

static void submit(struct cmd_log *l)
{
    int r = io_pool_submit(l->x->pool, write_piece, l);
    if (r == -EAGAIN) {
        io_timer_start(&l->retry, RETRY_MS);
    } else if (r < 0) {
        l->result = 0;
        io_defer(l->x->loop, on_written, l);
    }
}

bool cmd_log_write(struct cmd_log *l, struct str data)
{
    if (l->busy) {
        return false;
    }
    off_t kept = l->end - l->start;
    if (l->cannot_trim && kept + (off_t)data.n > (off_t)EXECD_LOG_MAX) {
        return true;
    }
    l->busy = true;
    l->trim_failed = false;
    l->trim_to = kept > (off_t)EXECD_LOG_MAX ? l->start + (off_t)TRIM_STEP : l->start;
    l->piece = xmalloc(data.n);
    memcpy(l->piece, data.p, data.n);
    l->piece_len = data.n;
    submit(l);
    return true;
}

bool cmd_log_busy(const struct cmd_log *l)
{
    return l->busy;
}

off_t cmd_log_start(const struct cmd_log *l)
{
    return l->start;
}

off_t cmd_log_end(const struct cmd_log *l)
{
    return l->end;
}

int cmd_log_fd(const struct cmd_log *l)
{
    return l->fd;
}
