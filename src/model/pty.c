/* Field tables of terminal sessions. */

#include "model/pty.h"

static const struct json_field request_fields[] = {
    JSON_FIELD(struct pty_request, cwd, "cwd", JSON_F_STR),
    JSON_FIELD(struct pty_request, command, "command", JSON_F_STR),
    {0},
};
const struct json_table pty_request_table = {
    "CreatePtyRequest",
    sizeof(struct pty_request),
    request_fields,
    .ignore_case = true,
};

static const struct json_field status_fields[] = {
    JSON_FIELD(struct pty_status, session_id, "session_id", JSON_F_STR),
    JSON_FIELD(struct pty_status, running, "running", JSON_F_BOOL),
    JSON_FIELD(struct pty_status, output_offset, "output_offset", JSON_F_INT),
    {0},
};
const struct json_table pty_status_table = {
    "PtyStatus",
    sizeof(struct pty_status),
    status_fields,
};

static const struct json_field control_fields[] = {
    JSON_FIELD(struct pty_control, type, "type", JSON_F_STR),
    JSON_FIELD(struct pty_control, data, "data", JSON_F_STR),
    JSON_FIELD(struct pty_control, signal, "signal", JSON_F_STR),
    JSON_FIELD(struct pty_control, cols, "cols", JSON_F_INT),
    JSON_FIELD(struct pty_control, rows, "rows", JSON_F_INT),
    {0},
};
const struct json_table pty_control_table = {
    "PtyControl",
    sizeof(struct pty_control),
    control_fields,
    .ignore_case = true,
};
