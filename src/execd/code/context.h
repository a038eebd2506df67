#pragma once
/* Code contexts: an id, a language, and a kernel that keeps the state between runs.
 *
 * A context outlives its kernel: when that dies, what ran ends with an error, and the next run
 * starts a new one under the same id. One run at a time; a second one is told that the session is
 * busy, unless the first has been interrupted: then it waits for its turn. Loop thread only. */

#include <stdbool.h>

#include "base/err.h"
#include "base/list.h"
#include "execd/code/kernel.h"
#include "execd/execd.h"
#include "json/field.h"

struct code_run;
struct code_port;
struct kernelspecs;

struct context {
    struct list node; /* in the table's list: all, or spare */
    struct execd *x;
    char *id; /* NULL as long as a Jupyter server has not given it one */
    char *language, *cwd;
    char **envs; /* "NAME=value", NULL-terminated, or NULL */
    bool is_default, is_spare;
    bool was_ready;        /* it has been told to a client, or could be */
    struct kernel *kernel; /* NULL: none now; the next run starts one */
    bool ready;            /* and it takes code */
    char *first_code;      /* what it is to run, unheard, as soon as it does; or NULL */
    struct code_run *run;
    struct code_run *next;     /* waits for the end of `run`, which was interrupted; or NULL */
    struct http_req *creation; /* who asked for it and waits, or NULL */
};

struct code_table {
    struct execd *x;
    struct list all, spare;
    size_t n;
    struct list ending;   /* kernels that have been asked to end: kernel_local.c */
    struct list rests;    /* calls to Jupyter under way: rest.c */
    bool python3_will_do; /* a Jupyter server has no other kernel for Python */
    struct stop_hook stop;
    struct code_port *port; /* NULL: none is needed, or it is somebody else's */
};

struct code_table *code_table_new(struct execd *x);
void code_table_free(struct code_table *t);
size_t code_signal_all(struct execd *x, int signo);
/* Starts a kernel for each language of a comma-separated list, for the first who needs one. */
void code_prestart(struct execd *x, const char *languages);

/* The sandbox has got more variables (a warm pool has given it to somebody): kernels that were
 * started ahead get them too, or are started anew. */
void code_add_environment(struct execd *x, const struct str_map *env);

struct context *context_find(struct execd *x, struct str id);
struct context *context_default(struct execd *x, const char *language);
/* A context whose kernel is being started, or a spare one. `cwd` and `envs` may be NULL; they are
 * copied. NULL with `e`. */
struct context *context_new(struct execd *x, const struct kernel_opts *o, struct err *e);
/* Answers `req` with the context when its kernel is there, or with an error. */
void context_await(struct context *c, struct http_req *req);
/* A kernel, if it has none: 0 or -1. */
int context_start_kernel(struct context *c, struct err *e);
/* Ends what runs in it with an error, shuts its kernel down, and is no more. */
void context_delete(struct context *c);

/* True for the languages that kernels are for. */
bool code_language_known(const char *language);
/* "bash, python": those that these specs are for (NULL: all there could be), or "none". */
void code_languages_list(const struct kernelspecs *s, struct buf *out);
/* "this sandbox has: bash, python" in e->msg. */
int code_languages(struct execd *x, struct err *e);

/* ---- run.c ---- */
/* True when there is a run, and another one would be told so. */
bool code_run_is_busy(const struct context *c);
/* Answers `req` with an event stream, or an error when there can be none. Not while busy. */
void code_run_start(struct context *c, struct http_req *req, struct str code);
/* The stream of somebody who came while another run is on. */
void code_run_busy(struct context *c, struct http_req *req);
void code_run_ready(struct code_run *r);
void code_run_message(struct code_run *r, const struct kernel_message *m);
/* The end of a run that its kernel did not end. */
void code_run_fail(struct code_run *r, const char *ename, const char *why);
/* What runs in the context, and what waits to; nothing is fine. */
void code_run_interrupt(struct context *c);

/* ---- kernel_local.c ---- */
void kernel_local_ending_free(struct list *ending);
