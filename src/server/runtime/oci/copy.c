/* Copying trees, by descriptors only. */

#include "server/runtime/oci/copy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/map.h"
#include "base/must.h"
#include "server/runtime/oci/limits.h"

#define OVERLAY_PREFIX "trusted.overlay."
#define NAMES_MAX (64u << 10) /* what the kernel lists at most */

struct copy {
    const struct copy_opts *o;
    struct copy_stats *st;
    struct map inodes; /* number of a file with several names -> its first path below the root */
    int root_fd;       /* of the copy */
    bool no_clone, no_range;
    char path[COPY_PATH_MAX]; /* of the entry at work, for messages, hard links and `skip` */
    char *names, *value;
    struct err *e;
};

static int failed(struct copy *c, int errnum, const char *what)
{
    return err_sys(c->e, errnum, "%s /%.200s", what, c->path);
}

/* ---- attributes ---- */

/* Of overlayfs' own attributes only what describes the content; the rest refers to layers below
 * and to inodes of the original. */
static bool wanted(const char *name)
{
    return strncmp(name, OVERLAY_PREFIX, strlen(OVERLAY_PREFIX)) != 0 ||
           strcmp(name, OVERLAY_PREFIX "opaque") == 0;
}

/* Both are descriptors opened with O_PATH or not: by way of /proc, which follows nothing more. */
static int copy_xattrs(struct copy *c, int from_fd, int to_fd)
{
    char from[40], to[40];
    (void)snprintf(from, sizeof(from), "/proc/self/fd/%d", from_fd);
    (void)snprintf(to, sizeof(to), "/proc/self/fd/%d", to_fd);
    ssize_t n = listxattr(from, c->names, NAMES_MAX);
    if (n < 0) {
        return errno == ENOTSUP ? 0 : failed(c, errno, "attributes of");
    }
    for (const char *p = c->names; p < c->names + n; p += strlen(p) + 1) {
        if (!wanted(p)) {
            continue;
        }
        ssize_t len = getxattr(from, p, c->value, NAMES_MAX);
        if (len < 0 && errno == ENODATA) {
            continue;
        }
        if (len < 0 || setxattr(to, p, c->value, (size_t)len, 0) < 0) {
            return failed(c, errno, "attributes of");
        }
    }
    return 0;
}

static int copy_times(struct copy *c, int dir_fd, const char *name, const struct stat *st)
{
    const struct timespec t[] = {st->st_atim, st->st_mtim};
    return utimensat(dir_fd, name, t, AT_SYMLINK_NOFOLLOW) < 0 ? failed(c, errno, "times of") : 0;
}

/* Owner first: changing it takes setuid bits away. */
static int copy_owner(struct copy *c, int fd, const struct stat *st)
{
    if (fchown(fd, st->st_uid, st->st_gid) < 0 || fchmod(fd, st->st_mode & 07777) < 0) {
        return failed(c, errno, "owner of");
    }
    return 0;
}

/* ---- contents ---- */

static int copy_piece(struct copy *c, int from, int to, off_t at, off_t end)
{
    while (at < end) {
        loff_t in = at, out = at;
        ssize_t n = -1;
        errno = EXDEV;
        if (!c->no_range) {
            n = copy_file_range(from, &in, to, &out, (size_t)(end - at), 0);
        }
        if (n < 0 && (errno == EXDEV || errno == EINVAL || errno == EOPNOTSUPP)) {
            c->no_range = true;
            n = pread(from, c->value, MIN((size_t)(end - at), NAMES_MAX), at);
            n = n > 0 ? pwrite(to, c->value, (size_t)n, at) : n;
        }
        if (n <= 0) {
            return n < 0 ? -errno : -EIO; /* it does not get shorter while we look */
        }
        at += n;
    }
    return 0;
}

static int copy_holes(struct copy *c, int from, int to, off_t size)
{
    for (off_t at = 0; at < size;) {
        off_t data = lseek(from, at, SEEK_DATA);
        if (data < 0) {
            return errno == ENXIO ? 0 : -errno;
        }
        off_t end = lseek(from, data, SEEK_HOLE);
        if (end < 0) {
            return -errno;
        }
        int r = copy_piece(c, from, to, data, MIN(end, size));
        if (r < 0) {
            return r;
        }
        at = end;
    }
    return 0;
}

