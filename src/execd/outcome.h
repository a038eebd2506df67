#pragma once
/* How a process ended, in the words of the protocol. Exit code, signal, timeout and out-of-memory
 * are told apart: evalue stays what clients parse, the difference is in the traceback. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "io/child.h"

#define OUTCOME_MAX_TRACE 3

struct outcome {
    bool ok;       /* exit code 0 */
    int exit_code; /* -1 for a signal */
    char evalue[16];
    char error[64]; /* "exit status 3", "signal: killed" */
    char extra[64]; /* "timeout after 1s", "out of memory", or "" */
    bool oom;
};

void outcome_of(const struct io_child_status *st, uint64_t timeout_ms, bool oom,
                struct outcome *ret);
/* The `error` event for an outcome that is not ok. */
void outcome_add_error(struct buf *out, const struct outcome *o, int64_t now_ms);
/* "killed", "segmentation fault", "signal 35". */
const char *signal_text(int signo, char out[32]);
/* "1.5s", "2m0s", "300ms": durations as the protocol's messages show them. */
void duration_text(uint64_t ms, char out[32]);
