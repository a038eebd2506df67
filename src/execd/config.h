#pragma once
/* What execd was told by its flags and environment. Read once at start, constant afterwards. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"

struct execd_config {
    /* the reference's flags */
    const char *jupyter_host, *jupyter_token;
    uint16_t port; /* 0: the kernel chooses */
    enum log_level log_level;
    struct str access_token; /* empty: no authentication */
    int64_t jupyter_idle_poll_ms;
    const char *code_prestart; /* languages, separated by commas, or NULL */
    int64_t code_hang_ms;      /* a kernel that hangs for so long is ended; 0: never */
    bool port_given;

    /* ours */
    const char *address;     /* numeric; "0.0.0.0" */
    const char *listen_unix; /* path of a Unix socket to serve instead of TCP, or NULL */
    int listen_fd;           /* inherited listening socket, or -1 */
    int notify_fd;           /* JSON lines about our life go here, or -1 */
    int64_t stop_grace_ms;
    const char *const
        *workload_procs; /* NULL-terminated cgroup.procs paths for children, or NULL */

    /* init mode */
    bool init, keep;
    int entrypoint_log_fd;      /* its stdout and stderr, or -1: ours */
    int entrypoint_log2_fd;     /* the file to change to when that one is full, or -1 */
    int64_t entrypoint_log_max; /* bytes of one of them; 0: written as it comes, without end */
    const char *log_dir;        /* or a file entrypoint.log in this directory, or NULL */
    const char *user;           /* "name|uid[:group|gid]" for what we start, or NULL: ours */
    char *const *entrypoint;    /* NULL-terminated argv, NULL: none */
    int control_fd;             /* socket on which it is told later, or -1; see control.h */

    /* environment */
    const char *envs_path; /* EXECD_ENVS, or NULL */
    const char *tmp_dir;   /* TMPDIR or /tmp */
    const char *log_file;  /* EXECD_LOG_FILE, or NULL */
    bool clone3_compat;
};

enum config_result { CONFIG_RUN, CONFIG_HELP, CONFIG_VERSION, CONFIG_BAD };

/* Parses Go-style flags (-x v, -x=v, --x v, --x=v) up to the first positional; positionals are
 * ignored unless in init mode, where the entrypoint follows "--". CONFIG_BAD fills `e`. Strings
 * borrow from argv and the environment; the token is moved out of the environment, so that it is
 * not inherited by anything execd starts. */
enum config_result config_parse(struct execd_config *c, int argc, char *const *argv, struct err *e);
/* Takes what the environment says by now: it has been changed from outside. Not the cgroups, which
 * are the starter's business. Descriptors and flags stay. */
int config_reread(struct execd_config *c, struct err *e);
void config_done(struct execd_config *c);
/* Forgets the workload cgroups: they turned out to be unusable. */
void config_drop_cgroups(struct execd_config *c);
void config_usage(void);
