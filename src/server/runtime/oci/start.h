#pragma once
/* The start of a sandbox's processes: config.json, the engine, and waiting until execd says that it
 * listens, the engine fails, or the time is up. */

#include <sys/types.h>

#include "server/runtime/oci/engine.h"
#include "server/runtime/oci/oci.h"
#include "server/runtime/oci/rootfs.h"

struct volumes;

struct start_opts {
    struct oci *o;
    const struct runtime_spec *spec;
    const struct engine *engine;
    const struct rootfs *rootfs;
    const struct volumes *volumes;
    int dir_fd;
    const char *dir, *hostname;
    int id_range; /* -1: no user namespace */
    int userns_fd, netns_fd;
    const struct home *home;
};

struct start {
    pid_t engine_pid;
    int engine_pidfd;
    int pid_fd; /* where the engine writes the pid, or -1 */
    struct watch_file life;
    pid_t pid; /* the sandbox's first process, on the host */
    int pidfd;
};

#define START_INIT                                                                                 \
    {                                                                                              \
        .engine_pidfd = -1, .pidfd = -1, .pid_fd = -1, .life = {.wd = -1, .event_fd = -1 }         \
    }

/* Where execd waits to be told what to run (activate.c); the file is in the sandbox's directory. */
#define CONTROL_FILE "control.sock"
int control_listen(int dir_fd, struct err *e); /* a listening descriptor, or -1 */

int start_spawn(struct start *st, const struct start_opts *so, struct arena *a, struct err *e);
int start_wait(struct start *st, const struct start_opts *so, struct err *e);
/* Leaves an engine that still runs to the watch. */
void start_done(struct start *st, struct watch *w);
