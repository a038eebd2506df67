#pragma once
/* The kernel's count of processes it killed for memory in the workload's cgroup (v2 memory.events,
 * v1 memory.oom_control). A process that died of SIGKILL while the count went up died of that. */

#include <stdbool.h>
#include <stdint.h>

#include "io/child.h"

struct oom_watch {
    int fd; /* -1: no such file here, nothing is ever out of memory */
};

/* `procs`: the configured cgroup.procs paths, or NULL for the cgroup execd itself is in. */
void oom_watch_init(struct oom_watch *w, const char *const *procs);
void oom_watch_done(struct oom_watch *w);
uint64_t oom_count(const struct oom_watch *w);
/* Given the count at its start: was this end the kernel's doing? A shell whose child was killed
 * reports exit code 137. */
bool oom_was_cause(const struct oom_watch *w, uint64_t count_at_start,
                   const struct io_child_status *st);
/* The number behind "oom_kill " in either file; 0 when there is none. */
uint64_t oom_parse(const char *text);
