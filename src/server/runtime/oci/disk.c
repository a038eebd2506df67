/* Writable layers with a size. */

#include "server/runtime/oci/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "io/child.h"
#include "server/runtime/oci/limits.h"

#define BLOCK 4096
#define LOOP_TRIES 64

static const char *const mke2fs_paths[] = {"/usr/sbin/mke2fs", "/sbin/mke2fs", "/usr/bin/mke2fs"};

static const char *mke2fs_path(void)
{
    for (size_t i = 0; i < sizeof(mke2fs_paths) / sizeof(mke2fs_paths[0]); i++) {
        if (access(mke2fs_paths[i], X_OK) == 0) {
            return mke2fs_paths[i];
        }
    }
    return NULL;
}

int disk_check(struct err *e)
{
    if (!mke2fs_path()) {
        return err_set(e, ERR_UNSUPPORTED, "disk limits need mke2fs (package e2fsprogs)");
    }
    cleanup_close int ctl = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    if (ctl < 0) {
        return err_set(e, ERR_UNSUPPORTED, "disk limits need loop devices: /dev/loop-control: %s",
                       strerror(errno));
    }
    return 0;
}

/* No journal: nothing here survives a crash of the machine. Tables are written when first used. */
static int template_make(int templates_fd, const char *name, uint64_t size, struct err *e)
{
    char path[64], tmp[64];
    (void)snprintf(tmp, sizeof(tmp), "%s.%d", name, (int)gettid());
    cleanup_close int fd = openat(templates_fd, tmp, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)size) < 0) {
        return err_sys(e, errno, "make a file system template");
    }
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    const char *const argv[] = {
        "mke2fs",
        "-q",
        "-F",
        "-t",
        "ext4",
        "-b",
        "4096",
        "-m",
        "0",
        "-O",
        "^has_journal,^resize_inode",
        "-E",
        "lazy_itable_init=1,nodiscard,root_owner=0:0",
        path,
        NULL,
    };
    struct io_child_opts o = {.path = mke2fs_path(),
                              .argv = argv,
                              .keep_fds = &fd,
                              .n_keep_fds = 1,
                              .timeout_ms = 60000,
                              .err = {.kind = IO_STDIO_PIPE}};
    cleanup_(buf_done) struct buf errout = BUF_INIT(4096);
    struct io_child_status st;
    int r = io_child_run(&o, NULL, &errout, &st, e);
    if (r == 0 && (st.end != IO_CHILD_EXITED || st.code != 0)) {
        r = err_set(e, ERR_IO, "mke2fs failed: %.200s", buf_cstr(&errout));
    }
    if (r == 0 && renameat(templates_fd, tmp, templates_fd, name) < 0) {
        r = err_sys(e, errno, "keep a file system template");
    }
    if (r < 0) {
        (void)unlinkat(templates_fd, tmp, 0);
    }
    return r;
}

static int template_open(int templates_fd, uint64_t size, struct err *e)
{
    char name[40];
    (void)snprintf(name, sizeof(name), "%llu.img", (unsigned long long)size);
    int fd = openat(templates_fd, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        if (template_make(templates_fd, name, size, e) < 0) {
            return -1;
        }
        fd = openat(templates_fd, name, O_RDONLY | O_CLOEXEC);
    }
    return fd < 0 ? err_sys(e, errno, "open a file system template") : fd;
}

/* Only what is not a hole. */
static int copy_sparse(int from, int to)
{
    off_t at = 0;
    for (;;) {
        off_t data = lseek(from, at, SEEK_DATA);
        if (data < 0) {
            return errno == ENXIO ? 0 : -errno;
        }
        off_t end = lseek(from, data, SEEK_HOLE);
        if (end < 0) {
            return -errno;
        }
        loff_t in = data, out = data;
        while (in < end) {
            ssize_t n = copy_file_range(from, &in, to, &out, (size_t)(end - in), 0);
            if (n <= 0) {
                return n < 0 ? -errno : -EIO;
            }
        }
        at = end;
    }
}

