#pragma once
/* The program's one context: a loop thread that owns everything here, and a small pool for blocking
 * file work. A request handler finds it through execd_of(). */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/list.h"
#include "execd/config.h"
#include "http/server.h"
#include "io/loop.h"
#include "io/pool.h"

struct command_table;
struct session_table;
struct pty_table;
struct sampler;

/* Something with open streams that wants to know when execd is asked to stop. Called once, on the
 * loop; the owner ends its streams with an event of their own kind. */
struct stop_hook {
    struct list node;
    void (*fn)(struct stop_hook *hook);
};

struct execd {
    struct execd_config cfg;
    struct io_loop *loop;
    struct io_pool *pool;
    struct http_server *http;
    uint16_t port; /* the TCP port we serve, 0 when none: requests proxied to it are our own */

    struct command_table *commands;
    struct session_table *sessions;
    struct pty_table *ptys;
    struct sampler *sampler; /* CPU and memory of the sandbox */

    struct buf scratch; /* for one callback at a time: encoded events on their way out */
    struct list stop_hooks;
    bool stopping;
    int oom_score_adj; /* of the children */
};

static inline struct execd *execd_of(const struct http_req *req)
{
    return http_req_app(req);
}
