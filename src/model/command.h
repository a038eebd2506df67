#pragma once
/* Commands of the execd protocol: POST /command and GET /command/status/{id}. */

#include "json/field.h"

#define COMMAND_MAX_ENVS 4096 /* limit: variables that one command brings along: 400 */
#define COMMAND_MAX_ARGV 4096 /* limit: arguments that one command brings along: 400 */

struct command_request {
    const char *command;  /* for a shell */
    struct str_list argv; /* or a program and its arguments, as they are */
    const char *cwd;
    struct opt_bool background;
    struct opt_int timeout; /* ms; 0: none */
    struct opt_int uid, gid;
    struct str_map envs;
};
extern const struct json_table command_request_table;

struct command_status {
    const char *id;
    const char *content; /* the command's text */
    struct opt_bool running;
    struct opt_int exit_code;
    const char *error;                      /* "exit status 3", "signal: killed" */
    struct opt_int started_at, finished_at; /* µs since the epoch */
};
extern const struct json_table command_status_table;
