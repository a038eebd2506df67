/* Finding engines, and speaking their command lines. */

#include "server/runtime/oci/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/must.h"
#include "server/runtime/oci/limits.h"
#include "json/json.h"

#define ARGV_MAX 32

static const char *const search[] = {"/usr/local/sbin", "/usr/local/bin", "/usr/sbin",
                                     "/usr/bin",        "/sbin",          "/bin"};

static char *engine_path(const struct config_oci *cfg, const char *name)
{
    const char *set = str_map_get(&cfg->engine_paths, name);
    if (set) {
        return xstrdup(set);
    }
    for (size_t i = 0; i < ARRAY_LEN(search); i++) {
        char *path = xasprintf("%s/%s", search[i], name);
        if (access(path, X_OK) == 0) {
            return path;
        }
        free(path);
    }
    return NULL;
}

/* A copy of the file in memory that nobody can change any more. */
static int seal_copy(const char *path, const char *name, struct err *e)
{
    struct stat st;
    cleanup_close int from = open(path, O_RDONLY | O_CLOEXEC);
    if (from < 0 || fstat(from, &st) < 0) {
        return err_sys(e, errno, "engine %s", path);
    }
    cleanup_close int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        return err_sys(e, errno, "memory for the engine %s", name);
    }
    off_t at = 0;
    while (at < st.st_size) {
        char chunk[65536];
        ssize_t n = pread(from, chunk, sizeof(chunk), at);
        if (n <= 0) {
            return err_sys(e, n < 0 ? errno : EIO, "read %s", path);
        }
        int r = fd_write_full(fd, chunk, (size_t)n);
        if (r < 0) {
            return err_sys(e, r, "copy %s", path);
        }
        at += n;
    }
    if (fchmod(fd, 0555) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0) {
        return err_sys(e, errno, "seal the copy of %s", path);
    }
    return take_fd(&fd);
}

static int engine_load(struct engines *es, const struct config_oci *cfg, const char *name,
                       struct err *e)
{
    if (es->n == ENGINES_MAX || strlen(name) >= sizeof(es->v[0].name)) {
        return err_set(e, ERR_INVALID, "[oci]: too many engines, or too long a name: %s", name);
    }
    struct engine en = {.exec_fd = -1};
    en.path = engine_path(cfg, name);
    if (!en.path) {
        return err_set(e, ERR_UNSUPPORTED,
                       "the engine '%s' is not installed (looked in /usr/local and /usr; set "
                       "[oci.engine_paths])",
                       name);
    }
    (void)snprintf(en.name, sizeof(en.name), "%s", name);
    /* What is not one of the other two is taken for runc's twin: crun's options are its own. */
    en.kind = strcmp(name, "crun") == 0    ? ENGINE_CRUN
              : strcmp(name, "runsc") == 0 ? ENGINE_RUNSC
                                           : ENGINE_RUNC;
    /* runsc starts itself again by its path, and its sandboxes cannot see it at all. */
    en.exec_fd =
        en.kind == ENGINE_RUNSC ? open(en.path, O_RDONLY | O_CLOEXEC) : seal_copy(en.path, name, e);
    if (en.exec_fd < 0) {
        (void)(en.kind == ENGINE_RUNSC && err_sys(e, errno, "engine %s", en.path));
        free(en.path);
        return -1;
    }
    es->v[es->n++] = en;
    return 0;
}

static struct engine *loaded(const struct engines *es, const char *name)
{
    for (size_t i = 0; i < es->n; i++) {
        if (strcmp(es->v[i].name, name) == 0) {
            return (struct engine *)(uintptr_t)&es->v[i];
        }
    }
    return NULL;
}

int engines_init(struct engines *es, const struct config_oci *cfg, struct err *e)
{
    *es = (struct engines){0};
    if (engine_load(es, cfg, cfg->engine, e) < 0) {
        return -1;
    }
    for (size_t i = 0; i < cfg->allowed_engines.n; i++) {
        const char *name = cfg->allowed_engines.v[i];
        struct err ignored = {0}; /* a request for it will be told */
        if (!loaded(es, name)) {
            (void)engine_load(es, cfg, name, &ignored);
        }
    }
    return 0;
}

