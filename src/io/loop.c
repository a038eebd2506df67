/* The event loop: libuv's, with our own way of posting, deferring and timing. */

#include "io/loop.h"

#include <sched.h>
#include <signal.h>

#include "base/must.h"
#include "io/internal.h"

struct io_post_item {
    struct io_post_item *next;
    io_fn *fn;
    void *arg;
};

struct deferred {
    struct io_task task;
    io_fn *fn;
    void *arg;
};

struct signal_watch {
    struct list node;
    uv_signal_t uv;
    void (*fn)(int signo, void *arg);
    void *arg;
};

static _Thread_local struct io_loop *current_loop;

/* ---- posting ---- */

/* The list is a stack; taking all of it and reversing gives the order of posting. */
static struct io_post_item *take_posted(struct io_loop *l)
{
    struct io_post_item *in = atomic_exchange_explicit(&l->posted, NULL, memory_order_acquire);
    struct io_post_item *out = NULL;

    while (in) {
        struct io_post_item *next = in->next;
        in->next = out;
        out = in;
        in = next;
    }
    return out;
}

static void run_posted(struct io_loop *l)
{
    struct io_post_item *it = take_posted(l);

    while (it) {
        struct io_post_item *next = it->next;
        io_fn *fn = it->fn;
        void *arg = it->arg;
        free(it);
        fn(arg);
        it = next;
    }
}

static void on_wake(uv_async_t *h)
{
    struct io_loop *l = h->data;

    run_posted(l);
    if (atomic_exchange(&l->stop, false)) {
        uv_stop(&l->uv);
    }
}

void io_post(struct io_loop *l, io_fn *fn, void *arg)
{
    struct io_post_item *it = NEW(struct io_post_item);
    struct io_post_item *head = atomic_load_explicit(&l->posted, memory_order_relaxed);

    it->fn = fn;
    it->arg = arg;
    do {
        it->next = head;
    } while (!atomic_compare_exchange_weak_explicit(&l->posted, &head, it, memory_order_release,
                                                    memory_order_relaxed));
    /* Only who finds the list empty has to wake the loop: it takes everything at once. `it` may be
     * gone already, `head` is our own copy. */
    if (!head) {
        (void)uv_async_send(&l->wake); /* fails only on a handle that is not an async */
    }
}

/* ---- tasks after the turn ---- */

static void on_idle(uv_idle_t *h)
{
    (void)h; /* its being active is its purpose */
}

static void run_tasks(struct io_loop *l)
{
    struct list now;

    if (list_empty(&l->tasks)) {
        return;
    }
    /* Tasks added from now on belong to the next turn. */
    list_init(&now);
    list_push_back(&l->tasks, &now);
    list_del(&l->tasks);
    struct list *n;
    while ((n = list_pop_front(&now))) {
        struct io_task *t = list_entry(n, struct io_task, node);
        t->fn(t);
    }
    if (list_empty(&l->tasks)) {
        (void)uv_idle_stop(&l->idle); /* always 0 */
    }
}

static void on_check(uv_check_t *h)
{
    run_tasks(h->data);
}

void loop_task_init(struct io_task *t, void (*fn)(struct io_task *t))
{
    list_init(&t->node);
    t->fn = fn;
}

void loop_task_add(struct io_loop *l, struct io_task *t)
{
    if (!list_empty(&t->node)) {
        return;
    }
    list_push_back(&l->tasks, &t->node);
    if (!l->freeing) {
        (void)uv_idle_start(&l->idle, on_idle); /* fails only without a callback */
    }
}

static void run_deferred(struct io_task *t)
{
    struct deferred *d = container_of(t, struct deferred, task);
    io_fn *fn = d->fn;
    void *arg = d->arg;

    free(d);
    fn(arg);
}

void io_defer(struct io_loop *l, io_fn *fn, void *arg)
{
    struct deferred *d = NEW(struct deferred);

    loop_task_init(&d->task, run_deferred);
    d->fn = fn;
    d->arg = arg;
    loop_task_add(l, &d->task);
}

/* ---- life ---- */

void io_loop_own(struct io_loop *l, struct io_owned *o, void (*fn)(struct io_owned *o))
{
    o->fn = fn;
    list_push_back(&l->owned, &o->node);
}

struct io_loop *io_loop_new(void)
{
    struct io_loop *l = NEW(struct io_loop);

