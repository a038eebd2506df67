#pragma once
/* The Docker runtime: the context its files share. Private to this directory.
 *
 * What is where:
 *   engine.c   the engine's API            index.c   what is known of each container
 *   events.c   the engine tells of changes create.c  create, body.c what is sent for it
 *   pull.c     images                      stage.c   execd and bootstrap.sh
 *   ports.c    host ports                  volumes.c binds and named volumes
 *   sidecar.c  egress                      windows.c the Windows profile
 *   life.c     remove, pause, resume, list look.c    logs, numbers, words
 *   hold.c     what is mounted, where nobody can change it
 *   disk.c     room and speed of the disk   words.c   what a container wrote
 *   found.c    sandboxes made by another server of the protocol */

#include <pthread.h>
#include <sys/types.h>

#include "base/map.h"
#include "server/config/config.h"
#include "server/runtime/docker/engine.h"
#include "server/runtime/docker/limits.h"
#include "server/runtime/runtime.h"

#define EXECD_PORT 44772
#define HTTP_PORT 8080
#define EGRESS_PORT 18080

#define LABEL_PREFIX "opensandbox.io/"
#define LABEL_ID LABEL_PREFIX "id"
#define LABEL_EXPIRES LABEL_PREFIX "expires-at"
#define LABEL_MANUAL LABEL_PREFIX "manual-cleanup"
#define LABEL_OS LABEL_PREFIX "platform-os"
#define LABEL_ARCH LABEL_PREFIX "platform-arch"
#define LABEL_SNAPSHOT LABEL_PREFIX "snapshot-id"
#define LABEL_EXECD_PORT LABEL_PREFIX "embedding-proxy-port"
#define LABEL_HTTP_PORT LABEL_PREFIX "http-port"
#define LABEL_OSSFS LABEL_PREFIX "ossfs-mounts"
#define LABEL_VOLUMES LABEL_PREFIX "volume-managed-by"
#define LABEL_TOKEN LABEL_PREFIX "egress-auth-token"
#define LABEL_RENEW LABEL_PREFIX "access-renew-extend-seconds"
#define LABEL_SIDECAR LABEL_PREFIX "egress-sidecar-for"
/* Ours: which server made it. Without it: one of the reference's. */
#define LABEL_SERVER LABEL_PREFIX "server"

/* Ours: which sandbox a volume goes with. */
#define LABEL_VOLUME_OF LABEL_PREFIX "volume-of"
/* Ours, on images: which server made this snapshot. */
#define LABEL_SNAPSHOT_BY LABEL_PREFIX "snapshot-by"

#define SNAPSHOT_REPO "opensandbox-snapshots"
#define CONTAINER_NAME "sandbox-%s"
#define SIDECAR_NAME "sandbox-egress-%s"
#define RUNTIME_VOLUME "opensandbox-runtime-%s"
#define OEM_VOLUME "opensandbox-win-oem-%s"
#define OPT_DIR "/opt/opensandbox"

#define SIDECARS_PATH                                                                              \
    "/containers/json?all=1&filters=%7B%22label%22%3A%5B%22opensandbox.io%2Fegress-sidecar-for%22" \
    "%5D%7D"

#define CONTAINER_ID_MAX 80
#define IP_TEXT_MAX 46
#define PATH_TEXT_MAX 320

enum net_mode { NET_BRIDGE, NET_HOST, NET_CUSTOM };

/* Where a sidecar is: its address, and its network as this machine can enter it (ns 0: it cannot).
 */
struct sidecar_at {
    char ip[IP_TEXT_MAX];
    pid_t pid;
    ino_t ns;
};

/* What is known of the container of a sandbox, without asking. */
struct container {
    char id[SANDBOX_ID_MAX];        /* of the sandbox */
    char cid[CONTAINER_ID_MAX];     /* of the container */
    char ip[IP_TEXT_MAX];           /* "": none, or not known yet */
    uint16_t execd_port, http_port; /* on the host; 0: not published */
    enum runtime_state state;
    bool is_up;       /* execd has answered once */
    bool is_host_net; /* shares this machine's network */
    bool is_leaving;  /* being removed by us */
    bool has_sidecar;
    struct sidecar_at sidecar;   /* with has_sidecar */
    bool lost_sidecar;           /* it ended, and we ended the sandbox for it */
    bool has_snapshot;           /* its image was one */
    bool has_volumes;            /* named volumes or buckets that go with it */
    enum runtime_state expected; /* what we are making it right now; RT_MISSING: nothing */
    uint64_t stats_cpu_ns, stats_at_us;
};

/* Ports chosen for creates that are under way. */
struct ports {
    pthread_mutex_t lock;
    uint8_t used[(DOCKER_PORT_LAST - DOCKER_PORT_FIRST) / 8 + 1];
};

