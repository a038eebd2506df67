/* Cutting a log in place. Its descriptor was given to us, and neither its name nor its directory
 * need be ours: so it is not renamed. Others that append to it (the guard, when a worker has died)
 * have the same descriptor and go on behind what is left. */

#include "egress/logfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/must.h"
#include "egress/limits.h"
#include "io/timer.h"

struct logfile {
    struct io_timer look;
    int fd;
};

/* Where the first whole line begins at or behind `from`; the end when there is none. */
static off_t line_after(int fd, off_t from, off_t size)
{
    char buf[4096];
    while (from < size) {
        ssize_t n = pread(fd, buf, sizeof(buf), from);
        if (n <= 0) {
            break;
        }
        const char *nl = memchr(buf, '\n', (size_t)n);
        if (nl) {
            return from + (nl - buf) + 1;
        }
        from += n;
    }
    return size;
}

/* [from, size) to the beginning; from is in the second half, so that nothing is overwritten before
 * it was read. Returns how much there is then. */
static off_t move_down(int fd, off_t from, off_t size)
{
    char buf[16384];
    off_t to = 0;
    while (from < size) {
        ssize_t n = pread(fd, buf, MIN(sizeof(buf), (size_t)(size - from)), from);
        if (n <= 0 || pwrite(fd, buf, (size_t)n, to) != n) {
            break;
        }
        from += n;
        to += n;
    }
    return to;
}

int logfile_cut(int fd, off_t max, off_t keep)
{
    struct stat st;
    int flags = fcntl(fd, F_GETFL);
    if (fstat(fd, &st) < 0 || flags < 0) {
        return -errno;
    }
    if (!S_ISREG(st.st_mode) || st.st_size <= max) {
        return 0;
    }
    off_t left = 0;
    /* With O_APPEND a write goes to the end wherever it was meant to go. */
    if ((flags & O_ACCMODE) == O_RDWR && fcntl(fd, F_SETFL, flags & ~O_APPEND) == 0) {
        left = move_down(fd, line_after(fd, st.st_size - keep, st.st_size), st.st_size);
        (void)fcntl(fd, F_SETFL, flags);
    }
    return ftruncate(fd, left) < 0 ? -errno : 1;
}

static void on_look(struct io_timer *t)
{
    struct logfile *f = container_of(t, struct logfile, look);
    int r = logfile_cut(f->fd, EGRESS_LOG_MAX, EGRESS_LOG_KEEP);
    if (r > 0) {
        log_info("the oldest lines of the log were removed", LOG_I("bytes", EGRESS_LOG_MAX));
    } else if (r < 0) {
        log_warn("the log cannot be cut", LOG_S("reason", strerror(-r)));
        return;
    }
    io_timer_start(t, EGRESS_LOG_LOOK_MS);
}

struct logfile *logfile_new(struct io_loop *l, int fd)
{
    struct stat st;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        return NULL;
    }
    struct logfile *f = NEW(struct logfile);
    f->fd = fd;
    io_timer_init(&f->look, l, on_look);
    on_look(&f->look);
    return f;
}

void logfile_free(struct logfile *f)
{
    if (f) {
        io_timer_stop(&f->look);
        free(f);
    }
}
