#include "execd/fs_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/must.h"
#include "base/rand.h"
#include "execd/fs_path.h"

#define COPY_STEP (1u << 30)
#define COPY_BUFFER (256u << 10)

static int copy_by_hand(int from, int to)
{
    cleanup_free char *p = xmalloc(COPY_BUFFER);
    for (;;) {
        ssize_t n = read(from, p, COPY_BUFFER);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return n < 0 ? -errno : 0;
        }
        int r = fd_write_full(to, p, (size_t)n);
        if (r < 0) {
            return r;
        }
    }
}

int fs_copy_data(int from, int to)
{
    bool any = false;
    for (;;) {
        ssize_t n = copy_file_range(from, NULL, to, NULL, COPY_STEP, 0);
        if (n > 0) {
            any = true;
        } else if (n == 0 && any) {
            return 0;
        } else if (n < 0 && errno == EINTR) {
            continue;
        } else if (n == 0 || errno == EXDEV || errno == EINVAL || errno == ENOSYS ||
                   errno == EOPNOTSUPP || errno == EPERM) {
            /* Not between these file systems; and 0 at once is also what /proc files say. */
            return copy_by_hand(from, to);
        } else {
            return -errno;
        }
    }
}

static void temp_name(char out[FS_TEMP_NAME_MAX])
{
    (void)snprintf(out, FS_TEMP_NAME_MAX, ".osb-%016llx", (unsigned long long)rand_u64());
}

/* A file without a name can only be given one through /proc. */
static bool has_proc(void)
{
    return faccessat(AT_FDCWD, "/proc/self/fd", F_OK, 0) == 0;
}

static int open_unnamed(int dir_fd, const char *path)
{
    int fd = fs_openat(dir_fd, path, O_TMPFILE | O_RDWR, 0777);
    bool unsupported = fd == -EOPNOTSUPP || fd == -EISDIR || fd == -ENOENT || fd == -EINVAL;
    return unsupported ? -EOPNOTSUPP : fd;
}

int fs_temp_open(void)
{
    const char *dir = getenv("TMPDIR");
    if (!dir || *dir != '/') {
        dir = "/tmp";
    }
    int fd = open_unnamed(AT_FDCWD, dir);
    if (fd != -EOPNOTSUPP) {
        return fd;
    }
    cleanup_close int dir_fd = fs_open(dir, O_PATH | O_DIRECTORY, 0);
    if (dir_fd < 0) {
        return dir_fd;
    }
    char name[FS_TEMP_NAME_MAX];
    temp_name(name);
    fd = fs_openat(dir_fd, name, O_CREAT | O_EXCL | O_NOFOLLOW | O_RDWR, 0600);
    if (fd >= 0) {
        (void)unlinkat(dir_fd, name, 0); /* it may stay: it is a temporary directory */
    }
    return fd;
}

static int open_temp(struct fs_writer *w)
{
    w->fd = has_proc() ? open_unnamed(w->dir_fd, ".") : -EOPNOTSUPP;
    if (w->fd == -EOPNOTSUPP) {
        temp_name(w->temp);
        w->fd = fs_openat(w->dir_fd, w->temp, O_CREAT | O_EXCL | O_NOFOLLOW | O_RDWR, 0777);
        if (w->fd < 0) {
            w->temp[0] = '\0';
        }
    }
    bool denied = w->fd == -EACCES || w->fd == -EPERM || w->fd == -EROFS;
    if (denied && w->existed && faccessat(w->dir_fd, w->leaf, W_OK, AT_EACCESS) == 0) {
        w->in_place = true;
        w->fd = fs_temp_open();
    }
    return w->fd < 0 ? w->fd : 0;
}

