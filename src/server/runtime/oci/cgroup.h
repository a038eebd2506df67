#pragma once
/* Control groups of sandboxes, on hosts with v1, v2 or both (hybrid).
 *
 *     <parent>/<id>          what the sandbox as a whole may use: its limit plus execd's headroom
 *     <parent>/<id>/init     execd and the engine that starts it
 *     <parent>/<id>/work     everything the sandbox runs, at exactly the requested limit
 *
 * So a fork bomb or an out-of-memory in the workload ends in `work` and execd goes on answering.
 * Nobody inside needs a writable cgroup file system: execd inherits descriptors of work's
 * cgroup.procs that the server opened, and the kernel checks the rights of whoever opened them. The
 * cgroup namespace has `work` as its root, so programs that look for their limits find them. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"
#include "server/runtime/runtime.h"

enum cgroup_mode { CGROUP_NONE, CGROUP_V1, CGROUP_V2, CGROUP_HYBRID };

enum {
    CGROUP_CPU = 1 << 0,
    CGROUP_CPUACCT = 1 << 1,
    CGROUP_MEMORY = 1 << 2,
    CGROUP_PIDS = 1 << 3,
    CGROUP_IO = 1 << 4, /* blkio in v1 */
    CGROUP_DEVICES = 1 << 5,
    CGROUP_FREEZER = 1 << 6,
    CGROUP_NAMED = 1 << 7, /* name=systemd: the service manager must not count sandboxes as ours */
};

#define CGROUP_HIERS_MAX 16
#define CGROUP_PATH_MAX 320
#define CGROUP_NAME_MAX 64
#define CGROUP_IO_MAX 160

struct cgroup_hier {
    char mount[128];
    uint32_t controllers;
    bool v2;
    bool used;  /* sandboxes get a group here */
    bool split; /* with init and work below it; else one group for both */
};

struct cgroup_host {
    enum cgroup_mode mode;
    struct cgroup_hier hier[CGROUP_HIERS_MAX];
    size_t n_hiers;
    uint32_t controllers; /* those that can be used, over all hierarchies */
    char parent[CGROUP_NAME_MAX];
    bool has_kill;  /* cgroup.kill on the v2 hierarchy */
    int dynmods_fd; /* see cgroup_host_init() */
    dev_t disk;     /* what I/O limits are for; 0: unknown */
};

struct cgroup_limits { /* 0: none */
    uint64_t cpu_millis, memory_bytes, pids;
    uint64_t io[IO_LIMITS]; /* by enum runtime_io */
    dev_t layer;            /* the writable layer's own device; 0: it has none */
};

/* Descriptors of cgroup.procs files for the engine's process and for execd, one per hierarchy in
 * use. Where a hierarchy is not split init_fd is -1 and work_fd is the one group's. */
struct cgroup_join {
    int n;
    int init_fd[CGROUP_HIERS_MAX], work_fd[CGROUP_HIERS_MAX];
};

struct cgroup_usage {
    uint64_t cpu_us, memory_bytes, memory_limit, pids;
};

/* Reads the text of /proc/self/mountinfo. Pure. */
void cgroup_parse_mounts(struct str mountinfo, struct cgroup_host *ret);
const char *cgroup_mode_name(enum cgroup_mode m);
/* "<mount>/<parent>/<id>[/<leaf>]"; leaf may be NULL, and is left out where there are no leaves. */
void cgroup_path(const struct cgroup_host *h, const struct cgroup_hier *hier, const char *id,
                 const char *leaf, char out[CGROUP_PATH_MAX]);
/* The hierarchy that has the controller, or NULL. */
const struct cgroup_hier *cgroup_hier_of(const struct cgroup_host *h, uint32_t controller);
/* The v2 hierarchy, with or without controllers, or NULL. */
const struct cgroup_hier *cgroup_hier_v2(const struct cgroup_host *h);

/* Finds the hierarchies of this machine and makes <parent> in each. Also asks the kernel to favour
 * moves between groups (Linux 6.0): without it the first move after a pause waits some 10 ms for an
 * RCU period, in every create and, on v1, in every command. The request is a detached mount of a
 * named hierarchy without controllers and holds while the descriptor is open. */
int cgroup_host_init(struct cgroup_host *ret, const char *parent, struct err *e);
void cgroup_host_done(struct cgroup_host *h);
/* Can these limits be kept here? ERR_INVALID or ERR_UNSUPPORTED says which and why not. */
int cgroup_check(const struct cgroup_host *h, const struct cgroup_limits *l, struct err *e);

/* The whole disk below the file system of dir_fd becomes the one that I/O limits are for. -1: there
 * is none (a network or a memory file system), or it cannot be told. */
int cgroup_io_find(struct cgroup_host *h, int dir_fd);
/* In one hierarchy that has the controller. */
int cgroup_io_limit(const struct cgroup_host *h, const struct cgroup_hier *hier, const char *dir,
                    const struct cgroup_limits *l, struct err *e);
/* One line of io.max, or of a file of blkio.throttle; "" when that file needs none. Pure. */
void cgroup_io_format(bool v2, dev_t disk, const uint64_t io[IO_LIMITS], enum runtime_io which,
                      char out[CGROUP_IO_MAX]);

int cgroup_make(const struct cgroup_host *h, const char *id, const struct cgroup_limits *l,
                struct err *e);
/* Other limits for a sandbox that runs. What is 0 stays as it is. */
int cgroup_update(const struct cgroup_host *h, const char *id, const struct cgroup_limits *l,
                  struct err *e);
int cgroup_join_open(const struct cgroup_host *h, const char *id, struct cgroup_join *ret,
                     struct err *e);
void cgroup_join_close(struct cgroup_join *j);

/* Stops every task and returns when all stand still; lets them go again. */
int cgroup_freeze(const struct cgroup_host *h, const char *id, bool on, struct err *e);
bool cgroup_is_frozen(const struct cgroup_host *h, const char *id);
/* SIGKILL to every task, also frozen ones; returns when none is left. Missing is success. */
int cgroup_kill(const struct cgroup_host *h, const char *id, struct err *e);
/* Removes the (empty) groups in all hierarchies. Missing is success. */
int cgroup_remove(const struct cgroup_host *h, const char *id, struct err *e);
int cgroup_usage(const struct cgroup_host *h, const char *id, struct cgroup_usage *ret,
                 struct err *e);
/* How often the kernel killed something in the sandbox for want of memory; in execd's own group
 * when `init`. */
uint64_t cgroup_oom_kills(const struct cgroup_host *h, const char *id, bool init);
/* Calls fn for every group below <parent>, in any hierarchy; an id may come several times. */
int cgroup_list(const struct cgroup_host *h, void (*fn)(const char *id, void *arg), void *arg,
                struct err *e);
