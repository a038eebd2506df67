/* One loop per core, each on its own thread. */

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include "base/must.h"
#include "io/loop.h"

struct member {
    struct io_loop *loop;
    pthread_t thread;
};

struct io_group {
    unsigned n;
    bool started;
    struct member members[];
};

static unsigned usable_cpus(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof(set), &set) != 0) {
        return 1;
    }
    int n = CPU_COUNT(&set);
    return n > 0 ? (unsigned)n : 1;
}

struct io_group *io_group_new(unsigned n_loops)
{
    unsigned n = n_loops ? n_loops : usable_cpus();
    struct io_group *g = xcalloc(1, sizeof(*g) + n * sizeof(struct member));

    g->n = n;
    for (unsigned i = 0; i < n; i++) {
        g->members[i].loop = io_loop_new();
    }
    return g;
}

unsigned io_group_len(const struct io_group *g)
{
    return g->n;
}

struct io_loop *io_group_loop(struct io_group *g, unsigned i)
{
    must(i < g->n);
    return g->members[i].loop;
}

static void *run(void *arg)
{
    io_loop_run(arg);
    return NULL;
}

void io_group_start(struct io_group *g)
{
    sigset_t all, old;

    must(!g->started);
    g->started = true;
    /* Signals are for the thread that started us: system calls here are not interrupted. */
    (void)sigfillset(&all);
    must(pthread_sigmask(SIG_SETMASK, &all, &old) == 0);
    for (unsigned i = 0; i < g->n; i++) {
        must(pthread_create(&g->members[i].thread, NULL, run, g->members[i].loop) == 0);
    }
    must(pthread_sigmask(SIG_SETMASK, &old, NULL) == 0);
}

void io_group_stop(struct io_group *g)
{
    if (!g->started) {
        return;
    }
    for (unsigned i = 0; i < g->n; i++) {
        io_loop_stop(g->members[i].loop);
    }
    for (unsigned i = 0; i < g->n; i++) {
        must(pthread_join(g->members[i].thread, NULL) == 0);
    }
    g->started = false;
}

void io_group_free(struct io_group *g)
{
    if (!g) {
        return;
    }
    io_group_stop(g);
    for (unsigned i = 0; i < g->n; i++) {
        io_loop_free(g->members[i].loop);
    }
    free(g);
}