struct docker {
    struct runtime rt;
    struct config *cfg;
    const struct config_docker *dc; /* of cfg */
    struct engine engine;
    enum net_mode mode;
    const char *runtime_name; /* HostConfig.Runtime, or NULL */
    bool has_own_stack;       /* that runtime's packets do not pass the rules of their namespace */
    char *seccomp;            /* "seccomp=...", or NULL */
    char *publish_ip;         /* "0.0.0.0" */
    char *public_host;        /* for endpoints, unless server.eip says another */
    char server[40];          /* value of LABEL_SERVER */
    char os[16], arch[16];    /* of the engine's machine */
    bool can_quota;           /* the engine's disk can limit a writable layer */
    char storage[80];         /* "overlay2 on xfs" */
    char *disk;               /* "/dev/vda", what its data is on; NULL: not known here */
    unsigned commits;         /* atomic: snapshots being taken */
    struct {
        bool mounts; /* bind mounts of our own files; else they are uploaded */
        char *execd; /* the files that are mounted */
        char *bootstrap;
        struct buf tar; /* the archive that is uploaded */
    } stage;
    bool shares_mounts; /* the engine sees what we mount */
    struct ports ports;

    pthread_mutex_t lock; /* a leaf, never held across I/O: loop threads take it */
    pthread_cond_t changed;
    struct map containers; /* sandbox id -> struct container */
    struct map creating;   /* sandbox id -> not NULL: a create is at work */

    pthread_mutex_t ossfs_lock; /* held while buckets are mounted and unmounted */
    struct map ossfs_busy;      /* path -> creates at work that mounted it */

    pthread_t events;
    bool has_events;
    bool stopping; /* atomic */
    bool is_away;  /* atomic: the engine did not answer the events' thread */
};

static inline struct docker *docker_of(struct runtime *rt)
{
    return (struct docker *)(void *)rt;
}

/* ---- index.c ---- */
/* From one entry of /containers/json, or from an inspection; false: not a sandbox's. */
bool container_from_list(const struct json *j, struct container *ret);
void container_from_inspect(const struct json *j, struct container *ret);
void status_from_inspect(const struct json *j, struct runtime_status *ret);
void status_from_list(const struct json *j, struct runtime_status *ret);
bool label_is(const struct json *labels, const char *name, const char *value);
const char *label_get(const struct json *labels, const char *name); /* NULL: absent or empty */

/* A copy; false: unknown. */
bool index_get(struct docker *d, const char *id, struct container *ret);
void index_put(struct docker *d, const struct container *c); /* keeps what only we know */
void index_del(struct docker *d, const char *id);
void index_set_up(struct docker *d, const char *id);
/* A create of this id is at work, and what was made for it is not its leftovers. */
void index_creating(struct docker *d, const char *id, bool creating);
bool index_is_creating(struct docker *d, const char *id);
void index_expect(struct docker *d, const char *id, enum runtime_state state);
void index_leaving(struct docker *d, const char *id, bool leaving);
/* One call: everything with the label. The array belongs to the answer. */
int index_refresh(struct docker *d, struct engine_answer *ret, struct err *e);
/* The engine's name for the container of a sandbox: by index, else by asking for the label.
 * ERR_NOT_FOUND. */
int container_find(struct docker *d, const char *id, char ret[CONTAINER_ID_MAX], struct err *e);
/* Removes the image of a deleted snapshot when nothing needs it any more. */
void snapshot_image_release(struct docker *d, const char *image_id);
/* Without is_known: only images that have no name any more. */
int snapshots_sweep(struct docker *d, bool (*is_known)(const char *id, void *arg), void *arg,
                    struct err *e);
/* Inspects; -1 with ERR_NOT_FOUND when it is gone. */
int container_inspect(struct docker *d, const char *cid, struct engine_answer *ret, struct err *e);

/* ---- events.c ---- */
int events_start(struct docker *d, struct err *e);
void events_stop(struct docker *d);
/* One line of the stream; `arg` is the runtime. */
int events_line(struct str line, void *arg);

/* ---- ports.c ---- */
void ports_init(struct ports *p);
/* One that nobody listens on and no other create has; 0: none was found. */
uint16_t ports_take(struct ports *p);
void ports_give(struct ports *p, uint16_t port);

/* ---- pull.c ---- */
/* The image is there afterwards, in the platform that was asked for. */
int image_pull(struct docker *d, const struct runtime_spec *spec, const char *image, struct err *e);

/* Will a create have to pull? Asks the engine. */
bool docker_must_fetch(struct runtime *rt, const struct runtime_spec *spec);

