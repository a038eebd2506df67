#pragma once
/* News about our life for whoever started us: one JSON object per line on an inherited descriptor.
 *
 *     {"event":"ready","pid":1,"port":44772}
 *     {"event":"entrypoint_started","pid":2}
 *     {"event":"entrypoint_exited","pid":2,"exit_code":0}
 *     {"event":"entrypoint_exited","pid":2,"exit_code":137,"signal":9,"oom":true}
 *     {"event":"entrypoint_failed","error":"..."}
 *     {"event":"stopping"}
 *
 * A reader that is gone or does not read is no reason to fail or wait: lines are then dropped. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

void notify_ready(int fd, uint16_t port);
void notify_entrypoint_started(int fd, pid_t pid);
void notify_entrypoint_exited(int fd, pid_t pid, int exit_code, int signo, bool oom);
void notify_entrypoint_failed(int fd, const char *error);
void notify_stopping(int fd);
