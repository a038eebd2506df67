#pragma once
/* The MCP server: what all its files share.
 *
 * A transport (stdio.c, http.c) reads messages and hands each to rpc_run() with a session and a
 * sink. Quick methods are answered at once on that thread; a tool call gets a thread of its own,
 * so that a slow command holds up nobody, and answers through the sink when it is done. */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/list.h"
#include "base/str.h"
#include "client/opensandbox.h"
#include "mcp/limits.h"
#include "json/json.h"

struct registry;
struct tool;

/* ---- where answers go ---- */

/* The answers to one message. Both functions may be called on any thread. */
struct sink {
    atomic_uint refs;
    /* One whole message. `is_reply` tells an answer from a notification. */
    void (*send)(struct sink *s, struct str message, bool is_reply);
    /* Nothing more comes for one request: after its answer, or without one when it was canceled. */
    void (*done)(struct sink *s);
    void (*free)(struct sink *s);
};

static inline struct sink *sink_ref(struct sink *s)
{
    (void)atomic_fetch_add(&s->refs, 1);
    return s;
}
void sink_unref(struct sink *s);

/* ---- the program ---- */

struct call;

struct mcp {
    struct osb_client *client;
    struct registry *registry;
    const char *const *toolsets; /* names, NULL-terminated */
    pthread_mutex_t lock;        /* calls of all sessions */
    pthread_cond_t idle;         /* n_calls went down */
    size_t n_calls;
    /* How a call gets going: call_start() here, something that can be looked at in tests. */
    int (*start)(struct call *take_c);
};

void mcp_init(struct mcp *m, struct osb_client *take_client, const char *const *toolsets);
/* Cancels what is running, waits for it, frees. */
void mcp_done(struct mcp *m);
/* Waits until no call is running; false when `ms` passed first. */
bool mcp_wait_idle(struct mcp *m, uint64_t ms);

/* ---- sessions ---- */

enum mcp_version { /* oldest first */
                   MCP_2024_11_05,
                   MCP_2025_03_26,
                   MCP_2025_06_18,
                   MCP_2025_11_25,
                   MCP_2026_07_28, /* no handshake: each request says its version */
                   MCP_VERSION__COUNT
};
#define MCP_LATEST_HANDSHAKE MCP_2025_11_25

const char *mcp_version_text(enum mcp_version v);
bool mcp_version_find(struct str text, enum mcp_version *ret);

/* What one client has said so far. Lives as long as somebody holds a reference. */
struct session {
    atomic_uint refs;
    struct mcp *app;
    bool initialized;
    enum mcp_version version;
    struct list calls; /* under app->lock */
};

struct session *session_new(struct mcp *m);
static inline struct session *session_ref(struct session *s)
{
    (void)atomic_fetch_add(&s->refs, 1);
    return s;
}
void session_unref(struct session *s);
/* Cancels every call of the session. */
void session_cancel(struct session *s);
bool session_busy(struct session *s); /* calls are running */

/* ---- messages ---- */

enum rpc_code {
    RPC_PARSE = -32700,
    RPC_INVALID = -32600,
    RPC_NO_METHOD = -32601,
    RPC_BAD_PARAMS = -32602,
    RPC_INTERNAL = -32603,
    RPC_BUSY = -32000,
    RPC_HEADER_MISMATCH = -32020,
    RPC_BAD_VERSION = -32022,
};

struct rpc_in {
    struct json *root;
    size_t n_requests; /* that want an answer */
    bool is_batch, is_initialize;
    const char *method;  /* of a single message, or NULL */
    const char *version; /* that a request without handshake names, or NULL */
};

/* 0, or -1 with an error for RPC_PARSE. */
int rpc_read(struct str text, struct rpc_in *ret, struct err *e);
void rpc_in_done(struct rpc_in *in);
/* Answers every request in the message; for each, sink->done() is called once. */
void rpc_run(struct session *s, const struct rpc_in *in, struct sink *sink);
/* An error as a whole message. `id` NULL: null. */
void rpc_error(struct buf *out, const struct json *id, enum rpc_code code, const char *message);

/* ---- tool calls ---- */

struct call {
    struct list node;
    struct session *session;
    struct sink *sink;
    const struct tool *tool;
    struct json *id, *progress_token, *args;
    enum mcp_version version;
    struct osb_token *token;
    atomic_bool canceled;
    uint64_t last_progress_ms; /* the thread of the call */
    double last_progress;
};

/* The default of mcp.start: a thread. 0, or -1 when there are too many. */
int call_start(struct call *take_c);
void call_free(struct call *c);
/* Runs the tool and answers, on this thread. */
void call_run(struct call *c);
/* A notification for a caller that gave a token; silent when progress does not grow. total 0: not
 * known. */
void call_progress(struct call *c, double progress, double total, const char *message);

/* ---- transports ---- */

/* Until the end of input. The exit code. */
int stdio_serve(struct mcp *m, int in_fd, int out_fd);

struct http_opts {
    const char *host;
    uint16_t port;
    const char *path;           /* "/mcp" */
    const char *const *origins; /* allowed beside loopback ones, NULL-terminated */
    const char *const *hosts;   /* accepted in Host beside loopback ones */
    const char *token;          /* bearer token that requests must carry, or NULL */
};
int http_serve(struct mcp *m, const struct http_opts *o, struct err *e);
