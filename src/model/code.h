#pragma once
/* Code contexts of the execd protocol: /code and /code/contexts. */

#include "json/field.h"

struct code_context_request {
    const char *language, *cwd;
    struct str_map envs;
};
extern const struct json_table code_context_request_table;

struct code_context {
    const char *id, *language, *cwd;
};
extern const struct json_table code_context_table;

struct run_code_context {
    const char *id, *language;
};

struct run_code_request {
    const char *code;
    struct run_code_context *context;
};
extern const struct json_table run_code_request_table;
