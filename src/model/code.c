/* Field tables of code contexts. */

#include "model/code.h"

#include "model/command.h"

static const struct json_field request_fields[] = {
    JSON_FIELD(struct code_context_request, language, "language", JSON_F_STR),
    JSON_FIELD(struct code_context_request, cwd, "cwd", JSON_F_STR),
    JSON_FIELD(struct code_context_request, envs, "envs", JSON_F_STR_MAP,
               .max_len = COMMAND_MAX_ENVS),
    {0},
};
const struct json_table code_context_request_table = {
    "CodeContextRequest",
    sizeof(struct code_context_request),
    request_fields,
    .ignore_case = true,
};

static const struct json_field context_fields[] = {
    JSON_FIELD(struct code_context, id, "id", JSON_F_STR),
    JSON_FIELD(struct code_context, language, "language", JSON_F_STR),
    JSON_FIELD(struct code_context, cwd, "cwd", JSON_F_STR, .omit_empty = true),
    {0},
};
const struct json_table code_context_table = {
    "CodeContext",
    sizeof(struct code_context),
    context_fields,
};

static const struct json_field run_context_fields[] = {
    JSON_FIELD(struct run_code_context, id, "id", JSON_F_STR),
    JSON_FIELD(struct run_code_context, language, "language", JSON_F_STR),
    {0},
};
static const struct json_table run_code_context_table = {
    "RunCodeContext",
    sizeof(struct run_code_context),
    run_context_fields,
    .ignore_case = true,
};

static const struct json_field run_fields[] = {
    JSON_FIELD(struct run_code_request, code, "code", JSON_F_STR),
    JSON_FIELD(struct run_code_request, context, "context", JSON_F_OBJ,
               .sub = &run_code_context_table),
    {0},
};
const struct json_table run_code_request_table = {
    "RunCodeRequest",
    sizeof(struct run_code_request),
    run_fields,
    .ignore_case = true,
};
