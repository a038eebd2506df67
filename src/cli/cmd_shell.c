/* osb shell: an interactive shell, detached from and attached to at will. */

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/terminal.h"

static int run_shell(struct cli *x)
{
    bool detached;
    cleanup_(osb_sandbox_free) struct osb_sandbox *s = cli_sandbox(x, x->args.pos[0]);
    if (!s) {
        return 1;
    }
    const struct terminal_opts o = {.cwd = arg_get(&x->args, "workdir"),
                                    .attach = arg_get(&x->args, "attach"),
                                    .takeover = arg_has(&x->args, "takeover")};
    return terminal_run(x, s, &o, &detached);
}

static const struct cli_opt opts[] = {
    {.name = "workdir", .letter = 'w', .type = ARG_TEXT, .help = "Directory to begin in."},
    {.name = "attach", .type = ARG_TEXT, .help = "Come back to a terminal that was left."},
    {.name = "takeover", .type = ARG_FLAG, .help = "Push out whoever is attached to it."},
    {0},
};
const struct cli_cmd cmd_shell = {.name = "shell",
                                  .help = "Open a shell in a sandbox.\n"
                                          "Ctrl-P Ctrl-Q leaves it running.",
                                  .opts = opts,
                                  .args = {"SANDBOX_ID"},
                                  .run = run_shell};
