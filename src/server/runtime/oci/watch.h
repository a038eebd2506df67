#pragma once
/* One thread that waits for things to happen: a sandbox's first process ends, an engine's process
 * ends and wants to be reaped, execd writes a line into its life file. */

#include <sys/types.h>

#include "base/err.h"

struct watch;

/* `on_exit` is called on the watch's thread with the wait status of the process when it was a child
 * of ours or the kernel tells (Linux 6.15), else -1. */
typedef void watch_exit_cb(const char *id, int wait_status, void *arg);

struct watch *watch_new(watch_exit_cb *on_exit, void *arg, struct err *e);
void watch_free(struct watch *w); /* ends the thread; nothing is called any more */

/* Both take the descriptor. A pid of a child is waited for, so that no zombie stays. A sandbox
 * whose process is gone already (take_pidfd < 0) is reported at once, from the watch's thread. */
int watch_sandbox(struct watch *w, const char *id, pid_t pid, int take_pidfd, struct err *e);
void watch_reap(struct watch *w, pid_t pid, int take_pidfd);
/* No call for this id is under way or comes later; for a sandbox that is being removed. */
void watch_forget(struct watch *w, const char *id);

/* While it exists, `event_fd` becomes readable whenever the file was written to. */
struct watch_file {
    int wd, event_fd;
};
int watch_file_add(struct watch *w, const char *path, struct watch_file *ret, struct err *e);
void watch_file_del(struct watch *w, struct watch_file *f);
