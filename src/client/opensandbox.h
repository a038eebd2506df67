/* libopensandbox: the C SDK. Connect, Create, Operate, Cleanup.
 *
 *     struct osb_error e = {0};
 *     struct osb_client *c = osb_client_new(NULL, &e);            // Connect: from the environment
 *     struct osb_sandbox *s = osb_create(c, &(struct osb_create_opts){.image = "host"}, &e);
 *     struct osb_result *r = osb_run(s, "echo hello", NULL, &e);  // Operate
 *     if (r) puts(osb_result_stdout(r));
 *     osb_result_free(r);
 *     osb_kill(s, &e);                                            // Cleanup: ends the sandbox
 *     osb_sandbox_free(s);                                        // ... and the handle
 *     osb_client_free(c);
 *
 * Rules that hold everywhere:
 *   - Functions return 0 / a pointer, or -1 / NULL with *e filled. `e` may be NULL.
 *   - Strings passed in are copied; strings returned belong to the object they came from and live
 * as long as it does. Objects named *_free are the caller's. Freeing NULL is fine.
 *   - Option structs may be NULL; a zeroed member means the default.
 *   - A handle may be used by several threads at once; a result belongs to one thread.
 *   - Calls block. They end early when the deadline of the client or of the call passes
 *     (OSB_ETIMEOUT), or when osb_cancel() is called on their token from any thread
 * (OSB_ECANCELED).
 *   - Nothing is printed and no signal is touched, with one exception: opening a terminal makes the
 *     process ignore SIGPIPE. */

#ifndef OPENSANDBOX_H
#define OPENSANDBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define OSB_API __attribute__((visibility("default")))
#else
#define OSB_API
#endif

#define OSB_EXECD_PORT 44772
#define OSB_EGRESS_PORT 18080

/* ---- errors ---- */

enum osb_code {
    OSB_OK = 0,
    OSB_EINVALID,      /* refused before anything was sent, or 400/422 */
    OSB_EUNAUTHORIZED, /* 401, 403 */
    OSB_ENOTFOUND,     /* 404 */
    OSB_ECONFLICT,     /* 409, 412 */
    OSB_ELIMIT,        /* 413, 429, or a limit of this library */
    OSB_ETIMEOUT,      /* a deadline passed */
    OSB_ENOTREADY,     /* created, but did not answer in time; it has been removed again */
    OSB_ECANCELED,
    OSB_ENETWORK,     /* no connection, or it broke */
    OSB_ESERVER,      /* 5xx */
    OSB_EPROTOCOL,    /* an answer that is not the protocol */
    OSB_EUNSUPPORTED, /* 501: this server or runtime cannot */
    OSB_EIO           /* a local file */
};

struct osb_error {
    enum osb_code code;
    int http_status;     /* 0: no answer came */
    char api_code[64];   /* "DOCKER::SANDBOX_NOT_FOUND", or "" */
    char message[512];   /* one sentence */
    char request_id[64]; /* for the server's log, or "" */
};

/* "not_found", "timeout", ...: stable, for logs. Never NULL. */
OSB_API const char *osb_code_name(enum osb_code code);
/* Version of the library, such as "0.1.0". */
OSB_API const char *osb_version(void);

/* ---- cancellation ---- */

struct osb_token;
/* A token to give to calls in struct osb_call; NULL when descriptors have run out. */
OSB_API struct osb_token *osb_token_new(void);
/* When no call uses it any more. */
OSB_API void osb_token_free(struct osb_token *t);
OSB_API void osb_cancel(struct osb_token *t); /* any thread, and safe in a signal handler */

/* How one call is bounded. */
struct osb_call {
    uint64_t timeout_ms; /* 0: the client's request timeout; streams have none */
    struct osb_token *token;
};

/* ---- connect ---- */

struct osb_client;

struct osb_config {
    const char *domain;   /* "host:port" or a URL; env OPEN_SANDBOX_DOMAIN; "localhost:8080" */
    const char *protocol; /* "http" or "https"; env OPEN_SANDBOX_PROTOCOL */
    const char *api_key;  /* env OPEN_SANDBOX_API_KEY */
    const char *const *headers; /* extra "Name: value", NULL-terminated, sent on every request */
    const char *user_agent;
    const char *ca_file;
    bool insecure;               /* do not verify TLS certificates */
    bool use_server_proxy;       /* reach sandboxes through the server */
    uint64_t request_timeout_ms; /* 0: 30 s */
};

