/* Interrupting a command: SIGTERM, a grace time, SIGKILL; the answer comes when its group is gone.
 */

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/must.h"
#include "execd/command.h"
#include "execd/limits.h"
#include "execd/reply.h"

/* How often the group is looked for. Its leader's end is an event, but that of the others is not.
 */
#define LOOK_MS 10u
#define LOOKS_AFTER_KILL 15

struct interrupt {
    struct list node;
    struct execd *x;
    struct http_req *req; /* NULL: the client has left; the escalation goes on */
    pid_t pgid;
    uint64_t kill_at_ms;
    unsigned looks_left; /* after SIGKILL */
    bool killed;
    struct io_timer timer;
};

static void interrupt_free(struct interrupt *in)
{
    io_timer_stop(&in->timer);
    list_del(&in->node);
    free(in);
}

void command_interrupts_free(struct command_table *t)
{
    while (!list_empty(&t->interrupts)) {
        interrupt_free(list_entry(list_first(&t->interrupts), struct interrupt, node));
    }
}

static void finish(struct interrupt *in)
{
    struct http_req *req = in->req;
    interrupt_free(in);
    if (req) {
        http_req_on_end(req, NULL, NULL);
        reply_empty(req);
    }
}

static void look(struct interrupt *in)
{
    if (kill(-in->pgid, 0) < 0 && errno == ESRCH) {
        finish(in);
        return;
    }
    if (!in->killed && clock_mono_ms() >= in->kill_at_ms) {
        in->killed = true;
        in->looks_left = LOOKS_AFTER_KILL;
        (void)kill(-in->pgid,
                   SIGKILL); /* looked at a moment ago: the number is still the group's */
    } else if (in->killed && in->looks_left-- == 0) {
        finish(in); /* a zombie that its parent does not reap keeps the group visible */
        return;
    }
    io_timer_start(&in->timer, LOOK_MS);
}

static void on_look(struct io_timer *t)
{
    look(container_of(t, struct interrupt, timer));
}

static void on_req_end(struct http_req *req, bool completed, void *arg)
{
    struct interrupt *in = arg;
    in->req = NULL;
}

void command_interrupt(struct command *c, struct http_req *req)
{
    if (!c->running || !c->job || job_signal(c->job, SIGTERM) < 0) {
        reply_error(req, 500, CODE_RUNTIME_ERROR,
                    "error interruptting code context. command session %s is not running", c->id);
        return;
    }
    struct interrupt *in = NEW(struct interrupt);
    in->x = c->x;
    list_push_back(&c->x->commands->interrupts, &in->node);
    in->req = req;
    in->pgid = job_pgid(c->job);
    in->kill_at_ms = clock_mono_ms() + EXECD_INTERRUPT_GRACE_MS;
    http_req_on_end(req, on_req_end, in);
    io_timer_init(&in->timer, c->x->loop, on_look);
    io_timer_start(&in->timer, 1);
}
