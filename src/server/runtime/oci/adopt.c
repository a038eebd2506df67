/* After a restart of the server: taking charge again of what goes on. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/must.h"
#include "server/runtime/oci/gateway.h"
#include "server/runtime/oci/images.h"
#include "server/runtime/oci/oci.h"

/* A descriptor of exactly the process that was recorded, or -1. */
static int pidfd_of(const struct sandbox_state *s)
{
    if (!s->pid.has || !s->pid_start.has || strcmp(s->boot_id, state_boot_id()) != 0) {
        return -1;
    }
    int fd = (int)syscall(SYS_pidfd_open, (pid_t)s->pid.v, 0);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    /* It has ended, or the number belongs to somebody else by now. */
    if (fd >= 0 &&
        (poll(&p, 1, 0) != 0 || state_pid_start((int)s->pid.v) != (uint64_t)s->pid_start.v)) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

static void adopt_ended(struct oci *o, struct sandbox *sb, const struct sandbox_state *s, int dir)
{
    struct runtime_status *st = &sb->status;
    st->state = RT_EXITED;
    if (s->exit_kind) {
        st->exit = exit_kind_parse(s->exit_kind);
        st->exit_code = (int)s->exit_code.v;
        st->finished_us = s->finished_us.v;
        (void)snprintf(st->detail, sizeof(st->detail), "%s", s->detail ? s->detail : "");
        return;
    }
    sandbox_exit_status(o, sb->id, dir, -1, st);
    if (st->exit == EXIT_UNKNOWN && strcmp(s->boot_id, state_boot_id()) != 0) {
        (void)snprintf(st->detail, sizeof(st->detail), "the machine was restarted");
    }
    st->finished_us = clock_wall_us();
}

static int adopt_running(struct oci *o, struct sandbox *sb, const struct sandbox_state *s,
                         int take_pidfd, struct err *e)
{
    sb->pid = (pid_t)s->pid.v;
    sb->status.state = RT_RUNNING;
    const char *link = s->link ? s->link : "";
    int r = s->egress.v ? gateway_adopt(o, sb, (uint32_t)s->ip.v, link, e)
                        : network_adopt(o->net, sb->pid, (uint32_t)s->ip.v, link, &sb->net, e);
    if (r < 0) {
        (void)close(take_pidfd);
        return -1;
    }
    sb->is_up = true;
    return watch_sandbox(o->watch, sb->id, sb->pid, take_pidfd, e);
}

static void adopt_one(struct oci *o, const char *id)
{
    cleanup_(arena_done) struct arena a = {0};
    struct sandbox_state s = {0};
    struct err e = {0};
    cleanup_close int dir = sandbox_dir_open(o, id, &e);
    if (dir < 0) {
        return;
    }
    /* Nobody was ever told that it exists, and its ids must not be given to another. */
    if (state_read(dir, &a, &s, &e) < 0 || strcmp(s.phase, "creating") == 0 ||
        strcmp(s.id, id) != 0) {
        if (teardown(o, id, &e) < 0) {
            log_warn("a half-made sandbox could not be removed", LOG_S("id", id), LOG_ERR(&e));
        }
        return;
    }
    struct sandbox *sb = sandbox_add(o, id);
    if (!sb) {
        return;
    }
    sb->status.started_us = s.started_us.v;
    images_adopt(o, sb, dir);
    if (s.id_range.has && idrange_reserve(&o->ids, (uint32_t)s.id_range.v)) {
        sb->id_range = (int)s.id_range.v;
    }
    snapshot_thaw(o, id, dir);
    int pidfd = pidfd_of(&s);
    if (pidfd < 0) {
        adopt_ended(o, sb, &s, dir);
    } else if (adopt_running(o, sb, &s, pidfd, &e) < 0) {
        log_warn("a sandbox could not be taken over", LOG_S("id", id), LOG_ERR(&e));
        adopt_ended(o, sb, &s, dir);
    }
}

int oci_adopt(struct runtime *rt, struct err *e)
{
    struct oci *o = oci_of(rt);
    cleanup_close int fd = openat(o->sandboxes_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cleanup_closedir DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        return err_sys(e, errno, "list sandboxes");
    }
    (void)take_fd(&fd);
    struct dirent *ent;
    while ((ent = readdir(d))) {
        if (ent->d_type == DT_DIR && sandbox_id_is_valid(ent->d_name)) {
            adopt_one(o, ent->d_name);
        }
    }
    /* Only now is it known which ids and addresses are free. */
    return oci_spares_start(o, e);
}