/* A client; nothing is sent yet. OSB_EINVALID for an address that is none. Free it last: sandboxes
 * and terminals made from it use it. */
OSB_API struct osb_client *osb_client_new(const struct osb_config *cfg, struct osb_error *e);
/* Closes kept connections and frees the client. No call may be running. */
OSB_API void osb_client_free(struct osb_client *c);
/* Whether the server answers. */
OSB_API int osb_client_health(struct osb_client *c, struct osb_error *e);

struct osb_pair {
    const char *key, *value;
};

/* ---- create, connect, list ---- */

struct osb_sandbox;

struct osb_volume {
    const char *name, *mount_path, *sub_path;
    bool read_only;
    const char *host_path; /* one of host_path, pvc_claim, ossfs_bucket */
    const char *pvc_claim;
    bool pvc_must_exist, pvc_delete_with_sandbox;
    const char *pvc_storage, *pvc_storage_class;
    const char *ossfs_bucket, *ossfs_endpoint, *ossfs_key_id, *ossfs_key_secret, *ossfs_version;
    const char *const *ossfs_options;
};

struct osb_rule {
    const char *action; /* "allow" or "deny" */
    const char *target; /* domain, "*.domain", address or prefix */
};

struct osb_create_opts {
    const char *image, *image_user, *image_password;
    const char *snapshot_id;       /* instead of image */
    const char *const *entrypoint; /* NULL: tail -f /dev/null */
    /* Each ends with key NULL; resources default cpu=1, memory=2Gi. With the extension poolRef an
     * image need not be given, and what is not is as in the template of the pool. */
    const struct osb_pair *env, *metadata, *resources, *extensions;
    int64_t timeout_seconds; /* 0: 600; -1: until killed */
    const char *os, *arch;
    const char *egress_default; /* "allow" or "deny": turns the egress policy on */
    const struct osb_rule *egress_rules;
    size_t n_egress_rules;
    bool credential_proxy, secure_access;
    const struct osb_volume *volumes;
    size_t n_volumes;
    const char *idempotency_key; /* NULL: one is made, so that a lost answer leaks nothing */
    uint64_t ready_timeout_ms;   /* 0: 30 s */
    uint64_t ready_poll_ms;      /* longest pause between two looks; 0: 200 ms */
    bool skip_ready;             /* do not wait for the sandbox to answer */
    struct osb_call call;
};

/* Returns when the sandbox answers. When it does not in time it is removed and the error says why.
 */
OSB_API struct osb_sandbox *osb_create(struct osb_client *c, const struct osb_create_opts *o,
                                       struct osb_error *e);
/* A sandbox that exists already, once it answers; call->timeout_ms bounds the wait (0: 30 s). */
OSB_API struct osb_sandbox *osb_connect(struct osb_client *c, const char *id,
                                        const struct osb_call *call, struct osb_error *e);
/* Waits until the sandbox answers: call->timeout_ms, 0 for 30 s; poll_ms is the longest pause
 * between two looks, 0 for 200 ms. OSB_ENOTREADY when it does not; the sandbox is left as it is. */
OSB_API int osb_wait_ready(struct osb_sandbox *s, uint64_t poll_ms, const struct osb_call *call,
                           struct osb_error *e);
/* A handle without asking anybody: whether the sandbox exists shows with the first call. */
OSB_API struct osb_sandbox *osb_attach(struct osb_client *c, const char *id);
OSB_API void osb_sandbox_free(struct osb_sandbox *s); /* the sandbox itself goes on */
/* Its id; lives as long as the handle. */
OSB_API const char *osb_sandbox_id(const struct osb_sandbox *s);

