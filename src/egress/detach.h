#pragma once
/* --detach: the program goes on in the background under its guard, and whoever started it gets to
 * know when it is ready: by exit status 0, or 1 when the first start fails. */

#include "base/err.h"

/* 0 when the first worker is ready; the guard goes on. The caller has nothing to do but to end. */
int detach(struct err *e);
/* In the guard: the descriptor that its first worker inherits; -1: none. */
int detach_fd(void);
/* In the guard, once the first worker has it. */
void detach_passed(void);
/* In the worker: ready. */
void detach_ready(void);
