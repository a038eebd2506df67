#pragma once
/* Bringing execd up and down: loop, pool, server, listeners, ordered shutdown. */

#include "base/err.h"
#include "execd/execd.h"

/* Builds everything from cfg (moved in) and listens. */
struct execd *execd_new(struct execd_config *take_cfg, struct err *e);
void execd_free(struct execd *x);

/* Ordered shutdown, once: no new requests, streams end with an event, processes get SIGTERM and
 * after the grace time SIGKILL. The loop stops when nothing is left. */
void execd_stop(struct execd *x);
