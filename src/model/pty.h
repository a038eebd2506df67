#pragma once
/* Terminal sessions of the execd protocol: POST /pty, GET /pty/{id} and the text frames of its
 * WebSocket. Binary frames have no model: a channel byte and bytes. */

#include "json/field.h"

struct pty_request {
    const char *cwd;
    const char *command;
};
extern const struct json_table pty_request_table;

struct pty_status {
    const char *session_id;
    struct opt_bool running;
    struct opt_int output_offset; /* bytes ever produced */
};
extern const struct json_table pty_status_table;

/* Channels: the first byte of a binary frame. */
enum pty_channel {
    PTY_STDIN = 0x00,
    PTY_STDOUT = 0x01,
    PTY_STDERR = 0x02,
    PTY_REPLAY = 0x03, /* then the 8-byte big-endian offset of the first byte */
};

/* Text frame from the client. */
struct pty_control {
    const char *type;   /* stdin signal resize ping eof */
    const char *data;   /* stdin */
    const char *signal; /* "SIGINT" */
    struct opt_int cols, rows;
};
extern const struct json_table pty_control_table;
