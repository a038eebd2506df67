#pragma once
/* Shell sessions of the execd protocol: POST /session and POST /session/{id}/run. */

#include "json/field.h"

struct session_request {
    const char *cwd;
};
extern const struct json_table session_request_table;

struct session_response {
    const char *session_id;
};
extern const struct json_table session_response_table;

struct session_run_request {
    const char *command;
    const char *cwd;
    struct opt_int timeout; /* ms */
};
extern const struct json_table session_run_request_table;