/* ---- stage.c ---- */
/* This directory is the same one for the engine. */
bool engine_sees(const struct docker *d, const char *dir);
/* It has the same mounts as we have, and we may add some. */
bool engine_shares_mounts(const struct docker *d);
int stage_open(struct docker *d, struct err *e);
void stage_close(struct docker *d);
/* Adds the mounts to `binds`, where that is the way. */
void stage_binds(const struct docker *d, struct json *binds);
/* Before the start; nothing to do where files are mounted. */
int stage_upload(struct docker *d, const char *cid, struct err *e);
/* An archive that is unpacked at `path` in a container. */
int stage_put(struct docker *d, const char *cid, const char *path, struct str tar, struct err *e);
/* One file or directory more in an archive, and its end. */
void tar_add(struct buf *tar, const char *name, mode_t mode, struct str content);
void tar_add_dir(struct buf *tar, const char *name, mode_t mode);
void tar_end(struct buf *tar);

/* ---- volumes.c ---- */
struct volume_plan {
    struct json *binds;   /* array of "source:target:mode" */
    struct json *managed; /* array: named volumes that go with the sandbox */
    struct json *ossfs;   /* array: where its buckets are mounted */
    char made[64][256];   /* named volumes made for this create */
    size_t n_made;
    size_t n_held; /* what the engine is to find where we put it: see hold.c */
    const char *id;
};
void named_volumes_init(struct volume_plan *v);
int named_volumes_prepare(struct docker *d, const struct runtime_spec *spec, struct volume_plan *v,
                          enum runtime_stage *ret_stage, struct err *e);
/* A named volume of ours that goes with the sandbox. */
int named_volume_make(struct docker *d, const char *name, const char *id, bool goes_with_it,
                      struct volume_plan *v, struct err *e);
int named_volume_inspect(struct docker *d, const char *name, struct engine_answer *ret,
                         struct err *e); /* 0 also when there is none: see the status */
/* The create failed: what was made for it goes. */
void named_volumes_undo(struct docker *d, struct volume_plan *v);
void named_volumes_done(struct volume_plan *v);
/* Removes the volumes named in a label's JSON array, if they are the server's own. */
void named_volumes_remove_managed(struct docker *d, const char *label);
/* It has lost a user: goes if it was made to go with a sandbox that is not there any more. */
void named_volume_lost_user(struct docker *d, const char *name);
/* Those made for a sandbox whose container cannot be asked any more. */
void named_volumes_of(struct docker *d, const char *id);
/* Named volumes of ours whose sandbox nobody knows. */
int named_volumes_sweep(struct docker *d, bool (*is_known)(const char *id, void *arg), void *arg,
                        struct err *e);

/* ---- hold.c ---- */
/* Puts what the descriptor is where only we can change anything, and tells where: the engine takes
 * nothing but paths, and looks at them later than we do. Takes fd, which may be an error. */
int hold_put(const struct docker *d, struct volume_plan *plan, int fd, char out[4096],
             struct err *e);
/* The container has its own by now, or will never. */
void hold_drop(const struct docker *d, struct volume_plan *plan);
/* What creates that were cut short have left. */
void hold_clear(const struct docker *d);

/* ---- binds.c ---- */
/* Finds or makes what the volume is, and adds it to the plan. */
int bind_add(struct docker *d, const struct runtime_spec *spec, const struct volume *v,
             struct volume_plan *plan, enum runtime_stage *stage, struct err *e);
/* The create that mounted these buckets is over, one way or the other. */
void ossfs_let_go(struct docker *d, const struct json *paths);
/* Unmounts those that no sandbox has any more. */
void ossfs_release(struct docker *d, const struct json *paths);

/* ---- disk.c ---- */
void engine_disk_open(struct docker *d, const struct json *info);
/* ERR_INVALID when a limit could not be kept. */
int engine_disk_check(const struct docker *d, const struct runtime_limits *l, struct err *e);
void engine_disk_into(const struct docker *d, const struct runtime_limits *l, struct json *host);
bool mount_has_quota(struct str mountinfo, unsigned dev_major, unsigned dev_minor);
/* The engine warns of limits that it leaves out: ERR_INVALID if one of them was asked for. */
int limits_kept(const struct json *warnings, const struct runtime_limits *l, struct err *e);

/* ---- words.c ---- */
/* The engine puts eight bytes in front of each piece, unless the container has a terminal. */
void logs_unframe(struct str in, struct buf *out);
/* The last `tail` lines that are not execd's own. */
void logs_without_execd(struct str text, unsigned tail, struct buf *out);
/* How the entrypoint ended, in execd's words. */
struct last_words {
    bool has_ended, oom;
    int code, signal;
    char failed[200]; /* why it could not be started; "": it could */
};
void last_words_read(struct str text, struct last_words *ret);
/* An exit code alone cannot tell `exit 137` from a kill. */
void status_by_words(const struct last_words *w, bool oom_killed, struct runtime_status *st);

