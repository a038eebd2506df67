#pragma once
/* One call to a Jupyter server's REST interface: JSON out, JSON in. Loop thread only. */

#include "base/buf.h"
#include "base/err.h"
#include "execd/execd.h"
#include "http/client.h"
#include "json/json.h"

/* Where the server is: http://host[:port][/prefix]. Lives as long as its owner's arena. */
struct jupyter_server {
    const char *host, *authority, *prefix; /* prefix: "" or "/path" */
    uint16_t port;
    const char *authorization; /* value of that header, or NULL */
    const char *token;         /* percent-encoded, for the WebSocket's query */
    struct io_addr addr;       /* once it is known */
};

/* -1 with `e`: not an http URL. */
int jupyter_server_parse(struct arena *a, const char *url, const char *token,
                         struct jupyter_server *ret, struct err *e);
void jupyter_server_target(const struct jupyter_server *s, struct http_target *ret);
size_t jupyter_server_headers(const struct jupyter_server *s, struct h1_header out[3]);

struct rest;
/* Once. status 0: `error` says why there was no answer. `body` is NULL when it was no JSON. */
typedef void rest_cb(int error, int status, const struct json *body, void *arg);
/* `path` begins behind the server's prefix; `body` STR_NULL: none. `cb` may be NULL. */
struct rest *rest_start(struct execd *x, const struct jupyter_server *s, const char *method,
                        const char *path, struct str body, rest_cb *cb, void *arg);
void rest_cancel(struct rest *r); /* cb is not called; NULL is fine */
void rest_cancel_all(struct list *rests);
