#pragma once
/* Messages of the Jupyter protocol (5.3), and their two envelopes: signed ZeroMQ parts, and one
 * JSON object per WebSocket frame. No I/O. */

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/rand.h"
#include "base/str.h"
#include "execd/code/zmtp.h"
#include "json/json.h"

/* What a kernel said. Borrowed from `root` (or `roots`), valid inside the callback; who wants
 * `content` for longer takes a json_ref(). */
struct kernel_message {
    const char *type;      /* "stream", "status", ... */
    const char *parent_id; /* msg_id of the request that this is about, or "" */
    struct json *content;  /* an object */
    bool truncated;        /* its content was too large, and is empty */
};

/* Owns the trees behind a kernel_message. */
struct message_trees {
    struct json *v[3];
};
void message_trees_done(struct message_trees *t);
static inline void message_trees_done_cleanup(struct message_trees *t)
{
    message_trees_done(t);
}

/* Who we are, and the key both sides sign with. */
struct message_session {
    char id[UUID_LEN + 1];
    char key[UUID_LEN + 1];
};

#define MESSAGE_DELIMITER "<IDS|MSG>"

/* {"code":...} and what belongs to it, for an execute_request. `silent`: no output, not counted. */
void message_execute_content(struct buf *out, struct str code, bool silent);

/* Appends a message as ZeroMQ frames: delimiter, signature, header, parent, metadata, content. */
void message_add_zmtp(struct buf *out, const struct message_session *s, const char *type,
                      const char *msg_id, struct str content);
/* 0, or -1: no delimiter, missing parts, a wrong signature, or no JSON. A truncated message is
 * taken without its signature, for its type and parent only. */
int message_from_zmtp(const struct zmtp_message *m, const struct message_session *s,
                      struct message_trees *trees, struct kernel_message *ret);

/* The same as one JSON object for `channel`. */
void message_add_websocket(struct buf *out, const struct message_session *s, const char *channel,
                           const char *type, const char *msg_id, struct str content);
int message_from_websocket(struct str text, struct message_trees *trees,
                           struct kernel_message *ret);
