/* The table of terminal sessions. */

#include "execd/pty.h"

#include <signal.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/must.h"
#include "execd/limits.h"

#define SWEEP_MS (60u * 1000)

void pty_free(struct pty *p)
{
    if (!p->deleted) {
        (void)map_del(&p->x->ptys->by_id, str_from(p->id));
    }
    list_del(&p->node);
    if (p->client) {
        ws_abort(take_ptr(&p->client));
    }
    io_timer_stop(&p->stuck);
    pty_process_done(p);
    ring_done(&p->ring);
    free(p->cwd);
    free(p->command);
    free(p);
}

void pty_maybe_free(struct pty *p)
{
    if (!p->child && !p->client) {
        p->idle_since_ms = clock_mono_ms();
        if (p->deleted) {
            pty_free(p);
        }
    }
}

/* Sessions whose process has ended, or never started, and that nobody looks at. */
static void on_sweep(struct io_timer *timer)
{
    struct pty_table *t = container_of(timer, struct pty_table, sweep);
    uint64_t now = clock_mono_ms();
    list_each (it, &t->all) {
        struct pty *p = list_entry(it, struct pty, node);
        if (!p->child && !p->client && now - p->idle_since_ms >= EXECD_PTY_TTL_MS) {
            pty_free(p);
        }
    }
    if (!list_empty(&t->all)) {
        io_timer_start(&t->sweep, SWEEP_MS);
    }
}

struct pty_table *pty_table_new(struct execd *x)
{
    struct pty_table *t = NEW(struct pty_table);
    t->x = x;
    list_init(&t->all);
    io_timer_init(&t->sweep, x->loop, on_sweep);
    return t;
}

void pty_table_free(struct pty_table *t)
{
    if (!t) {
        return;
    }
    io_timer_stop(&t->sweep);
    while (!list_empty(&t->all)) {
        pty_free(list_entry(list_first(&t->all), struct pty, node));
    }
    map_done(&t->by_id);
    free(t);
}

struct pty *pty_find(struct execd *x, struct str id)
{
    return id.n ? map_get(&x->ptys->by_id, id) : NULL;
}

struct pty *pty_new(struct execd *x, const char *cwd, const char *command, struct err *e)
{
    struct pty_table *t = x->ptys;
    if (map_len(&t->by_id) >= EXECD_MAX_PTYS) {
        err_set(e, ERR_LIMIT, "there are %d pty sessions already; delete some", EXECD_MAX_PTYS);
        return NULL;
    }
    struct pty *p = NEW(struct pty);
    p->x = x;
    rand_uuid(p->id);
    p->cwd = cwd ? xstrdup(cwd) : NULL;
    p->command = command && *command ? xstrdup(command) : NULL;
    ring_init(&p->ring, EXECD_PTY_RING);
    pty_process_init(p);
    pty_client_init(p);
    p->idle_since_ms = clock_mono_ms();
    list_push_back(&t->all, &p->node);
    (void)map_put(&t->by_id, str_from(p->id), p);
    if (!io_timer_armed(&t->sweep)) {
        io_timer_start(&t->sweep, SWEEP_MS);
    }
    return p;
}

void pty_delete(struct pty *p)
{
    (void)map_del(&p->x->ptys->by_id, str_from(p->id));
    p->deleted = true;
    if (p->child) {
        pty_signal(p, SIGKILL); /* its end tells the client and frees the rest */
    } else if (p->client) {
        pty_client_drop(p, 1000, STR("session deleted"));
    } else {
        pty_free(p);
    }
}

size_t pty_signal_all(struct execd *x, int signo)
{
    size_t n = 0;
    list_each (it, &x->ptys->all) {
        struct pty *p = list_entry(it, struct pty, node);
        if (!p->child) {
            continue;
        }
        n++;
        if (signo) {
            pty_signal(p, signo);
        }
    }
    return n;
}
