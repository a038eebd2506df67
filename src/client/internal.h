#pragma once
/* Shared by the files of libopensandbox only. */

#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/list.h"
#include "base/str.h"
#include "client/opensandbox.h"
#include "json/json.h"

#define CLIENT_MAX_BODY (64u << 20)        /* limit: a collected answer */
#define CLIENT_MAX_EVENT (32u << 20)       /* limit: one event of a stream */
#define CLIENT_MAX_OUTPUT (256u << 20)     /* limit: collected output of one command */
#define CLIENT_REQUEST_TIMEOUT_MS 30000u   /* limit: one request, unless configured */
#define CLIENT_READY_TIMEOUT_MS 30000u     /* limit: until a new sandbox answers */
#define CLIENT_READY_POLL_MS 200u          /* limit: between two looks at a new sandbox */
#define CLIENT_SNAPSHOT_TIMEOUT_MS 120000u /* limit: until a snapshot is ready */
#define CLIENT_MAX_IDLE_CHANNELS 16        /* limit: kept connections sets of one client */

struct channel; /* a curl handle with its connections */

struct osb_client {
    char *base; /* "http://host:8080/v1" */
    char *scheme;
    char *api_key, *user_agent, *ca_file;
    char **headers; /* NULL-terminated */
    bool insecure, use_server_proxy;
    uint64_t request_timeout_ms;
    pthread_mutex_t lock;
    struct list idle; /* channels */
    size_t n_idle;
};

struct osb_endpoint {
    char *text, *url; /* url has no trailing slash */
    struct osb_pair *headers;
};

struct osb_sandbox {
    struct osb_client *client; /* borrowed */
    char *id;
    pthread_mutex_t lock;
    struct osb_endpoint *execd, *egress; /* looked up on first use */
};

/* ---- errors ---- */
int osb_fail(struct osb_error *e, enum osb_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
enum osb_code osb_code_from_status(int status);

/* ---- one request ---- */
struct transfer {
    const char *method, *url;
    const struct osb_pair *headers; /* of an endpoint, or NULL */
    bool with_key;                  /* lifecycle API: send the API key */
    const char *content_type;       /* of `body`; NULL: application/json */
    const char *extra[4];           /* more "Name: value" lines */
    struct str body;
    bool has_body;
    osb_read_fn *read; /* streamed body instead of `body` */
    void *read_arg;
    int64_t read_len; /* -1: unknown, chunked */
    /* Streamed 2xx body instead of collecting it; negative stops with OSB_ECANCELED. */
    int (*on_data)(struct str data, void *arg);
    void *arg;
    bool no_timeout; /* streams */
    struct osb_call call;
    /* out */
    int status;
    struct buf answer; /* collected body; end with transfer_done() */
    struct buf head;
};
/* What a caller's own request asks for; `accept` is a whole line, or NULL. */
struct transfer transfer_of(const struct osb_request *r, const char *accept);
/* 0 for a 2xx answer; otherwise -1 with the error decoded from the body. */
int transfer_run(struct osb_client *c, struct transfer *t, struct osb_error *e);
void transfer_done(struct transfer *t);
struct str transfer_header(const struct transfer *t, const char *name);

/* ---- services of a sandbox ---- */
/* The endpoint of execd or of the egress sidecar, looked up once. Borrowed. */
const struct osb_endpoint *sandbox_service(struct osb_sandbox *s, enum osb_service svc,
                                           struct osb_error *e);
/* Runs `t` (method, body, callbacks set) against `path` of a service. */
int sandbox_transfer(struct osb_sandbox *s, enum osb_service svc, const char *path,
                     struct transfer *t, struct osb_error *e);
/* The same for the lifecycle API. */
int client_transfer(struct osb_client *c, const char *path, struct transfer *t,
                    struct osb_error *e);
/* Sends JSON, parses a JSON answer (NULL with e->code OSB_OK when it was empty). */
struct json *client_json(struct osb_client *c, const char *method, const char *path,
                         const struct buf *body, const struct osb_call *call, struct osb_error *e);

/* ---- small helpers ---- */
int query_add(struct buf *path, const char *key, const char *value); /* "?k=v" or "&k=v", encoded */
char *dup_or_null(const char *s);
void pairs_put(struct json_out *o, const char *key,
               const struct osb_pair *pairs); /* object of strings */
/* Create options as the template of a pool. */
void template_put(struct json_out *o, const struct osb_create_opts *opts);
/* Token as a descriptor to poll, or -1. */
int token_fd(const struct osb_token *t);
bool token_canceled(const struct osb_token *t);
