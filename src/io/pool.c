/* Worker threads behind a bounded queue, which grows towards its limit as it is needed. */

#include "io/pool.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include "base/must.h"
#include "io/limits.h"

struct job {
    io_fn *fn;
    void *arg;
};

struct io_pool {
    pthread_mutex_t mu;
    pthread_cond_t more;
    struct job *ring; /* cap slots */
    size_t max, cap, head, n;
    unsigned n_busy, n_started, n_threads;
    bool closing;
    char name[16];
    pthread_t threads[];
};

static void *work(void *arg)
{
    struct io_pool *p = arg;

    (void)pthread_setname_np(pthread_self(), p->name); /* cosmetic */
    must(pthread_mutex_lock(&p->mu) == 0);
    for (;;) {
        while (p->n == 0 && !p->closing) {
            must(pthread_cond_wait(&p->more, &p->mu) == 0);
        }
        if (p->n == 0) {
            break;
        }
        struct job j = p->ring[p->head];
        p->head = (p->head + 1) % p->cap;
        p->n--;
        p->n_busy++;
        must(pthread_mutex_unlock(&p->mu) == 0);
        j.fn(j.arg);
        must(pthread_mutex_lock(&p->mu) == 0);
        p->n_busy--;
    }
    must(pthread_mutex_unlock(&p->mu) == 0);
    return NULL;
}

/* A thread more, if there may be one. Without the first the pool would be dead; any later one that
 * the system refuses only makes it slower. */
static void start_thread(struct io_pool *p)
{
    sigset_t all, old;

    if (p->n_started == p->n_threads) {
        return;
    }
    /* Blocking work is not to be interrupted by signals that a loop watches. */
    (void)sigfillset(&all);
    must(pthread_sigmask(SIG_SETMASK, &all, &old) == 0);
    int r = pthread_create(&p->threads[p->n_started], NULL, work, p);
    must(pthread_sigmask(SIG_SETMASK, &old, NULL) == 0);
    must(r == 0 || p->n_started > 0);
    p->n_started += r == 0;
}

struct io_pool *io_pool_new_rare(const char *name, unsigned n_threads, size_t max_queued)
{
    must(n_threads > 0 && max_queued > 0);
    struct io_pool *p = xcalloc(1, sizeof(*p) + n_threads * sizeof(pthread_t));
    p->max = max_queued;
    p->n_threads = n_threads;
    (void)snprintf(p->name, sizeof(p->name), "%s", name); /* cut to the kernel's 15 characters */
    must(pthread_mutex_init(&p->mu, NULL) == 0);
    must(pthread_cond_init(&p->more, NULL) == 0);
    start_thread(p);
    return p;
}

struct io_pool *io_pool_new(const char *name, unsigned n_threads, size_t max_queued)
{
    struct io_pool *p = io_pool_new_rare(name, n_threads, max_queued);

    must(pthread_mutex_lock(&p->mu) == 0);
    while (p->n_started < n_threads) {
        unsigned n = p->n_started;
        start_thread(p);
        must(p->n_started > n);
    }
    must(pthread_mutex_unlock(&p->mu) == 0);
    return p;
}

void io_pool_free(struct io_pool *p)
{
    if (!p) {
        return;
    }
    must(pthread_mutex_lock(&p->mu) == 0);
    p->closing = true;
    must(pthread_cond_broadcast(&p->more) == 0);
    must(pthread_mutex_unlock(&p->mu) == 0);
    for (unsigned i = 0; i < p->n_started; i++) {
        must(pthread_join(p->threads[i], NULL) == 0);
    }
    (void)pthread_cond_destroy(&p->more);
    (void)pthread_mutex_destroy(&p->mu);
    free(p->ring);
    free(p);
}

static void grow(struct io_pool *p)
{
    size_t cap = MIN(p->max, p->cap ? p->cap * 2 : IO_POOL_RING);
    struct job *ring = xcalloc(cap, sizeof(*ring));

    for (size_t i = 0; i < p->n; i++) {
        ring[i] = p->ring[(p->head + i) % p->cap];
    }
    free(p->ring);
    p->ring = ring;
    p->cap = cap;
    p->head = 0;
}

int io_pool_submit(struct io_pool *p, io_fn *fn, void *arg)
{
    int r = 0;

    must(pthread_mutex_lock(&p->mu) == 0);
    if (p->closing) {
        r = -ESHUTDOWN;
    } else if (p->n == p->max) {
        r = -EAGAIN;
    } else {
        if (p->n == p->cap) {
            grow(p);
        }
        p->ring[(p->head + p->n) % p->cap] = (struct job){fn, arg};
        p->n++;
        if (p->n > p->n_started - p->n_busy) {
            start_thread(p);
        }
        must(pthread_cond_signal(&p->more) == 0);
    }
    must(pthread_mutex_unlock(&p->mu) == 0);
    return r;
}

size_t io_pool_queued(struct io_pool *p)
{
    must(pthread_mutex_lock(&p->mu) == 0);
    size_t n = p->n;
    must(pthread_mutex_unlock(&p->mu) == 0);
    return n;
}

unsigned io_pool_busy(struct io_pool *p)
{
    must(pthread_mutex_lock(&p->mu) == 0);
    unsigned n = p->n_busy;
    must(pthread_mutex_unlock(&p->mu) == 0);
    return n;
}
