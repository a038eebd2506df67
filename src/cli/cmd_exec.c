/* osb exec: a command in a sandbox, with or without a terminal. */

#include <unistd.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/terminal.h"

static int run_exec(struct cli *x)
{
    bool detached;
    cleanup_(osb_sandbox_free) struct osb_sandbox *s = cli_sandbox(x, x->args.pos[0]);
    if (!s) {
        return 1;
    }
    cleanup_free char *command = shell_join(x->args.pos + 1);
    if (arg_has(&x->args, "tty")) {
        const struct terminal_opts o = {.command = command, .cwd = arg_get(&x->args, "workdir")};
        return terminal_run(x, s, &o, &detached);
    }
    cleanup_(pairs_free) struct osb_pair *env = cli_pairs(x, "env");
    struct osb_run_opts o = {.cwd = arg_get(&x->args, "workdir"),
                             .env = env,
                             .timeout_ms = (uint64_t)arg_seconds(&x->args, "timeout", 0) * 1000};
    x->quiet_exit = true;
    return run_foreground(x, s, NULL, command, &o);
}

static const struct cli_opt opts[] = {
    {.name = "interactive", .letter = 'i', .type = ARG_FLAG, .help = "With -t: keys go to it."},
    {.name = "tty", .letter = 't', .type = ARG_FLAG, .help = "Give it a terminal."},
    {.name = "env",
     .letter = 'e',
     .type = ARG_PAIR,
     .many = true,
     .help = "Environment variable, without a terminal; repeatable."},
    {.name = "workdir", .letter = 'w', .type = ARG_TEXT, .help = "Directory to run in."},
    {.name = "timeout", .type = ARG_DURATION, .help = "End it after this time."},
    {0},
};
const struct cli_cmd cmd_exec = {.name = "exec",
                                 .help = "Run a command; its exit code is ours.\n"
                                         "-it gives it this terminal.",
                                 .opts = opts,
                                 .args = {"SANDBOX_ID", "COMMAND..."},
                                 .verbatim_after = 2,
                                 .run = run_exec};
