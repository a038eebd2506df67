#pragma once
/* Talking to the Docker engine: where it is, which version of its API, one call at a time per
 * thread over connections that are kept. */

#include <pthread.h>

#include "server/config/config.h"
#include "server/fetch/fetch.h"
#include "server/runtime/docker/limits.h"
#include "json/json.h"

struct engine {
    char *base;        /* "http://docker", "https://10.0.0.1:2376" */
    char *unix_socket; /* NULL: over the network */
    char *host;        /* of the network address; NULL: this machine */
    char *ca, *cert, *key;
    bool skip_verify;
    char version[16]; /* "1.41" */
    uint64_t timeout_ms;
    pthread_mutex_t lock;
    struct fetch *idle[DOCKER_IDLE_CONNECTIONS];
    size_t n_idle;
};

struct engine_call {
    const char *method;      /* NULL: GET */
    const char *path;        /* "/containers/json?all=1", without the version */
    const struct json *body; /* sent as JSON, or NULL */
    struct str raw;          /* sent as an archive instead */
    const char *header;      /* one more "Name: value", or NULL */
    uint64_t timeout_ms;     /* 0: the configured one */
    bool is_stream;          /* takes as long as it takes: `cancelled` ends it */
    int (*on_data)(struct str data, void *arg);
    bool (*cancelled)(void *arg);
    void *arg;
};

struct engine_answer {
    int status;
    struct json *json; /* NULL when the body is none */
    struct buf body;   /* as it came */
    int64_t date_s;    /* the engine's clock, 0: not told */
    char message[300]; /* of an error */
};

/* Finds the engine (configuration, then DOCKER_HOST and its companions) and agrees on a version. */
int engine_open(struct engine *g, const struct config_docker *c, struct err *e);
void engine_close(struct engine *g);
/* 0 for any answer, whatever its status; -1 when there was none. The answer is always to be ended.
 */
int engine_do(struct engine *g, const struct engine_call *c, struct engine_answer *ret,
              struct err *e);
void engine_answer_done(struct engine_answer *a);
static inline void engine_answer_done_cleanup(struct engine_answer *a)
{
    engine_answer_done(a);
}
/* 0 for 2xx and 304; else -1 with the engine's own words, and a code by the status. */
int engine_check(const struct engine_answer *a, const char *what, struct err *e);
/* Both in one, for calls whose answer does not matter. `ok_status` counts as success, 0: none. */
int engine_run(struct engine *g, const char *method, const char *path, int ok_status,
               const char *what, struct err *e);
/* The error's kind is another one for whoever asked: nothing to find for him, nothing to resolve.
 */
static inline void engine_err_as_io(struct err *e)
{
    if (e->code == ERR_NOT_FOUND || e->code == ERR_CONFLICT) {
        e->code = ERR_IO;
    }
}

/* Lines of a stream, put together from pieces. */
struct engine_lines {
    struct buf rest;
    int (*on_line)(struct str line, void *arg);
    void *arg;
};
int engine_lines_add(struct engine_lines *l, struct str data);
