#pragma once
/* A process group started for a client, and its output on the way to whoever takes it: the events
 * of a response, or the log of a background command.
 *
 * Backpressure: the taker says how much of each piece it took; if that is not all, the pipe is not
 * read until job_resume(), and the process blocks when the pipe is full. Nothing is lost.
 *
 * End: the job is over when its leader has been reaped and everything that was in the pipes at that
 * moment has been taken. Survivors in the background keep their pipe, but it is not ours any more.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/str.h"
#include "execd/execd.h"
#include "io/child.h"

struct job;

struct job_spec {
    const char *path;
    const char *const *argv;
    const char *const *envp;
    const char *cwd; /* NULL: execd's own */
    int stdin_fd;    /* borrowed; -1: nothing to read */
    bool merge;      /* stdout and stderr are one stream */
    bool set_ids;
    uid_t uid;
    gid_t gid;
    const gid_t *groups;
    size_t n_groups;
    uint64_t timeout_ms;
    bool follow; /* output of survivors is still delivered after on_end, until they are gone too */
};

struct job_ops {
    /* A piece of stdout (0) or stderr (1). Returns how many bytes were taken. */
    size_t (*on_output)(struct job *j, unsigned which, struct str data, void *arg);
    /* Once. `oom`: the kernel killed it, or the child its shell waited for, for memory. */
    void (*on_end)(struct job *j, const struct io_child_status *st, bool oom, void *arg);
    /* Once, last: the job is freed when this returns. NULL for a job that does not follow. */
    void (*on_close)(struct job *j, void *arg);
};

/* NULL and -errno in *ret_error when it could not be started. */
struct job *job_start(struct execd *x, const struct job_spec *spec, const struct job_ops *ops,
                      void *arg, int *ret_error);
/* The taker has room again. */
void job_resume(struct job *j);
/* From now on output is read and thrown away; on_output is not called any more. */
void job_discard(struct job *j);
int job_signal(struct job *j, int signo); /* the whole group */
pid_t job_pgid(const struct job *j);
uint64_t job_elapsed_ms(const struct job *j);
/* Lets go of a job that has ended and of one that has not; no callback comes any more. Processes
 * that are still there go on, and what they write is thrown away. */
void job_detach(struct job *j);
