/* The waiting thread. */

#include "server/runtime/oci/watch.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "base/must.h"
#include "server/runtime/runtime.h"

struct item {
    struct list node;
    pid_t pid;
    int pidfd;
    char id[SANDBOX_ID_MAX + 1]; /* "": only to be reaped */
};

struct file_slot {
    int wd, event_fd;
};

struct watch {
    watch_exit_cb *on_exit;
    void *arg;
    int epoll_fd, inotify_fd, stop_fd;
    pthread_t thread;
    bool started;
    pthread_mutex_t lock; /* items, files, busy_id */
    pthread_cond_t idle;
    struct list items;
    struct file_slot *files;
    size_t n_files, cap_files;
    char busy_id[SANDBOX_ID_MAX + 1]; /* whose callback is running */
};

static void item_free(struct item *it)
{
    list_del(&it->node);
    (void)close(it->pidfd);
    free(it);
}

/* <linux/pidfd.h> of newer kernels. */
struct exit_info {
    uint64_t mask, cgroup_id;
    uint32_t ids[11];
    int32_t exit_code;
};
#define EXIT_INFO_MASK (UINT64_C(1) << 3)
#define EXIT_INFO_GET _IOWR(0xFF, 11, struct exit_info)
#define EXIT_INFO_TRIES 20

/* The exit code of somebody else's child is there once its parent has reaped it. */
static int ask_kernel(int pidfd)
{
    for (int i = 0; i < EXIT_INFO_TRIES; i++) {
        struct exit_info info = {.mask = EXIT_INFO_MASK};
        if (ioctl(pidfd, EXIT_INFO_GET, &info) < 0) {
            return -1;
        }
        if (info.mask & EXIT_INFO_MASK) {
            return info.exit_code;
        }
        (void)usleep(500);
    }
    return -1;
}

static int reap(const struct item *it)
{
    int status = -1;
    pid_t r;
    do {
        r = waitpid(it->pid, &status, 0);
    } while (r < 0 && errno == EINTR);
    return r == it->pid ? status : it->id[0] ? ask_kernel(it->pidfd) : -1;
}

static void on_process_end(struct watch *w, struct item *it)
{
    (void)epoll_ctl(w->epoll_fd, EPOLL_CTL_DEL, it->pidfd, NULL);
    (void)pthread_mutex_lock(&w->lock);
    list_del(&it->node);
    memcpy(w->busy_id, it->id, sizeof(w->busy_id));
    (void)pthread_mutex_unlock(&w->lock);
    int status = reap(it);
    if (it->id[0]) {
        w->on_exit(it->id, status, w->arg);
    }
    (void)pthread_mutex_lock(&w->lock);
    w->busy_id[0] = 0;
    (void)pthread_cond_broadcast(&w->idle);
    (void)pthread_mutex_unlock(&w->lock);
    item_free(it);
}

static void on_file_events(struct watch *w)
{
    _Alignas(struct inotify_event) char in[8192];
    ssize_t n = read(w->inotify_fd, in, sizeof(in));
    (void)pthread_mutex_lock(&w->lock);
    for (char *p = in; n > 0 && p < in + n;) {
        const struct inotify_event *ev = (const void *)p;
        for (size_t i = 0; i < w->n_files; i++) {
            if (w->files[i].wd == ev->wd) {
                (void)eventfd_write(w->files[i].event_fd, 1);
            }
        }
        p += sizeof(*ev) + ev->len;
    }
    (void)pthread_mutex_unlock(&w->lock);
}

/* Events of one batch may name an item that the batch before has freed: items are looked up. */
static struct item *item_find(struct watch *w, int pidfd)
{
    struct item *found = NULL;
    (void)pthread_mutex_lock(&w->lock);
    list_each (node, &w->items) {
        struct item *it = list_entry(node, struct item, node);
        if (it->pidfd == pidfd) {
            found = it;
            break;
        }
    }
    (void)pthread_mutex_unlock(&w->lock);
    return found;
}

static void *watch_main(void *arg)
{
    struct watch *w = arg;
    for (;;) {
        struct epoll_event ev[64];
        int n = epoll_wait(w->epoll_fd, ev, ARRAY_LEN(ev), -1);
        for (int i = 0; i < n; i++) {
            int fd = ev[i].data.fd;
            if (fd == w->stop_fd) {
                return NULL;
            }
            if (fd == w->inotify_fd) {
                on_file_events(w);
                continue;
            }
            struct item *it = item_find(w, fd);
            if (it) {
                on_process_end(w, it);
            }
        }
    }
}

static int poll_add(struct watch *w, int fd)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};
    return epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