/* ---- body.c ---- */
struct making {
    struct docker *d;
    const struct runtime_spec *spec;
    struct volume_plan volumes;
    uint16_t execd_port, http_port, egress_port; /* published; 0: not */
    uint16_t extra_ports[3]; /* of the Windows profile: 3389/tcp, 3389/udp, 8006 */
    bool is_windows;
    char sidecar[CONTAINER_ID_MAX]; /* "": none */
    char cid[CONTAINER_ID_MAX];
};
struct json *body_make(const struct making *m);
struct json *body_port_bindings(const struct making *m, struct json *ret_exposed);
const char *spec_image(const struct runtime_spec *spec, char out[PATH_TEXT_MAX]);
static inline bool spec_is_windows(const struct runtime_spec *spec)
{
    return spec->os && strcmp(spec->os, "windows") == 0;
}

/* ---- create.c ---- */
/* Creates the container that `body` describes under `name`, with its image fetched if need be, and
 * in place of one that an earlier try left. */
int container_make(struct making *m, const char *name, struct json *body, const char *image,
                   const struct runtime_spec *pull, char ret_cid[CONTAINER_ID_MAX],
                   enum runtime_stage *ret_stage, struct err *e);
/* -1 with e->sys == EADDRINUSE when a published port is taken. */
int container_start(struct making *m, const char *cid, struct err *e);

/* ---- ping.c ---- */
/* GET of `url`, with one more header or NULL: 0 for 2xx, -EAGAIN otherwise. */
int ping(const char *url, const char *header);
/* Waits until execd of a started container answers. */
int ping_execd(struct docker *d, const struct container *c, struct err *e);

/* ---- sidecar.c ---- */
/* Started and answering; m->sidecar and *ret are set. */
int sidecar_start(struct making *m, struct sidecar_at *ret, enum runtime_stage *ret_stage,
                  struct err *e);
void sidecar_from_inspect(const struct docker *d, const struct json *j, struct sidecar_at *ret);
/* A descriptor of its network namespace, or -1. */
int sidecar_enter(const struct sidecar_at *at);
/* The sidecar of this sandbox has ended. */
void sidecar_lost(struct docker *d, const char *id);
/* The same for all that ended while nobody listened. */
int sidecars_check(struct docker *d, struct err *e);

/* ---- windows.c ---- */
int windows_check(const struct docker *d, const struct runtime_spec *spec, struct err *e);
void windows_body(const struct making *m, struct json *body, struct json *host);
int windows_stage(struct making *m, struct err *e);

/* ---- the operations ---- */
int docker_create(struct runtime *rt, const struct runtime_spec *spec,
                  enum runtime_stage *ret_stage, struct err *e);
int docker_check(struct runtime *rt, const struct runtime_spec *spec, struct err *e);
int docker_remove(struct runtime *rt, const char *id, struct err *e);
int docker_pause(struct runtime *rt, const char *id, struct err *e);
int docker_resume(struct runtime *rt, const char *id, struct err *e);
int docker_inspect(struct runtime *rt, const char *id, struct runtime_status *ret, struct err *e);
int docker_list(struct runtime *rt,
                void (*fn)(const char *id, const struct runtime_status *st, void *arg), void *arg,
                struct err *e);
int docker_sweep(struct runtime *rt, bool (*is_known)(const char *id, void *arg), void *arg,
                 struct err *e);
int docker_snapshot(struct runtime *rt, const char *id, const char *snapshot_id, struct err *e);
int docker_snapshot_remove(struct runtime *rt, const char *snapshot_id, struct err *e);
int docker_snapshot_exists(struct runtime *rt, const char *snapshot_id, struct err *e);
int docker_stats(struct runtime *rt, const char *id, struct runtime_stats *ret, struct err *e);
int docker_logs(struct runtime *rt, const char *id, unsigned tail, int64_t since_us,
                struct buf *out, struct err *e);
int container_logs(struct docker *d, const char *cid, unsigned tail, int64_t since_us,
                   struct buf *out, struct err *e);
int docker_describe(struct runtime *rt, const char *id, struct buf *out, struct err *e);
int docker_found(struct runtime *rt, bool (*is_known)(const char *id, void *arg),
                 void (*fn)(const struct runtime_found *f, void *arg), void *arg, struct err *e);
/* Removes a container and waits until it is gone; success when there is none. */
int container_remove(struct docker *d, const char *name, struct err *e);
