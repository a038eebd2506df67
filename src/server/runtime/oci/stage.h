#pragma once
/* From the server to the engine's program: one process that puts on what belongs to the sandbox
 * (control groups, network namespace, mounts) and then becomes the engine.
 *
 * The mounts are made in a mount namespace of that process alone. The engine copies it into the
 * container and ends, so a sandbox's mounts exist nowhere else: they need no unmounting, slow
 * nobody down by their number, and a crash leaves none behind. */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"
#include "server/runtime/oci/cgroup.h"
#include "server/runtime/oci/limits.h"

#define STAGE_MOUNTS_MAX (OCI_LAYERS_MAX + OCI_BINDS_MAX + 2)
#define STAGE_FDS_MAX 40
#define STAGE_NAME_MAX 24
#define STAGE_SHOWN_MAX 4
#define STAGE_OPTIONS_MAX 4096 /* what mount(2) takes */

/* A detached mount, owned by the stage, and where it goes: to `name` in the stage directory, or
 * with `target` to that path inside the root file system, whose links cannot lead out of it. */
struct stage_mount {
    int tree_fd;
    bool is_file;
    char name[STAGE_NAME_MAX];
    const char *target;
};

/* A directory of the host that the sandbox may read, below "<dir>/sys". */
struct stage_show {
    const char *from, *to;
};

struct stage {
    const char *dir; /* an empty directory; a tmpfs covers it, only for this process */
    struct stage_mount mounts[STAGE_MOUNTS_MAX];
    size_t n_mounts;
    /* "<dir>/rootfs" becomes an overlay with these options, paths relative to dir. */
    char overlay[STAGE_OPTIONS_MAX];
    uint32_t id_first; /* host id of the sandbox's root: makes the overlay's own files */
    /* A small part of a fresh sysfs, of the network namespace, as /sys. */
    struct stage_show shown[STAGE_SHOWN_MAX];
    size_t n_shown;
    struct str
        config; /* config.json, in "<dir>/bundle"; "<dir>/engine" is for the engine's notes */
    const char *unmount;    /* a path to take out of sight before the engine looks, or NULL */
    int netns_fd;           /* -1: stay */
    struct cgroup_join *cg; /* NULL: stay */
    bool own_cgroup_ns;     /* with `work` as its root */
    bool stay_in_work;      /* an engine whose workload is itself */
    int become_root_of;     /* a user namespace the engine itself runs in, or -1 */
    int fds[STAGE_FDS_MAX]; /* become 0, 1, 2, ... of the engine; borrowed */
    size_t n_fds;
    int exec_fd; /* the engine's program */
    const char *const *argv;
    const char *const *envp;
    /* filled by the child on failure */
    const char *failed_step;
    int failed_errno;
};

void stage_init(struct stage *s, const char *dir);
/* Closes the mounts that were not used. */
void stage_done(struct stage *s);
static inline void stage_done_cleanup(struct stage *s)
{
    stage_done(s);
}
/* A detached copy of the mount at path below dir_fd (or of dir_fd itself with ""), read-only or
 * not, never with setuid or device files; idmapped through userns_fd when >= 0. `recursive` takes
 * what is mounted below along. A descriptor or -1. */
int tree_clone(int dir_fd, const char *path, bool recursive, bool read_only, int userns_fd,
               struct err *e);
/* The same for a detached mount that is not copied: takes the descriptor, and returns it. */
int tree_setup(int take_tree_fd, int userns_fd, struct err *e);
/* Take tree_fd. */
void stage_add(struct stage *s, int take_tree_fd, const char *name);
void stage_add_inside(struct stage *s, int take_tree_fd, const char *target, bool is_file);

/* Starts the process and returns when it has become the engine: its pid and a pidfd, or -1. */
int stage_spawn(struct stage *s, pid_t *ret_pid, int *ret_pidfd, struct err *e);