struct watch *watch_new(watch_exit_cb *on_exit, void *arg, struct err *e)
{
    struct watch *w = NEW(struct watch);
    w->on_exit = on_exit;
    w->arg = arg;
    list_init(&w->items);
    (void)pthread_mutex_init(&w->lock, NULL);
    (void)pthread_cond_init(&w->idle, NULL);
    w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    w->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    w->stop_fd = eventfd(0, EFD_CLOEXEC);
    int r = w->epoll_fd < 0 || w->inotify_fd < 0 || w->stop_fd < 0 ? -errno : 0;
    r = r < 0 ? r : poll_add(w, w->inotify_fd);
    r = r < 0 ? r : poll_add(w, w->stop_fd);
    if (r == 0) {
        r = -pthread_create(&w->thread, NULL, watch_main, w);
        w->started = r == 0;
    }
    if (r < 0) {
        (void)err_sys(e, r, "start the thread that watches sandboxes");
        watch_free(w);
        return NULL;
    }
    return w;
}

void watch_free(struct watch *w)
{
    if (!w) {
        return;
    }
    if (w->started) {
        (void)eventfd_write(w->stop_fd, 1);
        (void)pthread_join(w->thread, NULL);
    }
    while (!list_empty(&w->items)) {
        item_free(list_entry(list_first(&w->items), struct item, node));
    }
    int fds[] = {w->epoll_fd, w->inotify_fd, w->stop_fd};
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        if (fds[i] >= 0) {
            (void)close(fds[i]);
        }
    }
    free(w->files);
    (void)pthread_mutex_destroy(&w->lock);
    (void)pthread_cond_destroy(&w->idle);
    free(w);
}

static int item_add(struct watch *w, const char *id, pid_t pid, int take_pidfd)
{
    struct item *it = NEW(struct item);
    it->pid = pid;
    it->pidfd = take_pidfd;
    (void)snprintf(it->id, sizeof(it->id), "%s", id);
    (void)pthread_mutex_lock(&w->lock);
    list_push_back(&w->items, &it->node);
    int r = poll_add(w, take_pidfd);
    if (r < 0) {
        item_free(it);
    }
    (void)pthread_mutex_unlock(&w->lock);
    return r;
}

int watch_sandbox(struct watch *w, const char *id, pid_t pid, int take_pidfd, struct err *e)
{
    take_pidfd = take_pidfd < 0 ? eventfd(1, EFD_CLOEXEC) : take_pidfd;
    int r = item_add(w, id, pid, take_pidfd);
    return r < 0 ? err_sys(e, r, "watch the process of %s", id) : 0;
}

void watch_reap(struct watch *w, pid_t pid, int take_pidfd)
{
    (void)item_add(w, "", pid, take_pidfd); /* at worst a zombie until we end */
}

void watch_forget(struct watch *w, const char *id)
{
    (void)pthread_mutex_lock(&w->lock);
    list_each (node, &w->items) {
        struct item *it = list_entry(node, struct item, node);
        if (strcmp(it->id, id) == 0) {
            it->id[0] = 0; /* still reaped */
        }
    }
    while (strcmp(w->busy_id, id) == 0 && !pthread_equal(pthread_self(), w->thread)) {
        (void)pthread_cond_wait(&w->idle, &w->lock);
    }
    (void)pthread_mutex_unlock(&w->lock);
}

int watch_file_add(struct watch *w, const char *path, struct watch_file *ret, struct err *e)
{
    *ret = (struct watch_file){.wd = -1, .event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    if (ret->event_fd < 0) {
        return err_sys(e, errno, "watch %s", path);
    }
    (void)pthread_mutex_lock(&w->lock);
    ret->wd = inotify_add_watch(w->inotify_fd, path, IN_MODIFY);
    int r = ret->wd < 0 ? -errno : 0;
    if (r == 0) {
        if (w->n_files == w->cap_files) {
            w->cap_files = w->cap_files ? w->cap_files * 2 : 16;
            w->files = xreallocarray(w->files, w->cap_files, sizeof(*w->files));
        }
        w->files[w->n_files++] = (struct file_slot){ret->wd, ret->event_fd};
    }
    (void)pthread_mutex_unlock(&w->lock);
    if (r < 0) {
        (void)close(ret->event_fd);
        return err_sys(e, r, "watch %s", path);
    }
    return 0;
}

void watch_file_del(struct watch *w, struct watch_file *f)
{
    if (f->wd < 0) {
        return;
    }
    (void)pthread_mutex_lock(&w->lock);
    for (size_t i = 0; i < w->n_files; i++) {
        if (w->files[i].event_fd == f->event_fd) {
            w->files[i] = w->files[--w->n_files];
            break;
        }
    }
    (void)inotify_rm_watch(w->inotify_fd, f->wd);
    (void)pthread_mutex_unlock(&w->lock);
    (void)close(f->event_fd);
    *f = (struct watch_file){.wd = -1, .event_fd = -1};
}
