/* The directory of a sandbox. */

#include "server/runtime/oci/home.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/must.h"
#include "server/runtime/oci/disk.h"

static int make_rw(struct home *h, uint64_t disk_bytes, int templates_fd, struct err *e)
{
    if (disk_bytes) {
        h->rw_fd = disk_make(h->dir_fd, HOME_DISK, disk_bytes, templates_fd, e);
        if (h->rw_fd < 0) {
            return -1;
        }
        h->mounted = true;
    } else if (mkdirat(h->dir_fd, HOME_RW, 0700) < 0 ||
               (h->rw_fd = openat(h->dir_fd, HOME_RW, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0) {
        return err_sys(e, errno, "make the writable layer");
    }
    if (mkdirat(h->rw_fd, "upper", 0755) < 0 || mkdirat(h->rw_fd, "work", 0700) < 0 ||
        mkdirat(h->rw_fd, "upper/etc", 0755) < 0) {
        return err_sys(e, errno, "make the writable layer");
    }
    return 0;
}

int home_make(int at_fd, const char *name, uint64_t disk_bytes, int templates_fd, struct home *ret,
              struct err *e)
{
    static const char *const files[] = {HOME_EXECD_LOG, HOME_LIFE, HOME_LOG_0, HOME_LOG_1};
    *ret = HOME_NONE;
    if (mkdirat(at_fd, name, 0700) < 0 ||
        (ret->dir_fd = openat(at_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0) {
        return err_sys(e, errno, "make the directory of a sandbox");
    }
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        int fd = openat(ret->dir_fd, files[i], O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0) {
            (void)err_sys(e, errno, "make %s", files[i]);
            home_close(ret);
            return -1;
        }
        (void)close(fd);
    }
    if (make_rw(ret, disk_bytes, templates_fd, e) < 0) {
        home_close(ret);
        return -1;
    }
    return 0;
}

void home_close(struct home *h)
{
    if (h->dir_fd >= 0) {
        (void)close(h->dir_fd);
    }
    if (h->rw_fd >= 0) {
        (void)close(h->rw_fd);
    }
    *h = HOME_NONE;
}
