#pragma once
/* Child processes: the only place in the code base that forks.
 *
 * A child is its own session or process group leader, has no descriptor but the ones named here, a
 * clean signal mask and default dispositions. It is watched through a pidfd, so that a pid is never
 * confused with a reused one. In a process that reaps as PID 1 use io_child_claims() to leave these
 * children alone. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "io/loop.h"
#include "io/stream.h"

enum io_stdio { IO_STDIO_NULL, IO_STDIO_PIPE, IO_STDIO_FD, IO_STDIO_PTY };

struct io_child_fd {
    enum io_stdio kind;
    int fd; /* IO_STDIO_FD: borrowed, duplicated into the child */
};

struct io_child_opts {
    const char *path;        /* absolute, or searched in the PATH of envp */
    const char *const *argv; /* NULL-terminated */
    const char *const *envp; /* NULL-terminated; NULL: this process's */
    const char *cwd;         /* NULL: inherit */
    struct io_child_fd in, out, err;
    bool merge_err;   /* stderr is the same pipe as stdout */
    bool new_session; /* setsid instead of setpgid; implied by a PTY */
    bool set_ids;     /* uid, gid and groups below are applied, groups first */
    uid_t uid;
    gid_t gid;
    const gid_t *groups;
    size_t n_groups;
    const int *keep_fds; /* inherited under their own numbers */
    size_t n_keep_fds;
    /* NULL-terminated paths of cgroup.procs / tasks files. "/proc/self/fd/N" stands for that very
     * descriptor: whoever opened it had the right to, which a process in a user namespace may not.
     */
    const char *const *cgroup_procs;
    uint16_t pty_rows, pty_cols;
    int oom_score_adj;   /* 0: inherit */
    uint64_t max_fds;    /* soft limit of descriptors, when ours is raised; 0: inherit */
    int netns_fd;        /* > 0: setns before exec */
    uint64_t timeout_ms; /* 0: none; at the deadline the whole group is killed */
    /* io_child_run() only, or NULL: asked every IO_CHILD_ASK_MS; true kills the group, and the run
     * fails with ECANCELED. */
    bool (*cancelled)(void *arg);
    void *cancel_arg;
};

enum io_child_end { IO_CHILD_EXITED, IO_CHILD_SIGNALED, IO_CHILD_TIMEOUT };

struct io_child_status {
    enum io_child_end end;
    int code;   /* exit code, valid for EXITED */
    int signal; /* terminating signal for SIGNALED and TIMEOUT */
    bool core;
};

struct io_child;
/* Called once on the loop when the leader has been reaped. Pipes may still hold output. */
typedef void io_child_cb(struct io_child *c, const struct io_child_status *st, void *arg);

/* NULL and -errno in *ret_error when the child could not be started; an exec failure is reported
 * here too (through a close-on-exec pipe), not as exit code 127. */
struct io_child *io_child_spawn(struct io_loop *l, const struct io_child_opts *o, io_child_cb *cb,
                                void *arg, int *ret_error);
pid_t io_child_pid(const struct io_child *c);
/* Moves the parent's end of a pipe (or the PTY master for any of the three) out; NULL if none. */
struct io_stream *io_child_take_stdin(struct io_child *c);
struct io_stream *io_child_take_stdout(struct io_child *c);
struct io_stream *io_child_take_stderr(struct io_child *c);
int io_child_signal(struct io_child *c, int signo);       /* the leader; -ESRCH when reaped */
int io_child_signal_group(struct io_child *c, int signo); /* the process group; -ESRCH when gone */
int io_child_resize(struct io_child *c, uint16_t rows, uint16_t cols); /* PTY only */
/* After the callback, or before it to forget the child (it is still reaped, cb is not called). */
void io_child_free(struct io_child *c);
/* True when pid belongs to a child that this room will reap. */
bool io_child_claims(pid_t pid);
/* For PID 1, on SIGCHLD: reaps every ended child that is not one of ours, calling fn (may be NULL)
 * for each, and returns how many. The owners of ours are told as usual. Any thread. */
int io_child_reap_orphans(void (*fn)(pid_t pid, const struct io_child_status *st, void *arg),
                          void *arg);

/* Opens one of cgroup_procs for writing: descriptor or -errno. */
int io_cgroup_open(const char *path);

/* Blocking variant for workers: runs to its end, collects output up to the maximum of each buffer
 * (more is thrown away and marks the buffer as failed). A stdin pipe is empty. What the leader
 * wrote is complete; descendants that outlive it are not waited for. */
struct buf;
struct err;
int io_child_run(const struct io_child_opts *o, struct buf *out, struct buf *errout,
                 struct io_child_status *ret, struct err *e);