void engines_done(struct engines *es)
{
    for (size_t i = 0; i < es->n; i++) {
        (void)close(es->v[i].exec_fd);
        free(es->v[i].path);
    }
    es->n = 0;
}

const struct engine *engine_find(const struct engines *es, const struct config_oci *cfg,
                                 const char *name, struct err *e)
{
    if (!name || !*name || strcmp(name, cfg->engine) == 0) {
        return loaded(es, cfg->engine);
    }
    bool is_allowed = false;
    for (size_t i = 0; i < cfg->allowed_engines.n; i++) {
        is_allowed = is_allowed || strcmp(cfg->allowed_engines.v[i], name) == 0;
    }
    if (!is_allowed) {
        (void)err_set(e, ERR_INVALID, "engine '%s' is not in [oci].allowed_engines", name);
        return NULL;
    }
    const struct engine *en = loaded(es, name);
    if (!en) {
        (void)err_set(e, ERR_INVALID, "engine '%s' is not installed on this host", name);
    }
    return en;
}

bool engine_passes_fds(const struct engine *en)
{
    return en->kind != ENGINE_RUNSC;
}

bool engine_writes_in_place(const struct engine *en)
{
    return en->kind != ENGINE_RUNC;
}

const char *const *engine_run_argv(const struct engine *en, const struct engine_run *r,
                                   struct arena *a)
{
    const char **v = arena_array(a, ARGV_MAX, sizeof(*v));
    size_t n = 0;
    v[n++] = en->name;
    v[n++] = "--root";
    v[n++] = r->root;
    if (en->kind == ENGINE_CRUN) {
        v[n++] = "--cgroup-manager=disabled"; /* the process is already where it belongs */
    } else if (en->kind == ENGINE_RUNSC) {
        v[n++] = "--network=host"; /* that is: of the namespace it is started in */
        v[n++] = "--platform=ptrace";
        v[n++] = "--ignore-cgroups";
        v[n++] = "--file-access=exclusive";
    }
    v[n++] = "run";
    v[n++] = "--detach";
    v[n++] = "--bundle";
    v[n++] = r->bundle;
    v[n++] = "--pid-file";
    v[n++] = r->pid_file;
    if (engine_passes_fds(en) && r->n_fds) {
        v[n++] = "--preserve-fds";
        v[n++] = arena_printf(a, "%u", r->n_fds);
    }
    v[n++] = r->id;
    v[n] = NULL;
    must(n < ARGV_MAX);
    return v;
}

void engine_last_words(int dir_fd, const char *log_file, char *out, size_t out_len)
{
    out[0] = 0;
    cleanup_close int fd = openat(dir_fd, log_file, O_RDONLY | O_CLOEXEC);
    char tail[OCI_ENGINE_LOG_TAIL];
    off_t size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
    off_t from = size > (off_t)sizeof(tail) ? size - (off_t)sizeof(tail) : 0;
    ssize_t n = fd < 0 ? 0 : pread(fd, tail, sizeof(tail), from);
    struct str rest = str_n(tail, n > 0 ? (size_t)n : 0);
    while (rest.p && rest.n) {
        struct str line = str_trim(str_cut(&rest, '\n'));
        if (!line.n) {
            continue;
        }
        cleanup_(json_free) struct json *j = line.p[0] == '{' ? json_parse(line, NULL) : NULL;
        struct str msg = j ? json_str(json_get(j, "msg")) : line;
        if (msg.n) {
            struct str error = json_str(json_get(j, "error"));
            (void)snprintf(out, out_len, "%.*s%s%.*s", STR_FMT(msg), error.n ? ": " : "",
                           STR_FMT(error));
        }
    }
}
