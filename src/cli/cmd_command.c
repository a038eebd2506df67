/* osb command: run, look, stop; and shell sessions. */

#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/commands.h"

static const struct cli_opt only_output[] = {OPT_OUTPUT("table|json|yaml"), {0}};

/* ---- run ---- */

static int run_background(struct cli *x, struct osb_sandbox *s, const char *command,
                          struct osb_run_opts *o)
{
    struct osb_error e = {0};
    o->background = true;
    cleanup_(osb_result_free) struct osb_result *r = osb_run(s, command, o, &e);
    if (!r) {
        return cli_error(x, &e, "Run command");
    }
    cleanup_(json_free) struct json *j = jobject("execution_id", osb_result_id(r), "sandbox_id",
                                                 osb_sandbox_id(s), "mode", "background", NULL);
    out_panel(&x->out, "Background Command Started", j);
    return 0;
}

static int run_run(struct cli *x)
{
    bool background = arg_has(&x->args, "background");
    const char *format = arg_get(&x->args, "output");
    if (format && background && strcmp(format, "raw") == 0) {
        return cli_fail(x,
                        "Output format 'raw' is not possible here. Use one of: table, json, yaml.");
    }
    if (format && !background && strcmp(format, "raw") != 0) {
        return cli_fail(x, "Output format '%s' is not possible here. Use one of: raw.", format);
    }
    cleanup_(osb_sandbox_free) struct osb_sandbox *s = cli_sandbox(x, x->args.pos[0]);
    if (!s) {
        return 1;
    }
    cleanup_free char *command = shell_join(x->args.pos + 1);
    struct osb_run_opts o = {.cwd = arg_get(&x->args, "workdir"),
                             .timeout_ms = (uint64_t)arg_seconds(&x->args, "timeout", 0) * 1000};
    return background ? run_background(x, s, command, &o) : run_foreground(x, s, NULL, command, &o);
}

#define RUN_OPTIONS                                                                                \
    {.name = "workdir", .letter = 'w', .type = ARG_TEXT, .help = "Directory to run in."},          \
    {                                                                                              \
        .name = "timeout", .letter = 't', .type = ARG_DURATION, .help = "End it after this time."  \
    }

static const struct cli_opt run_opts[] = {
    {.name = "background", .letter = 'd', .type = ARG_FLAG, .help = "Start it and return."},
    RUN_OPTIONS,
    OPT_OUTPUT("table|json|yaml|raw"),
    {0},
};
static const struct cli_cmd run = {.name = "run",
                                   .help = "Run a command and pass on its output and exit code.\n"
                                           "Put -- before commands that have options.",
                                   .opts = run_opts,
                                   .args = {"SANDBOX_ID", "COMMAND..."},
                                   .run = run_run};

/* ---- status, logs, interrupt ---- */

static int run_status(struct cli *x)
{
    struct osb_error e = {0};
    cleanup_(osb_sandbox_free) struct osb_sandbox *s = cli_sandbox(x, x->args.pos[0]);
    if (!s) {
        return 1;
    }
    cleanup_free char *path = xasprintf("/command/status/%s", x->args.pos[1]);
    cleanup_free char *text =
        osb_sandbox_request(s, OSB_EXECD, &(struct osb_request){.method = "GET", .path = path}, &e);
    if (!text) {
        return cli_error(x, &e, "Get command status %s", x->args.pos[1]);
    }
    cleanup_(json_free) struct json *wire = json_parse(str_from(text), NULL);
    cleanup_(json_free) struct json *j = json_object_new();
    static const char *const keys[] = {"id",    "content",    "running",    "exit_code",
                                       "error", "started_at", "finished_at"};
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        const struct json *v = json_get(wire, keys[i]);
        json_set(j, keys[i], v ? json_clone(v) : json_null_new());
    }
    out_model(&x->out, "Command Status", j);
    return 0;
}

static const struct cli_cmd status = {.name = "status",
                                      .help = "Is a command still running, and how did it end?",
                                      .opts = only_output,
                                      .args = {"SANDBOX_ID", "EXECUTION_ID"},
                                      .run = run_status};

/* Prints what comes until the command has ended. */
static int follow(struct cli *x, struct osb_sandbox *s, const char *id, int64_t cursor)
{
    struct osb_error e = {0};
    struct osb_command_status st = {.running = true};
    cli_catch_interrupt(x);
    for (unsigned wait_ms = 20; !cli_interrupted(); wait_ms = MIN(wait_ms * 2, 500u)) {
        bool over = !st.running;
        cleanup_free char *text = osb_command_logs(s, id, &cursor, &e);
        if (!text) {
            return cli_error(x, &e, "Get command logs %s", id);
        }
        if (!out_write(&x->out, str_from(text)) || over) {
            return 0;
        }
        wait_ms = text[0] ? 20 : wait_ms;
        if (osb_command_status(s, id, &st, &e) < 0) {
            return cli_error(x, &e, "Get command status %s", id);
        }
        (void)usleep(st.running ? wait_ms * 1000 : 0);
    }
    return 0;
}