struct osb_info; /* what the server says about a sandbox */
/* Asks the server about a sandbox. OSB_ENOTFOUND when there is none. */
OSB_API struct osb_info *osb_info_get(struct osb_client *c, const char *id, struct osb_error *e);
/* Frees what osb_info_get() or osb_patch_metadata() returned; items of a list belong to it. */
OSB_API void osb_info_free(struct osb_info *i);
/* Never NULL. */
OSB_API const char *osb_info_id(const struct osb_info *i);
OSB_API const char *osb_info_state(const struct osb_info *i);    /* "Running", ... */
OSB_API const char *osb_info_reason(const struct osb_info *i);   /* or NULL */
OSB_API const char *osb_info_message(const struct osb_info *i);  /* or NULL */
OSB_API const char *osb_info_image(const struct osb_info *i);    /* or NULL */
OSB_API const char *osb_info_snapshot(const struct osb_info *i); /* or NULL */
OSB_API const char *osb_info_created(const struct osb_info *i);  /* RFC 3339 */
OSB_API const char *osb_info_expires(const struct osb_info *i);  /* or NULL: never */
/* One value of its metadata, or NULL. */
OSB_API const char *osb_info_metadata(const struct osb_info *i, const char *key);
OSB_API const char *osb_info_json(const struct osb_info *i); /* everything, as the server sent it */

struct osb_filter {
    const char *const *states;       /* any of these */
    const struct osb_pair *metadata; /* all of these */
    int page, page_size;             /* from 1; 0: 1 and 20 */
};
struct osb_list;
/* One page of sandboxes, newest first. */
OSB_API struct osb_list *osb_list(struct osb_client *c, const struct osb_filter *f,
                                  struct osb_error *e);
/* Frees the page with all its items. */
OSB_API void osb_list_free(struct osb_list *l);
/* Items on this page. */
OSB_API size_t osb_list_len(const struct osb_list *l);
/* The i-th, from 0; NULL behind the end. */
OSB_API const struct osb_info *osb_list_item(const struct osb_list *l, size_t i);
/* Items on all pages. */
OSB_API int osb_list_total(const struct osb_list *l);
/* Whether there is a page after this one. */
OSB_API bool osb_list_has_next(const struct osb_list *l);
/* The page as the server sent it. */
OSB_API const char *osb_list_json(const struct osb_list *l);

/* ---- lifecycle; by id, so that no handle is needed ---- */

/* Ends a sandbox for good. */
OSB_API int osb_kill_id(struct osb_client *c, const char *id, struct osb_error *e);
/* Stops all its processes and keeps their state. Returns when the server has accepted it. */
OSB_API int osb_pause_id(struct osb_client *c, const char *id, struct osb_error *e);
/* Lets a paused sandbox go on; its endpoints may have changed, so connect to it again. */
OSB_API int osb_resume_id(struct osb_client *c, const char *id, struct osb_error *e);
/* From now on. *ret_expires (may be NULL) gets RFC 3339 text of at most 40 bytes. */
OSB_API int osb_renew_id(struct osb_client *c, const char *id, int64_t seconds,
                         char ret_expires[40], struct osb_error *e);
/* Values NULL delete a key. Returns the sandbox as it is then. */
OSB_API struct osb_info *osb_patch_metadata(struct osb_client *c, const char *id,
                                            const struct osb_pair *patch, struct osb_error *e);
static inline int osb_kill(struct osb_sandbox *s, struct osb_error *e);
/* The client it was made from. */
OSB_API struct osb_client *osb_sandbox_client(const struct osb_sandbox *s);
static inline int osb_kill(struct osb_sandbox *s, struct osb_error *e)
{
    return osb_kill_id(osb_sandbox_client(s), osb_sandbox_id(s), e);
}

/* ---- endpoints ---- */

struct osb_endpoint;
OSB_API struct osb_endpoint *osb_endpoint_get(struct osb_client *c, const char *id, int port,
                                              int64_t expires,
                                              struct osb_error *e); /* expires 0: not signed */
/* Frees the endpoint with its texts. */
OSB_API void osb_endpoint_free(struct osb_endpoint *ep);
OSB_API const char *osb_endpoint_url(const struct osb_endpoint *ep);  /* with scheme */
OSB_API const char *osb_endpoint_text(const struct osb_endpoint *ep); /* as the server sent it */
OSB_API const struct osb_pair *
osb_endpoint_headers(const struct osb_endpoint *ep); /* ends with key NULL */

/* ---- commands ---- */

enum osb_event_type {
    OSB_EV_INIT,
    OSB_EV_STDOUT,
    OSB_EV_STDERR,
    OSB_EV_RESULT,
    OSB_EV_COUNT,
    OSB_EV_ERROR,
    OSB_EV_COMPLETE
};

