/* Making and removing directory trees by descriptors. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/must.h"
#include "base/rand.h"

static int make_one(int dir_fd, const char *path, mode_t mode)
{
    if (mkdirat(dir_fd, path, mode) == 0) {
        return 0;
    }
    if (errno != EEXIST) {
        return -errno;
    }
    struct stat st;
    if (fstatat(dir_fd, path, &st, 0) < 0) {
        return -errno;
    }
    return S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
}

int dir_make(int dir_fd, const char *path, mode_t mode)
{
    cleanup_free char *copy = xstrdup(path);
    for (char *at = copy + (copy[0] == '/'); (at = strchr(at, '/')); at++) {
        *at = 0;
        int r = make_one(dir_fd, copy, mode);
        *at = '/';
        if (r < 0) {
            return r;
        }
        while (at[1] == '/') {
            at++;
        }
        if (!at[1]) {
            return 0; /* only slashes followed */
        }
    }
    return copy[0] ? make_one(dir_fd, copy, mode) : -ENOENT;
}

/* One removal. A tree deeper than DIR_REMOVE_MAX_DEPTH (nothing stops a sandbox from making one) is
 * cut: its lower part is renamed into the top directory and removed from there, so neither the
 * stack nor the descriptors grow with the depth. */
struct removal {
    int top_fd;
    bool one_fs;
    int first_error; /* goes on after it, to free as much as can be freed */
};

static void note(struct removal *r, int error)
{
    if (!r->first_error) {
        r->first_error = error;
    }
}

static int open_dir(const struct removal *r, int dir_fd, const char *name)
{
    int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    if (!r->one_fs) {
        int fd = openat(dir_fd, name, flags); /* one name: there is nothing to resolve */
        return fd < 0 ? -errno : fd;
    }
    /* NO_XDEV stops at every mount point, also at a bind mount of the same file system. */
    return fd_openat2(dir_fd, name, flags, 0,
                      RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
}

static bool remove_content(struct removal *r, int take_dir_fd, unsigned depth);

/* True when the entry is gone from this directory. */
static bool remove_entry(struct removal *r, int dir_fd, const char *name, unsigned depth)
{
    if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT) {
        return true;
    }
    if (errno != EISDIR) {
        note(r, -errno);
        return false;
    }
    if (unlinkat(dir_fd, name, AT_REMOVEDIR) == 0) {
        return true;
    }
    if (depth >= DIR_REMOVE_MAX_DEPTH) {
        char moved[32];
        (void)snprintf(moved, sizeof(moved), ".rm-%016llx", (unsigned long long)rand_u64());
        if (renameat(dir_fd, name, r->top_fd, moved) == 0) {
            return true;
        }
        note(r, -errno);
        return false;
    }
    int fd = open_dir(r, dir_fd, name);
    if (fd < 0) {
        note(r, fd);
        return false;
    }
    if (!remove_content(r, fd, depth + 1)) {
        return false;
    }
    if (unlinkat(dir_fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT) {
        note(r, -errno);
        return false;
    }
    return true;
}

/* Passes over the directory until nothing is left or a pass removes nothing. */
static bool remove_content(struct removal *r, int take_dir_fd, unsigned depth)
{
    cleanup_closedir DIR *dir = fdopendir(take_dir_fd);
    if (!dir) {
        note(r, -errno);
        (void)close(take_dir_fd);
        return false;
    }
    for (;;) {
        bool progress = false;
        bool left = false;
        struct dirent *entry;
        while (errno = 0, (entry = readdir(dir))) {
            if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
                continue;
            }
            if (remove_entry(r, dirfd(dir), entry->d_name, depth)) {
                progress = true;
            } else {
                left = true;
            }
        }
        if (errno) {
            note(r, -errno);
            return false;
        }
        if (!progress) {
            return !left;
        }
        rewinddir(dir); /* entries made or moved here meanwhile, or skipped by the file system */
    }
}

int dir_remove(int dir_fd, const char *path, bool one_fs)
{
    if (unlinkat(dir_fd, path, 0) == 0 || errno == ENOENT) {
        return 0;
    }
    if (errno != EISDIR) {
        return -errno;
    }
    cleanup_close int top_fd =
        openat(dir_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (top_fd < 0) {
        return errno == ENOENT ? 0 : -errno;
    }
    struct removal r = {.top_fd = top_fd, .one_fs = one_fs};
    int walk_fd = fcntl(top_fd, F_DUPFD_CLOEXEC, 3);
    if (walk_fd < 0) {
        return -errno;
    }
    if (!remove_content(&r, walk_fd, 0)) {
        return r.first_error ? r.first_error : -ENOTEMPTY;
    }
    if (unlinkat(dir_fd, path, AT_REMOVEDIR) < 0 && errno != ENOENT) {
        return -errno;
    }
    return 0;
}
