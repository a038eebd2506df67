#pragma once
/* WebSocket (RFC 6455), both roles. Frame codec without I/O, and a connection on a stream. */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"
#include "base/utf8.h"
#include "http/client.h"
#include "http/server.h"

enum ws_opcode { WS_CONT = 0, WS_TEXT = 1, WS_BINARY = 2, WS_CLOSE = 8, WS_PING = 9, WS_PONG = 10 };

/* ---- codec ---- */
struct ws_frame {
    enum ws_opcode opcode;
    bool fin, masked;
    uint8_t mask[4];
    uint64_t len;
};
/* Header length, 0 when more input is needed, -EPROTO for reserved bits, bad opcode, long or
 * fragmented control frames, non-minimal lengths. */
int ws_frame_parse(struct str in, struct ws_frame *ret);
#define WS_FRAME_MAX 14
size_t ws_frame_format(const struct ws_frame *f, char out[WS_FRAME_MAX]);
void ws_mask(char *p, size_t n, const uint8_t mask[4], uint64_t offset);
/* base64(sha1(key + GUID)); out has 29 bytes. */
void ws_accept_key(struct str key, char out[29]);
bool ws_close_code_valid(unsigned code);

/* ---- connection ---- */
struct ws_conn;

struct ws_ops {
    /* A whole message (text is valid UTF-8). */
    void (*on_message)(struct ws_conn *ws, enum ws_opcode opcode, struct str data, void *arg);
    void (*on_writable)(struct ws_conn *ws, void *arg);
    /* Once, last. code: what the peer sent or 1006 when the connection just broke, 1002/1007/1009
     * for its violations. */
    void (*on_close)(struct ws_conn *ws, unsigned code, struct str reason, void *arg);
    void (*on_pong)(struct ws_conn *ws, struct str data, void *arg);
};

struct ws_opts {
    size_t max_message; /* 0: HTTP_WS_MAX_MESSAGE */
    uint64_t ping_ms;   /* 0: no pings */
    uint64_t idle_ms;   /* no frame at all for so long: closed with 1001; 0: never */
    const char *subprotocol;
};

/* Server: checks the handshake (version, key, method), answers 101 or 400/426, takes the stream.
 * NULL when the handshake was refused and answered. */
struct ws_conn *ws_accept(struct http_req *req, const struct ws_opts *o, const struct ws_ops *ops,
                          void *arg);
/* Client: connected through http_call with upgrade. cb gets NULL and an error, or the HTTP status
 * that came instead of 101 in *error_status. */
typedef void ws_connect_cb(struct ws_conn *ws, int error, int status, void *arg);
struct ws_connect;
struct ws_connect *ws_connect(struct http_client *c, const struct http_target *t, struct str target,
                              const struct h1_header *headers, size_t n_headers,
                              const struct ws_opts *o, const struct ws_ops *ops, ws_connect_cb *cb,
                              void *arg);
void ws_connect_cancel(struct ws_connect *w);
/* Sends a whole message; false when HTTP_OUT_HIGH is queued: wait for on_writable. */
bool ws_send(struct ws_conn *ws, enum ws_opcode opcode, struct str data);
size_t ws_queued(const struct ws_conn *ws);
void ws_pause(struct ws_conn *ws); /* no on_message until ws_resume() */
void ws_resume(struct ws_conn *ws);
/* Starts the close handshake; on_close follows (at the latest after 2 s). */
void ws_close(struct ws_conn *ws, unsigned code, struct str reason);
/* The same for a user who does not wait: no callback comes any more, the pointer is dead. */
void ws_leave(struct ws_conn *ws, unsigned code, struct str reason);
void ws_abort(struct ws_conn *ws); /* at once, no callback; dead afterwards */
void *ws_arg(const struct ws_conn *ws);
