#pragma once
/* The commands and groups below `osb`, one file each. */

#include "cli/arg.h"

extern const struct cli_cmd cmd_sandbox, cmd_command, cmd_file, cmd_egress, cmd_vault,
    cmd_diagnostics, cmd_devops, cmd_config, cmd_skills, cmd_run, cmd_shell, cmd_exec, cmd_cp,
    cmd_forward, cmd_logs, cmd_top, cmd_code, cmd_context, cmd_snapshot, cmd_image, cmd_fork,
    cmd_pool, cmd_doctor, cmd_server, cmd_completion, cmd_complete;
