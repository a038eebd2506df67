/* Keeping the sidecar alive. */

#include "egress/guard.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/must.h"
#include "egress/detach.h"
#include "egress/slim.h"
#include "egress/vault/keep.h"
#include "io/child.h"
#include "io/timer.h"

struct guard {
    struct io_loop *loop;
    struct io_child *child;
    struct io_timer timer; /* the pause before a start, or the grace before a kill */
    int keep_fd;
    unsigned n_starts;
    uint64_t pause_ms, started_ms;
    bool stopping;
    int status;
};

static void launch(struct guard *g);

static void on_end(struct io_child *c, const struct io_child_status *st, void *arg)
{
    struct guard *g = arg;
    uint64_t up_ms = clock_mono_ms() - g->started_ms;

    io_child_free(c);
    g->child = NULL;
    io_timer_stop(&g->timer);
    bool failed = st->end == IO_CHILD_EXITED && st->code != 0;
    if (g->stopping) { /* an end that nobody asked us for is none, however orderly it was */
        io_loop_stop(g->loop);
        return;
    }
    if (failed && g->n_starts == 1 && up_ms < GUARD_STABLE_MS) {
        g->status = st->code; /* a configuration that cannot work: say so instead of trying on */
        io_loop_stop(g->loop);
        return;
    }
    g->pause_ms = up_ms >= GUARD_STABLE_MS || g->pause_ms == 0
                      ? GUARD_PAUSE_MIN_MS
                      : MIN(g->pause_ms * 2, GUARD_PAUSE_MAX_MS);
    log_error("the sidecar died; everything is closed until it is back",
              LOG_I("signal", st->end == IO_CHILD_EXITED ? 0 : st->signal),
              LOG_I("code", failed ? st->code : 0), LOG_I("pause_ms", g->pause_ms));
    io_timer_start(&g->timer, g->pause_ms);
}

static void on_timer(struct io_timer *t)
{
    struct guard *g = container_of(t, struct guard, timer);
    if (g->child) {
        (void)io_child_signal_group(g->child, SIGKILL); /* its end is reported as usual */
    } else {
        launch(g);
    }
}

static void launch(struct guard *g)
{
    static const char *const argv[] = {"opensandbox-egress", NULL};
    int error = 0;
    const int kept[] = {g->keep_fd, detach_fd()};
    const struct io_child_opts o = {
        .path = "/proc/self/exe",
        .argv = argv,
        .out = {IO_STDIO_FD, STDOUT_FILENO},
        .err = {IO_STDIO_FD, STDERR_FILENO},
        .keep_fds = kept,
        .n_keep_fds = kept[1] >= 0 ? 2 : 1,
    };
    g->started_ms = clock_mono_ms();
    g->n_starts++;
    g->child = io_child_spawn(g->loop, &o, on_end, g, &error);
    detach_passed();
    if (!g->child) {
        log_error("cannot start the sidecar", LOG_S("reason", strerror(-error)));
        g->status = 1;
        io_timer_start(&g->timer, GUARD_PAUSE_MAX_MS);
    }
}

static void on_stop(int signo, void *arg)
{
    struct guard *g = arg;
    g->stopping = true;
    if (!g->child) {
        io_loop_stop(g->loop);
        return;
    }
    (void)io_child_signal(g->child, SIGTERM); /* already gone: its end is on its way */
    io_timer_start(&g->timer, GUARD_GRACE_MS);
}

int guard_run(void)
{
    struct guard g = {.keep_fd = vault_keep_create()};
    const struct rlimit none = {0, 0};
    struct slim slim;
    char number[16];

    if (g.keep_fd < 0) {
        log_error("no memory for the vault", LOG_S("reason", strerror(-g.keep_fd)));
        return 1;
    }
    (void)prctl(PR_SET_DUMPABLE, 0); /* our memory holds nothing, but the descriptor leads to it */
    (void)setrlimit(RLIMIT_CORE, &none);
    (void)snprintf(number, sizeof(number), "%d", g.keep_fd);
    must(setenv(VAULT_KEEP_ENV, number, 1) == 0);
    g.loop = io_loop_new();
    io_timer_init(&g.timer, g.loop, on_timer);
    io_signal_watch(g.loop, SIGTERM, on_stop, &g);
    io_signal_watch(g.loop, SIGINT, on_stop, &g);
    launch(&g);
    slim_start(&slim, g.loop, NULL);
    io_loop_run(g.loop);
    slim_stop(&slim);
    io_timer_stop(&g.timer);
    if (g.child) {
        io_child_free(g.child);
    }
    io_loop_free(g.loop);
    (void)close(g.keep_fd);
    return g.status;
}
