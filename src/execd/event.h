#pragma once
/* The event stream of commands, sessions and code: bare JSON objects, each followed by an empty
 * line. `type` and `timestamp` are in every one; clients drop events that lack either.
 *
 * Encoders append to a buf, so that everything that came with one read goes out with one write.
 * The response head is sent with the first event: until then a handler can still answer an error.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"
#include "execd/execd.h"
#include "http/server.h"
#include "io/timer.h"

/* ---- encoding ---- */
void event_add_init(struct buf *out, struct str id, int64_t now_ms);
void event_add_ping(struct buf *out, int64_t now_ms);
/* `type` is "stdout" or "stderr"; `text` is any bytes, at most EXECD_EVENT_TEXT_MAX. */
void event_add_text(struct buf *out, struct str type, struct str text, int64_t now_ms);
/* `traceback`: n lines, NULL ones are left out. */
void event_add_error(struct buf *out, struct str ename, struct str evalue,
                     const char *const *traceback, size_t n, int64_t now_ms);
/* A zero time is left out, as the protocol has it. */
void event_add_complete(struct buf *out, int64_t execution_ms, int64_t now_ms);

/* ---- the stream ---- */
struct event_stream {
    struct execd *x;
    struct http_req *req; /* NULL: not started, ended, or the client has left */
    struct io_timer ping;
    bool blocked; /* the connection has enough; wait for on_writable */
    void (*on_writable)(struct event_stream *es);
    void (*on_gone)(struct event_stream *es); /* the client left before the end */
};

/* Sends the head, `init` and `ping`, and a ping every EXECD_PING_MS from then on. */
void event_stream_start(struct event_stream *es, struct execd *x, struct http_req *req,
                        struct str id);
static inline bool event_stream_open(const struct event_stream *es)
{
    return es->req != NULL;
}
/* Writes whole encoded events. False when the connection has enough: stop reading the source until
 * on_writable. Without a client it takes everything and says true. */
bool event_stream_write(struct event_stream *es, struct str events);
/* Ends the response. Also right when the client has left; no callback comes afterwards. */
void event_stream_end(struct event_stream *es);
