/* Field tables of commands. */

#include "model/command.h"

static const struct json_field request_fields[] = {
    JSON_FIELD(struct command_request, command, "command", JSON_F_STR),
    JSON_FIELD(struct command_request, argv, "argv", JSON_F_STR_LIST, .max_len = COMMAND_MAX_ARGV),
    JSON_FIELD(struct command_request, cwd, "cwd", JSON_F_STR),
    JSON_FIELD(struct command_request, background, "background", JSON_F_BOOL),
    JSON_FIELD(struct command_request, timeout, "timeout", JSON_F_INT),
    JSON_FIELD(struct command_request, uid, "uid", JSON_F_INT, .min = 0, .max = UINT32_MAX),
    JSON_FIELD(struct command_request, gid, "gid", JSON_F_INT, .min = 0, .max = UINT32_MAX),
    JSON_FIELD(struct command_request, envs, "envs", JSON_F_STR_MAP, .max_len = COMMAND_MAX_ENVS),
    {0},
};
const struct json_table command_request_table = {
    "RunCommandRequest",
    sizeof(struct command_request),
    request_fields,
    .ignore_case = true,
};

static const struct json_field status_fields[] = {
    JSON_FIELD(struct command_status, id, "id", JSON_F_STR),
    JSON_FIELD(struct command_status, content, "content", JSON_F_STR, .omit_empty = true),
    JSON_FIELD(struct command_status, running, "running", JSON_F_BOOL),
    JSON_FIELD(struct command_status, exit_code, "exit_code", JSON_F_INT),
    JSON_FIELD(struct command_status, error, "error", JSON_F_STR, .omit_empty = true),
    JSON_FIELD(struct command_status, started_at, "started_at", JSON_F_TIME),
    JSON_FIELD(struct command_status, finished_at, "finished_at", JSON_F_TIME),
    {0},
};
const struct json_table command_status_table = {
    "CommandStatus",
    sizeof(struct command_status),
    status_fields,
};
