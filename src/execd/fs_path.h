#pragma once
/* Paths that a client named, and how they are opened.
 *
 * execd serves the root file system it lives in, so a path is not confined to a directory. What is
 * guarded against is the workload changing the tree while it is being used: a path is resolved
 * once, to a descriptor of its parent directory, and the operation itself names one component below
 * that descriptor. Magic links (/proc/self/fd/N, /proc/PID/root) are never followed: they would
 * lead to execd's own descriptors. */

#include <stdbool.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

/* Lexical part only, for tests and the resolver: appends `path` made absolute against `cwd` and
 * cleaned ("//", ".", ".." removed) to the arena. NULL with `e` when it is empty, too long or has a
 * NUL. */
char *fs_path_clean(struct arena *a, struct str cwd, struct str path, struct err *e);

/* Value of an environment variable, or NULL. */
typedef const char *fs_env_fn(const char *name, void *arg);
/* Replaces $NAME and ${NAME}, then a leading "~" or "~/". A variable that is not set stays as it
 * was written, because '$' is a legal character of a file name; only a path that begins with one is
 * an error, since it would silently become relative. */
char *fs_path_expand(struct arena *a, struct str path, fs_env_fn *env, void *arg, struct err *e);

/* The absolute, clean path for what a client sent: as it stands if such a file exists, expanded
 * from this process's environment otherwise. */
char *fs_path_resolve(struct arena *a, struct str given, struct err *e);

/* Opens an absolute path. Descriptor or -errno. O_CLOEXEC is added, magic links give -ELOOP. */
int fs_open(const char *abs, int flags, mode_t mode);
/* The same below a directory descriptor. */
int fs_openat(int dir_fd, const char *path, int flags, mode_t mode);
/* Opens the directory that holds `abs` (O_PATH) and points *ret_leaf at the last component; for "/"
 * that is ".". Descriptor or -errno. */
int fs_open_parent(const char *abs, const char **ret_leaf);
/* Like fs_open_parent(), but if the leaf is a symbolic link it is followed to the end, so that the
 * result names what writing through the link would write. The leaf need not exist. *ret_leaf is
 * copied to the arena. */
int fs_open_target(struct arena *a, const char *abs, const char **ret_leaf);
/* mkdir -p; components that exist may be links to directories. *ret_created (may be NULL) says
 * whether the last component was made by this call. 0 or -errno. */
int fs_make_dirs(const char *abs, mode_t mode, bool *ret_created);
/* mkdir -p for the directory that holds `abs`. */
int fs_make_parents(struct arena *a, const char *abs, mode_t mode);
