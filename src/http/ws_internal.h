#pragma once
/* Between the handshakes and the connection. */

#include "http/ws.h"

/* An open WebSocket on `take_s`. `early` was read behind the handshake; it is handled at the end of
 * this turn, so that no callback comes before the caller has its pointer. */
struct ws_conn *ws_conn_new(struct io_stream *take_s, bool is_server, const struct ws_opts *o,
                            const struct ws_ops *ops, void *arg, struct str early);
/* Bytes that go ahead of all frames: the server's 101. */
void ws_conn_send_raw(struct ws_conn *ws, struct str data);
