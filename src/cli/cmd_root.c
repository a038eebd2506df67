/* The tree of commands and the options before the first of them. */

#include "cli/cli.h"
#include "cli/commands.h"

static const struct cli_opt options[] = {
    {.name = "api-key", .type = ARG_TEXT, .help = "API key (env OPEN_SANDBOX_API_KEY)."},
    {.name = "domain", .type = ARG_TEXT, .help = "host[:port] or a URL (env OPEN_SANDBOX_DOMAIN)."},
    {.name = "protocol", .type = ARG_CHOICE, .choices = "http|https", .help = "http or https."},
    {.name = "request-timeout",
     .type = ARG_INT,
     .help = "Seconds one request may take.",
     .fallback = "30"},
    {.name = "use-server-proxy", .type = ARG_SWITCH, .help = "Reach sandboxes through the server."},
    {.name = "ca-file",
     .type = ARG_TEXT,
     .help = "Certificates to trust with https (env OPEN_SANDBOX_CA_FILE)."},
    {.name = "insecure", .type = ARG_FLAG, .help = "Do not check certificates."},
    {.name = "config",
     .type = ARG_TEXT,
     .help = "Configuration file.",
     .fallback = "~/.opensandbox/config.toml"},
    {.name = "verbose", .letter = 'v', .type = ARG_FLAG, .help = "Say more on stderr."},
    {.name = "no-color", .type = ARG_FLAG, .help = "No colour, no signs."},
    {.name = "version", .type = ARG_FLAG, .help = "Show the version and exit."},
    {0},
};

static const struct cli_cmd *const commands[] = {
    &cmd_sandbox,    &cmd_command,  &cmd_file,   &cmd_egress, &cmd_vault,  &cmd_diagnostics,
    &cmd_devops,     &cmd_config,   &cmd_skills, &cmd_run,    &cmd_shell,  &cmd_exec,
    &cmd_cp,         &cmd_forward,  &cmd_logs,   &cmd_top,    &cmd_code,   &cmd_context,
    &cmd_snapshot,   &cmd_image,    &cmd_fork,   &cmd_pool,   &cmd_doctor, &cmd_server,
    &cmd_completion, &cmd_complete, NULL,
};

const struct cli_cmd cmd_root = {
    .name = "osb",
    .help = "Sandboxes for untrusted code: create them, run commands in them, move files.",
    .opts = options,
    .subs = commands,
};
