/* What is to be mounted, where nobody but us can change it.
 *
 * The engine takes paths, and resolves them when it starts the container: by then somebody who can
 * write to a directory above may have made a link of it. So what was found is mounted once more,
 * below our own directory, the engine is told that path, and when the container has it the mount
 * goes again. Needs an engine with the same mounts as we have. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/must.h"
#include "server/runtime/docker/docker.h"

static void take_away(const char *path)
{
    (void)umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW); /* EINVAL: it was never mounted */
    if (rmdir(path) < 0 && errno == ENOTDIR) {
        (void)unlink(path);
    }
}

static char *place(const struct docker *d, const char *id, size_t i)
{
    return xasprintf("%s/docker/mounts/%s.%zu", d->cfg->server.data_dir, id, i);
}

/* The copy must not pass on to the original that it is taken away. */
static int mount_at(int fd, const char *path)
{
    char from[32];
    struct stat st;
    if (fstat(fd, &st) < 0) {
        return -errno;
    }
    int made = S_ISDIR(st.st_mode) ? mkdir(path, 0700)
                                   : open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (made < 0) {
        return -errno;
    }
    if (!S_ISDIR(st.st_mode)) {
        (void)close(made);
    }
    (void)snprintf(from, sizeof(from), "/proc/self/fd/%d", fd);
    if (mount(from, path, NULL, MS_BIND | MS_REC, NULL) < 0 ||
        mount(NULL, path, NULL, MS_PRIVATE | MS_REC, NULL) < 0) {
        int r = -errno;
        take_away(path);
        return r;
    }
    return 0;
}

int hold_put(const struct docker *d, struct volume_plan *plan, int fd, char out[4096],
             struct err *e)
{
    cleanup_close int own = fd;
    if (own < 0) {
        return -1;
    }
    cleanup_free char *dir = xasprintf("%s/docker/mounts", d->cfg->server.data_dir);
    cleanup_free char *path = place(d, plan->id, plan->n_held);
    int r = dir_make(AT_FDCWD, dir, 0700);
    if (r == 0) {
        take_away(path); /* of a create of this id that was cut short */
        r = mount_at(own, path);
    }
    if (r < 0 || str_to_cstr(str_from(path), out, 4096) < 0) {
        return err_sys(e, r, "mount a volume at %s", path);
    }
    plan->n_held++;
    return 0;
}

void hold_drop(const struct docker *d, struct volume_plan *plan)
{
    while (plan->n_held) {
        cleanup_free char *path = place(d, plan->id, --plan->n_held);
        take_away(path);
    }
}

void hold_clear(const struct docker *d)
{
    cleanup_free char *dir = xasprintf("%s/docker/mounts", d->cfg->server.data_dir);
    cleanup_closedir DIR *all = opendir(dir);
    struct dirent *ent;
    while (all && (ent = readdir(all))) {
        if (ent->d_name[0] != '.') {
            cleanup_free char *path = xasprintf("%s/%s", dir, ent->d_name);
            take_away(path);
        }
    }
}
