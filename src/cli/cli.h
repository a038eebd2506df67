#pragma once
/* One invocation of osb: what the command line said, the settings, where output goes, the client.
 */

#include <stdbool.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/must.h"
#include "cli/arg.h"
#include "cli/out.h"
#include "cli/settings.h"
#include "client/opensandbox.h"
#include "json/json.h"

#define EXIT_USAGE 2
#define EXIT_SIGINT 130
#define EXIT_SIGPIPE 141

struct cli {
    const char *prog;
    char path[128]; /* "osb sandbox get" */
    const struct cli_cmd *cmd;
    struct args root, args;
    struct settings set;
    struct out out;
    struct osb_client *client;
    struct osb_token *token; /* canceled by Ctrl-C once cli_catch_interrupt() was called */
    bool quiet_exit;         /* a failing command needs no panel: its exit code says it */
};

extern const struct cli_cmd cmd_root;

/* The client, made on first use; NULL after an error that was printed. */
struct osb_client *cli_client(struct cli *x);
/* A handle without a question to the server; NULL only when there is no client. */
struct osb_sandbox *cli_sandbox(struct cli *x, const char *id);
/* "<operation> failed: <why>" on stderr; returns the exit code. */
int cli_error(struct cli *x, const struct osb_error *e, const char *operation, ...)
    __attribute__((format(printf, 3, 4)));
/* "/snapshots/<id>" with the id encoded, and what follows. */
char *cli_path(const char *before, const char *id, const char *after);
/* An answer as a tree ({} for nothing); takes the text. NULL, after a message, when there is none.
 */
struct json *cli_answer(struct cli *x, char *take_text, const struct osb_error *e,
                        const char *operation);
/* What the lifecycle API answers, as it was sent ({} for nothing), or NULL after a message. */
struct json *cli_ask(struct cli *x, const char *method, const char *path, const char *body,
                     const char *operation);
/* "Error: ..." on stderr; returns 1. */
int cli_fail(struct cli *x, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The usage line, the hint, "Error: ..."; returns 2. */
int cli_usage(struct cli *x, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* From now on Ctrl-C cancels x->token; a second one ends the program. */
void cli_catch_interrupt(struct cli *x);
bool cli_interrupted(void);
static inline struct osb_call cli_call(const struct cli *x)
{
    return (struct osb_call){.token = x->token};
}

/* Option KEY=VALUE lists as pairs, ended by key NULL; pairs_free() them. */
struct osb_pair *cli_pairs(struct cli *x, const char *option);
void pairs_free(struct osb_pair *p);
/* Words quoted for a POSIX shell and joined with spaces; heap. */
char *shell_join(const char *const *words);
/* The API's camelCase objects with the names the models have here. */
struct json *info_model(const struct json *wire);
/* A whole file or stdin ("-"); NULL after an error that was printed. */
char *cli_read_input(struct cli *x, const char *path, size_t *ret_n);
/* {"key": "text", ...} from pairs of arguments, ended by NULL. */
struct json *jobject(const char *key, ...) __attribute__((sentinel));
/* snake_case copy of a tree: keys of objects at every depth. */
struct json *snake_tree(const struct json *j);
/* 2026-01-01T01:00:00Z as 2026-01-01 01:00:00+00:00. */
void time_text(const char *rfc3339, char out[40]);
/* What a foreground command printed and how it ended, see run.c. */
struct run_view {
    struct cli *x;
    char id[64]; /* of the execution */
};
bool run_on_event(const struct osb_event *ev, void *arg);
/* Runs `command` in s (session NULL: not in one), streams, returns the exit code to end with. */
int run_foreground(struct cli *x, struct osb_sandbox *s, const char *session, const char *command,
                   struct osb_run_opts *o);

DEFINE_CLEANUP(struct osb_sandbox *, osb_sandbox_free)
DEFINE_CLEANUP(struct osb_info *, osb_info_free)
DEFINE_CLEANUP(struct osb_list *, osb_list_free)
DEFINE_CLEANUP(struct osb_endpoint *, osb_endpoint_free)
DEFINE_CLEANUP(struct osb_result *, osb_result_free)
DEFINE_CLEANUP(struct osb_pair *, pairs_free)