struct osb_event {
    enum osb_event_type type;
    int64_t timestamp_ms;
    const char
        *text; /* INIT: execution id; STDOUT, STDERR: a line or a piece; RESULT: text/plain */
    size_t text_len;
    const char *name, *value;     /* ERROR */
    const char *const *traceback; /* ERROR; NULL-terminated */
    const char *results_json;     /* RESULT: all MIME types */
    int64_t execution_count, execution_ms;
};

/* Return false to stop listening (the call ends with OSB_ECANCELED). */
typedef bool osb_event_fn(const struct osb_event *ev, void *arg);

struct osb_run_opts {
    const char *cwd;
    const struct osb_pair *env;
    uint64_t timeout_ms; /* of the command itself; 0: none */
    bool background;
    int64_t uid, gid; /* 0 with has_uid / has_gid false: the daemon's */
    bool has_uid, has_gid;
    osb_event_fn *on_event; /* as it happens */
    void *arg;
    bool discard; /* do not collect output in the result */
    struct osb_call call;
};

struct osb_result;
/* 0 with a result, whatever the command's exit code: a failing command is not an error of the call.
 */
OSB_API struct osb_result *osb_run(struct osb_sandbox *s, const char *command,
                                   const struct osb_run_opts *o, struct osb_error *e);
/* Frees the result with its texts. */
OSB_API void osb_result_free(struct osb_result *r);
OSB_API const char *osb_result_id(const struct osb_result *r); /* execution id */
/* False for background commands, for code, and for a stream without its end. */
OSB_API bool osb_result_has_exit_code(const struct osb_result *r);
OSB_API int osb_result_exit_code(const struct osb_result *r); /* -1: killed or timed out */
OSB_API const char *
osb_result_stdout(const struct osb_result *r); /* never NULL; lines, but of code as it came */
/* As osb_result_stdout(). */
OSB_API const char *osb_result_stderr(const struct osb_result *r);
OSB_API const char *
osb_result_text(const struct osb_result *r); /* last text/plain result, or NULL */
OSB_API const char *osb_result_error_name(const struct osb_result *r);       /* or NULL */
OSB_API const char *osb_result_error_value(const struct osb_result *r);      /* or NULL */
OSB_API const char *const *osb_result_traceback(const struct osb_result *r); /* or NULL */

/* Interrupts a running command, by the id of its INIT event. */
OSB_API int osb_interrupt(struct osb_sandbox *s, const char *execution_id, struct osb_error *e);

struct osb_command_status {
    bool running, has_exit_code;
    int exit_code;
    char error[256], started_at[40], finished_at[40];
};
/* How a command is doing, or how it ended. */
OSB_API int osb_command_status(struct osb_sandbox *s, const char *execution_id,
                               struct osb_command_status *ret, struct osb_error *e);
/* Output of a background command from *cursor on, which is moved. Heap string, freed with free().
 */
OSB_API char *osb_command_logs(struct osb_sandbox *s, const char *execution_id, int64_t *cursor,
                               struct osb_error *e);

/* Shell sessions: state is kept between runs. */
OSB_API int osb_session_new(struct osb_sandbox *s, const char *cwd, char ret_id[64],
                            struct osb_error *e);
/* As osb_run(), in a session. */
OSB_API struct osb_result *osb_session_run(struct osb_sandbox *s, const char *session_id,
                                           const char *command, const struct osb_run_opts *o,
                                           struct osb_error *e);
/* Ends a session with what runs in it. */
OSB_API int osb_session_delete(struct osb_sandbox *s, const char *session_id, struct osb_error *e);

/* ---- files ---- */

struct osb_file_info {
    char *path, *owner, *group, *type; /* type: "file", "directory", "symlink", ... */
    int mode;                          /* digits are octal: 755 */
    int64_t size;
    char *modified_at, *created_at;
};
struct osb_file_list {
    struct osb_file_info *v;
    size_t n;
};
/* Frees the entries; the list may be used again. */
OSB_API void osb_file_list_done(struct osb_file_list *l);

struct osb_write_opts {
    int mode; /* 0: 755 */
    const char *owner, *group;
    struct osb_call call;
};
/* Writes n bytes to a file, making directories as needed. */
OSB_API int osb_write_file(struct osb_sandbox *s, const char *path, const void *data, size_t n,
                           const struct osb_write_opts *o, struct osb_error *e);
