/* Ends of processes as text. */

#include "execd/outcome.h"

#include <signal.h>
#include <stdio.h>

#include "base/must.h"
#include "execd/event.h"

static const char *const signal_names[] = {
    [SIGHUP] = "hangup",
    [SIGINT] = "interrupt",
    [SIGQUIT] = "quit",
    [SIGILL] = "illegal instruction",
    [SIGTRAP] = "trace/breakpoint trap",
    [SIGABRT] = "aborted",
    [SIGBUS] = "bus error",
    [SIGFPE] = "floating point exception",
    [SIGKILL] = "killed",
    [SIGUSR1] = "user defined signal 1",
    [SIGSEGV] = "segmentation fault",
    [SIGUSR2] = "user defined signal 2",
    [SIGPIPE] = "broken pipe",
    [SIGALRM] = "alarm clock",
    [SIGTERM] = "terminated",
};

const char *signal_text(int signo, char out[32])
{
    if (signo > 0 && (size_t)signo < ARRAY_LEN(signal_names) && signal_names[signo]) {
        (void)snprintf(out, 32, "%s", signal_names[signo]);
    } else {
        (void)snprintf(out, 32, "signal %d", signo);
    }
    return out;
}

void duration_text(uint64_t ms, char out[32])
{
    uint64_t s = ms / 1000, frac = ms % 1000;
    char tail[8] = "";
    if (frac) {
        (void)snprintf(tail, sizeof(tail), ".%03u", (unsigned)frac);
        for (size_t n = strlen(tail); tail[n - 1] == '0'; n--) {
            tail[n - 1] = 0;
        }
    }
    if (s == 0 && frac) {
        (void)snprintf(out, 32, "%ums", (unsigned)frac);
    } else if (s < 60) {
        (void)snprintf(out, 32, "%u%ss", (unsigned)s, tail);
    } else if (s < 3600) {
        (void)snprintf(out, 32, "%um%u%ss", (unsigned)(s / 60), (unsigned)(s % 60), tail);
    } else {
        (void)snprintf(out, 32, "%lluh%um%u%ss", (unsigned long long)(s / 3600),
                       (unsigned)(s / 60 % 60), (unsigned)(s % 60), tail);
    }
}

void outcome_of(const struct io_child_status *st, uint64_t timeout_ms, bool oom,
                struct outcome *ret)
{
    *ret = (struct outcome){.exit_code = -1, .oom = oom};
    char text[32];
    if (st->end == IO_CHILD_EXITED) {
        ret->exit_code = st->code;
        ret->ok = st->code == 0;
        (void)snprintf(ret->error, sizeof(ret->error), "exit status %d", st->code);
    } else {
        (void)snprintf(ret->error, sizeof(ret->error), "signal: %s%s",
                       signal_text(st->signal, text), st->core ? " (core dumped)" : "");
    }
    (void)snprintf(ret->evalue, sizeof(ret->evalue), "%d", ret->exit_code);
    if (st->end == IO_CHILD_TIMEOUT) {
        duration_text(timeout_ms, text);
        (void)snprintf(ret->extra, sizeof(ret->extra), "timeout after %s", text);
    } else if (oom) {
        (void)snprintf(ret->extra, sizeof(ret->extra), "out of memory");
    }
}

void outcome_add_error(struct buf *out, const struct outcome *o, int64_t now_ms)
{
    const char *trace[] = {o->error, o->extra[0] ? o->extra : NULL};
    event_add_error(out, STR("CommandExecError"), str_from(o->evalue), trace, ARRAY_LEN(trace),
                    now_ms);
}