    /* A peer that is gone is an error code of write(2) here, never the end of the process. */
    (void)signal(SIGPIPE, SIG_IGN);
    must(uv_loop_init(&l->uv) == 0);
    l->uv.data = l;
    list_init(&l->tasks);
    list_init(&l->owned);
    list_init(&l->signals);
    atomic_init(&l->posted, NULL);
    atomic_init(&l->stop, false);
    must(uv_async_init(&l->uv, &l->wake, on_wake) == 0);
    must(uv_idle_init(&l->uv, &l->idle) == 0);
    must(uv_check_init(&l->uv, &l->check) == 0);
    l->wake.data = l->check.data = l;
    must(uv_check_start(&l->check, on_check) == 0);
    timers_init(l);
    return l;
}

static void on_signal_closed(uv_handle_t *h)
{
    free(container_of(h, struct signal_watch, uv));
}

static void close_handle(uv_handle_t *h, void *arg)
{
    struct io_loop *l = arg;

    if (uv_is_closing(h)) {
        return;
    }
    if (h->type == UV_SIGNAL) {
        uv_close(h, on_signal_closed);
    } else if (h->type == UV_POLL) {
        io_stream_close(h->data); /* listeners and the like are gone: only streams have polls now */
    } else if (h != (uv_handle_t *)&l->wake) {
        uv_close(h, NULL);
    }
}

void io_loop_free(struct io_loop *l)
{
    struct list *n;

    if (!l) {
        return;
    }
    must(!l->running);
    struct io_loop *before = current_loop;
    current_loop = l;
    l->freeing = true;
    /* What was handed to the loop owns memory: run it, so that it can let go. */
    while (atomic_load(&l->posted) || !list_empty(&l->tasks)) {
        run_posted(l);
        run_tasks(l);
    }
    while ((n = list_first(&l->owned))) {
        struct io_owned *o = list_entry(n, struct io_owned, node);
        list_del(n);
        o->fn(o);
    }
    uv_walk(&l->uv, close_handle, l);
    uv_close((uv_handle_t *)&l->wake, NULL);
    (void)uv_run(&l->uv, UV_RUN_DEFAULT);
    must(list_empty(&l->tasks));
    timers_done(l);
    while (l->n_pipes > 0) {
        l->n_pipes--;
        (void)close(l->pipes[l->n_pipes][0]);
        (void)close(l->pipes[l->n_pipes][1]);
    }
    free(l->scratch);
    must(uv_loop_close(&l->uv) == 0);
    current_loop = before;
    free(l);
}

void io_loop_run(struct io_loop *l)
{
    struct io_loop *before = current_loop;

    must(!l->running);
    l->running = true;
    current_loop = l;
    (void)uv_run(&l->uv, UV_RUN_DEFAULT);
    current_loop = before;
    l->running = false;
}

void io_loop_stop(struct io_loop *l)
{
    atomic_store(&l->stop, true);
    (void)uv_async_send(&l->wake);
}

void io_loop_turn(struct io_loop *l, bool wait)
{
    struct io_loop *before = current_loop;

    must(!l->running);
    l->running = true;
    current_loop = l;
    (void)uv_run(&l->uv, wait ? UV_RUN_ONCE : UV_RUN_NOWAIT);
    current_loop = before;
    l->running = false;
}

struct io_loop *io_loop_current(void)
{
    return current_loop;
}

/* ---- time ---- */

uint64_t io_now_ms(struct io_loop *l)
{
    if (l->fake_ms) {
        return l->fake_ms;
    }
    if (!l->running) {
        uv_update_time(&l->uv); /* the cached time is as old as the last turn */
    }
    return uv_now(&l->uv) + 1; /* never 0: that means "not armed" */
}

void io_clock_fake(struct io_loop *l)
{
    l->fake_ms = io_now_ms(l);
    timers_stop_clock(l);
}

void io_clock_advance(struct io_loop *l, uint64_t ms)
{
    struct io_loop *before = current_loop;

    must(l->fake_ms);
    current_loop = l;
    timers_advance(l, ms);
    current_loop = before;
}

/* ---- signals ---- */

static void on_signal(uv_signal_t *h, int signo)
{
    struct signal_watch *w = container_of(h, struct signal_watch, uv);

    w->fn(signo, w->arg);
}

void io_signal_watch(struct io_loop *l, int signo, void (*fn)(int signo, void *arg), void *arg)
{
    struct signal_watch *w = NEW(struct signal_watch);

    w->fn = fn;
    w->arg = arg;
    must(uv_signal_init(&l->uv, &w->uv) == 0);
    must(uv_signal_start(&w->uv, on_signal, signo) == 0);
}
