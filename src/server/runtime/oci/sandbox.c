/* The table of sandboxes, and how a sandbox ended. */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/must.h"
#include "server/runtime/oci/images.h"
#include "server/runtime/oci/life.h"
#include "server/runtime/oci/oci.h"

/* It becomes a directory, a control group and an argument of engines. */
bool sandbox_id_is_valid(const char *id)
{
    size_t n = strlen(id);
    if (n == 0 || n > SANDBOX_ID_MAX || id[0] == '-' || id[0] == '.') {
        return false;
    }
    return strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") == n;
}

struct sandbox *sandbox_add(struct oci *o, const char *id)
{
    struct sandbox *sb = NEW(struct sandbox);
    (void)snprintf(sb->id, sizeof(sb->id), "%s", id);
    sb->net = NET_LEASE_NONE;
    sb->id_range = sb->inner_fd = -1;
    sb->status.state = RT_CREATED;
    (void)pthread_mutex_lock(&o->lock);
    bool exists = map_get(&o->sandboxes, str_from(id)) != NULL;
    if (!exists) {
        (void)map_put(&o->sandboxes, str_from(id), sb);
    }
    (void)pthread_mutex_unlock(&o->lock);
    if (exists) {
        free(sb);
        return NULL;
    }
    return sb;
}

struct sandbox *sandbox_get(struct oci *o, const char *id)
{
    (void)pthread_mutex_lock(&o->lock);
    struct sandbox *sb = map_get(&o->sandboxes, str_from(id));
    (void)pthread_mutex_unlock(&o->lock);
    return sb;
}

void sandbox_drop(struct oci *o, struct sandbox *sb)
{
    (void)pthread_mutex_lock(&o->lock);
    (void)map_del(&o->sandboxes, str_from(sb->id));
    (void)pthread_mutex_unlock(&o->lock);
    images_release(o, sb);
    free(sb);
}

int sandbox_dir_open(struct oci *o, const char *id, struct err *e)
{
    if (!sandbox_id_is_valid(id)) {
        return err_set(e, ERR_INVALID, "'%s' cannot be a sandbox id", id);
    }
    int fd = openat(o->sandboxes_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT ? err_set(e, ERR_NOT_FOUND, "no sandbox %s here", id)
                               : err_sys(e, errno, "directory of %s", id);
    }
    return fd;
}

static void exit_from_life(const struct life *l, struct runtime_status *st)
{
    if (l->oom) {
        st->exit = EXIT_OOM;
        st->exit_code = l->signal ? l->signal : SIGKILL;
        (void)snprintf(st->detail, sizeof(st->detail), "the entrypoint was killed: out of memory");
    } else if (l->signal) {
        st->exit = EXIT_SIGNAL;
        st->exit_code = l->signal;
        (void)snprintf(st->detail, sizeof(st->detail), "the entrypoint was killed by signal %d",
                       l->signal);
    } else {
        st->exit = EXIT_CODE;
        st->exit_code = l->exit_code;
        (void)snprintf(st->detail, sizeof(st->detail), "the entrypoint ended with exit code %d",
                       l->exit_code);
    }
}

void sandbox_exit_status(struct oci *o, const char *id, int dir_fd, int wait_status,
                         struct runtime_status *ret)
{
    struct life l;
    ret->state = RT_EXITED;
    if (life_read(dir_fd, &l) == 0 && l.has_exit) {
        exit_from_life(&l, ret);
        return;
    }
    if (l.has_failed) {
        ret->exit = EXIT_CODE;
        ret->exit_code = 127;
        (void)snprintf(ret->detail, sizeof(ret->detail), "the entrypoint could not be started: %s",
                       l.error);
        return;
    }
    if (cgroup_oom_kills(&o->cg, id, true)) {
        ret->exit = EXIT_OOM;
        ret->exit_code = SIGKILL;
        (void)snprintf(ret->detail, sizeof(ret->detail), "execd was killed: out of memory");
        return;
    }
    ret->exit = EXIT_UNKNOWN;
    ret->exit_code = -1;
    (void)snprintf(ret->detail, sizeof(ret->detail), "the sandbox ended without saying why");
    if (wait_status >= 0 && WIFSIGNALED(wait_status)) {
        ret->exit = EXIT_SIGNAL;
        ret->exit_code = WTERMSIG(wait_status);
        (void)snprintf(ret->detail, sizeof(ret->detail), "execd was killed by signal %d",
                       ret->exit_code);
    } else if (wait_status >= 0 && WIFEXITED(wait_status)) {
        ret->exit = EXIT_CODE;
        ret->exit_code = WEXITSTATUS(wait_status);
        (void)snprintf(ret->detail, sizeof(ret->detail), "execd ended with exit code %d",
                       ret->exit_code);
    }
}

/* Written down, so that a later start still knows when and how. */
static void record_exit(int dir_fd, const struct runtime_status *st)
{
    cleanup_(arena_done) struct arena a = {0};
    struct sandbox_state s;
    struct err e = {0};
    if (state_read(dir_fd, &a, &s, &e) == 0) {
        s.phase = "exited";
        s.finished_us = (struct opt_int){true, st->finished_us};
        s.exit_kind = exit_kind_name(st->exit);
        s.exit_code = (struct opt_int){true, st->exit_code};
        s.detail = st->detail;
        (void)state_write(dir_fd, &s, &e);
    }
    if (e.code) {
        log_warn("the end of a sandbox could not be recorded", LOG_ERR(&e));
    }
}

void sandbox_on_exit(const char *id, int wait_status, void *arg)
{
    struct oci *o = arg;
    struct runtime_status st;
    cleanup_close int dir = sandbox_dir_open(o, id, NULL);
    (void)pthread_mutex_lock(&o->lock);
    struct sandbox *sb = map_get(&o->sandboxes, str_from(id));
    st = sb ? sb->status : (struct runtime_status){0};
    (void)pthread_mutex_unlock(&o->lock);
    if (!sb || dir < 0) {
        return;
    }
    st.finished_us = clock_wall_us();
    sandbox_exit_status(o, id, dir, wait_status, &st);
    record_exit(dir, &st);
    (void)pthread_mutex_lock(&o->lock);
    sb = map_get(&o->sandboxes, str_from(id));
    if (sb) {
        sb->status = st;
        sb->is_up = false;
    }
    (void)pthread_mutex_unlock(&o->lock);
    if (sb && o->rt.on_exit) {
        o->rt.on_exit(id, &st, o->rt.on_exit_arg);
    }
}
