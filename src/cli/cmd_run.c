/* osb run: a new sandbox for one command. */

#include <stdio.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/create.h"
#include "cli/terminal.h"

static int run_in(struct cli *x, struct osb_sandbox *s, bool *keep)
{
    bool detached = false;
    bool has_command = x->args.n_pos > 0;
    cleanup_free char *command = has_command ? shell_join(x->args.pos) : NULL;
    if (arg_has(&x->args, "tty") || !has_command) {
        const struct terminal_opts o = {.command = command, .cwd = arg_get(&x->args, "workdir")};
        int r = terminal_run(x, s, &o, &detached);
        *keep = *keep || detached;
        return r;
    }
    struct osb_run_opts o = {.cwd = arg_get(&x->args, "workdir")};
    x->quiet_exit = true;
    return run_foreground(x, s, NULL, command, &o);
}

static int run_run(struct cli *x)
{
    struct osb_error e = {0};
    struct create_spec spec;
    cleanup_(osb_sandbox_free) struct osb_sandbox *s = NULL;
    int r = create_sandbox(x, &spec, &s);
    if (r == 0) {
        bool keep = arg_has(&x->args, "keep");
        r = run_in(x, s, &keep);
        if (keep) {
            (void)fprintf(stderr, "Sandbox %s goes on.\n", osb_sandbox_id(s));
        } else if (osb_kill(s, &e) < 0 && e.code != OSB_ENOTFOUND) {
            (void)cli_error(x, &e, "Kill sandbox %s", osb_sandbox_id(s));
        }
    }
    create_spec_done(&spec);
    return r;
}

static const struct cli_opt opts[] = {
    CREATE_OPTIONS,
    {.name = "interactive", .type = ARG_FLAG, .help = "With --tty: keys go to it."},
    {.name = "tty", .type = ARG_FLAG, .help = "Give the command this terminal."},
    {.name = "workdir", .letter = 'w', .type = ARG_TEXT, .help = "Directory to run in."},
    {.name = "keep", .type = ARG_FLAG, .help = "Do not remove the sandbox afterwards."},
    {0},
};
const struct cli_cmd cmd_run = {.name = "run",
                                .help = "Create a sandbox, run a command, remove the sandbox.\n"
                                        "Without a command: a shell. The exit code is passed on.",
                                .opts = opts,
                                .args = {"[COMMAND]..."},
                                .verbatim_after = 1,
                                .run = run_run};
