/* Descriptors, and files by path. Trees are made and removed in fd_tree.c. */

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "base/rand.h"

static int set_flag(int fd, int get, int set, int flag, bool on)
{
    int flags = fcntl(fd, get);
    if (flags < 0) {
        return -errno;
    }
    int want = on ? flags | flag : flags & ~flag;
    if (want != flags && fcntl(fd, set, want) < 0) {
        return -errno;
    }
    return 0;
}

int fd_set_nonblock(int fd, bool on)
{
    return set_flag(fd, F_GETFL, F_SETFL, O_NONBLOCK, on);
}

int fd_set_cloexec(int fd, bool on)
{
    return set_flag(fd, F_GETFD, F_SETFD, FD_CLOEXEC, on);
}

ssize_t fd_read_full(int fd, void *p, size_t n)
{
    size_t done = 0;
    while (done < n) {
        ssize_t got = read(fd, (char *)p + done, n - done);
        if (got < 0) {
            if (errno == EINTR) {
                continue;
            }
            return -errno;
        }
        if (got == 0) {
            break;
        }
        done += (size_t)got;
    }
    return (ssize_t)done;
}

int fd_write_full(int fd, const void *p, size_t n)
{
    const char *at = p;
    while (n) {
        ssize_t put = write(fd, at, n);
        if (put < 0) {
            if (errno == EINTR) {
                continue;
            }
            return -errno;
        }
        at += put;
        n -= (size_t)put;
    }
    return 0;
}

int fd_openat2(int dir_fd, const char *path, int flags, mode_t mode, uint64_t resolve)
{
    struct open_how how = {
        .flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
        .resolve = resolve,
    };
    if (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE) {
        how.mode = mode & 07777; /* openat2 refuses a mode without a file to make */
    }
    for (int i = 0;; i++) {
        long fd = syscall(SYS_openat2, dir_fd, path, &how, sizeof(how));
        if (fd >= 0) {
            return (int)fd;
        }
        /* EAGAIN: a rename or mount elsewhere raced with "..", the kernel wants another try. */
        if (errno == EINTR || (errno == EAGAIN && i < OPENAT2_MAX_TRIES)) {
            continue;
        }
        return -errno;
    }
}

int fd_open_in_root(int root_fd, const char *path, int flags, mode_t mode)
{
    return fd_openat2(root_fd, path, flags, mode, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
}

int fd_open_beneath(int dir_fd, const char *path, int flags, mode_t mode)
{
    return fd_openat2(dir_fd, path, flags, mode,
                      RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
}

int file_read(int dir_fd, const char *path, struct buf *out)
{
    cleanup_close int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        return -errno;
    }
    int r = buf_read_fd(out, fd);
    return r == -ENOSPC ? -EFBIG : r;
}

int file_read_regular(int dir_fd, const char *path, struct buf *out)
{
    struct stat st;
    cleanup_close int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0) {
        return -errno;
    }
    if (!S_ISREG(st.st_mode)) {
        return -EINVAL;
    }
    int r = buf_read_fd(out, fd);
    return r == -ENOSPC ? -EFBIG : r;
}

int file_write(int dir_fd, const char *path, struct str content)
{
    cleanup_close int fd = openat(dir_fd, path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        return -errno;
    }
    ssize_t n;
    do {
        n = write(fd, content.p ? content.p : "", content.n);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        return -errno;
    }
    return (size_t)n == content.n ? 0 : -EIO;
}

/* Descriptor of the directory that holds `path`, and the last name of it. */
static int open_parent(int dir_fd, const char *path, const char **ret_name)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        return -EINVAL;
    }
    cleanup_free char *parent = NULL;
    if (slash) {
        parent = str_dup(str_n(path, slash == path ? 1 : (size_t)(slash - path)));
    }
    int fd = openat(dir_fd, parent ? parent : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    *ret_name = name;
    return fd;
}

static int write_synced(int parent_fd, const char *name, struct str content, mode_t mode)
{
    cleanup_close int fd =
        openat(parent_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        return -errno;
    }
    int r = fd_write_full(fd, content.p, content.n);
    if (r == 0 && fchmod(fd, mode) < 0) { /* exact, whatever the umask is */
        r = -errno;
    }
    if (r == 0 && fsync(fd) < 0) {
        r = -errno;
    }
    return r;
}

int file_write_atomic(int dir_fd, const char *path, struct str content, mode_t mode)
{
    const char *name = NULL;
    cleanup_close int parent_fd = open_parent(dir_fd, path, &name);
    if (parent_fd < 0) {
        return parent_fd;
    }
    char tmp[32];
    (void)snprintf(tmp, sizeof(tmp), ".tmp-%016llx", (unsigned long long)rand_u64());
    int r = write_synced(parent_fd, tmp, content, mode);
    if (r == 0 && renameat(parent_fd, tmp, parent_fd, name) < 0) {
        r = -errno;
    }
    if (r < 0) {
        (void)unlinkat(parent_fd, tmp, 0); /* it may never have been made */
        return r;
    }
    /* The name is only durable once its directory is. */
    return fsync(parent_fd) < 0 ? -errno : 0;
}
