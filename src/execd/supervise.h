#pragma once
/* `execd supervise [flags] -- command…`, also under the name opensandbox-supervisor: runs a program
 * and starts it again whenever it ends, with growing pauses, until it is told to stop or the
 * program cannot be kept up. What happens is told as JSON lines. */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/log.h"

#define SUPERVISE_BURST_LIMIT 1000 /* largest --burst-max */

struct supervise_config {
    const char *name;                  /* in events; the command's base name by default */
    const char *pre_start, *post_exit; /* shell commands, or NULL */
    const char *event_log;             /* file for events; NULL: stderr */
    int64_t backoff_min_ms, backoff_max_ms;
    double backoff_jitter;   /* 0.1: ten percent either way */
    int64_t stable_after_ms; /* so long up: the next pause is the shortest again */
    int64_t burst_window_ms, burst_max;
    bool on_burst_exit;
    int64_t grace_ms, pre_start_timeout_ms, post_exit_timeout_ms;
    enum log_level log_level;
    char *const *command;
};

/* argv[0] is skipped. -1 with `e`; ERR_UNSUPPORTED means that help was asked for. */
int supervise_parse(struct supervise_config *c, int argc, char *const *argv, struct err *e);
void supervise_usage(void);
/* The exit status: 0 when told to stop, 1 when given up. */
int supervise_run(const struct supervise_config *c);

/* The pause before launch number `n` in a row (1: the first one after a good run), without jitter.
 */
int64_t supervise_backoff_ms(const struct supervise_config *c, unsigned n);
