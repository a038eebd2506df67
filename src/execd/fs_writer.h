#pragma once
/* Writes a file so that a reader, and whoever comes after a crash, sees the old content or the new
 * one and nothing between.
 *
 * The bytes go to a file without a name in the target's directory (O_TMPFILE), or to a hidden one
 * where the file system has no such thing, and take the target's place by rename. A target that is
 * a symbolic link is written through. An existing file keeps its owner and mode unless told
 * otherwise. Where the directory cannot be written, or the target is a mount point (/etc/hosts in
 * containers), the bytes are collected elsewhere and copied over the target at the end.
 *
 * Nothing is fsynced: a sandbox does not promise to survive the loss of its host. */

#include <stdbool.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/err.h"
#include "execd/fs_perm.h"

#define FS_TEMP_NAME_MAX 32

struct fs_writer {
    int fd;     /* write here */
    int dir_fd; /* of the target */
    const char *leaf;
    char temp[FS_TEMP_NAME_MAX]; /* name in dir_fd; empty: none yet */
    bool existed, in_place;
    struct stat old;
};

/* The target's directory must exist. `a` outlives the writer. -1 with `e` and nothing to clean up.
 */
int fs_writer_open(struct fs_writer *w, struct arena *a, const char *abs, struct err *e);
/* Puts the file into its place. Ends the writer in any case. */
int fs_writer_commit(struct fs_writer *w, const struct fs_owner_mode *om, struct err *e);
/* Forgets what was written. Harmless on a zeroed or ended writer. */
void fs_writer_abort(struct fs_writer *w);

/* An unnamed file in $TMPDIR or /tmp. Descriptor or -errno. */
int fs_temp_open(void);
/* Copies the rest of `from` to `to`, in the kernel where it can. 0 or -errno. */
int fs_copy_data(int from, int to);
