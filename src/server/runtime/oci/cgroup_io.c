/* How much a sandbox may read from and write to the disk in a second. The limit is on the whole
 * disk below the data directory: loop devices of writable layers pass their I/O on in the name of
 * whoever asked for it. On v1 writes that go through the page cache are the kernel's own, and pass.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/num.h"
#include "server/runtime/oci/cgroup.h"

static const struct {
    const char *v1, *v2;
} names[IO_LIMITS] = {
    [IO_READ_BPS] = {"blkio.throttle.read_bps_device", "rbps"},
    [IO_WRITE_BPS] = {"blkio.throttle.write_bps_device", "wbps"},
    [IO_READ_IOPS] = {"blkio.throttle.read_iops_device", "riops"},
    [IO_WRITE_IOPS] = {"blkio.throttle.write_iops_device", "wiops"},
};

/* "254:0" out of a file of sysfs. */
static int dev_read(const char *path, dev_t *ret)
{
    cleanup_(buf_done) struct buf text = BUF_INIT(64);
    if (file_read(AT_FDCWD, path, &text) < 0) {
        return -1;
    }
    struct str s = buf_str(&text);
    struct str line = str_cut(&s, '\n');
    struct str maj = str_cut(&line, ':');
    uint32_t a, b;
    if (parse_u32(maj, &a) < 0 || parse_u32(line, &b) < 0) {
        return -1;
    }
    *ret = makedev(a, b);
    return 0;
}

int cgroup_io_find(struct cgroup_host *h, int dir_fd)
{
    struct stat st;
    char path[96];
    if (fstat(dir_fd, &st) < 0) {
        return -1;
    }
    unsigned a = major(st.st_dev), b = minor(st.st_dev);
    (void)snprintf(path, sizeof(path), "/sys/dev/block/%u:%u", a, b);
    if (access(path, F_OK) < 0) {
        return -1;
    }
    h->disk = st.st_dev;
    (void)snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/partition", a, b);
    if (access(path, F_OK) == 0) { /* limits are kept for whole disks only */
        (void)snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/../dev", a, b);
        if (dev_read(path, &h->disk) < 0) {
            h->disk = 0;
            return -1;
        }
    }
    return 0;
}

void cgroup_io_format(bool v2, dev_t disk, const uint64_t io[IO_LIMITS], enum runtime_io which,
                      char out[CGROUP_IO_MAX])
{
    size_t n = 0;
    out[0] = 0;
    for (unsigned i = 0; i < IO_LIMITS; i++) {
        if (!io[i] || (!v2 && i != which)) {
            continue;
        }
        if (!n) {
            n = (size_t)snprintf(out, CGROUP_IO_MAX, "%u:%u", major(disk), minor(disk));
        }
        n += (size_t)snprintf(out + n, CGROUP_IO_MAX - n, " %s%s%llu", v2 ? names[i].v2 : "",
                              v2 ? "=" : "", (unsigned long long)io[i]);
    }
}

static int limit_device(const struct cgroup_hier *hier, const char *dir, dev_t disk,
                        const uint64_t io[IO_LIMITS], struct err *e)
{
    for (unsigned i = 0; i < (hier->v2 ? 1u : IO_LIMITS); i++) {
        char text[CGROUP_IO_MAX], path[CGROUP_PATH_MAX + 64];
        cgroup_io_format(hier->v2, disk, io, i, text);
        if (!text[0]) {
            continue;
        }
        (void)snprintf(path, sizeof(path), "%s/%s", dir, hier->v2 ? "io.max" : names[i].v1);
        int r = file_write(AT_FDCWD, path, str_from(text));
        if (r < 0) {
            return err_sys(e, r, "write '%s' to %s", text, path);
        }
    }
    return 0;
}

int cgroup_io_limit(const struct cgroup_host *h, const struct cgroup_hier *hier, const char *dir,
                    const struct cgroup_limits *l, struct err *e)
{
    if (limit_device(hier, dir, h->disk, l->io, e) < 0) {
        return -1;
    }
    return l->layer && l->layer != h->disk ? limit_device(hier, dir, l->layer, l->io, e) : 0;
}
