/* The thread behind the pools. */

#include "server/runtime/oci/spare.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/must.h"
#include "server/runtime/oci/disk.h"
#include "server/runtime/oci/limits.h"

struct spare_userns {
    uint32_t range;
    int fd;
};

struct spare_disk {
    unsigned number; /* of its file */
    int mount_fd;
};

struct spares {
    struct spare_opts o;
    pthread_t thread;
    bool started, stop, wake;
    pthread_mutex_t lock;
    pthread_cond_t cond;
    struct spare_userns userns[OCI_SPARE_USERNS];
    unsigned n_userns, want_userns;
    struct spare_disk disks[OCI_SPARE_DISKS];
    unsigned n_disks, want_disks, next_disk;
};

#define TEND_INTERVAL_S 2 /* for what only time brings: namespaces that have rested */

static void disk_name(unsigned number, char out[32])
{
    (void)snprintf(out, 32, "%u.img", number);
}

static int userns_new(struct spares *s, struct spare_userns *ret, struct err *e)
{
    int range = idrange_take(s->o.ids);
    if (range < 0) {
        return err_set(e, ERR_LIMIT, "all [oci].id_ranges user id ranges are in use");
    }
    ret->range = (uint32_t)range;
    ret->fd = userns_make(idrange_first(s->o.ids, ret->range), s->o.ids->count, e);
    if (ret->fd < 0) {
        idrange_release(s->o.ids, ret->range);
        return -1;
    }
    return 0;
}

/* Each step does one thing; true when it did. */
static bool tend_userns(struct spares *s)
{
    struct spare_userns u;
    struct err e = {0};
    (void)pthread_mutex_lock(&s->lock);
    bool more = s->n_userns < s->want_userns;
    (void)pthread_mutex_unlock(&s->lock);
    if (!more || userns_new(s, &u, &e) < 0) {
        return false; /* a create will meet the same reason and say it */
    }
    (void)pthread_mutex_lock(&s->lock);
    s->userns[s->n_userns++] = u; /* only this thread adds */
    (void)pthread_mutex_unlock(&s->lock);
    return true;
}

static bool tend_disk(struct spares *s)
{
    char name[32];
    struct err e = {0};
    (void)pthread_mutex_lock(&s->lock);
    bool more = s->n_disks < s->want_disks;
    unsigned number = s->next_disk++;
    (void)pthread_mutex_unlock(&s->lock);
    if (!more) {
        return false;
    }
    disk_name(number, name);
    int fd = disk_make(s->o.spare_fd, name, s->o.disk_bytes, s->o.templates_fd, &e);
    if (fd < 0) {
        log_debug("no writable layer for the pool", LOG_ERR(&e));
        return false;
    }
    (void)pthread_mutex_lock(&s->lock);
    s->disks[s->n_disks++] = (struct spare_disk){number, fd};
    (void)pthread_mutex_unlock(&s->lock);
    return true;
}

static bool tend_trash(struct spares *s)
{
    cleanup_close int fd = openat(s->o.trash_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cleanup_closedir DIR *d = fd < 0 ? NULL : fdopendir(take_fd(&fd));
    struct dirent *ent;
    while (d && (ent = readdir(d))) {
        if (strcmp(ent->d_name, ".") != 0 && strcmp(ent->d_name, "..") != 0) {
            return dir_remove(s->o.trash_fd, ent->d_name, true) == 0;
        }
    }
    return false;
}

static void *spares_main(void *arg)
{
    struct spares *s = arg;
    for (;;) {
        bool busy = network_tend(s->o.net);
        busy = tend_userns(s) || busy;
        busy = tend_disk(s) || busy;
        busy = tend_trash(s) || busy;
        (void)pthread_mutex_lock(&s->lock);
        if (!busy && !s->wake && !s->stop) {
            struct timespec until;
            (void)clock_gettime(CLOCK_REALTIME, &until);
            until.tv_sec += TEND_INTERVAL_S;
            (void)pthread_cond_timedwait(&s->cond, &s->lock, &until);
        }
        s->wake = false;
        bool stop = s->stop;
        (void)pthread_mutex_unlock(&s->lock);
        if (stop) {
            return NULL;
        }
    }
}

struct spares *spares_new(const struct spare_opts *o, struct err *e)
{
    struct spares *s = NEW(struct spares);
    s->o = *o;
    s->want_userns = o->userns ? MIN(o->pool, OCI_SPARE_USERNS) : 0;
    s->want_disks = o->disk_bytes ? MIN(o->pool, OCI_SPARE_DISKS) : 0;
    (void)pthread_mutex_init(&s->lock, NULL);
    (void)pthread_cond_init(&s->cond, NULL);
    int r = pthread_create(&s->thread, NULL, spares_main, s);
    if (r != 0) {
        (void)err_sys(e, r, "start the thread that keeps things ready");
        spares_free(s);
        return NULL;
    }
    s->started = true;
    return s;
}

void spares_free(struct spares *s)
{
    if (!s) {
        return;
    }
    if (s->started) {
        (void)pthread_mutex_lock(&s->lock);
        s->stop = true;
        (void)pthread_cond_signal(&s->cond);
        (void)pthread_mutex_unlock(&s->lock);
        (void)pthread_join(s->thread, NULL);
    }
    for (unsigned i = 0; i < s->n_userns; i++) {
        (void)close(s->userns[i].fd);
        idrange_release(s->o.ids, s->userns[i].range);
    }
    for (unsigned i = 0; i < s->n_disks; i++) {
        char name[32];
        disk_name(s->disks[i].number, name);
        (void)close(s->disks[i].mount_fd);
        (void)unlinkat(s->o.spare_fd, name, 0);
    }
    (void)pthread_mutex_destroy(&s->lock);
    (void)pthread_cond_destroy(&s->cond);
    free(s);
}

void spares_wake(struct spares *s)
{
    (void)pthread_mutex_lock(&s->lock);
    s->wake = true;
    (void)pthread_cond_signal(&s->cond);
    (void)pthread_mutex_unlock(&s->lock);
}

int spares_take_userns(struct spares *s, uint32_t *ret_range, struct err *e)
{
    struct spare_userns u = {.fd = -1};
    (void)pthread_mutex_lock(&s->lock);
    if (s->n_userns) {
        u = s->userns[--s->n_userns];
    }
    (void)pthread_mutex_unlock(&s->lock);
    if (u.fd < 0 && userns_new(s, &u, e) < 0) {
        return -1;
    }
    *ret_range = u.range;
    return u.fd;
}

int spares_take_disk(struct spares *s, uint64_t bytes, int dir_fd, const char *name, struct err *e)
{
    struct spare_disk d = {.mount_fd = -1};
    (void)pthread_mutex_lock(&s->lock);
    if (s->n_disks && bytes == s->o.disk_bytes) {
        d = s->disks[--s->n_disks];
    }
    (void)pthread_mutex_unlock(&s->lock);
    if (d.mount_fd < 0) {
        return disk_make(dir_fd, name, bytes, s->o.templates_fd, e);
    }
    char from[32];
    disk_name(d.number, from);
    if (renameat(s->o.spare_fd, from, dir_fd, name) < 0) {
        int r = errno;
        (void)close(d.mount_fd);
        return err_sys(e, r, "take a writable layer");
    }
    return d.mount_fd;
}
