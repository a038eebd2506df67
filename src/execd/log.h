#pragma once
/* The output of a background command: a private file that has no name, written by the pool, read by
 * offset. It keeps the newest EXECD_LOG_MAX bytes; offsets count from the first byte ever written,
 * whether or not it is still there. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"
#include "execd/execd.h"

struct cmd_log;

/* `on_room`: the last piece is written, there is room for the next. */
struct cmd_log *cmd_log_new(struct execd *x, void (*on_room)(void *arg), void *arg, struct err *e);
/* Waits for nothing: a write that is under way finishes by itself. on_room is not called after. */
void cmd_log_free(struct cmd_log *l);
/* Takes the whole piece and returns true, or takes nothing while the one before is being written.
 */
bool cmd_log_write(struct cmd_log *l, struct str data);
bool cmd_log_busy(const struct cmd_log *l);
off_t cmd_log_start(const struct cmd_log *l); /* offset of the oldest byte that is still there */
off_t cmd_log_end(const struct cmd_log *l);   /* and of the one to come next */
int cmd_log_fd(const struct cmd_log *l);
