/* Starting the processes of a sandbox. */

#include "server/runtime/oci/start.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/must.h"
#include "base/num.h"
#include "server/runtime/oci/bundle.h"
#include "server/runtime/oci/life.h"
#include "server/runtime/oci/limits.h"
#include "server/runtime/oci/stage.h"
#include "server/runtime/oci/trust.h"
#include "server/runtime/oci/volume.h"

#define EXECD_PATH "/opt/opensandbox/execd"
#define PID_FILE "pid"

/* Descriptors of execd, under numbers that are the same in every sandbox. Engines that pass on no
 * more than three have to make do with those. */
enum { FD_LIFE = 3, FD_LOG_0 = 4, FD_LOG_1 = 5, FD_CGROUPS = 6 };

static const char *const engine_env[] = {
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", NULL};

/* runsc cannot enter a user namespace in which its own uid has no name; so it is started inside. */
static bool runs_as_sandbox(const struct start_opts *so)
{
    return so->engine->kind == ENGINE_RUNSC && so->userns_fd >= 0;
}

/* ---- what execd is told ---- */

static bool has_name(const char *const *env, size_t n, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < n; i++) {
        if (strncmp(env[i], name, len) == 0 && env[i][len] == '=') {
            return true;
        }
    }
    return false;
}

/* The user of the image unless that is root. Its home is found by execd, inside. */
static const char *image_user(const struct start_opts *so)
{
    const char *user = so->rootfs->user;
    return user && *user && strcmp(user, "root") != 0 && strcmp(user, "0") != 0 ? user : NULL;
}

