#pragma once
/* The program's one context: a loop thread that owns everything here, and a small pool for blocking
 * file work. A request handler finds it through execd_of(). */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/list.h"
#include "execd/config.h"
#include "execd/drain.h"
#include "execd/oom.h"
#include "execd/run_as.h"
#include "http/server.h"
#include "io/loop.h"
#include "io/pool.h"
#include "io/timer.h"

struct code_table;
struct command_table;
struct session_table;
struct pty_table;
struct init;
struct sampler;
struct telemetry;
struct http_client;
struct control;

/* Something with open streams that wants to know when execd is asked to stop. Called once, on the
 * loop; the owner ends its streams with an event of their own kind. */
struct stop_hook {
    struct list node;
    void (*fn)(struct stop_hook *hook);
};

struct execd {
    struct execd_config cfg;
    struct run_as run_as; /* what is started without another order */
    struct io_loop *loop;
    struct io_pool *pool;
    struct http_server *http;
    struct control *control; /* NULL: not waiting to be told what to run */
    bool touched;            /* a request other than a ping has come */
    uint16_t port; /* the TCP port we serve, 0 when none: requests proxied to it are our own */

    struct command_table *commands;
    struct code_table *code;
    struct session_table *sessions;
    struct pty_table *ptys;
    struct init *init;           /* NULL: not in init mode */
    struct sampler *sampler;     /* CPU and memory of the sandbox */
    struct telemetry *telemetry; /* NULL: off */
    struct http_client *client;  /* to servers inside the sandbox */

    struct drains drains;
    struct oom_watch oom;
    struct buf scratch;     /* for one callback at a time: encoded events on their way out */
    char *read_buf;         /* EXECD_READ_CHUNK bytes, likewise: what came out of a pipe */
    int null_fd;            /* stdin of children */
    int oom_score_adj;      /* of the children; 0: as ours */
    uint64_t child_max_fds; /* their limit of descriptors; ours is raised */

    /* shutdown */
    struct list stop_hooks;
    struct io_timer stop_timer;
    uint64_t stop_kill_ms, stop_last_ms;
    bool stopping, stop_killed, drained;
    /* Processes that no table knows: the entrypoint, and as PID 1 everybody else. As signal_all().
     */
    size_t (*signal_others)(struct execd *x, int signo);
};

/* The scratch buffer, empty, and without the memory that one huge event needed. */
struct buf *execd_scratch(struct execd *x);

static inline struct execd *execd_of(const struct http_req *req)
{
    return http_req_app(req);
}
