#pragma once
/* A runtime that runs nothing: remembers ids and states, can be told to fail, to be slow, to end a
 * sandbox. Only for unit tests of lifecycle/. */

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "server/runtime/runtime.h"

#define FAKE_MAX 64

struct fake {
    struct runtime rt;
    pthread_mutex_t lock;
    pthread_cond_t cond;
    struct {
        char id[SANDBOX_ID_MAX];
        struct runtime_status st;
    } v[FAKE_MAX];
    size_t n;
    int n_created, n_removed, n_removing, n_waiting;
    bool hold; /* creates wait until it is false */
    bool fail_create, fail_remove, fail_pause;
    enum runtime_stage fail_stage;
};

static inline struct fake *fake_of(struct runtime *rt)
{
    return container_of(rt, struct fake, rt);
}

static inline int fake_find(struct fake *f, const char *id)
{
    for (size_t i = 0; i < f->n; i++) {
        if (!strcmp(f->v[i].id, id)) {
            return (int)i;
        }
    }
    return -1;
}

static inline void fake_add(struct fake *f, const char *id, enum runtime_state state)
{
    int i = fake_find(f, id);
    if (i < 0) {
        i = (int)f->n++;
    }
    must(f->n <= FAKE_MAX);
    (void)str_to_cstr(str_from(id), f->v[i].id, SANDBOX_ID_MAX);
    f->v[i].st = (struct runtime_status){.state = state};
}

static inline int fake_create(struct runtime *rt, const struct runtime_spec *spec,
                              enum runtime_stage *stage, struct err *e)
{
    struct fake *f = fake_of(rt);
    int r = 0;
    (void)pthread_mutex_lock(&f->lock);
    f->n_waiting++;
    (void)pthread_cond_broadcast(&f->cond);
    while (f->hold && spec->progress("waiting", 0, 0, spec->progress_arg)) {
        struct timespec ts;
        (void)clock_gettime(CLOCK_REALTIME, &ts);
        ts.tv_nsec += 5000000;
        if (ts.tv_nsec >= 1000000000) {
            ts.tv_nsec -= 1000000000;
            ts.tv_sec++;
        }
        (void)pthread_cond_timedwait(&f->cond, &f->lock, &ts);
    }
    f->n_waiting--;
    if (f->hold) {
        r = err_set(e, ERR_CONFLICT, "cancelled");
    } else if (f->fail_create) {
        *stage = f->fail_stage;
        r = err_set(e, ERR_IO, "it does not start");
    } else {
        fake_add(f, spec->id, RT_RUNNING);
        f->n_created++;
    }
    (void)pthread_mutex_unlock(&f->lock);
    return r;
}

static inline int fake_remove(struct runtime *rt, const char *id, struct err *e)
{
    struct fake *f = fake_of(rt);
    int r = 0;
    (void)pthread_mutex_lock(&f->lock);
    int i = fake_find(f, id);
    if (f->fail_remove) {
        r = err_set(e, ERR_IO, "it does not go away");
    } else if (i >= 0) {
        f->v[i] = f->v[--f->n];
        f->n_removed++;
    }
    (void)pthread_mutex_unlock(&f->lock);
    return r;
}

static inline int fake_set(struct runtime *rt, const char *id, enum runtime_state from,
                           enum runtime_state to, struct err *e)
{
    struct fake *f = fake_of(rt);
    (void)pthread_mutex_lock(&f->lock);
    int i = fake_find(f, id);
    int r = f->fail_pause || i < 0 || f->v[i].st.state != from
                ? err_set(e, ERR_IO, "the freezer is stuck")
                : 0;
    if (r == 0) {
        f->v[i].st.state = to;
    }
    (void)pthread_mutex_unlock(&f->lock);
    return r;
}

static inline int fake_pause(struct runtime *rt, const char *id, struct err *e)
{
    return fake_set(rt, id, RT_RUNNING, RT_PAUSED, e);
}

static inline int fake_resume(struct runtime *rt, const char *id, struct err *e)
{
    return fake_set(rt, id, RT_PAUSED, RT_RUNNING, e);
}

static inline int fake_inspect(struct runtime *rt, const char *id, struct runtime_status *ret,
                               struct err *e)
{
    struct fake *f = fake_of(rt);
    (void)pthread_mutex_lock(&f->lock);
    int i = fake_find(f, id);
    *ret = i < 0 ? (struct runtime_status){.state = RT_MISSING} : f->v[i].st;
    (void)pthread_mutex_unlock(&f->lock);
    return 0;
}

static inline int fake_list(struct runtime *rt,
                            void (*fn)(const char *, const struct runtime_status *, void *),
                            void *arg, struct err *e)
{
    struct fake *f = fake_of(rt);
    (void)pthread_mutex_lock(&f->lock);
    for (size_t i = 0; i < f->n; i++) {
        fn(f->v[i].id, &f->v[i].st, arg);
    }
    (void)pthread_mutex_unlock(&f->lock);
    return 0;
}

static inline int fake_adopt(struct runtime *rt, struct err *e)
{
    return 0;
}

static inline int fake_check(struct runtime *rt, const struct runtime_spec *spec, struct err *e)
{
    return spec->limits.gpus ? err_set(e, ERR_UNSUPPORTED, "no gpu here") : 0;
}

static inline int fake_sweep(struct runtime *rt, bool (*is_known)(const char *, void *), void *arg,
                             struct err *e)
{
    struct fake *f = fake_of(rt);
    int n = 0;
    (void)pthread_mutex_lock(&f->lock);
    for (size_t i = 0; i < f->n;) {
        if (is_known(f->v[i].id, arg)) {
            i++;
        } else {
            f->v[i] = f->v[--f->n];
            n++;
        }
    }
    (void)pthread_mutex_unlock(&f->lock);
    return n;
}

static const struct runtime_ops fake_ops = {
    .name = "fake",
    .create = fake_create,
    .remove = fake_remove,
    .pause = fake_pause,
    .resume = fake_resume,
    .inspect = fake_inspect,
    .list = fake_list,
    .adopt = fake_adopt,
    .check = fake_check,
    .sweep = fake_sweep,
};

static inline void fake_init(struct fake *f)
{
    *f = (struct fake){.rt = {.ops = &fake_ops}};
    (void)pthread_mutex_init(&f->lock, NULL);
    (void)pthread_cond_init(&f->cond, NULL);
}

static inline void fake_release(struct fake *f)
{
    (void)pthread_mutex_lock(&f->lock);
    f->hold = false;
    (void)pthread_cond_broadcast(&f->cond);
    (void)pthread_mutex_unlock(&f->lock);
}

/* Blocks until n creates have begun and wait. */
static inline void fake_await_waiting(struct fake *f, int n)
{
    (void)pthread_mutex_lock(&f->lock);
    while (f->n_waiting < n) {
        (void)pthread_cond_wait(&f->cond, &f->lock);
    }
    (void)pthread_mutex_unlock(&f->lock);
}

static inline size_t fake_len(struct fake *f)
{
    (void)pthread_mutex_lock(&f->lock);
    size_t n = f->n;
    (void)pthread_mutex_unlock(&f->lock);
    return n;
}