/* A loop device over the file that vanishes with its last user. */
static int loop_attach(int file_fd, char ret_path[32], struct err *e)
{
    cleanup_close int ctl = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    if (ctl < 0) {
        return err_sys(e, errno, "open /dev/loop-control");
    }
    struct loop_config c = {.fd = (uint32_t)file_fd, .block_size = BLOCK};
    c.info.lo_flags = LO_FLAGS_AUTOCLEAR;
    int r = 0;
    for (int i = 0; i < LOOP_TRIES; i++) {
        int number = ioctl(ctl, LOOP_CTL_GET_FREE);
        if (number < 0) {
            return err_sys(e, errno, "find a free loop device");
        }
        (void)snprintf(ret_path, 32, "/dev/loop%d", number);
        cleanup_close int fd = open(ret_path, O_RDWR | O_CLOEXEC);
        if (fd >= 0 && ioctl(fd, LOOP_CONFIGURE, &c) == 0) {
            return take_fd(&fd);
        }
        r = -errno;
        if (r != -EBUSY && r != -ENOENT && r != -ENXIO) {
            break; /* else somebody was quicker */
        }
    }
    return err_sys(e, r, "attach %s", ret_path);
}

static int fs_mount(const char *device, struct err *e)
{
    cleanup_close int fs = (int)syscall(SYS_fsopen, "ext4", FSOPEN_CLOEXEC);
    if (fs < 0) {
        return err_sys(e, errno, "ext4");
    }
    if (syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, "source", device, 0) < 0 ||
        syscall(SYS_fsconfig, fs, FSCONFIG_SET_FLAG, "noinit_itable", NULL, 0) < 0 ||
        syscall(SYS_fsconfig, fs, FSCONFIG_SET_FLAG, "discard", NULL, 0) < 0 ||
        syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0) {
        return err_sys(e, errno, "mount %s", device);
    }
    int fd = (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC,
                          MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOATIME);
    return fd < 0 ? err_sys(e, errno, "mount %s", device) : fd;
}

static int disk_fill(int fd, uint64_t size, int templates_fd, struct err *e)
{
    cleanup_close int from = template_open(templates_fd, size, e);
    if (from < 0) {
        return -1;
    }
    if (ftruncate(fd, (off_t)size) < 0) {
        return err_sys(e, errno, "size of a writable layer");
    }
    int r = copy_sparse(from, fd);
    return r < 0 ? err_sys(e, r, "copy a file system template") : 0;
}

int disk_make(int dir_fd, const char *name, uint64_t size, int templates_fd, struct err *e)
{
    char device[32];
    size &= ~(uint64_t)(BLOCK - 1);
    cleanup_close int fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) {
        return err_sys(e, errno, "make a writable layer");
    }
    cleanup_close int loop = -1;
    cleanup_close int mnt = -1;
    if (disk_fill(fd, size, templates_fd, e) == 0 && (loop = loop_attach(fd, device, e)) >= 0 &&
        (mnt = fs_mount(device, e)) >= 0) {
        return take_fd(&mnt);
    }
    (void)unlinkat(dir_fd, name, 0);
    return -1;
}

static bool loop_is_of(int loop_fd, const struct stat *file)
{
    struct loop_info64 info;
    return ioctl(loop_fd, LOOP_GET_STATUS64, &info) == 0 && info.lo_inode == file->st_ino &&
           info.lo_device == file->st_dev;
}

int disk_open(int dir_fd, const char *name, struct err *e)
{
    struct stat st;
    cleanup_closedir DIR *d = opendir("/sys/block");
    if (!d || fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return err_sys(e, errno, "writable layer");
    }
    struct dirent *ent;
    while ((ent = readdir(d))) {
        char path[sizeof(ent->d_name) + 32];
        (void)snprintf(path, sizeof(path), "/sys/block/%s/loop/backing_file", ent->d_name);
        if (strncmp(ent->d_name, "loop", 4) != 0 || access(path, F_OK) < 0) {
            continue;
        }
        (void)snprintf(path, sizeof(path), "/dev/%s", ent->d_name);
        cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && loop_is_of(fd, &st)) {
            return fs_mount(path, e);
        }
    }
    return err_set(e, ERR_CONFLICT, "its writable layer is not mounted");
}

uint64_t disk_used(int dir_fd, const char *name)
{
    struct stat st;
    return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? 0 : (uint64_t)st.st_blocks * 512;
}
