#pragma once
/* Where the cgroups of this sandbox are, for version 1, version 2 and both side by side, and what
 * their files say. The parsers are pure. */

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"

struct cgroup_dir {
    bool found, v2;
    const char *top; /* where the hierarchy is mounted: nothing above it can be seen */
    const char *dir; /* the sandbox's own, `top` or below it */
};

/* The path of `controller` in /proc/self/cgroup; "" asks for version 2. STR_NULL: none. */
struct str cgroup_own_path(struct str proc_cgroup, struct str controller);
/* Mount point (unescaped, arena) and root of `controller`'s hierarchy in /proc/self/mountinfo; ""
 * asks for version 2. False: not mounted. */
bool cgroup_mount(struct arena *a, struct str mountinfo, struct str controller,
                  const char **ret_point, struct str *ret_root);
/* All of it put together. In a cgroup namespace of its own the sandbox is everything that can be
 * seen; otherwise it is the cgroup this process is in. Not found when that is
 * the whole machine. */
struct cgroup_dir cgroup_locate(struct arena *a, struct str proc_cgroup, struct str mountinfo,
                                struct str controller, bool own_namespace);
/* From this process's /proc. */
struct cgroup_dir cgroup_find(struct arena *a, struct str controller);

/* "max", or more than any machine has: UINT64_MAX. -EINVAL for anything else but digits. */
int cgroup_parse_limit(struct str text, uint64_t *ret);
/* cpu.max ("200000 100000", "max 100000"): CPUs, 0 for no limit. */
double cgroup_parse_cpu_max(struct str text);
/* The number behind `key` in a flat file like memory.stat or cpu.stat. 0 or -ENOENT. */
int cgroup_stat_get(struct str text, struct str key, uint64_t *ret);
