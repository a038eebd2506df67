#pragma once
/* Shell sessions: runs that follow one another and share their shell's state.
 *
 * Each run is a process of its own, so `exit`, `exec` and a crash end the run and not the session.
 * What is carried over (variables, working directory, functions, aliases, options, umask) is
 * written by the shell itself, as shell code, to a private file when the run has reached its end,
 * and read back by the next one. execd only carries the file: nothing is parsed, and nothing a
 * program prints can be taken for it. See session_script.h for that code. */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "base/map.h"
#include "base/rand.h"
#include "execd/execd.h"

struct session {
    struct list node;
    struct execd *x;
    char id[UUID_LEN + 1];
    char *cwd;          /* where the first run starts, or NULL */
    char **env;         /* with what, NULL-terminated */
    int state_fd;       /* what the last run left behind, or -1: no run yet */
    bool state_is_bash; /* which shell wrote it */
    struct list runs;   /* the first one is running, the others wait */
    size_t n_runs;
};

struct session_table {
    struct execd *x;
    struct map by_id;
    struct list all;
};

struct session_table *session_table_new(struct execd *x);
void session_table_free(struct session_table *t);
struct session *session_find(struct execd *x, struct str id);
size_t session_signal_all(struct execd *x, int signo);

/* `cwd` is absolute or relative to execd's, exists, and may be NULL. NULL when there are too many.
 */
struct session *session_new(struct execd *x, const char *cwd, struct err *e);
/* Kills what runs in it; waiting runs end with an error. False when there is no such session. */
bool session_delete(struct execd *x, struct str id);
/* Answers on `req` with an event stream. `cwd` NULL: where the last run ended. */
void session_run(struct session *s, struct http_req *req, const char *command, const char *cwd,
                 uint64_t timeout_ms);