/* Image, then request; a later one of the same name wins. */
static const char *const *make_env(const struct start_opts *so, struct arena *a)
{
    static const struct runtime_kv defaults[] = {
        {"PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
        {"HOME", "/root"},
        {"LANG", "C.UTF-8"},
        {"EXECD_ENVS", "/opt/opensandbox/.env"},
    };
    size_t n_image = 0, n = 0;
    while (so->rootfs->env && so->rootfs->env[n_image]) {
        n_image++;
    }
    const char **v =
        arena_array(a, ARRAY_LEN(defaults) + n_image + so->spec->n_env + 8, sizeof(*v));
    for (size_t i = so->spec->n_env; i-- > 0;) {
        if (!has_name(v, n, so->spec->env[i].key)) {
            v[n++] = arena_printf(a, "%s=%s", so->spec->env[i].key, so->spec->env[i].value);
        }
    }
    for (size_t i = 0; i < n_image; i++) {
        char *name = arena_strdup(a, so->rootfs->env[i]);
        name[strcspn(name, "=")] = 0;
        if (!has_name(v, n, name)) {
            v[n++] = so->rootfs->env[i];
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(defaults); i++) {
        bool is_home = strcmp(defaults[i].key, "HOME") == 0;
        if (!has_name(v, n, defaults[i].key) && !(is_home && image_user(so))) {
            v[n++] = arena_printf(a, "%s=%s", defaults[i].key, defaults[i].value);
        }
    }
    bool opened = so->spec->egress_policy && so->spec->credential_proxy;
    for (const struct trust_var *t = trust_vars; opened && t->name; t++) {
        if (!has_name(v, n, t->name)) {
            v[n++] = arena_printf(a, "%s=%s", t->name, t->value);
        }
    }
    if (!has_name(v, n, "HOSTNAME")) {
        v[n++] = arena_printf(a, "HOSTNAME=%s", so->hostname);
    }
    return v;
}

static const char *const *make_args(const struct start_opts *so, const struct cgroup_join *cg,
                                    struct arena *a)
{
    size_t n_entry = 0, n = 0;
    while (so->spec->entrypoint && so->spec->entrypoint[n_entry]) {
        n_entry++;
    }
    const char **v = arena_array(a, n_entry + 24, sizeof(*v));
    bool all_fds = engine_passes_fds(so->engine);
    v[n++] = EXECD_PATH;
    v[n++] = "init";
    v[n++] = "--notify-fd";
    v[n++] = all_fds ? "3" : "1";
    v[n++] = "--entrypoint-log-max";
    v[n++] = arena_printf(a, "%lld", (long long)so->o->oci->log_max_bytes);
    v[n++] = "--entrypoint-log";
    v[n++] = arena_printf(a, "%d", all_fds ? FD_LOG_0 : 0);
    if (image_user(so)) {
        v[n++] = "--user";
        v[n++] = image_user(so);
    }
    if (all_fds) {
        v[n++] = "--entrypoint-log2";
        v[n++] = arena_printf(a, "%d", FD_LOG_1);
        char *list = NULL;
        int k = 0;
        for (int i = 0; i < cg->n; i++) {
            if (cg->init_fd[i] >= 0) {
                list = arena_printf(a, "%s%s/proc/self/fd/%d", list ? list : "", list ? ":" : "",
                                    FD_CGROUPS + k++);
            }
        }
        if (list) {
            v[n++] = "--workload-cgroup";
            v[n++] = list;
        }
        if (so->spec->standby) {
            v[n++] = "--control-fd";
            v[n++] = arena_printf(a, "%d", FD_CGROUPS + k);
            return v; /* the entrypoint is told there */
        }
    }
    if (n_entry) {
        v[n++] = "--";
        for (size_t i = 0; i < n_entry; i++) {
            v[n++] = so->spec->entrypoint[i];
        }
    } else {
        v[n++] = "--keep";
    }
    return v;
}

/* ---- mounts ---- */

static int stage_bind(const struct start_opts *so, struct stage *s, const struct runtime_mount *m,
                      struct err *e)
{
    struct stat st;
    if (fstat(m->source_fd, &st) < 0) {
        return err_sys(e, errno, "volume %s", m->source);
    }
    int fd = tree_clone(m->source_fd, "", false, m->read_only, so->userns_fd, e);
    if (fd < 0 && m->any_ids && e->sys == EINVAL) {
        *e = (struct err){0};
        fd = tree_clone(m->source_fd, "", false, m->read_only, -1, e);
    }
    if (fd < 0) {
        return err_wrap(e, "volume %s", m->source);
    }
    stage_add_inside(s, fd, m->target, !S_ISDIR(st.st_mode));
    return 0;
}

static int stage_volumes(const struct start_opts *so, struct stage *s, struct err *e)
{
    for (size_t i = 0; i < so->spec->n_mounts; i++) {
        const struct runtime_mount *m = &so->spec->mounts[i];
        if (m->kind == MOUNT_BIND && stage_bind(so, s, m, e) < 0) {
            return -1;
        }
    }
    for (size_t i = 0; i < so->volumes->n; i++) {
        if (stage_bind(so, s, &so->volumes->v[i], e) < 0) {
            return -1;
        }
    }
    return 0;
}

/* /sys/fs/cgroup inside: the workload's own groups, to read. */
static void show_cgroups(const struct start_opts *so, struct stage *s, struct arena *a)
{
    static const struct {
        uint32_t bit;
        const char *to;
    } v1[] = {{CGROUP_MEMORY, "sys/fs/cgroup/memory"},
              {CGROUP_CPU, "sys/fs/cgroup/cpu"},
              {CGROUP_PIDS, "sys/fs/cgroup/pids"}};
    const struct cgroup_host *h = &so->o->cg;
    char path[CGROUP_PATH_MAX];
    for (size_t i = 0; h->mode != CGROUP_V2 && i < ARRAY_LEN(v1); i++) {
        const struct cgroup_hier *hier = cgroup_hier_of(h, v1[i].bit);
        if (hier) {
            cgroup_path(h, hier, so->spec->id, "work", path);
            s->shown[s->n_shown++] = (struct stage_show){arena_strdup(a, path), v1[i].to};
        }
    }
    if (h->mode == CGROUP_V2) {
        cgroup_path(h, cgroup_hier_v2(h), so->spec->id, "work", path);
        s->shown[s->n_shown++] = (struct stage_show){arena_strdup(a, path), "sys/fs/cgroup"};
    }
}

static size_t make_tmpfs(const struct start_opts *so, struct bundle_tmpfs *t)
{
    size_t n = 0;
    for (size_t i = 0; i < so->spec->n_mounts && n < OCI_BINDS_MAX; i++) {
        const struct runtime_mount *m = &so->spec->mounts[i];
        if (m->kind == MOUNT_TMPFS) {
            t[n++] = (struct bundle_tmpfs){m->target,
                                           m->size ? m->size : (uint64_t)so->o->oci->tmpfs_bytes};
        }
    }
    return n;
}

static int write_config(const struct start_opts *so, const struct cgroup_join *cg, struct buf *out,
                        struct arena *a, struct err *e)
{
    struct oci *o = so->o;
    struct bundle_tmpfs tmpfs[OCI_BINDS_MAX];
    bool makes_groups = so->engine->kind == ENGINE_RUNC;
    struct bundle b = {
        .rootfs = arena_printf(a, "%s/rootfs", o->stage_dir),
        .read_only = so->spec->read_only_rootfs || o->oci->read_only_rootfs,
        .hostname = so->hostname,
        .args = make_args(so, cg, a),
        .env = make_env(so, a),
        .cwd = so->rootfs->workdir && *so->rootfs->workdir ? so->rootfs->workdir : "/",
        .id_first = so->id_range >= 0 ? idrange_first(&o->ids, (uint32_t)so->id_range) : 0,
        .id_count = so->id_range >= 0 && !runs_as_sandbox(so) ? o->ids.count : 0,
        .cgroup_ns = makes_groups,
        .cgroup_path =
            makes_groups ? arena_printf(a, "/%s/%s/init", o->cg.parent, so->spec->id) : NULL,
        .tmpfs = tmpfs,
        .n_tmpfs = make_tmpfs(so, tmpfs),
        .shm_bytes = (uint64_t)o->oci->tmpfs_bytes,
        .seccomp = o->oci->seccomp,
        .seccomp_program =
            so->engine->kind == ENGINE_CRUN && o->seccomp.len ? buf_cstr(&o->seccomp) : NULL,
        .capabilities = &o->oci->capabilities,
        .no_new_privileges = o->oci->no_new_privileges,
    };
    return bundle_write(&b, out, e);
}

/* ---- the engine ---- */

static int open_file(const struct start_opts *so, const char *name, struct err *e)
{
    int fd = openat(so->dir_fd, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    return fd < 0 ? err_sys(e, errno, "%s", name) : fd;
}

static int stage_all(const struct start_opts *so, struct stage *s, struct arena *a, struct err *e)
{
    struct oci *o = so->o;
    if (rootfs_stage(so->rootfs, s, so->home, so->userns_fd, e) < 0 ||
        rootfs_stage_binds(so->rootfs, s, e) < 0 || stage_volumes(so, s, e) < 0) {
        return -1;
    }
    int execd = tree_clone(o->execd_fd, "", false, true, -1, e);
    if (execd < 0) {
        return err_wrap(e, "execd");
    }
    stage_add_inside(s, execd, EXECD_PATH, true);
    s->id_first = so->id_range >= 0 ? idrange_first(&o->ids, (uint32_t)so->id_range) : 0;
    show_cgroups(so, s, a);
    s->netns_fd = so->netns_fd;
    s->own_cgroup_ns = so->engine->kind != ENGINE_RUNC;
    s->stay_in_work = so->engine->kind == ENGINE_RUNSC;
    s->become_root_of = runs_as_sandbox(so) ? so->userns_fd : -1;
    if (o->cg.mode == CGROUP_HYBRID && so->engine->kind == ENGINE_CRUN) {
        s->unmount = cgroup_hier_v2(&o->cg)->mount; /* crun refuses to see both */
    }
    s->exec_fd = so->engine->exec_fd;
    return 0;
}

/* Opened here, numbered in the stage, closed by the caller. */
struct start_fds {
    int null_fd, execd_log, life, log[2], control;
};

static void start_fds_close(struct start_fds *f)
{
    int v[] = {f->null_fd, f->execd_log, f->life, f->log[0], f->log[1], f->control};
    for (size_t i = 0; i < ARRAY_LEN(v); i++) {
        if (v[i] >= 0) {
            (void)close(v[i]);
        }
    }
}

static int place_fds(const struct start_opts *so, struct stage *s, struct start_fds *f,
                     const struct cgroup_join *cg, struct err *e)
{
    *f = (struct start_fds){-1, -1, -1, {-1, -1}, -1};
    f->null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (f->null_fd < 0 || (f->execd_log = open_file(so, HOME_EXECD_LOG, e)) < 0 ||
        (f->life = open_file(so, HOME_LIFE, e)) < 0 ||
        (f->log[0] = open_file(so, HOME_LOG_0, e)) < 0 ||
        (f->log[1] = open_file(so, HOME_LOG_1, e)) < 0 ||
        (so->spec->standby && (f->control = control_listen(so->dir_fd, e)) < 0)) {
        return -1;
    }
    bool all = engine_passes_fds(so->engine);
    int first[] = {all ? f->null_fd : f->log[0],
                   all ? f->execd_log : f->life,
                   f->execd_log,
                   f->life,
                   f->log[0],
                   f->log[1]};
    s->n_fds = all ? ARRAY_LEN(first) : 3;
    memcpy(s->fds, first, s->n_fds * sizeof(first[0]));
    for (int i = 0; all && i < cg->n; i++) {
        if (cg->init_fd[i] >= 0) {
            s->fds[s->n_fds++] = cg->work_fd[i];
        }
    }
    if (f->control >= 0) {
        s->fds[s->n_fds++] = f->control;
    }
    return 0;
}

/* Where the engine puts the pid of the first process: a piece of memory behind a descriptor of its
 * own (the last one, not passed on), or a file for engines that write one beside it and rename. */
static const char *place_pid_file(struct start *st, const struct start_opts *so, struct stage *s,
                                  struct arena *a, struct err *e)
{
    if (!engine_writes_in_place(so->engine)) {
        return arena_printf(a, "%s/" PID_FILE, so->dir);
    }
    st->pid_fd = memfd_create("pid", MFD_CLOEXEC);
    if (st->pid_fd < 0) {
        (void)err_sys(e, errno, "memory for the pid");
        return NULL;
    }
    s->fds[s->n_fds++] = st->pid_fd;
    return arena_printf(a, "/proc/self/fd/%zu", s->n_fds - 1);
}

static int spawn_engine(struct start *st, const struct start_opts *so, struct stage *s,
                        const struct cgroup_join *cg, struct arena *a, struct err *e)
{
    cleanup_(buf_done) struct buf config = BUF_INIT(OCI_CONFIG_MAX);
    struct engine_run run = {
        .id = so->spec->id,
        .bundle = arena_printf(a, "%s/bundle", so->o->stage_dir),
        .root = arena_printf(a, "%s/engine", so->o->stage_dir),
        .n_fds = (unsigned)s->n_fds - 3,
    };
    run.pid_file = place_pid_file(st, so, s, a, e);
    if (!run.pid_file || write_config(so, cg, &config, a, e) < 0) {
        return -1;
    }
    FAULT_POINT("oci.create.after_config");
    s->config = buf_str(&config);
    s->argv = engine_run_argv(so->engine, &run, a);
    s->envp = engine_env;
    if (watch_file_add(so->o->watch, arena_printf(a, "%s/" HOME_LIFE, so->dir), &st->life, e) < 0) {
        return -1;
    }
    return stage_spawn(s, &st->engine_pid, &st->engine_pidfd, e);
}

int start_spawn(struct start *st, const struct start_opts *so, struct arena *a, struct err *e)
{
    cleanup_free struct stage *s = xcalloc(1, sizeof(*s)); /* large for a worker's stack */
    struct cgroup_join cg;
    stage_init(s, so->o->stage_dir);
    if (cgroup_join_open(&so->o->cg, so->spec->id, &cg, e) < 0) {
        return -1;
    }
    struct start_fds fds;
    s->cg = &cg;
    int r = place_fds(so, s, &fds, &cg, e);
    r = r < 0 ? r : stage_all(so, s, a, e);
    r = r < 0 ? r : spawn_engine(st, so, s, &cg, a, e);
    start_fds_close(&fds);
    stage_done(s);
    cgroup_join_close(&cg);
    return r;
}

/* ---- waiting ---- */

/* The pid, or -1 while it is not there. runc replaces the file that we opened. */
static pid_t read_pid(const struct start *st, const struct start_opts *so)
{
    cleanup_(buf_done) struct buf text = BUF_INIT(64);
    uint64_t pid;
    char chunk[32];
    if (engine_writes_in_place(so->engine)) {
        ssize_t n = pread(st->pid_fd, chunk, sizeof(chunk), 0);
        (void)buf_add(&text, chunk, n > 0 ? (size_t)n : 0);
    } else if (file_read(so->dir_fd, PID_FILE, &text) < 0) {
        return -1;
    }
    struct str rest = buf_str(&text);
    return parse_u64(str_trim(str_cut(&rest, '\n')), &pid) < 0 ? -1 : (pid_t)pid;
}

/* True when the engine has ended; its exit status. */
static bool engine_ended(struct start *st, int *ret_status)
{
    if (st->engine_pidfd < 0) {
        return false;
    }
    pid_t r = waitpid(st->engine_pid, ret_status, WNOHANG);
    if (r != st->engine_pid) {
        return false;
    }
    (void)close(take_fd(&st->engine_pidfd));
    return true;
}

/* Why nothing came of it: the last words of the engine, or of execd; both write to the same log. */
static int explain(const struct start_opts *so, enum err_code code, const char *what, struct err *e)
{
    char words[ERR_MSG_MAX / 2];
    engine_last_words(so->dir_fd, HOME_EXECD_LOG, words, sizeof(words));
    return err_set(e, code, "%s%s%s", what, words[0] ? ": " : "", words);
}

static int open_first_process(struct start *st, const struct start_opts *so)
{
    if (st->pidfd >= 0) { /* the engine had ended before the sandbox spoke */
        return 0;
    }
    st->pid = read_pid(st, so);
    if (st->pid <= 0) {
        return -ENOENT;
    }
    st->pidfd = (int)syscall(SYS_pidfd_open, st->pid, 0);
    /* Gone already is an end like any other; who comes next will notice. */
    return st->pidfd < 0 && errno != ESRCH ? -errno : 0;
}

static int engine_failed(const struct start_opts *so, int status, struct err *e)
{
    char what[128];
    if (WIFSIGNALED(status)) {
        (void)snprintf(what, sizeof(what), "%s was killed by signal %d", so->engine->name,
                       WTERMSIG(status));
    } else {
        (void)snprintf(what, sizeof(what), "%s failed with exit code %d", so->engine->name,
                       WEXITSTATUS(status));
    }
    return explain(so, ERR_IO, what, e);
}

/* The word behind `key` in /proc/<pid>/status is `want`, or the process is gone. */
static bool status_is(pid_t pid, struct str key, struct str want)
{
    char path[64];
    cleanup_(buf_done) struct buf text = BUF_INIT(16u << 10);
    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    if (file_read(AT_FDCWD, path, &text) < 0) {
        return true;
    }
    struct str rest = buf_str(&text);
    while (rest.p) {
        struct str line = str_cut(&rest, '\n');
        if (str_eq(str_cut(&line, ':'), key)) {
            struct str value = str_trim(line);
            return str_eq(value, want) || !value.n;
        }
    }
    return false;
}

/* Before anybody is told that it runs: an engine that did not do what it was told is an error, not
 * a sandbox without a filter. */
static int check_confined(const struct start *st, const struct start_opts *so, struct err *e)
{
    const struct config_oci *c = so->o->oci;
    if (so->engine->kind == ENGINE_RUNSC) {
        return 0; /* what runs inside is no process of this kernel */
    }
    if (strcmp(c->seccomp, "unconfined") != 0 && !status_is(st->pid, STR("Seccomp"), STR("2"))) {
        return err_set(e, ERR_INTERNAL, "%s did not apply the system call filter",
                       so->engine->name);
    }
    if (c->no_new_privileges && !status_is(st->pid, STR("NoNewPrivs"), STR("1"))) {
        return err_set(e, ERR_INTERNAL, "%s did not set no_new_privs", so->engine->name);
    }
    return 0;
}

/* The sandbox answers. Its pid is on file as soon as the engine wrote it. */
static int take_over(struct start *st, const struct start_opts *so, struct err *e)
{
    int r = open_first_process(st, so);
    uint64_t deadline = clock_mono_ms() + OCI_ENGINE_WAIT_MS;
    while (r == -ENOENT && st->engine_pidfd >= 0 && clock_mono_ms() < deadline) {
        int status;
        struct pollfd p = {.fd = st->engine_pidfd, .events = POLLIN};
        (void)poll(&p, 1, (int)OCI_ENGINE_WAIT_MS);
        (void)engine_ended(st, &status);
        r = open_first_process(st, so);
    }
    if (r < 0) {
        return err_sys(e, r, "the engine left no pid of the sandbox's first process");
    }
    return check_confined(st, so, e);
}

int start_wait(struct start *st, const struct start_opts *so, struct err *e)
{
    uint64_t deadline = clock_mono_ms() + (uint64_t)so->o->oci->start_timeout_seconds * 1000;
    for (;;) {
        struct life l;
        int status;
        if (life_read(so->dir_fd, &l) == 0 && l.is_ready) {
            return take_over(st, so, e);
        }
        if (engine_ended(st, &status)) {
            if (status != 0) {
                return engine_failed(so, status, e);
            }
            /* Look again: it may have spoken meanwhile. */
            if (open_first_process(st, so) == 0 && st->pidfd < 0 &&
                (life_read(so->dir_fd, &l) < 0 || !l.is_ready)) {
                return explain(so, ERR_IO, "the sandbox ended before it answered", e);
            }
            continue;
        }
        uint64_t now = clock_mono_ms();
        if (now >= deadline) {
            return explain(so, ERR_TIMEOUT, "the sandbox did not answer in time", e);
        }
        struct pollfd p[] = {
            {.fd = st->life.event_fd, .events = POLLIN},
            {.fd = st->pidfd >= 0 ? st->pidfd : st->engine_pidfd, .events = POLLIN},
        };
        (void)poll(p, ARRAY_LEN(p), (int)MIN(deadline - now, 60000u));
        uint64_t n;
        (void)!read(st->life.event_fd, &n, sizeof(n));
        if (st->pidfd >= 0 && p[1].revents && life_read(so->dir_fd, &l) == 0 && !l.is_ready) {
            return explain(so, ERR_IO, "the sandbox ended before it answered", e);
        }
    }
}

void start_done(struct start *st, struct watch *w)
{
    watch_file_del(w, &st->life);
    if (st->engine_pidfd >= 0) {
        watch_reap(w, st->engine_pid, take_fd(&st->engine_pidfd));
    }
    if (st->pidfd >= 0) {
        (void)close(take_fd(&st->pidfd));
    }
    if (st->pid_fd >= 0) {
        (void)close(take_fd(&st->pid_fd));
    }
}
