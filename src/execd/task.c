#include "execd/task.h"

#include <errno.h>

static void on_loop(void *arg)
{
    struct task *t = arg;
    t->done(t);
}

static void in_worker(void *arg)
{
    struct task *t = arg;
    t->work(t);
    io_post(t->loop, on_loop, t);
}

int task_start(struct io_pool *p, struct task *t)
{
    return p ? io_pool_submit(p, in_worker, t) : -ESHUTDOWN;
}

void task_start_always(struct io_pool *p, struct task *t)
{
    if (task_start(p, t) < 0) {
        in_worker(t);
    }
}
