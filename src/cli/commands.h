#pragma once
/* The commands and groups below `osb`, one file each. */

#include "cli/arg.h"

extern const struct cli_cmd cmd_sandbox, cmd_command, cmd_file, cmd_egress, cmd_vault,
    cmd_diagnostics, cmd_devops, cmd_config, cmd_run, cmd_shell, cmd_exec;
