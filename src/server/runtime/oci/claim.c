#include "server/runtime/oci/claim.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/must.h"

#define OWN_NAMES                                                                                  \
    "give this one a run_dir, bridge, subnet, nft_table and cgroup_parent of its own below [oci]"

/* Locks `fd`. POSIX locks end with the process: flock(2) would be held on by a child that is about
 * to exec when the server dies. They need no file of ours either: those of sysfs and of control
 * groups have them too. */
static int lock(int fd, const char *key, const char *value, struct err *e)
{
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET}, holder = l;
    if (fcntl(fd, F_SETLK, &l) == 0) {
        return 0;
    }
    if (errno != EAGAIN && errno != EACCES) {
        return err_sys(e, errno, "lock %s %s", key, value);
    }
    (void)fcntl(fd, F_GETLK, &holder); /* only for the message */
    return err_set(e, ERR_CONFLICT,
                   "another server (pid %d) has the same oci.%s, %s: stop it, or " OWN_NAMES,
                   (int)holder.l_pid, key, value);
}

static bool has_entries(const char *dir)
{
    cleanup_closedir DIR *d = opendir(dir);
    struct dirent *ent;
    while (d && (ent = readdir(d))) {
        if (ent->d_name[0] != '.') {
            return true;
        }
    }
    return false;
}

/* The lock file says whose sandboxes the directory is for. */
static int check_owner(int fd, const char *run_dir, const char *root, struct err *e)
{
    char owner[PATH_MAX];
    struct stat theirs, ours;
    ssize_t n = pread(fd, owner, sizeof(owner) - 1, 0);
    owner[n > 0 ? n : 0] = '\0';
    if (owner[0] && stat(owner, &theirs) == 0 && stat(root, &ours) == 0 &&
        (theirs.st_dev != ours.st_dev || theirs.st_ino != ours.st_ino)) {
        cleanup_free char *sandboxes = xasprintf("%s/sandboxes", owner);
        if (has_entries(sandboxes)) {
            return err_set(
                e, ERR_CONFLICT,
                "oci.run_dir, %s, has sandboxes of the server whose files are in %s: start that "
                "server and end them, remove its files if nobody needs them, or " OWN_NAMES,
                run_dir, owner);
        }
    }
    size_t len = strlen(root);
    return ftruncate(fd, 0) < 0 || pwrite(fd, root, len, 0) != (ssize_t)len
               ? err_sys(e, errno, "write %s/lock", run_dir)
               : 0;
}

int claim_run_dir(struct claim *c, const struct config_oci *oci, const char *root, struct err *e)
{
    cleanup_free char *path = xasprintf("%s/lock", oci->run_dir);
    c->run_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (c->run_fd < 0) {
        return err_sys(e, errno, "%s", path);
    }
    return lock(c->run_fd, "run_dir", oci->run_dir, e) < 0
               ? -1
               : check_owner(c->run_fd, oci->run_dir, root, e);
}

int claim_cgroup(struct claim *c, const struct cgroup_host *h, struct err *e)
{
    char path[CGROUP_PATH_MAX];
    const struct cgroup_hier *hier = cgroup_hier_v2(h);
    hier = hier ? hier : cgroup_hier_of(h, CGROUP_FREEZER);
    must(hier); /* cgroup_host_init() */
    /* A file that nobody else opens: closing it anywhere in this process would give up the lock. */
    cgroup_path(h, hier, cgroup_hier_v2(h) ? "cgroup.max.descendants" : "notify_on_release", NULL,
                path);
    c->group_fd = open(path, O_RDWR | O_CLOEXEC);
    if (c->group_fd < 0) {
        return err_sys(e, errno, "%s", path);
    }
    return lock(c->group_fd, "cgroup_parent", h->parent, e);
}

int claim_bridge(struct claim *c, const struct config_oci *oci, struct err *e)
{
    if (c->bridge_fd >= 0 || strcmp(oci->network, "bridge") != 0) {
        return 0;
    }
    cleanup_free char *path = xasprintf("/sys/class/net/%s/tx_queue_len", oci->bridge);
    c->bridge_fd = open(path, O_RDWR | O_CLOEXEC);
    /* Not there yet; or a machine whose sysfs may not be written, which goes without. */
    return c->bridge_fd < 0 ? 0 : lock(c->bridge_fd, "bridge", oci->bridge, e);
}

void claim_done(struct claim *c)
{
    int *const fds[] = {&c->run_fd, &c->group_fd, &c->bridge_fd};
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        if (*fds[i] >= 0) {
            (void)close(*fds[i]);
        }
        *fds[i] = -1;
    }
}