/* Streams: `read` gives up to n bytes, 0 at the end, negative to give up. */
typedef ssize_t osb_read_fn(void *p, size_t n, void *arg);
typedef int osb_write_fn(const void *p, size_t n, void *arg); /* negative to give up */
/* Uploads what `read` gives, without knowing how much it will be. */
OSB_API int osb_upload(struct osb_sandbox *s, const char *path, osb_read_fn *read, void *arg,
                       const struct osb_write_opts *o, struct osb_error *e);
/* Uploads a local file. */
OSB_API int osb_upload_file(struct osb_sandbox *s, const char *local, const char *path,
                            const struct osb_write_opts *o, struct osb_error *e);

struct osb_read_opts {
    const char *range;     /* "bytes=0-9", or NULL */
    int64_t offset, limit; /* line mode, from 1; 0: not used */
    struct osb_call call;
};
/* Whole file, heap, with a NUL after *ret_n bytes; freed with free(). */
OSB_API char *osb_read_file(struct osb_sandbox *s, const char *path, const struct osb_read_opts *o,
                            size_t *ret_n, struct osb_error *e);
/* Passes a file to `write` piece by piece. o->range or o->offset ask for a part. */
OSB_API int osb_download(struct osb_sandbox *s, const char *path, osb_write_fn *write, void *arg,
                         const struct osb_read_opts *o, struct osb_error *e);
/* Downloads into a local file, which appears when it is complete. */
OSB_API int osb_download_file(struct osb_sandbox *s, const char *path, const char *local,
                              const struct osb_read_opts *o, struct osb_error *e);

/* About each of the paths (NULL-terminated). OSB_ENOTFOUND when one is missing. */
OSB_API int osb_file_info(struct osb_sandbox *s, const char *const *paths,
                          struct osb_file_list *ret, struct osb_error *e);
/* Files below `path` whose name matches a glob pattern. */
OSB_API int osb_search(struct osb_sandbox *s, const char *path, const char *pattern,
                       struct osb_file_list *ret, struct osb_error *e);
/* Entries of a directory, `depth` levels deep (0: 1). */
OSB_API int osb_list_dir(struct osb_sandbox *s, const char *path, int depth,
                         struct osb_file_list *ret, struct osb_error *e);
/* Deletes files (NULL-terminated list). */
OSB_API int osb_delete_files(struct osb_sandbox *s, const char *const *paths, struct osb_error *e);
/* Makes directories with their parents. */
OSB_API int osb_make_dirs(struct osb_sandbox *s, const char *const *paths,
                          const struct osb_write_opts *o, struct osb_error *e);
/* Deletes directories with everything in them. */
OSB_API int osb_delete_dirs(struct osb_sandbox *s, const char *const *paths, struct osb_error *e);
OSB_API int osb_move(struct osb_sandbox *s, const struct osb_pair *moves,
                     struct osb_error *e); /* key: from, value: to */
/* Sets mode, owner and group of a file. */
OSB_API int osb_set_permissions(struct osb_sandbox *s, const char *path,
                                const struct osb_write_opts *o, struct osb_error *e);
/* *ret_count (may be NULL): replacements made. */
OSB_API int osb_replace(struct osb_sandbox *s, const char *path, const char *old_text,
                        const char *new_text, int64_t *ret_count, struct osb_error *e);

/* ---- metrics ---- */

struct osb_metrics {
    double cpu_count, cpu_used_pct, mem_total_mib, mem_used_mib;
    int64_t timestamp_ms;
    /* While watching: why there is no sample this time, and all numbers are 0. Else NULL. Lives as
     * long as the callback runs. */
    const char *error;
};
/* Processor and memory use now. */
OSB_API int osb_metrics(struct osb_sandbox *s, struct osb_metrics *ret, struct osb_error *e);
typedef bool osb_metrics_fn(const struct osb_metrics *m, void *arg);
/* Calls fn for each sample until it returns false (OSB_ECANCELED) or the sandbox ends. A sample
 * that could not be taken has its `error` set; the stream goes on. */
OSB_API int osb_metrics_watch(struct osb_sandbox *s, osb_metrics_fn *fn, void *arg,
                              const struct osb_call *call, struct osb_error *e);
/* Whether the daemon inside answers within five seconds. */
OSB_API bool osb_is_healthy(struct osb_sandbox *s);

/* ---- code contexts ---- */

