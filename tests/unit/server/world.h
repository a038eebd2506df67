#pragma once
/* A store in a temporary directory, a fake runtime and a lifecycle on a loop that runs in a thread
 * of its own: what tests of lifecycle/ start and stop, also in the middle of something. */

#include <fcntl.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "fake_runtime.h"
#include "io/loop.h"
#include "server/lifecycle/lifecycle.h"

struct world {
    char dir[64];
    struct config *cfg;
    struct store *store;
    struct fake fake;
    struct io_loop *loop;
    pthread_t thread;
    struct lifecycle *lc;
};

static const struct caller me = {"o", "key-1", "req-1"};

static inline void *world_thread(void *arg)
{
    struct world *w = arg;
    lifecycle_start(w->lc);
    io_loop_run(w->loop);
    lifecycle_stop(w->lc);
    return NULL;
}

static inline void world_up(struct world *w)
{
    struct err e = {0};
    char path[96];
    (void)snprintf(path, sizeof(path), "%s/x.db", w->dir);
    w->store = store_open(path, &e);
    must(w->store);
    w->loop = io_loop_new();
    struct lifecycle_opts o = {w->cfg, w->store, &w->fake.rt, w->loop};
    w->lc = lifecycle_new(&o);
    must(lifecycle_recover(w->lc, &e) == 0);
    must(pthread_create(&w->thread, NULL, world_thread, w) == 0);
}

static inline void world_init(struct world *w, const char *config)
{
    struct err e = {0};
    *w = (struct world){.dir = "/tmp/osb-test-lc-XXXXXX"};
    log_init(LOG_ERROR, LOG_HUMAN, open("/dev/null", O_WRONLY | O_CLOEXEC));
    must(mkdtemp(w->dir));
    w->cfg = config_parse("t", str_from(config), NULL, &e);
    must(w->cfg);
    fake_init(&w->fake);
    world_up(w);
}

static inline void world_down(struct world *w)
{
    io_loop_stop(w->loop);
    (void)pthread_join(w->thread, NULL);
    lifecycle_free(w->lc);
    io_loop_free(w->loop);
    store_close(w->store);
}

static inline void world_done(struct world *w)
{
    world_down(w);
    config_unref(w->cfg);
    (void)dir_remove(AT_FDCWD, w->dir, true);
}

/* ---- creating ---- */
struct waiting {
    struct create_waiter w;
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool done;
    int status; /* 0: created */
    char code[64], id[SANDBOX_ID_MAX];
};

static inline void waiting_done(struct create_waiter *cw, struct sandbox *sb,
                                const struct problem *p)
{
    struct waiting *w = container_of(cw, struct waiting, w);
    (void)pthread_mutex_lock(&w->lock);
    w->status = sb ? 0 : p->status;
    (void)snprintf(w->code, sizeof(w->code), "%s", sb ? "" : p->code);
    (void)snprintf(w->id, sizeof(w->id), "%s", sb ? sb->id : "");
    w->done = true;
    (void)pthread_cond_signal(&w->cond);
    (void)pthread_mutex_unlock(&w->lock);
}

static inline void waiting_init(struct waiting *w)
{
    *w = (struct waiting){.w = {.done = waiting_done}};
    list_init(&w->w.node);
    (void)pthread_mutex_init(&w->lock, NULL);
    (void)pthread_cond_init(&w->cond, NULL);
}

static inline void waiting_wait(struct waiting *w)
{
    (void)pthread_mutex_lock(&w->lock);
    while (!w->done) {
        (void)pthread_cond_wait(&w->cond, &w->lock);
    }
    (void)pthread_mutex_unlock(&w->lock);
}

#define REQUEST "\"image\":{\"uri\":\"host\"},\"entrypoint\":[\"x\"],\"resourceLimits\":{}"

static inline int world_begin(struct world *w, const char *body, const char *key,
                              struct waiting *wt, struct problem *p)
{
    struct create_plan *plan = NULL;
    waiting_init(wt);
    *p = (struct problem){0};
    if (plan_build(str_from(body), w->cfg, &plan, p) < 0) {
        return -1;
    }
    return lifecycle_create(w->lc, &me, plan, key, &wt->w, p);
}

static inline void world_create(struct world *w, const char *body, const char *key,
                                char id[SANDBOX_ID_MAX])
{
    struct waiting wt;
    struct problem p;
    must(world_begin(w, body, key, &wt, &p) == 0);
    waiting_wait(&wt);
    must(wt.status == 0);
    (void)snprintf(id, SANDBOX_ID_MAX, "%s", wt.id);
}

/* "Running", ...; "" when there is none. */
static inline const char *world_state(struct world *w, const char *id)
{
    struct sandbox *sb = registry_get(lifecycle_registry(w->lc), "o", str_from(id));
    if (!sb) {
        return "";
    }
    registry_read(lifecycle_registry(w->lc));
    const char *s = sandbox_state_name(sb->state);
    registry_unlock(lifecycle_registry(w->lc));
    sandbox_unref(sb);
    return s;
}

/* Waits (at most 20 s) until the sandbox is in that state. */
static inline bool world_await(struct world *w, const char *id, const char *state)
{
    for (int i = 0; i < 4000; i++) {
        if (!strcmp(world_state(w, id), state)) {
            return true;
        }
        (void)usleep(5000);
    }
    return false;
}