static int copy_content(struct copy *c, int from, int to, const struct stat *st)
{
    if (st->st_size == 0) {
        return 0;
    }
    if (!c->no_clone) {
        if (ioctl(to, FICLONE, from) == 0) {
            c->st->shared += (uint64_t)st->st_size;
            return 0;
        }
        c->no_clone = errno != EPERM && errno != ENOSPC;
    }
    if (ftruncate(to, st->st_size) < 0) {
        return -errno;
    }
    return copy_holes(c, from, to, st->st_size);
}

/* ---- entries ---- */

/* 1: it was a further name of a file that is there already. */
static int copy_hard_link(struct copy *c, const struct stat *st, int to_dir, const char *name)
{
    char key[24];
    int n = snprintf(key, sizeof(key), "%llx", (unsigned long long)st->st_ino);
    if (st->st_nlink < 2 || strlen(c->path) >= PATH_MAX) {
        return 0;
    }
    char *first = map_get(&c->inodes, str_n(key, (size_t)n));
    if (!first) {
        (void)map_put(&c->inodes, str_n(key, (size_t)n), xstrdup(c->path));
        return 0;
    }
    return linkat(c->root_fd, first, to_dir, name, 0) < 0 ? failed(c, errno, "link") : 1;
}

static int copy_file(struct copy *c, int from_dir, int to_dir, const char *name,
                     const struct stat *st)
{
    cleanup_close int from = openat(from_dir, name, O_RDONLY | O_NOFOLLOW | O_NOATIME | O_CLOEXEC);
    cleanup_close int to =
        openat(to_dir, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (from < 0 || to < 0) {
        return failed(c, errno, "open");
    }
    int r = copy_content(c, from, to, st);
    if (r < 0) {
        return failed(c, r, "copy");
    }
    c->st->files++;
    c->st->bytes += (uint64_t)st->st_size;
    if (copy_owner(c, to, st) < 0 || copy_xattrs(c, from, to) < 0) {
        return -1;
    }
    return copy_times(c, to_dir, name, st);
}

static int copy_symlink(struct copy *c, int from_dir, int to_dir, const char *name,
                        const struct stat *st)
{
    ssize_t n = readlinkat(from_dir, name, c->value, NAMES_MAX - 1);
    if (n < 0) {
        return failed(c, errno, "link");
    }
    c->value[n] = 0;
    if (symlinkat(c->value, to_dir, name) < 0 ||
        fchownat(to_dir, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) < 0) {
        return failed(c, errno, "link");
    }
    return copy_times(c, to_dir, name, st);
}

/* Whiteouts, pipes, sockets. */
static int copy_special(struct copy *c, int from_dir, int to_dir, const char *name,
                        const struct stat *st)
{
    if (mknodat(to_dir, name, (st->st_mode & S_IFMT) | 0600, st->st_rdev) < 0) {
        return failed(c, errno, "make");
    }
    cleanup_close int from = openat(from_dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    cleanup_close int to = openat(to_dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (from < 0 || to < 0 ||
        fchownat(to_dir, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) < 0 ||
        fchmodat(to_dir, name, st->st_mode & 07777, 0) < 0) {
        return failed(c, errno, "make");
    }
    if (copy_xattrs(c, from, to) < 0) {
        return -1;
    }
    return copy_times(c, to_dir, name, st);
}

static int copy_dir(struct copy *c, int from_fd, int to_fd, unsigned depth);

static int copy_subdir(struct copy *c, int from_dir, int to_dir, const char *name,
                       const struct stat *st, unsigned depth)
{
    cleanup_close int from =
        openat(from_dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (from < 0 || mkdirat(to_dir, name, 0700) < 0) {
        return failed(c, errno, "make");
    }
    cleanup_close int to = openat(to_dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (to < 0) {
        return failed(c, errno, "make");
    }
    if (copy_dir(c, from, to, depth + 1) < 0 || copy_owner(c, to, st) < 0 ||
        copy_xattrs(c, from, to) < 0) {
        return -1;
    }
    return copy_times(c, to_dir, name, st);
}

static int copy_entry(struct copy *c, int from_dir, int to_dir, const char *name, unsigned depth)
{
    struct stat st;
    if (fstatat(from_dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return failed(c, errno, "look at");
    }
    if (S_ISDIR(st.st_mode)) {
        return copy_subdir(c, from_dir, to_dir, name, &st, depth);
    }
    int r = copy_hard_link(c, &st, to_dir, name);
    if (r != 0) {
        return r < 0 ? -1 : 0;
    }
    if (S_ISREG(st.st_mode)) {
        return copy_file(c, from_dir, to_dir, name, &st);
    }
    if (S_ISLNK(st.st_mode)) {
        return copy_symlink(c, from_dir, to_dir, name, &st);
    }
    bool is_device = S_ISBLK(st.st_mode) || (S_ISCHR(st.st_mode) && st.st_rdev != 0);
    return is_device ? 0 : copy_special(c, from_dir, to_dir, name, &st);
}

static bool is_skipped(const struct copy *c)
{
    for (const char *const *p = c->o->skip; p && *p; p++) {
        if (strcmp(*p, c->path) == 0) {
            return true;
        }
    }
    return false;
}

/* A path that is too long is no matter for the kernel, but nobody could name it either. */
static int copy_dir(struct copy *c, int from_fd, int to_fd, unsigned depth)
{
    size_t len = strlen(c->path);
    int fd = openat(from_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cleanup_closedir DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        return failed(c, errno, "list");
    }
    if (depth > COPY_DEPTH_MAX) {
        return err_set(c->e, ERR_LIMIT, "directories are nested deeper than %u: /%.200s",
                       COPY_DEPTH_MAX, c->path);
    }
    struct dirent *ent;
    int r = 0;
    while (r == 0 && (errno = 0, ent = readdir(d))) {
        if (strcmp(ent->d_name, ".") == 0 || strcmp(ent->d_name, "..") == 0) {
            continue;
        }
        int n = snprintf(c->path + len, sizeof(c->path) - len, "%s%s", len ? "/" : "", ent->d_name);
        if ((size_t)n >= sizeof(c->path) - len) {
            r = err_set(c->e, ERR_LIMIT, "a path is longer than %u bytes: /%.200s", COPY_PATH_MAX,
                        c->path);
        } else if (!is_skipped(c)) {
            r = copy_entry(c, from_fd, to_fd, ent->d_name, depth);
        }
        c->path[len] = 0;
    }
    return r == 0 && errno ? failed(c, errno, "list") : r;
}

static void inodes_done(struct copy *c)
{
    size_t it = 0;
    struct str key;
    void *value;
    while (map_next(&c->inodes, &it, &key, &value)) {
        free(value);
    }
    map_done(&c->inodes);
}

int copy_tree(int from_fd, int to_fd, const struct copy_opts *o, struct copy_stats *ret,
              struct err *e)
{
    cleanup_free struct copy *c = xcalloc(1, sizeof(*c));
    cleanup_free char *names = xcalloc(2, NAMES_MAX);
    struct stat st;
    *c = (struct copy){.o = o, .st = ret, .root_fd = to_fd, .e = e};
    c->names = names;
    c->value = names + NAMES_MAX;
    *ret = (struct copy_stats){0};
    int r = fstat(from_fd, &st) < 0 ? failed(c, errno, "look at") : copy_dir(c, from_fd, to_fd, 0);
    r = r < 0 ? r : copy_owner(c, to_fd, &st);
    r = r < 0 ? r : copy_xattrs(c, from_fd, to_fd);
    const struct timespec t[] = {st.st_atim, st.st_mtim};
    if (r == 0 && futimens(to_fd, t) < 0) {
        r = failed(c, errno, "times of");
    }
    inodes_done(c);
    return r;
}
