#pragma once
/* The tools: what clients are shown (written at build time from the tools directory), and what they
 * do. */

#include "mcp/mcp.h"

struct tool_text {
    const char *name, *toolset;
    const char *text;  /* the tool as tools/list shows it */
    const char *input; /* its input schema */
};
extern const struct tool_text tool_texts[]; /* name NULL ends it */

/* Returns the structured result, or NULL with the error. Arguments have been checked. */
typedef struct json *tool_fn(struct call *c, struct osb_error *e);

struct tool {
    const struct tool_text *text;
    tool_fn *run;
    bool is_list; /* {"result": [...]}: one text block for each item */
};

/* By name, among the toolsets in use. Freed by nobody. */
const struct tool *tool_find(const struct mcp *m, const char *name);
/* The toolset that has it, in use or not; NULL: there is no such tool. */
const char *tool_toolset(const char *name);
/* The name most like it, or NULL. */
const char *tool_nearest(const struct mcp *m, const char *name);
bool tool_enabled(const struct mcp *m, const struct tool_text *t);
bool toolset_known(const char *name);

/* ---- for the tools ---- */

const char *arg_text(const struct call *c, const char *key); /* NULL when null or absent */
int64_t arg_int(const struct call *c, const char *key);
bool arg_bool(const struct call *c, const char *key);
uint64_t arg_seconds_ms(const struct call *c, const char *key);
/* Pairs of an object of strings, ended by key NULL, or NULL. Keys and values belong to the
 * arguments, the array is freed with free(). */
struct osb_pair *arg_pairs(const struct json *object);
const char **arg_strings(const struct json *list); /* NULL-terminated, as above */

/* The sandbox of "sandbox_id", connected first when the caller wants it; give it back with
 * call_give(). */
struct osb_sandbox *call_sandbox(struct call *c, struct osb_error *e);
void call_give(struct call *c, struct osb_sandbox *s);
struct osb_call call_bounds(const struct call *c);
int tool_fail(struct osb_error *e, enum osb_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

struct json *status_result(const char *status);
struct json *text_or_null(const char *s);
/* The server's camelCase as the snake_case that results have. */
struct json *info_result(const struct json *info);
/* {"sandbox_id", "info"}: asks the server about it. */
struct json *created_result(struct call *c, const char *id, struct osb_error *e);

/* Collects the events of a command or of code. */
struct execution;
struct execution *execution_new(struct call *c);
void execution_free(struct execution *x);
struct osb_run_opts execution_opts(struct execution *x);
/* `r` may be NULL, when the call failed. */
struct json *execution_result(struct execution *x, const struct osb_result *r, bool has_exit_code);

tool_fn tool_sandbox_create, tool_sandbox_connect, tool_sandbox_kill, tool_sandbox_get_info,
    tool_sandbox_list, tool_sandbox_renew, tool_sandbox_get_metrics, tool_sandbox_healthcheck,
    tool_sandbox_get_endpoint, tool_command_run, tool_command_interrupt, tool_file_read,
    tool_file_write, tool_file_delete, tool_file_search, tool_file_create_directories,
    tool_file_delete_directories, tool_file_move, tool_file_replace_contents;
tool_fn tool_sandbox_pause, tool_sandbox_resume, tool_sandbox_patch_metadata;
tool_fn tool_code_context_create, tool_code_context_list, tool_code_context_delete, tool_code_run,
    tool_code_interrupt;
tool_fn tool_session_create, tool_session_run, tool_session_delete;
tool_fn tool_snapshot_create, tool_snapshot_list, tool_snapshot_get, tool_snapshot_delete,
    tool_snapshot_restore;
tool_fn tool_egress_get_policy, tool_egress_patch_rules, tool_egress_delete_rules;
tool_fn tool_command_status, tool_command_logs, tool_sandbox_logs, tool_sandbox_events;
