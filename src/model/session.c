/* Field tables of shell sessions. */

#include "model/session.h"

static const struct json_field request_fields[] = {
    JSON_FIELD(struct session_request, cwd, "cwd", JSON_F_STR),
    {0},
};
const struct json_table session_request_table = {
    "CreateSessionRequest",
    sizeof(struct session_request),
    request_fields,
    .ignore_case = true,
};

static const struct json_field response_fields[] = {
    JSON_FIELD(struct session_response, session_id, "session_id", JSON_F_STR),
    {0},
};
const struct json_table session_response_table = {
    "CreateSessionResponse",
    sizeof(struct session_response),
    response_fields,
};

static const struct json_field run_fields[] = {
    JSON_FIELD(struct session_run_request, command, "command", JSON_F_STR),
    JSON_FIELD(struct session_run_request, cwd, "cwd", JSON_F_STR),
    JSON_FIELD(struct session_run_request, timeout, "timeout", JSON_F_INT),
    {0},
};
const struct json_table session_run_request_table = {
    "RunInSessionRequest",
    sizeof(struct session_run_request),
    run_fields,
    .ignore_case = true,
};
