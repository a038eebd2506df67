/* Room on the disk and its speed. The engine can limit either only where its data is on the right
 * kind of disk, and would say nothing otherwise: what cannot be kept is refused. */

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/must.h"
#include "server/runtime/docker/docker.h"

#define MOUNTINFO_MAX (4u << 20)

static const char *const io_keys[IO_LIMITS] = {
    [IO_READ_BPS] = "BlkioDeviceReadBps",
    [IO_WRITE_BPS] = "BlkioDeviceWriteBps",
    [IO_READ_IOPS] = "BlkioDeviceReadIOps",
    [IO_WRITE_IOPS] = "BlkioDeviceWriteIOps",
};

/* ---- what the engine's data is on ---- */

/* "vda" of the disk or partition with this number: limits are kept for whole disks only. */
static char *disk_name(dev_t dev)
{
    char path[96], part[96];
    (void)snprintf(part, sizeof(part), "/sys/dev/block/%u:%u/partition", major(dev), minor(dev));
    (void)snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/%suevent", major(dev), minor(dev),
                   access(part, F_OK) == 0 ? "../" : "");
    cleanup_(buf_done) struct buf text = BUF_INIT(4096);
    if (file_read(AT_FDCWD, path, &text) < 0) {
        return NULL; /* of memory, or of several disks */
    }
    struct str rest = buf_str(&text);
    while (rest.p) {
        struct str line = str_cut(&rest, '\n');
        if (str_starts(line, STR("DEVNAME="))) {
            line = str_sub(line, strlen("DEVNAME="), line.n);
            return xasprintf("/dev/%.*s", STR_FMT(line));
        }
    }
    return NULL;
}

bool mount_has_quota(struct str mountinfo, unsigned dev_major, unsigned dev_minor)
{
    char want[32];
    int n = snprintf(want, sizeof(want), "%u:%u", dev_major, dev_minor);
    while (mountinfo.p) {
        struct str line = str_cut(&mountinfo, '\n'), options = STR_NULL;
        for (unsigned field = 0; line.p && field < 3; field++) {
            options = str_cut(&line, ' ');
        }
        if (!str_eq(options, str_n(want, (size_t)n))) {
            continue;
        }
        ptrdiff_t last = str_rfind(line, ' ');
        options = last < 0 ? STR_NULL : str_sub(line, (size_t)last + 1, line.n);
        while (options.p) {
            struct str word = str_cut(&options, ',');
            if (str_eq(word, STR("prjquota")) || str_eq(word, STR("pquota"))) {
                return true;
            }
        }
    }
    return false;
}

static bool xfs_has_quota(dev_t dev)
{
    cleanup_(buf_done) struct buf text = BUF_INIT(MOUNTINFO_MAX);
    return file_read(AT_FDCWD, "/proc/self/mountinfo", &text) == 0 &&
           mount_has_quota(buf_str(&text), major(dev), minor(dev));
}

static struct str backing_of(const struct json *info)
{
    const struct json *rows = json_get(info, "DriverStatus");
    for (size_t i = 0; json_is_array(rows) && i < json_len(rows); i++) {
        const struct json *row = json_item(rows, i);
        if (str_eq(json_str(json_item(row, 0)), STR("Backing Filesystem"))) {
            return json_str(json_item(row, 1));
        }
    }
    return STR_NULL;
}

void engine_disk_open(struct docker *d, const struct json *info)
{
    const char *root = json_cstr(json_get(info, "DockerRootDir"));
    struct str driver = json_str(json_get(info, "Driver")), on = backing_of(info);
    struct stat st;
    bool here = root && engine_sees(d, root) && stat(root, &st) == 0;
    (void)snprintf(d->storage, sizeof(d->storage), "%.*s%s%.*s", STR_FMT(driver),
                   on.n ? " on " : "", STR_FMT(on));
    d->disk = here ? disk_name(st.st_dev) : NULL;
    /* Elsewhere the engine itself refuses what its file system was not mounted for. */
    d->can_quota = str_eq(driver, STR("btrfs")) || str_eq(driver, STR("zfs")) ||
                   (str_eq(driver, STR("overlay2")) && str_eq(on, STR("xfs")) &&
                    (!here || xfs_has_quota(st.st_dev)));
    log_debug("the engine's disk", LOG_S("storage", d->storage),
              LOG_S("device", d->disk ? d->disk : "-"), LOG_I("can_quota", d->can_quota));
}

/* ---- requests ---- */

static bool wants_io(const struct runtime_limits *l)
{
    return l->io[IO_READ_BPS] || l->io[IO_WRITE_BPS] || l->io[IO_READ_IOPS] || l->io[IO_WRITE_IOPS];
}

int engine_disk_check(const struct docker *d, const struct runtime_limits *l, struct err *e)
{
    if (l->disk_bytes && !d->can_quota) {
        return err_set(e, ERR_INVALID,
                       "resourceLimits.disk: this engine cannot limit it (its storage is %s; it "
                       "takes overlay2 on xfs mounted with pquota, btrfs or zfs)",
                       d->storage);
    }
    if (wants_io(l) && !d->disk) {
        return err_set(e, ERR_INVALID,
                       "resourceLimits.io-*: the engine's data is on no disk of this machine that "
                       "can be limited");
    }
    return 0;
}

void engine_disk_into(const struct docker *d, const struct runtime_limits *l, struct json *host)
{
    if (l->disk_bytes) {
        char text[24];
        int n = snprintf(text, sizeof(text), "%llu", (unsigned long long)l->disk_bytes);
        struct json *storage = json_object_new();
        json_set(storage, "size", json_string_new(str_n(text, (size_t)n)));
        json_set(host, "StorageOpt", storage);
    }
    for (unsigned i = 0; d->disk && i < IO_LIMITS; i++) {
        if (l->io[i]) {
            struct json *list = json_array_new(), *one = json_object_new();
            json_set(one, "Path", json_string_new(str_from(d->disk)));
            json_set(one, "Rate", json_int_new((int64_t)l->io[i]));
            json_push(list, one);
            json_set(host, io_keys[i], list);
        }
    }
}

int limits_kept(const struct json *warnings, const struct runtime_limits *l, struct err *e)
{
    const struct {
        struct str word;
        bool wanted;
    } rows[] = {{STR("Block I/O"), wants_io(l)},
                {STR("memory limit"), l->memory_bytes},
                {STR("CPU"), l->cpu_millis},
                {STR("PIDs limit"), l->pids}};
    for (size_t i = 0; json_is_array(warnings) && i < json_len(warnings); i++) {
        struct str said = json_str(json_item(warnings, i));
        bool discarded = said.p && str_find_str(said, STR("discarded")) >= 0;
        for (size_t k = 0; discarded && k < ARRAY_LEN(rows); k++) {
            if (rows[k].wanted && str_find_str(said, rows[k].word) >= 0) {
                return err_set(e, ERR_INVALID, "resourceLimits: %.*s", STR_FMT(said));
            }
        }
    }
    return 0;
}