static int run_logs(struct cli *x)
{
    struct osb_error e = {0};
    int64_t cursor = arg_int(&x->args, "cursor", 0);
    cleanup_(osb_sandbox_free) struct osb_sandbox *s = cli_sandbox(x, x->args.pos[0]);
    if (!s) {
        return 1;
    }
    if (arg_has(&x->args, "follow")) {
        return follow(x, s, x->args.pos[1], cursor);
    }
    cleanup_free char *text = osb_command_logs(s, x->args.pos[1], &cursor, &e);
    if (!text) {
        return cli_error(x, &e, "Get command logs %s", x->args.pos[1]);
    }
    if (x->out.format == OUT_RAW) {
        out_line(&x->out, "%s", text);
    } else if (x->out.format == OUT_TABLE) {
        out_text_panel(&x->out, "Command Logs", str_from(text));
    } else {
        cleanup_(json_free) struct json *j = jobject("content", text, NULL);
        json_set(j, "cursor", json_int_new(cursor));
        out_tree(&x->out, j);
    }
    return 0;
}

static const struct cli_opt logs_opts[] = {
    {.name = "cursor", .type = ARG_INT, .help = "Only what came after this position."},
    {.name = "follow", .letter = 'f', .type = ARG_FLAG, .help = "Go on until the command ends."},
    OPT_OUTPUT("table|json|yaml|raw"),
    {0},
};
static const struct cli_cmd logs = {.name = "logs",
                                    .help = "Output of a background command.",
                                    .opts = logs_opts,
                                    .args = {"SANDBOX_ID", "EXECUTION_ID"},
                                    .run = run_logs};

static int run_interrupt(struct cli *x)
{
    struct osb_error e = {0};
    cleanup_(osb_sandbox_free) struct osb_sandbox *s = cli_sandbox(x, x->args.pos[0]);
    if (!s) {
        return 1;
    }
    if (osb_interrupt(s, x->args.pos[1], &e) < 0) {
        return cli_error(x, &e, "Interrupt %s", x->args.pos[1]);
    }
    out_ok(&x->out, "Interrupted: %s", x->args.pos[1]);
    return 0;
}

static const struct cli_cmd interrupt = {.name = "interrupt",
                                         .help = "Stop a running command.",
                                         .opts = only_output,
                                         .args = {"SANDBOX_ID", "EXECUTION_ID"},
                                         .run = run_interrupt};

/* ---- sessions ---- */

static int run_session_create(struct cli *x)
{
    struct osb_error e = {0};
    char id[64];
    const char *cwd = arg_get(&x->args, "workdir");
    cleanup_(osb_sandbox_free) struct osb_sandbox *s = cli_sandbox(x, x->args.pos[0]);
    if (!s) {
        return 1;
    }
    if (osb_session_new(s, cwd, id, &e) < 0) {
        return cli_error(x, &e, "Create session");
    }
    cleanup_(json_free) struct json *j =
        jobject("sandbox_id", x->args.pos[0], "session_id", id, "working_directory", cwd, NULL);
    out_panel(&x->out, "Session Created", j);
    return 0;
}

static const struct cli_opt session_create_opts[] = {
    {.name = "workdir", .letter = 'w', .type = ARG_TEXT, .help = "Directory to begin in."},
    OPT_OUTPUT("table|json|yaml"),
    {0},
};
static const struct cli_cmd session_create = {.name = "create",
                                              .help = "Start a shell that keeps its state.",
                                              .opts = session_create_opts,
                                              .args = {"SANDBOX_ID"},
                                              .run = run_session_create};

static int run_session_run(struct cli *x)
{
    cleanup_(osb_sandbox_free) struct osb_sandbox *s = cli_sandbox(x, x->args.pos[0]);
    if (!s) {
        return 1;
    }
    cleanup_free char *command = shell_join(x->args.pos + 2);
    struct osb_run_opts o = {.cwd = arg_get(&x->args, "workdir"),
                             .timeout_ms = (uint64_t)arg_seconds(&x->args, "timeout", 0) * 1000};
    return run_foreground(x, s, x->args.pos[1], command, &o);
}

static const struct cli_opt session_run_opts[] = {RUN_OPTIONS, OPT_OUTPUT("raw"), {0}};
static const struct cli_cmd session_run = {.name = "run",
                                           .help = "Run a command in a session.",
                                           .opts = session_run_opts,
                                           .args = {"SANDBOX_ID", "SESSION_ID", "COMMAND..."},
                                           .run = run_session_run};

static int run_session_delete(struct cli *x)
{
    struct osb_error e = {0};
    cleanup_(osb_sandbox_free) struct osb_sandbox *s = cli_sandbox(x, x->args.pos[0]);
    if (!s) {
        return 1;
    }
    if (osb_session_delete(s, x->args.pos[1], &e) < 0) {
        return cli_error(x, &e, "Delete session %s", x->args.pos[1]);
    }
    out_ok(&x->out, "Deleted session: %s", x->args.pos[1]);
    return 0;
}

static const struct cli_cmd session_delete = {.name = "delete",
                                              .help = "End a session.",
                                              .opts = only_output,
                                              .args = {"SANDBOX_ID", "SESSION_ID"},
                                              .run = run_session_delete};

static const struct cli_cmd *const session_subs[] = {&session_create, &session_run, &session_delete,
                                                     NULL};
static const struct cli_cmd session = {.name = "session",
                                       .help = "Shells that keep their state between commands.",
                                       .subs = session_subs};

static const struct cli_cmd *const subs[] = {&run, &status, &logs, &interrupt, &session, NULL};
const struct cli_cmd cmd_command = {
    .name = "command", .help = "Run commands in a sandbox.", .subs = subs};
