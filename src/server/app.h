#pragma once
/* What the parts of a running server share. One per process; http_req_app() of every request. */

#include <pthread.h>

#include "http/client.h"
#include "http/server.h"
#include "io/loop.h"
#include "io/pool.h"
#include "io/timer.h"
#include "server/api/auth.h"
#include "server/config/config.h"
#include "server/lifecycle/lifecycle.h"

/* One per event loop: what a connection needs without a lock. */
struct app_loop {
    struct app *app;
    struct io_loop *loop;
    struct http_server *server;
    struct http_client *client; /* to the sandboxes */
};

struct app {
    struct config *cfg;      /* of the start; lifecycle_config() has the current one */
    struct io_loop *control; /* main thread: signals, timers */
    struct io_group *group;
    struct app_loop *loops;
    unsigned n_loops;
    struct io_pool *pool; /* blocking API calls */
    struct store *store;
    struct runtime *rt;
    struct lifecycle *lc;
    struct keyring *keys;
    struct renew_source *renew; /* Redis consumer, or NULL */
    struct io_addr bound;
    int lock_fd;
    unsigned n_image_calls; /* atomic: long ones at work */
    /* stopping */
    bool running, stopping;
    unsigned n_draining;
    struct io_timer drain_timer, prune_timer;
    pthread_mutex_t close_lock;
    pthread_cond_t close_cond;
    unsigned n_closed;
};

static inline struct app *app_of(const struct http_req *req)
{
    return http_req_app(req);
}
/* The entry of the loop this request lives on. */
struct app_loop *app_loop_of(const struct http_req *req);
