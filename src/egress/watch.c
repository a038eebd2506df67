/* inotify on one directory. */

#include "egress/watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/must.h"
#include "io/stream.h"

/* Not IN_MODIFY: a file that is still being written is not looked at. */
#define HERE                                                                                       \
    (IN_CLOSE_WRITE | IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB |            \
     IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR)
#define ABOVE (IN_CREATE | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR)

struct watch {
    struct io_stream *in;
    char *dir;
    int id;       /* of the watch that stands */
    bool is_here; /* it is on the directory itself */
    void (*fn)(struct str name, void *arg);
    void *arg;
};

/* The directory, or the nearest one above it that exists. */
static void place(struct watch *w)
{
    int fd = io_stream_fd(w->in), old = w->id;
    w->id = inotify_add_watch(fd, w->dir, HERE);
    w->is_here = w->id >= 0;
    char *up = xasprintf("%s", w->dir);
    while (w->id < 0 && *up) {
        char *slash = strrchr(up, '/');
        if (slash) {
            slash[slash == up] = 0;
        }
        w->id = inotify_add_watch(fd, slash ? up : ".", ABOVE);
        if (!slash || slash == up) {
            break;
        }
    }
    free(up);
    if (old >= 0 && old != w->id) {
        (void)inotify_rm_watch(fd, old); /* gone with its directory: then it is an error */
    }
}

static void on_event(struct watch *w, const struct inotify_event *e, struct str name)
{
    if (e->mask & IN_IGNORED) { /* what came before it has been dealt with */
        return;
    }
    if (e->mask & IN_Q_OVERFLOW) {
        w->fn(STR_NULL, w->arg);
        return;
    }
    if (e->wd != w->id) {
        return;
    }
    if (w->is_here && !(e->mask & (IN_DELETE_SELF | IN_MOVE_SELF))) {
        w->fn(name, w->arg);
        return;
    }
    bool was_here = w->is_here;
    if (e->mask & (IN_DELETE_SELF | IN_MOVE_SELF)) {
        w->is_here = false;
    }
    place(w);
    if (was_here || w->is_here) {
        w->fn(STR_NULL, w->arg);
    }
}

static void on_readable(struct io_stream *s, unsigned events, void *arg)
{
    struct watch *w = arg;
    _Alignas(struct inotify_event) char in[4096];
    ssize_t n = read(io_stream_fd(s), in, sizeof(in));
    for (ssize_t at = 0; n > 0 && at < n;) {
        struct inotify_event e;
        memcpy(&e, in + at, sizeof(e));
        const char *name = in + at + sizeof(e);
        on_event(w, &e, str_n(name, e.len ? strnlen(name, e.len) : 0));
        at += (ssize_t)(sizeof(e) + e.len);
    }
}

struct watch *watch_new(struct io_loop *l, const char *dir, void (*fn)(struct str name, void *arg),
                        void *arg)
{
    int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (fd < 0) {
        return NULL;
    }
    struct watch *w = NEW(struct watch);
    *w = (struct watch){.dir = xasprintf("%s", dir), .id = -1, .fn = fn, .arg = arg};
    w->in = io_stream_from_fd(l, fd, on_readable, w);
    must(w->in);
    io_stream_want(w->in, IO_READABLE);
    place(w);
    return w;
}

void watch_free(struct watch *w)
{
    if (w) {
        io_stream_close(w->in);
        free(w->dir);
        free(w);
    }
}
