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
#include "server/runtime/oci/limits.h"

struct spare_userns {
    uint32_t range;
    int fd;
};

struct spare_home {
    unsigned number; /* its name below spare_fd */
    struct home home;
};

struct spares {
    struct spare_opts o;
    pthread_t thread;
    bool started, stop, wake;
    pthread_mutex_t lock;
    pthread_cond_t cond;
    struct spare_userns userns[OCI_SPARE_USERNS];
    unsigned n_userns, want_userns;
    struct spare_home homes[OCI_SPARE_HOMES];
    unsigned n_homes, want_homes, next_home;
};

#define TEND_INTERVAL_S 2 /* for what only time brings: namespaces that have rested */

static void home_name(unsigned number, char out[16])
{
    (void)snprintf(out, 16, "%u", number);
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

static bool tend_home(struct spares *s)
{
    char name[16];
    struct err e = {0};
    (void)pthread_mutex_lock(&s->lock);
    bool more = s->n_homes < s->want_homes;
    struct spare_home h = {.number = s->next_home++};
    (void)pthread_mutex_unlock(&s->lock);
    if (!more) {
        return false;
    }
    home_name(h.number, name);
    if (home_make(s->o.spare_fd, name, s->o.disk_bytes, s->o.templates_fd, &h.home, &e) < 0) {
        log_debug("no home for the pool", LOG_ERR(&e));
        (void)dir_remove(s->o.spare_fd, name, true);
        return false;
    }
    (void)pthread_mutex_lock(&s->lock);
    s->homes[s->n_homes++] = h;
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
        busy = tend_home(s) || busy;
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
    s->want_homes = MIN(o->pool, OCI_SPARE_HOMES);
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
    for (unsigned i = 0; i < s->n_homes; i++) {
        char name[16];
        home_name(s->homes[i].number, name);
        home_close(&s->homes[i].home);
        (void)dir_remove(s->o.spare_fd, name, true);
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

int spares_take_home(struct spares *s, uint64_t disk_bytes, int at_fd, const char *name,
                     struct home *ret, struct err *e)
{
    struct spare_home h = {.home = HOME_NONE};
    (void)pthread_mutex_lock(&s->lock);
    if (s->n_homes && disk_bytes == s->o.disk_bytes) {
        h = s->homes[--s->n_homes];
    }
    (void)pthread_mutex_unlock(&s->lock);
    if (h.home.dir_fd < 0) {
        return home_make(at_fd, name, disk_bytes, s->o.templates_fd, ret, e);
    }
    char from[16];
    home_name(h.number, from);
    if (renameat(s->o.spare_fd, from, at_fd, name) < 0) {
        int r = errno;
        home_close(&h.home);
        return err_sys(e, r, "take a home for %s", name);
    }
    *ret = h.home;
    return 0;
}
