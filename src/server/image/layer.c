/* Running opensandbox-layer. */

#include "server/image/layer.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "io/child.h"

#define PROGRAM "opensandbox-layer"

/* It ended without a word. */
static int silent(const struct io_child_status *st, struct err *e)
{
    if (st->end == IO_CHILD_EXITED) {
        return err_set(e, ERR_INTERNAL, PROGRAM " exited with code %d", st->code);
    }
    if (st->signal == SIGKILL) {
        return err_set(e, ERR_UNAVAILABLE, PROGRAM " was killed; the machine may be out of memory");
    }
    const char *name = sigdescr_np(st->signal);
    return err_set(e, ERR_INVALID, "layer is damaged: its reader ended with signal %d (%s)",
                   st->signal, name ? name : "unknown");
}

static int run(const struct layer_job *j, const char *verb, struct layer_result *ret, struct err *e)
{
    char parent[16], root[16];
    (void)snprintf(parent, sizeof(parent), "%d", (int)getpid());
    (void)snprintf(root, sizeof(root), "%d", j->root_fd);
    const char *const argv[] = {PROGRAM, verb, parent, root, NULL};
    const char *const envp[] = {NULL}; /* nothing of ours is its business */
    struct io_child_opts o = {
        .path = j->program,
        .argv = argv,
        .envp = envp,
        .in = {.kind = IO_STDIO_FD, .fd = j->archive_fd},
        .out = {.kind = IO_STDIO_PIPE},
        .err = {.kind = IO_STDIO_FD, .fd = STDERR_FILENO},
        .keep_fds = &j->root_fd,
        .n_keep_fds = 1,
        .cancelled = j->cancelled,
        .cancel_arg = j->arg,
    };
    struct io_child_status st;
    cleanup_(buf_done) struct buf line = BUF_INIT(LAYER_RESULT_MAX);
    if (io_child_run(&o, &line, NULL, &st, e) < 0) {
        return -1;
    }
    if (st.end != IO_CHILD_EXITED || st.code != 0) {
        return silent(&st, e);
    }
    return layer_result_parse(buf_str(&line), ret, e);
}

int layer_job_unpack(const struct layer_job *j, struct layer_result *ret, struct err *e)
{
    return run(j, j->plain ? "unpack-plain" : "unpack", ret, e);
}

int layer_job_pack(const struct layer_job *j, struct layer_result *ret, struct err *e)
{
    return run(j, "pack", ret, e);
}

char *layer_program_find(void)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self));
    ptrdiff_t slash = n > 0 ? str_rfind(str_n(self, (size_t)n), '/') : -1;
    if (slash < 0) {
        return xstrdup(PROGRAM);
    }
    char *beside = xasprintf("%.*s/" PROGRAM, (int)slash, self);
    cleanup_free char *libexec =
        xasprintf("%.*s/../libexec/opensandbox/" PROGRAM, (int)slash, self);
    if (access(beside, X_OK) < 0 && access(libexec, X_OK) == 0) {
        free(beside);
        return take_ptr(&libexec);
    }
    return beside;
}
