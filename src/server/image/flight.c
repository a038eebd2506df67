/* Who is fetching what, and what is in use. */

#include <errno.h>
#include <time.h>

#include "base/clock.h"
#include "base/must.h"
#include "server/image/internal.h"
#include "server/image/limits.h"

/* ---- flights ---- */

/* Lives until the last one that waits for it has seen how it ended. */
struct flight {
    struct list node;
    char *key;
    unsigned refs;
    bool ended, failed, share;
    struct err e;
    const char *what; /* a literal */
    uint64_t done, total;
};

static struct flight *flight_find(struct image_store *s, const char *key)
{
    list_each (it, &s->flights) {
        struct flight *f = list_entry(it, struct flight, node);
        if (strcmp(f->key, key) == 0) {
            return f;
        }
    }
    return NULL;
}

static void flight_unref(struct flight *f)
{
    if (--f->refs == 0) {
        free(f->key);
        free(f);
    }
}

static void wait_a_while(struct image_store *s)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)IMAGE_WATCH_MS * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    (void)pthread_cond_timedwait(&s->settled, &s->lock, &until);
}

/* With the lock held, which it lets go of while `w` is told. */
static bool flight_wait(struct image_store *s, struct flight *f, const struct flight_watch *w)
{
    bool stay = true;
    while (!f->ended && stay) {
        if (!w || !w->fn) {
            (void)pthread_cond_wait(&s->settled, &s->lock);
            continue;
        }
        const char *what = f->what;
        uint64_t done = f->done, total = f->total;
        (void)pthread_mutex_unlock(&s->lock);
        stay = w->fn(what, done, total, w->arg);
        (void)pthread_mutex_lock(&s->lock);
        if (stay && !f->ended) {
            wait_a_while(s);
        }
    }
    return f->ended;
}

enum flight_end flight_begin(struct image_store *s, const char *key, const struct flight_watch *w,
                             struct err *e)
{
    enum flight_end end = FLIGHT_MINE;
    (void)pthread_mutex_lock(&s->lock);
    struct flight *f = flight_find(s, key);
    if (!f) {
        f = NEW(struct flight);
        f->key = xstrdup(key);
        f->refs = 1;
        f->what = "waiting";
        list_push_back(&s->flights, &f->node);
    } else {
        f->refs++;
        if (!flight_wait(s, f, w)) {
            end = FLIGHT_LEFT;
            (void)err_sys(e, ECANCELED, "waiting for an image");
        } else if (f->failed && f->share) {
            end = FLIGHT_FAILED;
            *e = f->e;
        } else {
            end = FLIGHT_DONE;
        }
        flight_unref(f);
    }
    (void)pthread_mutex_unlock(&s->lock);
    return end;
}

void flight_report(struct image_store *s, const char *key, const char *what, uint64_t done,
                   uint64_t total)
{
    (void)pthread_mutex_lock(&s->lock);
    struct flight *f = flight_find(s, key);
    if (f) {
        f->what = what;
        f->done = done;
        f->total = total;
    }
    (void)pthread_mutex_unlock(&s->lock);
}

void flight_end(struct image_store *s, const char *key, const struct err *e, bool share)
{
    (void)pthread_mutex_lock(&s->lock);
    struct flight *f = flight_find(s, key);
    if (!bug_if(!f)) {
        list_del(&f->node);
        f->ended = true;
        f->failed = e != NULL;
        f->share = share;
        if (e) {
            f->e = *e;
        }
        flight_unref(f);
    }
    (void)pthread_cond_broadcast(&s->settled);
    (void)pthread_mutex_unlock(&s->lock);
}

void store_adding(struct image_store *s, int change)
{
    (void)pthread_mutex_lock(&s->lock);
    s->n_adding += (unsigned)change;
    (void)pthread_mutex_unlock(&s->lock);
}

/* ---- pins ---- */

struct pin {
    unsigned n;
};

static void pin(struct image_store *s, const char *layer_id)
{
    struct pin *p = map_get(&s->pins, str_from(layer_id));
    if (!p) {
        p = NEW(struct pin);
        (void)map_put(&s->pins, str_from(layer_id), p);
    }
    p->n++;
}

static void unpin(struct image_store *s, const char *layer_id)
{
    struct pin *p = map_get(&s->pins, str_from(layer_id));
    if (!bug_if(!p) && --p->n == 0) {
        (void)map_del(&s->pins, str_from(layer_id));
        free(p);
    }
}

void image_store_pin(struct image_store *s, const char *layer_id)
{
    (void)pthread_mutex_lock(&s->lock);
    pin(s, layer_id);
    (void)pthread_mutex_unlock(&s->lock);
}

void image_store_unpin(struct image_store *s, const char *layer_id)
{
    (void)pthread_mutex_lock(&s->lock);
    unpin(s, layer_id);
    (void)pthread_mutex_unlock(&s->lock);
}

bool image_store_pin_image(struct image_store *s, const struct image *img)
{
    /* Removal looks at the pins and moves layers away under the same lock. */
    bool all = true;
    (void)pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < img->n_layers; i++) {
        all = all && image_store_has_layer(s, img->layers[i].id);
    }
    for (size_t i = 0; all && i < img->n_layers; i++) {
        pin(s, img->layers[i].id);
    }
    (void)pthread_mutex_unlock(&s->lock);
    return all;
}

void image_store_unpin_image(struct image_store *s, const struct image *img)
{
    (void)pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < img->n_layers; i++) {
        unpin(s, img->layers[i].id);
    }
    (void)pthread_mutex_unlock(&s->lock);
}

bool image_store_is_pinned(struct image_store *s, const struct image *img)
{
    bool found = false;
    (void)pthread_mutex_lock(&s->lock);
    for (size_t i = 0; !found && i < img->n_layers; i++) {
        found = map_get(&s->pins, str_from(img->layers[i].id)) != NULL;
    }
    (void)pthread_mutex_unlock(&s->lock);
    return found;
}
