/* Ordered shutdown. */

#include "execd/stop.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "base/log.h"
#include "base/must.h"
#include "execd/code/context.h"
#include "execd/command.h"
#include "execd/limits.h"
#include "execd/notify.h"
#include "execd/pty.h"
#include "execd/session.h"
#include "execd/telemetry.h"

/* Ends of processes are not all events here (background ones, those of init): they are counted. */
#define LOOK_MS 10u

/* As PID 1 everybody is ours, also what has left its group and its parent behind. */
static size_t signal_namespace(struct execd *x, int signo)
{
    if (signo == SIGTERM) {
        (void)pty_signal_all(x, SIGHUP); /* interactive shells ignore SIGTERM */
    }
    return kill(-1, signo) == 0 ? 1 : 0;
}

/* Sends `signo` (0: none) to everything that runs. Returns how much that is. */
static size_t signal_all(struct execd *x, int signo)
{
    if (getpid() == 1) {
        return signal_namespace(x, signo);
    }
    size_t n = command_signal_all(x, signo) + session_signal_all(x, signo) +
               pty_signal_all(x, signo) + code_signal_all(x, signo);
    if (signo == SIGTERM) {
        (void)pty_signal_all(x, SIGHUP);
    }
    return n + (x->signal_others ? x->signal_others(x, signo) : 0);
}

static void look(struct execd *x)
{
    uint64_t now = io_now_ms(x->loop);
    size_t n = signal_all(x, 0);
    if ((n == 0 && x->drained) || now >= x->stop_last_ms) {
        io_loop_stop(x->loop);
        return;
    }
    if (n && !x->stop_killed && now >= x->stop_kill_ms) {
        x->stop_killed = true;
        log_warn("killing what did not end", LOG_I("n", n));
        (void)signal_all(x, SIGKILL);
    }
    io_timer_start(&x->stop_timer, LOOK_MS);
}

static void on_timer(struct io_timer *t)
{
    look(container_of(t, struct execd, stop_timer));
}

static void on_drained(void *arg)
{
    struct execd *x = arg;
    x->drained = true;
}

void execd_stop_init(struct execd *x)
{
    list_init(&x->stop_hooks);
    io_timer_init(&x->stop_timer, x->loop, on_timer);
}

void execd_stop(struct execd *x)
{
    if (x->stopping) {
        return;
    }
    x->stopping = true;
    uint64_t now = io_now_ms(x->loop);
    x->stop_kill_ms = now + (uint64_t)x->cfg.stop_grace_ms;
    x->stop_last_ms = x->stop_kill_ms + EXECD_STOP_LAST_MS;
    log_info("stopping");
    notify_stopping(x->cfg.notify_fd);
    telemetry_flush(x->telemetry);
    list_each (it, &x->stop_hooks) {
        struct stop_hook *hook = list_entry(it, struct stop_hook, node);
        list_del(&hook->node);
        hook->fn(hook);
    }
    (void)signal_all(x, SIGTERM);
    http_server_drain(x->http, on_drained, x);
    io_timer_start(&x->stop_timer, LOOK_MS);
}
