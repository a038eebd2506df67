#pragma once
/* WebSocket messages out of bytes, without I/O: frames are checked, unmasked in place, and put
 * together. Violations are found at the first byte that shows them: a text message fails inside the
 * frame that breaks it, an oversized one before its payload is taken in. */

#include "http/ws.h"

struct ws_reader {
    bool is_server; /* the peer's frames must be masked; a client's reader refuses masks */
    bool in_frame;
    bool in_message; /* a fragmented data message is under way */
    bool failed;
    size_t max_message;
    struct ws_frame frame;
    uint64_t frame_got; /* payload bytes of `frame` taken in so far */
    char head[WS_FRAME_MAX];
    size_t head_len;
    enum ws_opcode opcode; /* of the message under way */
    struct utf8_check utf8;
    struct buf msg;    /* the message so far, when it does not lie in one piece in the input */
    char control[125]; /* control payloads interleave with msg */
};

/* One thing the peer said: a whole message, or a control frame. For WS_CLOSE `code` is 1005 when
 * there was none, and `data` is the reason. */
struct ws_event {
    enum ws_opcode opcode;
    unsigned code;
    struct str data; /* valid until the next call; may point into the input */
};

void ws_reader_init(struct ws_reader *r, bool is_server, size_t max_message);
void ws_reader_done(struct ws_reader *r);
/* Consumes from the *n bytes at *p, which it may change. 1: *ret holds an event, call again. 0: all
 * is consumed, more is needed. Negative: the close code for the violation (-1002, -1007, -1009);
 * the reader is finished then. */
int ws_reader_next(struct ws_reader *r, char **p, size_t *n, struct ws_event *ret);