/* Opens a context that keeps variables between runs. */
OSB_API int osb_context_new(struct osb_sandbox *s, const char *language, const char *cwd,
                            char ret_id[64], struct osb_error *e);
OSB_API char *osb_context_list_json(struct osb_sandbox *s, const char *language,
                                    struct osb_error *e); /* free() */
/* Closes a context. */
OSB_API int osb_context_delete(struct osb_sandbox *s, const char *context_id, struct osb_error *e);
/* context_id NULL: the default context of `language`. */
OSB_API struct osb_result *osb_code_run(struct osb_sandbox *s, const char *context_id,
                                        const char *language, const char *code,
                                        const struct osb_run_opts *o, struct osb_error *e);
/* Interrupts what runs in a context (or an execution, by the id its INIT event gave). */
OSB_API int osb_code_interrupt(struct osb_sandbox *s, const char *context_id, struct osb_error *e);

/* ---- terminals ---- */

struct osb_pty;
struct osb_pty_opts {
    const char *cwd, *command; /* command NULL: the shell */
    uint16_t rows, cols;
    const char *id; /* attach to this one instead of making one */
    int64_t since;  /* replay from this offset; -1: everything kept */
    bool takeover;
};
struct osb_pty_ops { /* called on the thread that is inside osb_pty_run() */
    void (*on_output)(const void *p, size_t n, void *arg);
    void (*on_exit)(int exit_code, void *arg);
};
/* Opens or attaches to a terminal. The handle belongs to the caller. */
OSB_API struct osb_pty *osb_pty_open(struct osb_sandbox *s, const struct osb_pty_opts *o,
                                     const struct osb_pty_ops *ops, void *arg, struct osb_error *e);
/* For attaching to it again. */
OSB_API const char *osb_pty_id(const struct osb_pty *p);
/* Until the program ends or the connection breaks. Returns 0, or -1. */
OSB_API int osb_pty_run(struct osb_pty *p, struct osb_error *e);
/* Any thread, from osb_pty_open() to osb_pty_free(). -1: 8 MiB of input are waiting already. */
OSB_API int osb_pty_write(struct osb_pty *p, const void *data, size_t n);
/* Tells the program the size of the window. Any thread. */
OSB_API int osb_pty_resize(struct osb_pty *p, uint16_t rows, uint16_t cols);
OSB_API void osb_pty_detach(struct osb_pty *p); /* osb_pty_run() returns; the program goes on */
/* After osb_pty_run() has returned. The program goes on unless it has ended. */
OSB_API void osb_pty_free(struct osb_pty *p);
/* Ends a terminal and its program. */
OSB_API int osb_pty_delete(struct osb_sandbox *s, const char *pty_id, struct osb_error *e);

/* ---- pools: sandboxes that are started ahead of their use ----
 * A create whose extension poolRef names the pool takes one that waits. */

struct osb_capacity {
    int buffer_min, buffer_max; /* idle ones */
    int pool_min, pool_max;     /* idle and taken ones together */
};
struct osb_pool {
    char *name;
    char *created_at; /* RFC 3339, or NULL */
    char *revision;   /* of the template, or NULL */
    struct osb_capacity capacity;
    int total, allocated, available; /* all; taken and still there; waiting */
};
struct osb_pool_list {
    struct osb_pool *v;
    size_t n;
};
/* Makes a pool. `ret` (may be NULL) gets what the server says of it. The template is a create
 * without what belongs to one sandbox: no timeout, metadata, snapshot or password (OSB_EINVALID).
 * OSB_ECONFLICT when there is a pool of this name. */
OSB_API int osb_pool_create(struct osb_client *c, const char *name,
                            const struct osb_create_opts *template_opts,
                            const struct osb_capacity *capacity, struct osb_pool *ret,
                            struct osb_error *e);
/* Changes the capacity and, unless it is NULL, the template: what waits is replaced, what was taken
 * stays. */
OSB_API int osb_pool_update(struct osb_client *c, const char *name,
                            const struct osb_create_opts *template_opts,
                            const struct osb_capacity *capacity, struct osb_pool *ret,
                            struct osb_error *e);
/* Asks about one pool. OSB_ENOTFOUND when there is none. */
OSB_API int osb_pool_get(struct osb_client *c, const char *name, struct osb_pool *ret,
                         struct osb_error *e);
