#pragma once
/* Starting a process, in two halves: spawn_plan.c prepares everything that needs memory or can fail
 * in an interesting way, spawn.c clones and runs the few system calls between clone and exec.
 * proc.c keeps the register of processes that this room will reap. Private to the room. */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/list.h"
#include "io/child.h"
#include "io/limits.h"

/* A process of ours. In the register from before anybody else could see it until it is reaped. */
struct proc {
    struct list node;
    pid_t pid;
    int pidfd;   /* -1 where the kernel has none (old gVisor): wait for SIGCHLD */
    bool reaped; /* no longer in the register; st is valid */
    struct io_child_status st;
};

struct spawn_plan {
    const struct io_child_opts *o;
    const char *const *argv;
    const char *const *envp;
    const char *paths[IO_CHILD_MAX_PATHS + 1]; /* what to try to execute, NULL-terminated */
    char *paths_mem;
    int child_fd[3]; /* become 0, 1, 2; owned unless in `borrowed` */
    bool borrowed[3];
    int parent_fd[3]; /* our ends of pipes, or -1 */
    int pty_fd;       /* the master, or -1 */
    int null_fd, tty_fd;
    int cgroup_fd[IO_CHILD_MAX_CGROUPS]; /* opened cgroup.procs files */
    size_t n_cgroups;
    int cgroup_dir_fd; /* cgroup v2: cloned right into it, cgroup_fd[0] is then not written */
    int report_fd;     /* where the child writes its errno; -1 when it shares our memory */
    int error;         /* set by a child that shares our memory */
    bool in_cgroup;
};

/* Returns 0 or -errno; spawn_plan_done() in both cases. */
int spawn_plan_init(struct spawn_plan *p, const struct io_child_opts *o);
void spawn_plan_done(struct spawn_plan *p);

/* Returns 0 with *ret registered, or -errno: then there is no process. */
int spawn_run(struct spawn_plan *p, struct proc *ret);

/* Tests walk the ways around missing kernel features. NO_PIDFD only together with NO_CLONE3. */
enum {
    SPAWN_NO_CLONE3 = 1,
    SPAWN_NO_SHARED_MEMORY = 2,
    SPAWN_NO_PIDFD = 4,
    SPAWN_NO_INTO_CGROUP = 8
};
extern unsigned spawn_avoid;

/* Between begin and end a process may be born that is not yet in the register; who looks into the
 * register waits so long. */
void proc_birth_begin(void);
void proc_birth_end(void);
void proc_register(struct proc *p);
/* 1: reaped, p->st is valid. 0: still running. */
int proc_reap(struct proc *p);
int proc_signal(struct proc *p, int signo);
int proc_signal_group(struct proc *p, int signo);
/* The group, and the leader wherever it may have gone. */
void proc_kill(struct proc *p);
/* Takes it out of the register and closes its pidfd, reaped or not. */
void proc_done(struct proc *p);
