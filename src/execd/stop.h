#pragma once
/* Ordered shutdown.
 *
 * Once, on SIGTERM or when the entrypoint has ended: no new requests; streams without a process are
 * told through their stop hooks; every process gets SIGTERM, so that its stream ends with the event
 * of its own end; after the grace time SIGKILL. The loop stops when nothing is left, at the latest
 * EXECD_STOP_LAST_MS after the kill. */

#include "execd/execd.h"

void execd_stop_init(struct execd *x);
void execd_stop(struct execd *x);
