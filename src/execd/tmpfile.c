/* Private temporary files. */

#include "execd/tmpfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/must.h"
#include "base/rand.h"

#define N_DIRS 4
#define COPY_MAX (1u << 30) /* bytes a call; the kernel takes no more than 2 GB */

static void directories(const char *tmp_dir, const char *dirs[N_DIRS])
{
    (void)dir_make(AT_FDCWD, tmp_dir, 01777); /* if it cannot be made, opening says why */
    dirs[0] = tmp_dir;
    dirs[1] = "/tmp";
    dirs[2] = "/var/tmp";
    dirs[3] = "/dev/shm";
}

static int create_in(const char *dir, char **ret_path)
{
    char name[ID_HEX_LEN + 1];
    rand_id_hex(name);
    *ret_path = xasprintf("%s/.execd-%s", dir, name);
    int fd = open(*ret_path, O_CREAT | O_EXCL | O_NOFOLLOW | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) {
        int error = -errno;
        free(take_ptr(ret_path));
        return error;
    }
    return fd;
}

static int unnamed_in(const char *dir)
{
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) {
        return fd >= 0 ? fd : -errno;
    }
    cleanup_free char *path = NULL;
    fd = create_in(dir, &path);
    if (fd >= 0 && path) {
        (void)unlink(path);
    }
    return fd;
}

int tmpfile_unnamed(const char *tmp_dir, struct err *e)
{
    const char *dirs[N_DIRS];
    int first = 0;
    directories(tmp_dir, dirs);
    for (size_t i = 0; i < N_DIRS; i++) {
        int fd = unnamed_in(dirs[i]);
        if (fd >= 0) {
            return fd;
        }
        first = first ? first : fd;
    }
    return err_sys(e, first, "cannot create a file in %s", tmp_dir);
}

char *tmpfile_named(const char *tmp_dir, struct str content)
{
    const char *dirs[N_DIRS];
    directories(tmp_dir, dirs);
    for (size_t i = 0; i < N_DIRS; i++) {
        char *path = NULL;
        cleanup_close int fd = create_in(dirs[i], &path);
        if (fd < 0 || !path) {
            continue;
        }
        /* Through this descriptor: by its name it could be something else by now. */
        if (fd_write_full(fd, content.p, content.n) == 0) {
            return path;
        }
        (void)unlink(path); /* a full disk */
        free(path);
    }
    return NULL;
}

static int copy_all(int to_fd, int from_fd)
{
    off_t at = 0;
    for (;;) {
        ssize_t n = sendfile(to_fd, from_fd, &at, COPY_MAX);
        if (n == 0) {
            return 0;
        }
        if (n < 0 && errno != EINTR) {
            return -errno;
        }
    }
}

int tmpfile_input(const char *tmp_dir, int head_fd, struct str tail)
{
    struct err e = {0};
    cleanup_close int fd = memfd_create("execd-input", MFD_CLOEXEC);
    if (fd < 0) {
        fd = tmpfile_unnamed(tmp_dir, &e);
    }
    if (fd < 0) {
        return e.sys ? -abs(e.sys) : -EROFS;
    }
    int r = head_fd >= 0 ? copy_all(fd, head_fd) : 0;
    r = r < 0 ? r : fd_write_full(fd, tail.p, tail.n);
    if (r == 0 && lseek(fd, 0, SEEK_SET) < 0) {
        r = -errno;
    }
    return r < 0 ? r : take_fd(&fd);
}
