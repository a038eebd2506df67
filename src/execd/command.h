#pragma once
/* Commands: the table of what runs and what has run, and how one is started, watched and
 * interrupted. A record is there before the client learns its id, and stays for
 * EXECD_RECORD_TTL_MS after its end, but at most EXECD_MAX_RECORDS of them. A log costs a
 * descriptor and disk: of those at most EXECD_MAX_LOGS and EXECD_LOGS_TOTAL_MAX bytes are kept, and
 * the record of an older one goes on without it. */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "base/map.h"
#include "base/rand.h"
#include "execd/execd.h"
#include "execd/job.h"
#include "execd/log.h"
#include "execd/outcome.h"
#include "io/timer.h"

struct command {
    struct list node; /* in the table: running, or finished in order of their end */
    struct execd *x;
    char id[ID_HEX_LEN + 1];
    char *content; /* the command's text */
    bool background, running;
    int exit_code;
    char *error; /* NULL after success */
    int64_t started_us, finished_us;
    uint64_t finished_mono_ms;
    uint64_t timeout_ms;
    struct job *job;     /* NULL when its last pipe is closed */
    struct cmd_log *log; /* of a background command */
    struct outcome outcome;
    bool ending; /* over, but its last output is still being written to the log */
};

struct command_table {
    struct execd *x;
    struct map by_id;
    struct list running, finished;
    struct list interrupts; /* escalations under way */
    size_t n_running, n_finished;
    size_t n_logs;      /* of finished background commands */
    uint64_t log_bytes; /* together */
    struct io_timer expiry;
};

struct command_table *command_table_new(struct execd *x);
/* Forgets everything; processes are not touched. */
void command_table_free(struct command_table *t);
struct command *command_find(struct execd *x, struct str id);
/* `signo` (0: none) to every running command. Returns how many there are. */
size_t command_signal_all(struct execd *x, int signo);

/* ---- for command_*.c ---- */
struct command *command_new(struct execd *x, const char *text, bool background);
/* Takes it out of the table and frees it: for a command that never started. */
void command_drop(struct command *c);
void command_finish(struct command *c, const struct outcome *o);

/* ---- starting ---- */
/* Answers on `req`: an event stream in any case. `spec` is complete but for merge and follow. */
void command_start_foreground(struct execd *x, struct http_req *req, const char *text,
                              const struct job_spec *spec);
void command_start_background(struct execd *x, struct http_req *req, const char *text,
                              const struct job_spec *spec);

/* ---- interrupting ---- */
/* SIGTERM to the group, SIGKILL after EXECD_INTERRUPT_GRACE_MS; answers when the group is gone. */
void command_interrupt(struct command *c, struct http_req *req);
void command_interrupts_free(struct command_table *t);
