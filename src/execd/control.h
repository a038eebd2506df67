#pragma once
/* The control socket: how a sandbox that was started ahead of its use is told what to run.
 *
 * It is a listening socket that the starter made and passed on (--control-fd). Its name exists only
 * in a directory of the host, so that nothing in the sandbox and nothing on its network can reach
 * it; who can connect is who may. It takes one request, POST /activate, and is closed by it.
 *
 *     {"env": {"NAME": "value", ...}, "entrypoint": ["program", "argument", ...]}
 *
 * The variables become those of execd itself, as if it had been started with them; the entrypoint
 * starts as soon as the answer is on its way. An execd that has served any request but a ping
 * before is no fresh sandbox any more and refuses with 409. */

#include "base/err.h"
#include "execd/execd.h"

struct control;

/* Listens on cfg.control_fd. NULL with the reason. */
struct control *control_start(struct execd *x, struct err *e);
void control_free(struct control *c); /* NULL is fine */