int fs_writer_open(struct fs_writer *w, struct arena *a, const char *abs, struct err *e)
{
    *w = (struct fs_writer){.fd = -1};
    w->dir_fd = fs_open_target(a, abs, &w->leaf);
    if (w->dir_fd < 0) {
        return err_sys(e, w->dir_fd, "%s", abs);
    }
    int r = 0;
    if (fstatat(w->dir_fd, w->leaf, &w->old, AT_SYMLINK_NOFOLLOW) == 0) {
        w->existed = true;
        r = S_ISDIR(w->old.st_mode) ? -EISDIR : S_ISREG(w->old.st_mode) ? 0 : -ENXIO;
    } else if (errno != ENOENT) {
        r = -errno;
    }
    if (r == 0) {
        r = open_temp(w);
    }
    if (r == 0) {
        return 0;
    }
    (void)close(w->dir_fd);
    w->dir_fd = -1;
    return r == -ENXIO ? err_set(e, ERR_IO, "%s: not a regular file", abs)
                       : err_sys(e, r, "%s", abs);
}

/* Gives the unnamed file a hidden name in the target's directory. */
static int link_temp(struct fs_writer *w)
{
    char proc[64];
    (void)snprintf(proc, sizeof(proc), "/proc/self/fd/%d", w->fd);
    temp_name(w->temp);
    if (linkat(AT_FDCWD, proc, w->dir_fd, w->temp, AT_SYMLINK_FOLLOW) == 0) {
        return 0;
    }
    /* Some file systems make unnamed files but cannot link them. */
    int fd = fs_openat(w->dir_fd, w->temp, O_CREAT | O_EXCL | O_NOFOLLOW | O_RDWR, 0777);
    if (fd < 0) {
        w->temp[0] = '\0';
        return fd;
    }
    int r = lseek(w->fd, 0, SEEK_SET) < 0 ? -errno : fs_copy_data(w->fd, fd);
    (void)close(w->fd);
    w->fd = fd;
    return r;
}

static int copy_over(struct fs_writer *w)
{
    cleanup_close int fd = fs_openat(w->dir_fd, w->leaf, O_WRONLY | O_TRUNC | O_NOFOLLOW, 0);
    if (fd < 0) {
        return fd;
    }
    return lseek(w->fd, 0, SEEK_SET) < 0 ? -errno : fs_copy_data(w->fd, fd);
}

static void keep_old_owner_mode(const struct fs_writer *w)
{
    if (w->existed && !w->in_place) {
        /* Not being allowed to give a file away is no reason to refuse writing it. */
        (void)!fchown(w->fd, w->old.st_uid, w->old.st_gid);
        (void)fchmod(w->fd, w->old.st_mode & 07777);
    }
}

static int put_in_place(struct fs_writer *w, const struct fs_owner_mode *om, struct err *e)
{
    int r = 0;
    if (!w->in_place && w->temp[0] == '\0') {
        r = link_temp(w);
    }
    if (r == 0 && !w->in_place) {
        keep_old_owner_mode(w);
        if (fs_perm_apply_fd(w->fd, om, e) < 0) {
            return -1;
        }
        if (renameat(w->dir_fd, w->temp, w->dir_fd, w->leaf) == 0) {
            w->temp[0] = '\0';
            return 0;
        }
        r = -errno;
        w->in_place = r == -EBUSY; /* a mount point */
    }
    if (w->in_place) {
        r = copy_over(w);
        if (r == 0) {
            cleanup_close int fd = fs_openat(w->dir_fd, w->leaf, O_RDONLY | O_NOFOLLOW, 0);
            return fd < 0 ? err_sys(e, fd, "%s", w->leaf) : fs_perm_apply_fd(fd, om, e);
        }
    }
    return r < 0 ? err_sys(e, r, "%s", w->leaf) : 0;
}

int fs_writer_commit(struct fs_writer *w, const struct fs_owner_mode *om, struct err *e)
{
    int r = put_in_place(w, om, e);
    fs_writer_abort(w);
    return r;
}

void fs_writer_abort(struct fs_writer *w)
{
    if (!w->leaf) {
        return;
    }
    if (w->temp[0]) {
        (void)unlinkat(w->dir_fd, w->temp, 0);
    }
    if (w->fd >= 0) {
        (void)close(w->fd);
    }
    if (w->dir_fd >= 0) {
        (void)close(w->dir_fd);
    }
    *w = (struct fs_writer){.fd = -1, .dir_fd = -1};
}
