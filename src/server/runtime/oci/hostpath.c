/* Paths that requests name: opened below what is allowed, so that no link leads anywhere else. */

#include "server/runtime/oci/hostpath.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "model/sandbox.h"

#define RESOLVE_TRIES 16
#define MOUNT_PATH_MAX 4096

/* A rename elsewhere may disturb the kernel's look at "..". */
static int open_beneath(int dir_fd, const char *path)
{
    int fd = -EAGAIN;
    for (int i = 0; fd == -EAGAIN && i < RESOLVE_TRIES; i++) {
        fd = fd_openat2(dir_fd, path, O_PATH, 0, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);
    }
    return fd;
}

static bool is_mountable(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && (S_ISDIR(st.st_mode) || S_ISREG(st.st_mode));
}

/* ---- directories of this machine ---- */

/* `path` below entry_fd, made as far as it is missing. Each step is looked up from entry_fd again,
 * and what is mounted is the descriptor that was found: no name is trusted twice. */
static int open_making(int entry_fd, const char *path)
{
    char prefix[MOUNT_PATH_MAX];
    size_t len = strlen(path);
    cleanup_close int at = fcntl(entry_fd, F_DUPFD_CLOEXEC, 3);
    if (at < 0 || len >= sizeof(prefix)) {
        return at < 0 ? -errno : -ENAMETOOLONG;
    }
    for (size_t i = 1; i <= len; i++) {
        if (i < len && path[i] != '/') {
            continue;
        }
        memcpy(prefix, path, i);
        prefix[i] = 0;
        int fd = open_beneath(entry_fd, prefix);
        if (fd == -ENOENT) {
            char *name = strrchr(prefix, '/');
            if (mkdirat(at, name ? name + 1 : prefix, 0755) < 0 && errno != EEXIST) {
                return -errno;
            }
            fd = open_beneath(entry_fd, prefix);
        }
        if (fd < 0) {
            return fd;
        }
        (void)close(at);
        at = fd;
    }
    return take_fd(&at);
}

/* Where entries lie in one another the outermost counts: a sandbox that can write to it could turn
 * the inner one into a link. */
static const char *outermost(const struct str_list *allowed, const char *path)
{
    const char *best = NULL;
    for (size_t i = 0; i < allowed->n; i++) {
        if (host_path_allowed(str_from(path), str_from(allowed->v[i])) &&
            (!best || strlen(allowed->v[i]) < strlen(best))) {
            best = allowed->v[i];
        }
    }
    return best;
}

/* Where a volume is to be looked for: below which entry of the allow-list, and how. */
struct host_place {
    int entry_fd;
    const char *entry, *from;
    char rest[MOUNT_PATH_MAX];
};

static int host_find(const struct runtime_spec *spec, const struct volume *v,
                     struct host_place *ret, enum runtime_stage *stage, struct err *e)
{
    ret->entry = outermost(&spec->host_paths, v->host->path);
    *stage = STAGE_HOST_PATH_DENIED;
    if (!ret->entry) {
        return err_set(e, ERR_DENIED, "volume %s: %s is not allowed", v->name, v->host->path);
    }
    *stage = STAGE_HOST_PATH;
    size_t skip = strlen(ret->entry);
    skip -= skip && ret->entry[skip - 1] == '/';
    const char *sub = v->sub_path ? v->sub_path : "";
    int n = snprintf(ret->rest, sizeof(ret->rest), "%s/%s", v->host->path + skip, sub);
    if (n >= (int)sizeof(ret->rest)) {
        return err_sys(e, ENAMETOOLONG, "volume %s: %s", v->name, v->host->path);
    }
    ret->from = ret->rest;
    while (*ret->from == '/') {
        ret->from++;
    }
    while (n > 0 && ret->rest[n - 1] == '/') {
        ret->rest[--n] = 0;
    }
    ret->entry_fd = open(ret->entry, O_PATH | O_CLOEXEC);
    return ret->entry_fd < 0 ? err_sys(e, errno, "volume %s: %s", v->name, ret->entry) : 0;
}

/* What came of looking there. */
static int host_found(const struct volume *v, const char *entry, int fd, enum runtime_stage *stage,
                      struct err *e)
{
    if (fd == -EXDEV || fd == -ELOOP) {
        *stage = STAGE_HOST_PATH_DENIED;
        return err_set(e, ERR_DENIED, "volume %s: %s leads out of %s", v->name, v->host->path,
                       entry);
    }
    *stage = STAGE_HOST_PATH;
    if (fd < 0) {
        return err_sys(e, fd, "volume %s: %s", v->name, v->host->path);
    }
    if (!is_mountable(fd)) {
        (void)close(fd);
        return err_set(e, ERR_INVALID, "volume %s: %s is neither a directory nor a file", v->name,
                       v->host->path);
    }
    return fd;
}

int volume_host_open(const struct runtime_spec *spec, const struct volume *v,
                     enum runtime_stage *stage, struct err *e)
{
    struct host_place at = {.entry_fd = -1, .from = ""};
    if (host_find(spec, v, &at, stage, e) < 0) {
        return -1;
    }
    cleanup_close int entry_fd = at.entry_fd;
    int fd = *at.from ? open_making(entry_fd, at.from) : take_fd(&entry_fd);
    return host_found(v, at.entry, fd, stage, e);
}

int volume_host_check(const struct runtime_spec *spec, const struct volume *v,
                      enum runtime_stage *stage, struct err *e)
{
    struct host_place at = {.entry_fd = -1, .from = ""};
    if (host_find(spec, v, &at, stage, e) < 0) {
        return -1;
    }
    cleanup_close int entry_fd = at.entry_fd;
    int found = *at.from ? open_beneath(entry_fd, at.from) : take_fd(&entry_fd);
    if (found == -ENOENT) {
        return 0;
    }
    cleanup_close int fd = host_found(v, at.entry, found, stage, e);
    return fd < 0 ? -1 : 0;
}

/* ---- parts of volumes ---- */

int volume_sub_open(int data_fd, const struct volume *v, enum runtime_stage *stage, struct err *e)
{
    *stage = STAGE_SUB_PATH;
    int fd = open_beneath(data_fd, v->sub_path);
    if (fd == -EXDEV || fd == -ELOOP) {
        return err_set(e, ERR_INVALID, "volume %s: subPath '%.200s' leads out of the volume",
                       v->name, v->sub_path);
    }
    if (fd < 0) {
        return err_sys(e, fd, "volume %s: subPath '%.200s'", v->name, v->sub_path);
    }
    if (!is_mountable(fd)) {
        (void)close(fd);
        return err_set(e, ERR_INVALID, "volume %s: subPath is neither a directory nor a file",
                       v->name);
    }
    return fd;
}
