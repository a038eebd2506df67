#pragma once
/* The programs that start containers: crun, runc, runsc, or another one that takes runc's command
 * line. Each is copied once into sealed memory and run from there: nothing inside a sandbox can
 * ever write to it, and the engines save themselves the copy they would make for that reason at
 * each start. */

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "server/config/config.h"

enum engine_kind { ENGINE_CRUN, ENGINE_RUNC, ENGINE_RUNSC };

struct engine {
    char name[32];
    enum engine_kind kind; /* whose command line it takes */
    char *path;
    int exec_fd;
};

#define ENGINES_MAX 16

struct engines {
    struct engine v[ENGINES_MAX];
    size_t n;
};

/* Loads the default engine, which must be there, and the allowed ones that are. */
int engines_init(struct engines *es, const struct config_oci *cfg, struct err *e);
void engines_done(struct engines *es);
/* NULL: the default. ERR_INVALID when the name is not one of [oci].allowed_engines, or not found on
 * this machine. */
const struct engine *engine_find(const struct engines *es, const struct config_oci *cfg,
                                 const char *name, struct err *e);

struct engine_run {
    const char *id;
    const char *bundle; /* directory with config.json */
    const char *root;   /* directory for its notes; nobody reads them again */
    const char *pid_file;
    unsigned n_fds; /* kept open from 3 on */
};
/* The command line that starts a sandbox, NULL-terminated, in the arena. */
const char *const *engine_run_argv(const struct engine *en, const struct engine_run *r,
                                   struct arena *a);
/* Can it pass descriptors beyond 0, 1, 2 to the container's first process? */
bool engine_passes_fds(const struct engine *en);
/* Does it write its pid file in place, so that it can be a descriptor? */
bool engine_writes_in_place(const struct engine *en);
/* The last line of a log, for an error message. */
void engine_last_words(int dir_fd, const char *log_file, char *out, size_t out_len);
