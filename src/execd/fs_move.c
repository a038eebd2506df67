#include "execd/fs_move.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/rand.h"
#include "execd/fs_path.h"
#include "execd/fs_writer.h"
#include "execd/limits.h"

static int copy_entry(int from_dir, const char *from, int to_dir, const char *to, unsigned depth);

static int rename_no_replace(int from_dir, const char *from, int to_dir, const char *to)
{
    if (renameat2(from_dir, from, to_dir, to, RENAME_NOREPLACE) == 0) {
        return 0;
    }
    if (errno != EINVAL && errno != ENOSYS) {
        return -errno;
    }
    /* A file system without the flag, or a directory moved into itself: plain rename tells. */
    struct stat st;
    if (fstatat(to_dir, to, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        return -EEXIST;
    }
    return renameat(from_dir, from, to_dir, to) == 0 ? 0 : -errno;
}

static int copy_file(int from_dir, const char *from, int to_dir, const char *to)
{
    cleanup_close int in = fs_openat(from_dir, from, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
    if (in < 0) {
        return in;
    }
    cleanup_close int out = fs_openat(to_dir, to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    return out < 0 ? out : fs_copy_data(in, out);
}

static int copy_link(int from_dir, const char *from, int to_dir, const char *to)
{
    char target[FS_PATH_MAX];
    ssize_t n = readlinkat(from_dir, from, target, sizeof(target) - 1);
    if (n < 0) {
        return -errno;
    }
    target[n] = '\0';
    return symlinkat(target, to_dir, to) == 0 ? 0 : -errno;
}

static int copy_dir(int from_dir, const char *from, int to_dir, const char *to, unsigned depth)
{
    if (depth >= FS_COPY_MAX_DEPTH) {
        return -ENAMETOOLONG;
    }
    int in = fs_openat(from_dir, from, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (in < 0) {
        return in;
    }
    cleanup_closedir DIR *dir = fdopendir(in);
    if (!dir) {
        int r = -errno;
        (void)close(in);
        return r;
    }
    if (mkdirat(to_dir, to, 0700) < 0) {
        return -errno;
    }
    cleanup_close int out = fs_openat(to_dir, to, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0);
    if (out < 0) {
        return out;
    }
    const struct dirent *d;
    while (errno = 0, (d = readdir(dir))) {
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0) {
            continue;
        }
        int r = copy_entry(dirfd(dir), d->d_name, out, d->d_name, depth + 1);
        if (r < 0) {
            return r;
        }
    }
    return -errno;
}

/* Owner, mode and times, in this order: each of the first two would undo the next. */
static int copy_meta(const struct stat *st, int dir, const char *name)
{
    if (fchownat(dir, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) < 0 && errno != EPERM) {
        return -errno;
    }
    if (!S_ISLNK(st->st_mode) && fchmodat(dir, name, st->st_mode & 07777, 0) < 0) {
        return -errno;
    }
    const struct timespec times[2] = {st->st_atim, st->st_mtim};
    return utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static int copy_entry(int from_dir, const char *from, int to_dir, const char *to, unsigned depth)
{
    struct stat st;
    if (fstatat(from_dir, from, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return -errno;
    }
    int r;
    switch (st.st_mode & S_IFMT) {
    case S_IFREG:
        r = copy_file(from_dir, from, to_dir, to);
        break;
    case S_IFDIR:
        r = copy_dir(from_dir, from, to_dir, to, depth);
        break;
    case S_IFLNK:
        r = copy_link(from_dir, from, to_dir, to);
        break;
    default:
        r = mknodat(to_dir, to, st.st_mode & (S_IFMT | 0777), st.st_rdev) < 0 ? -errno : 0;
        break;
    }
    return r < 0 ? r : copy_meta(&st, to_dir, to);
}

static int move_by_copy(int from_dir, const char *from, int to_dir, const char *to, struct err *e)
{
    char temp[FS_TEMP_NAME_MAX];
    (void)snprintf(temp, sizeof(temp), ".osb-%016llx", (unsigned long long)rand_u64());
    int r = copy_entry(from_dir, from, to_dir, temp, 0);
    if (r == 0) {
        r = rename_no_replace(to_dir, temp, to_dir, to);
    }
    if (r < 0) {
        (void)dir_remove(to_dir, temp, false); /* the copy's own error is the one that matters */
        return r == -EEXIST ? r : err_sys(e, r, "copying to another file system");
    }
    r = dir_remove(from_dir, from, false);
    return r < 0 ? err_sys(e, r, "copied, but the source could not be removed") : 0;
}

int fs_move(struct arena *a, const char *src, const char *dest, struct err *e)
{
    const char *from, *to;
    cleanup_close int from_dir = fs_open_parent(src, &from);
    struct stat st;
    if (from_dir < 0 || fstatat(from_dir, from, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return err_sys(e, from_dir < 0 ? from_dir : errno, "%s", src);
    }
    int r = fs_make_parents(a, dest, 0755);
    if (r < 0) {
        return err_sys(e, r == -ENOENT ? -ENOTDIR : r, "parent directory of %s", dest);
    }
    cleanup_close int to_dir = fs_open_parent(dest, &to);
    if (to_dir < 0) {
        return err_sys(e, to_dir, "%s", dest);
    }
    r = rename_no_replace(from_dir, from, to_dir, to);
    if (r == -EXDEV) {
        r = move_by_copy(from_dir, from, to_dir, to, e);
        if (r < 0 && r != -EEXIST) {
            return err_wrap(e, "%s", src);
        }
    }
    if (r == -EEXIST || r == -ENOTEMPTY) {
        return err_set(e, ERR_IO, "destination path already exists: %s", dest);
    }
    return r < 0 ? err_sys(e, r, "%s to %s", src, dest) : 0;
}
