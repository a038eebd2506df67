#pragma once
/* What runs sandboxes: one table of functions, one implementation per runtime (oci, docker,
 * kubernetes). The API layer never knows which one is in use, and a runtime knows nothing of HTTP,
 * owners or the store.
 *
 * All operations block and are called from worker threads, several at once for different sandboxes
 * and never two at once for the same one (lifecycle/ serialises by id). Only `target` is called on
 * loop threads: it must be quick and take no lock that is held across I/O. All operations are
 * idempotent towards a crash: create of an id that half exists starts over, remove of an id that is
 * gone succeeds. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "http/client.h"
#include "model/sandbox.h"

struct runtime;
struct image_store;

#define SANDBOX_ID_MAX 64

/* Where in its life a create failed: decides the API error code. */
enum runtime_stage {
    STAGE_PREPARE,
    STAGE_IMAGE,
    STAGE_START,
    STAGE_EXECD,
    STAGE_HOST_PATH_DENIED, /* it leads out of what is allowed */
    STAGE_HOST_PATH,        /* it could not be made or opened */
    STAGE_PVC_MISSING,
    STAGE_PVC,
    STAGE_PVC_DRIVER, /* it cannot mount a part of itself */
    STAGE_SUB_PATH,   /* it leads out of its volume, or there is none */
    STAGE_OSSFS_ROOT,
    STAGE_OSSFS,
};

struct runtime_kv {
    const char *key, *value;
};

enum runtime_mount_kind { MOUNT_BIND, MOUNT_TMPFS };

struct runtime_mount {
    enum runtime_mount_kind kind;
    int source_fd; /* MOUNT_BIND: O_PATH descriptor, already checked against the allow-list;
                      borrowed */
    const char
        *source; /* the path behind it, for runtimes that only take paths, and for messages */
    const char *target; /* absolute, inside */
    bool read_only;
    bool any_ids;  /* MOUNT_BIND: of a file system that may not be able to map ids */
    uint64_t size; /* MOUNT_TMPFS, bytes; 0: default */
};

/* Bytes and operations a second, of the disk. */
enum runtime_io { IO_READ_BPS, IO_WRITE_BPS, IO_READ_IOPS, IO_WRITE_IOPS, IO_LIMITS };

struct runtime_limits { /* 0: not limited by the request (the runtime's default applies) */
    uint64_t cpu_millis;
    uint64_t memory_bytes;
    uint64_t pids;
    uint64_t disk_bytes;
    uint64_t io[IO_LIMITS];
    unsigned gpus;
};

enum runtime_network { NETWORK_DEFAULT, NETWORK_NONE };

/* Everything needed to start one sandbox. Borrowed for the time of the call. */
struct runtime_spec {
    const char *id;
    const char *image;                       /* image name, or NULL with snapshot_layers */
    const char *image_user, *image_password; /* per-request registry credentials, or NULL */
    const char *snapshot_id;                 /* restore from this snapshot, or NULL */
    const char *os, *arch;                   /* platform request, or NULL */
    const char *const *entrypoint;           /* NULL-terminated */
    const struct runtime_kv *env;
    size_t n_env;
    const struct runtime_kv *labels; /* metadata, and what must survive on the runtime's side */
    size_t n_labels;
    struct runtime_limits limits;
    const struct runtime_mount *mounts;
    size_t n_mounts;
    const struct volume *volumes; /* as requested, checked as far as words go */
    size_t n_volumes;
    struct str_list host_paths; /* directories that `host` volumes may lie in */
    enum runtime_network network;
    const char *engine;        /* crun, runc, runsc; NULL: configured default */
    const char *egress_policy; /* JSON of the network policy, or NULL; starts the sidecar */
    const char *egress_token;
    bool credential_proxy;
    bool read_only_rootfs;
    const char *hostname; /* NULL: the id */
    /* Started ahead of its use: everything but the entrypoint, which `activate` tells. */
    bool standby;
    int64_t expires_us;     /* for runtimes that keep it beside the sandbox; 0: never */
    int64_t renew_extend_s; /* likewise; 0: no renewal on access */
    /* Called while an image is being fetched (may be NULL): progress and the chance to cancel. */
    bool (*progress)(const char *what, uint64_t done, uint64_t total, void *arg);
    void *progress_arg;
};

enum runtime_state { RT_MISSING, RT_CREATED, RT_RUNNING, RT_PAUSED, RT_EXITED };

/* Why it ended, told apart wherever it can be. */
enum runtime_exit { EXIT_NONE, EXIT_CODE, EXIT_SIGNAL, EXIT_OOM, EXIT_UNKNOWN };

struct runtime_status {
    enum runtime_state state;
    enum runtime_exit exit;
    int exit_code;                   /* or the signal number */
    int64_t started_us, finished_us; /* wall clock, 0: unknown */
    char detail[256];
};

struct runtime_stats {
    double cpu_cores_used; /* since the last call */
    uint64_t cpu_usage_us, memory_bytes, memory_limit, pids;
    uint64_t disk_bytes; /* writable layer; 0: unknown */
    uint64_t net_rx, net_tx;
};

/* How to reach a port inside. `key` is "<id>:<port>". Filled without blocking. http.netns_fd is a
 * descriptor of the caller's own, to be closed when the exchange is over: the sandbox may go away
 * meanwhile, and its number must not be somebody else's namespace by then. */
