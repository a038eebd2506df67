#pragma once
/* `opensandbox-egress --supervise`: the process that starts the sidecar, starts it again when it
 * dies, and holds the memory in which its vault and its authority survive (vault/keep.h). It reads
 * none of that memory, listens nowhere and does nothing else, so that it has no reason to die. The
 * packet rules stay while the sidecar is away: lookups and connections fail, nothing gets out. */

#define GUARD_PAUSE_MIN_MS 50u    /* limit: before the first restart */
#define GUARD_PAUSE_MAX_MS 30000u /* limit: the longest pause between two restarts */
#define GUARD_STABLE_MS 60000u    /* limit: so long up, and the next pause is the shortest again */
#define GUARD_GRACE_MS 20000u     /* limit: from SIGTERM to SIGKILL */

/* The exit status: 0 when told to stop, that of the sidecar when its very first start fails. */
int guard_run(void);
