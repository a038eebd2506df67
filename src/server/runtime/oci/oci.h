#pragma once
/* The embedded runtime: the context its files share. Private to this directory.
 *
 *     <root>/sandboxes/<id>/   one sandbox: state.json, config.json, life.jsonl, logs, writable
 * layer <root>/images/           what the image `host` is made of <root>/templates/        empty
 * file systems to copy <root>/spare/            writable layers made ahead of their use
 *     <root>/volumes/, ossfs/  see volume.h
 *     <root>/trash/            what is being deleted
 *     <root>/execd/            our own copy of execd, so that an upgrade does not touch running
 * ones <run_dir>/<engine>/      the engine's own notes <run_dir>/stage/         an empty directory,
 * see stage.h
 */

#include <pthread.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/map.h"
#include "server/config/config.h"
#include "server/image/store.h"
#include "server/runtime/oci/cgroup.h"
#include "server/runtime/oci/claim.h"
#include "server/runtime/oci/engine.h"
#include "server/runtime/oci/hostimage.h"
#include "server/runtime/oci/idrange.h"
#include "server/runtime/oci/network.h"
#include "server/runtime/oci/spare.h"
#include "server/runtime/oci/state.h"
#include "server/runtime/oci/watch.h"
#include "server/runtime/runtime.h"

/* A sandbox that exists. In the map from the moment its directory is made until it is gone. The
 * fields are written by the one operation that works on the id; `lock` of struct oci guards the map
 * and what other threads look at (net.ns_fd, is_up, status). */
struct sandbox {
    char id[SANDBOX_ID_MAX + 1];
    pid_t pid;
    struct net_lease net; /* the gateway's, where there is one (gateway.h) */
    int inner_fd;         /* network namespace behind a gateway; -1: `net` is its own */
    int id_range;         /* -1: none */
    bool is_up;           /* answers */
    struct runtime_status status;
    struct image *image;                /* of the store, pinned; NULL: one that needs no store */
    uint64_t stats_cpu_us, stats_at_us; /* at the last look */
};

struct oci {
    struct runtime rt; /* first */
    struct config *cfg;
    const struct config_oci *oci;
    char *root, *stage_dir;
    int root_fd, sandboxes_fd, trash_fd, templates_fd, spare_fd, lock_fd, execd_fd;
    struct claim claim;
    uint64_t default_cpu_millis, default_memory, default_disk, default_io[IO_LIMITS];
    struct buf seccomp; /* the default filter, compiled; empty when another one is configured */
    struct cgroup_host cg;
    struct idrange ids;
    struct engines engines;
    struct host_image host_image;
    struct image_store *images;
    struct network *net;
    struct spares *spares;
    struct watch *watch;
    pthread_mutex_t volumes_lock, ossfs_lock; /* who has which; held while one is made */
    pthread_mutex_t lock;
    struct map sandboxes; /* id -> struct sandbox */
};

static inline struct oci *oci_of(struct runtime *rt)
{
    return (struct oci *)(void *)rt;
}

/* ---- sandbox.c: the table of sandboxes ---- */
struct sandbox *sandbox_add(struct oci *o, const char *id); /* NULL: exists */
struct sandbox *sandbox_get(struct oci *o, const char *id); /* borrowed, or NULL */
void sandbox_drop(struct oci *o, struct sandbox *sb);       /* out of the table, and freed */
int sandbox_dir_open(struct oci *o, const char *id, struct err *e);
bool sandbox_id_is_valid(const char *id);
/* How it ended: out of the life file, the wait status (-1: unknown) and the cgroup's counters. */
void sandbox_exit_status(struct oci *o, const char *id, int dir_fd, int wait_status,
                         struct runtime_status *ret);
/* Watch callback. */
void sandbox_on_exit(const char *id, int wait_status, void *arg);

/* ---- create.c, activate.c, remove.c, adopt.c ---- */
int oci_create(struct runtime *rt, const struct runtime_spec *spec, enum runtime_stage *ret_stage,
               struct err *e);
int oci_check(struct runtime *rt, const struct runtime_spec *spec, struct err *e);
int oci_remove(struct runtime *rt, const char *id, struct err *e);
int oci_activate(struct runtime *rt, const struct runtime_spec *spec, struct err *e);
/* The limits of a request, with the defaults of the configuration where it has none. */
void oci_limits_of(const struct oci *o, const struct runtime_limits *l, struct cgroup_limits *ret,
                   uint64_t *ret_disk);
int oci_adopt(struct runtime *rt, struct err *e);
int oci_sweep(struct runtime *rt, bool (*is_known)(const char *id, void *arg), void *arg,
              struct err *e);
/* Takes down what belongs to the id, whether or not it is in the table. `dir` may be missing. */
int teardown(struct oci *o, const char *id, struct err *e);

/* ---- snapshot.c ---- */
int oci_snapshot(struct runtime *rt, const char *id, const char *snapshot_id, struct err *e);
int oci_snapshot_remove(struct runtime *rt, const char *snapshot_id, struct err *e);
int oci_snapshot_exists(struct runtime *rt, const char *snapshot_id, struct err *e);
/* A server that died over a snapshot left the sandbox frozen. */
void snapshot_thaw(struct oci *o, const char *id, int dir_fd);

/* ---- runtime.c ---- */
int oci_spares_start(struct oci *o, struct err *e);

/* ---- logs.c ---- */
int oci_logs(struct runtime *rt, const char *id, unsigned tail, int64_t since_us, struct buf *out,
             struct err *e);
