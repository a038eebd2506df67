#include "execd/fs_walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/must.h"
#include "execd/fs_path.h"
#include "execd/limits.h"

struct frame {
    struct buf text;    /* names, each with its NUL */
    const char **names; /* into text, sorted */
    size_t n, next;
    size_t path_len; /* of the directory's own path */
    dev_t dev;
    ino_t ino;
};

struct walk {
    const struct fs_walk_ops *ops;
    void *arg;
    int fd; /* the directory of the top frame */
    size_t root_len, n_text;
    struct buf path;
    struct frame *frames;
    size_t n_frames, cap;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int read_names(struct walk *w, struct frame *f, DIR *dir)
{
    buf_init(&f->text, FS_WALK_MAX_NAMES);
    for (;;) {
        errno = 0;
        const struct dirent *d = readdir(dir);
        if (!d) {
            return -errno;
        }
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0) {
            continue;
        }
        size_t len = strlen(d->d_name) + 1;
        if (w->n_text + f->text.len + len > FS_WALK_MAX_NAMES ||
            buf_add(&f->text, d->d_name, len) < 0) {
            return -EFBIG;
        }
        f->n++;
    }
}

static void frame_done(struct frame *f)
{
    buf_done(&f->text);
    free(f->names);
}

static int frame_fill(struct walk *w, struct frame *f, int fd)
{
    struct stat st;
    if (fstat(fd, &st) < 0) {
        return -errno;
    }
    f->dev = st.st_dev;
    f->ino = st.st_ino;
    f->path_len = w->path.len;
    int dup_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (dup_fd < 0) {
        return -errno;
    }
    cleanup_closedir DIR *dir = fdopendir(dup_fd);
    if (!dir) {
        int r = -errno;
        (void)close(dup_fd);
        return r;
    }
    int r = read_names(w, f, dir);
    if (r < 0) {
        return r;
    }
    f->names = xreallocarray(NULL, f->n ? f->n : 1, sizeof(f->names[0]));
    const char *p = f->text.p;
    for (size_t i = 0; i < f->n; i++) {
        f->names[i] = p;
        p += strlen(p) + 1;
    }
    qsort(f->names, f->n, sizeof(f->names[0]), by_name);
    return 0;
}

/* Makes the directory `fd` (taken) the current one. */
static int walk_push(struct walk *w, int take_fd_)
{
    cleanup_close int fd = take_fd_;
    struct frame f = {0};
    int r = frame_fill(w, &f, fd);
    if (r < 0) {
        frame_done(&f);
        return r;
    }
    if (w->n_frames == w->cap) {
        w->cap = w->cap ? w->cap * 2 : 16;
        w->frames = xreallocarray(w->frames, w->cap, sizeof(w->frames[0]));
    }
    w->n_text += f.text.len;
    w->frames[w->n_frames++] = f;
    if (w->fd >= 0) {
        (void)close(w->fd);
    }
    w->fd = take_fd(&fd);
    return 0;
}

/* Back to the parent of the current directory. */
static int walk_pop(struct walk *w)
{
    struct frame *f = &w->frames[--w->n_frames];
    w->n_text -= f->text.len;
    frame_done(f);
    if (w->n_frames == 0) {
        return 0;
    }
    f = &w->frames[w->n_frames - 1];
    cleanup_close int up = fs_openat(w->fd, "..", O_RDONLY | O_DIRECTORY, 0);
    struct stat st;
    if (up < 0) {
        return up;
    }
    if (fstat(up, &st) < 0) {
        return -errno;
    }
    if (st.st_dev != f->dev || st.st_ino != f->ino) {
        return -ESTALE;
    }
    (void)close(w->fd);
    w->fd = take_fd(&up);
    return 0;
}

static int enter(struct walk *w, const char *name)
{
    int fd = fs_openat(w->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    int r = fd < 0 ? fd : walk_push(w, fd);
    /* Gone (in /proc: the process), or replaced by something that is no directory. */
    if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP || r == -ESRCH) {
        return 0;
    }
    if (r < 0 && r != -EFBIG && w->ops->unreadable) {
        return w->ops->unreadable(buf_cstr(&w->path), r, w->arg);
    }
    return r;
}

static int step(struct walk *w)
{
    struct frame *f = &w->frames[w->n_frames - 1];
    const char *name = f->names[f->next++];
    w->path.len = f->path_len;
    if (w->path.len == 0 || w->path.p[w->path.len - 1] != '/') {
        (void)buf_add_char(&w->path, '/');
    }
    (void)buf_add_cstr(&w->path, name);
    if (buf_failed(&w->path)) {
        return -ENAMETOOLONG;
    }
    struct fs_entry e = {.dir_fd = w->fd, .name = name, .depth = (unsigned)w->n_frames - 1};
    if (fstatat(w->fd, name, &e.st, AT_SYMLINK_NOFOLLOW) < 0) {
        return errno == ENOENT ? 0 : -errno;
    }
    e.path = buf_cstr(&w->path);
    e.rel = str_n(e.path + w->root_len, w->path.len - w->root_len);
    int r = w->ops->visit(&e, w->arg);
    return r == 1 && S_ISDIR(e.st.st_mode) ? enter(w, name) : r < 0 ? r : 0;
}

int fs_walk(int take_root_fd, const char *root_path, const struct fs_walk_ops *ops, void *arg)
{
    struct walk w = {.ops = ops, .arg = arg, .fd = -1};
    buf_init(&w.path, FS_WALK_MAX_PATH);
    (void)buf_add_cstr(&w.path, root_path);
    w.root_len = strlen(root_path) + (strcmp(root_path, "/") != 0);
    int r = walk_push(&w, take_root_fd);
    while (r == 0 && w.n_frames > 0) {
        const struct frame *top = &w.frames[w.n_frames - 1];
        r = top->next < top->n ? step(&w) : walk_pop(&w);
    }
    while (w.n_frames > 0) {
        frame_done(&w.frames[--w.n_frames]);
    }
    if (w.fd >= 0) {
        (void)close(w.fd);
    }
    free(w.frames);
    buf_done(&w.path);
    return r;
}