struct runtime_target {
    struct http_target http;
    struct io_addr alt; /* http.alt may point here */
    char key[SANDBOX_ID_MAX + 8];
    char prefix[16]; /* put in front of the path; "": nothing */
};

/* Where clients reach a port without this server: "host:port" and a path. */
struct runtime_endpoint {
    char host[256];
    uint16_t port;
    char path[16];
};

/* A sandbox that another server made: what is to be recorded of it. */
struct runtime_found {
    const char *id, *image, *snapshot_id, *os, *arch, *egress_token;
    int64_t created_us, expires_us, renew_extend_s; /* 0: never, none */
    struct str_list entrypoint;
    struct str_map metadata;
    struct runtime_status status;
};

/* Runtime → lifecycle, from any thread: a sandbox ended by itself or under the runtime's feet. */
typedef void runtime_exit_cb(const char *id, const struct runtime_status *st, void *arg);

struct runtime_ops {
    const char *name; /* "oci" */
    /* Makes and starts it; returns 0 only when execd has said that it answers. On failure nothing
     * is left behind and *ret_stage says how far it came. */
    int (*create)(struct runtime *rt, const struct runtime_spec *spec,
                  enum runtime_stage *ret_stage, struct err *e);
    /* Gives a sandbox that was created with `standby` its environment, limits, labels and
     * entrypoint, and starts that. On failure it must be removed, or created anew. NULL: cannot be
     * done here. */
    int (*activate)(struct runtime *rt, const struct runtime_spec *spec, struct err *e);
    /* Takes down everything that belongs to the id; success when there is nothing. */
    int (*remove)(struct runtime *rt, const char *id, struct err *e);
    int (*pause)(struct runtime *rt, const char *id, struct err *e);
    int (*resume)(struct runtime *rt, const char *id, struct err *e);
    int (*inspect)(struct runtime *rt, const char *id, struct runtime_status *ret, struct err *e);
    /* Calls fn for every sandbox the runtime has, known to the store or not: for reconcile. */
    int (*list)(struct runtime *rt,
                void (*fn)(const char *id, const struct runtime_status *st, void *arg), void *arg,
                struct err *e);
    int (*stats)(struct runtime *rt, const char *id, struct runtime_stats *ret, struct err *e);
    /* Last `tail` lines of the entrypoint's output, each with an RFC 3339 time, since wall_us (0:
     * all). */
    int (*logs)(struct runtime *rt, const char *id, unsigned tail, int64_t since_us,
                struct buf *out, struct err *e);
    /* "key: value" lines for people. */
    int (*describe)(struct runtime *rt, const char *id, struct buf *out, struct err *e);
    /* Loop threads. 0, -ENOENT unknown, -EAGAIN not up yet. `port` 1..65535. */
    int (*target)(struct runtime *rt, const char *id, uint16_t port, struct runtime_target *ret);
    /* Loop threads. 0; -EAGAIN not up yet and -EOPNOTSUPP not here: through this server's proxy;
     * -ENOENT: it should have one and has not. NULL: always through this server. */
    int (*endpoint)(struct runtime *rt, const char *id, uint16_t port,
                    struct runtime_endpoint *ret);
    /* Captures the writable layer as `snapshot_id`. NULL: this runtime cannot. */
    int (*snapshot)(struct runtime *rt, const char *id, const char *snapshot_id, struct err *e);
    int (*snapshot_remove)(struct runtime *rt, const char *snapshot_id, struct err *e);
    int (*snapshot_exists)(struct runtime *rt, const char *snapshot_id, struct err *e); /* 1, 0 */
    /* After a restart of the server: take charge again of what `list` would show (exit watchers,
     * network leases). Called once, before the API is open. */
    int (*adopt)(struct runtime *rt, struct err *e);
    /* Sandboxes that another server of the protocol made and that this one shall take charge of:
     * fn is called for those whose id is not known. NULL: there are none. */
    int (*found)(struct runtime *rt, bool (*is_known)(const char *id, void *arg),
                 void (*fn)(const struct runtime_found *f, void *arg), void *arg, struct err *e);
    /* Can a request be served here at all (platform, gpu, engine, network policy)? Before anything
     * is recorded. */
    int (*check)(struct runtime *rt, const struct runtime_spec *spec, struct err *e);
    /* Removes what belongs to no known id: crashed creates, stale mounts, namespaces, cgroups.
     * `is_known` must be asked after the leftover was found, never before: an id is known before
     * its create begins and until its remove has ended, so that this order races with neither.
     * Returns the number removed, or -1. */
    int (*sweep)(struct runtime *rt, bool (*is_known)(const char *id, void *arg), void *arg,
                 struct err *e);
    /* Will a create have to fetch something from afar first? NULL: not known, as if not. */
    bool (*must_fetch)(struct runtime *rt, const struct runtime_spec *spec);
    /* The images it keeps itself; NULL: another program does. */
    struct image_store *(*images)(struct runtime *rt);
    void (*free)(struct runtime *rt); /* sandboxes go on */
};

struct runtime {
    const struct runtime_ops *ops;
    runtime_exit_cb *on_exit;
    void *on_exit_arg;
};

struct config;
/* One constructor per runtime: reads its own section of the configuration, checks that the host can
 * do what is configured, and says why not otherwise. */
struct runtime *runtime_oci_new(const struct config *cfg, struct err *e);
struct runtime *runtime_docker_new(const struct config *cfg, struct err *e);
