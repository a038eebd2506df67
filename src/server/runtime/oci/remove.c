/* Taking a sandbox down, and finding what nobody owns any more. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/must.h"
#include "base/rand.h"
#include "server/runtime/oci/gateway.h"
#include "server/runtime/oci/limits.h"
#include "server/runtime/oci/oci.h"
#include "server/runtime/oci/volume.h"

/* SIGTERM to execd, which passes it on; then so long as configured. */
static void ask_to_end(struct oci *o, const struct sandbox *sb)
{
    int64_t wait_ms = o->oci->stop_timeout_seconds * 1000;
    if (wait_ms <= 0 || sb->pid <= 0 || sb->status.state == RT_EXITED) {
        return;
    }
    cleanup_close int pidfd = (int)syscall(SYS_pidfd_open, sb->pid, 0);
    if (pidfd < 0 || cgroup_is_frozen(&o->cg, sb->id)) {
        return;
    }
    (void)syscall(SYS_pidfd_send_signal, pidfd, SIGTERM, NULL, 0);
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    (void)poll(&p, 1, (int)wait_ms);
}

/* Out of the way under a name of its own; the deleting happens in the background. */
static int trash(struct oci *o, int from_fd, const char *name, struct err *e)
{
    char to[ID_HEX_LEN + 1];
    rand_id_hex(to);
    if (renameat(from_fd, name, o->trash_fd, to) < 0 && errno != ENOENT) {
        return err_sys(e, errno, "remove the directory of %s", name);
    }
    return 0;
}

/* What is shared with others, as its state file says. */
static void let_go(struct oci *o, const char *id)
{
    cleanup_(arena_done) struct arena a = {0};
    struct sandbox_state s = {0};
    cleanup_close int dir = sandbox_dir_open(o, id, NULL);
    if (dir >= 0 && state_read(dir, &a, &s, NULL) == 0) {
        volumes_drop(o, id, &s.volumes);
    }
}

int teardown(struct oci *o, const char *id, struct err *e)
{
    FAULT_POINT("oci.remove.begin");
    if (cgroup_kill(&o->cg, id, e) < 0) {
        return -1;
    }
    FAULT_POINT("oci.remove.after_kill");
    /* Its rules hold until everything they are for has ended. */
    if (gateway_remove(o, id, e) < 0 || cgroup_remove(&o->cg, id, e) < 0) {
        return -1;
    }
    FAULT_POINT("oci.remove.after_cgroup");
    let_go(o, id);
    FAULT_POINT("oci.remove.after_volumes");
    if (trash(o, o->sandboxes_fd, id, e) < 0) {
        return -1;
    }
    FAULT_POINT("oci.remove.after_dir");
    return 0;
}

int oci_remove(struct runtime *rt, const char *id, struct err *e)
{
    struct oci *o = oci_of(rt);
    if (!sandbox_id_is_valid(id)) {
        return 0; /* there can be none */
    }
    struct sandbox *sb = sandbox_get(o, id);
    if (sb) {
        (void)pthread_mutex_lock(&o->lock);
        sb->is_up = false;
        (void)pthread_mutex_unlock(&o->lock);
        ask_to_end(o, sb);
        watch_forget(o->watch, id);
    }
    if (teardown(o, id, e) < 0) {
        return err_wrap(e, "remove sandbox %s", id);
    }
    if (sb) {
        if (sb->inner_fd >= 0) {
            (void)close(sb->inner_fd);
        }
        network_give_back(o->net, &sb->net);
        if (sb->id_range >= 0) {
            idrange_release(&o->ids, (uint32_t)sb->id_range);
        }
        sandbox_drop(o, sb);
    }
    spares_wake(o->spares);
    FAULT_POINT("oci.remove.end");
    return 0;
}

/* ---- sweep ---- */

struct sweep {
    struct oci *o;
    bool (*is_known)(const char *id, void *arg);
    void *arg;
    int removed;
};

static void sweep_id(const char *id, void *arg)
{
    struct sweep *s = arg;
    struct err e = {0};
    char of[SANDBOX_ID_MAX + 1];
    if (!sandbox_id_is_valid(id) || s->is_known(id, s->arg) ||
        (gateway_is_group(id, of) && s->is_known(of, s->arg))) {
        return;
    }
    if (oci_remove(&s->o->rt, id, &e) < 0) {
        log_warn("a leftover could not be removed", LOG_S("id", id), LOG_ERR(&e));
        return;
    }
    s->removed++;
}

static int sweep_dirs(struct sweep *s, struct err *e)
{
    cleanup_close int fd = openat(s->o->sandboxes_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cleanup_closedir DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        return err_sys(e, errno, "sweep the directories of sandboxes");
    }
    (void)take_fd(&fd);
    struct dirent *ent;
    while ((ent = readdir(d))) {
        if (ent->d_type == DT_DIR && ent->d_name[0] != '.') {
            sweep_id(ent->d_name, s);
        }
    }
    return 0;
}

int oci_sweep(struct runtime *rt, bool (*is_known)(const char *id, void *arg), void *arg,
              struct err *e)
{
    struct oci *o = oci_of(rt);
    struct sweep s = {.o = o, .is_known = is_known, .arg = arg};
    if (sweep_dirs(&s, e) < 0 || cgroup_list(&o->cg, sweep_id, &s, e) < 0) {
        return -1;
    }
    s.removed += network_sweep(o->net);
    s.removed += volumes_sweep(o, is_known, arg);
    return s.removed;
}
