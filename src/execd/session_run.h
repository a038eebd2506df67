#pragma once
/* Runs of a session, as the session itself sees them. */

#include <stddef.h>

#include "execd/session.h"

/* The session goes: the active run is killed and ends by itself, waiting ones end now. */
void session_runs_orphan(struct session *s);
/* Sends a signal to the active run's group. Returns 1 when there is one. */
size_t session_runs_signal(struct session *s, int signo);
