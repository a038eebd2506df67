#pragma once
/* Bringing execd up and down: loop, pool, server, listeners. */

#include "base/err.h"
#include "execd/execd.h"

/* Builds everything from cfg (moved in) and listens. */
struct execd *execd_new(struct execd_config *take_cfg, struct err *e);
void execd_free(struct execd *x);
/* Where log lines go, by configuration and environment. Again after either has changed. */
void execd_log_start(const struct execd_config *c);