/* All pools, by name. */
OSB_API int osb_pool_list(struct osb_client *c, struct osb_pool_list *ret, struct osb_error *e);
/* Deletes a pool and what waits in it; what was taken stays. */
OSB_API int osb_pool_delete(struct osb_client *c, const char *name, struct osb_error *e);
/* Frees the texts of a pool; the struct may be used again. */
OSB_API void osb_pool_done(struct osb_pool *p);
/* Frees the pools of a list; the list may be used again. */
OSB_API void osb_pool_list_done(struct osb_pool_list *l);

/* ---- the rest of the protocol, as JSON text ----
 * Snapshots, images, egress policy, vault, diagnostics: request and answer bodies are those
 * of specs/. Answers are heap strings, freed with free(); "" for an empty one. */

enum osb_service { OSB_LIFECYCLE, OSB_EXECD, OSB_EGRESS };
struct osb_request {
    const char *method, *path; /* path with query, below /v1 for the lifecycle API */
    const char *body;          /* JSON, or NULL */
    struct osb_call call;
    const char *accept; /* media type wanted, or NULL */
};
/* One request to the lifecycle API. */
OSB_API char *osb_request(struct osb_client *c, const struct osb_request *r, struct osb_error *e);
/* One request to a service of a sandbox. */
OSB_API char *osb_sandbox_request(struct osb_sandbox *s, enum osb_service svc,
                                  const struct osb_request *r, struct osb_error *e);
/* Lines of a streamed answer (image pulls). */
typedef bool osb_line_fn(const char *line, size_t n, void *arg);
/* Calls fn for each line; false stops with OSB_ECANCELED. */
OSB_API int osb_request_lines(struct osb_client *c, const struct osb_request *r, osb_line_fn *fn,
                              void *arg, struct osb_error *e);

/* An archive (OCI layout, docker save, root file system) into the server's store; `name` may be
 * NULL when it names its image itself, `length` -1 when it is not known. Returns the image. */
OSB_API char *osb_image_import(struct osb_client *c, const char *name, osb_read_fn *read, void *arg,
                               int64_t length, const struct osb_call *call, struct osb_error *e);
/* An image as a tar archive of an OCI layout. */
OSB_API int osb_image_export(struct osb_client *c, const char *name, osb_write_fn *write, void *arg,
                             const struct osb_call *call, struct osb_error *e);

/* Asks for a snapshot of a sandbox; name may be NULL. It is ready later: osb_snapshot_wait(). */
OSB_API char *osb_snapshot_create(struct osb_sandbox *s, const char *name, struct osb_error *e);
/* Waits until it is Ready and returns it; call->timeout_ms bounds the wait (0: two minutes).
 * OSB_ESERVER when it has failed. */
OSB_API char *osb_snapshot_wait(struct osb_client *c, const char *snapshot_id,
                                const struct osb_call *call, struct osb_error *e);
/* Deletes a snapshot. */
OSB_API int osb_snapshot_delete(struct osb_client *c, const char *snapshot_id, struct osb_error *e);
/* The policy as JSON. OSB_ENOTFOUND or the like when the sandbox has none. */
OSB_API char *osb_egress_get(struct osb_sandbox *s, struct osb_error *e);
/* Adds rules, or changes those with the same targets. */
OSB_API int osb_egress_patch(struct osb_sandbox *s, const struct osb_rule *rules, size_t n,
                             struct osb_error *e);
/* Removes the rules for these targets (NULL-terminated); unknown ones are ignored. */
OSB_API int osb_egress_delete(struct osb_sandbox *s, const char *const *targets,
                              struct osb_error *e);
/* Credentials that are filled in outside of the sandbox. Bodies and answers as in specs/: create
 * and patch return the state without the secrets. A patch with an old expectedRevision is
 * OSB_ECONFLICT. */
OSB_API char *osb_vault_create(struct osb_sandbox *s, const char *json, struct osb_error *e);
/* The state without the secrets. */
OSB_API char *osb_vault_get(struct osb_sandbox *s, struct osb_error *e);
/* Adds, replaces and deletes credentials and bindings. */
OSB_API char *osb_vault_patch(struct osb_sandbox *s, const char *json, struct osb_error *e);
/* Forgets everything in it. */
OSB_API int osb_vault_delete(struct osb_sandbox *s, struct osb_error *e);

#ifdef __cplusplus
}
#endif

#endif
