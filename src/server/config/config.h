#pragma once
/* The configuration of the server: one TOML file, one table of options (config/options.c) that
 * gives each key its type, default and validator, and this struct that the rest of the server
 * reads.
 *
 * A loaded configuration never changes. SIGHUP loads a new one; whoever needs more than one value
 * of the same state holds a reference for that time. Strings live as long as the configuration. */

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "json/field.h"

struct config_server {
    const char *host;
    int64_t port; /* 0: the kernel chooses (tests) */
    int64_t timeout_keep_alive;
    int64_t limit_concurrency; /* connections over all loops; 0: no limit */
    int64_t backlog;
    int64_t thread_pool_size;
    int64_t loops;       /* event loops; 0: one per CPU */
    const char *api_key; /* NULL: not configured; "": explicitly none */
    struct str_list api_keys;
    const char *eip;
    int64_t max_sandbox_timeout_seconds; /* 0: no cap */
    int64_t create_wait_seconds; /* a create that takes longer is answered as Pending; 0: all are */
    const char *data_dir;        /* absolute */
    const char *key_file;        /* where a generated key is kept */
    bool cors;
};

struct config_log {
    const char *level;
    const char *format; /* human, json */
    bool access;
};

struct config_store {
    const char *path; /* absolute */
    int64_t event_retention_days;
};

struct config_limits {
    int64_t create_concurrency; /* creates worked on at once; 0: by the number of CPUs */
    int64_t create_queue;       /* creates waiting for their turn: 503 beyond */
    int64_t create_per_key;     /* creates of one key waiting or at work: 429 beyond */
    int64_t sandboxes;          /* sandboxes of all owners; 0: no limit: 503 beyond */
    int64_t sandboxes_per_key;  /* of one owner; 0: no limit: 429 beyond */
};

struct config_proxy {
    bool require_api_key;
    int64_t idle_timeout_seconds; /* 0: none */
    int64_t head_timeout_seconds;
};

struct config_runtime {
    const char *type; /* oci, docker */
    const char *execd_image;
};

/* Runtime "oci". */
struct config_oci {
    const char *root;                 /* bundles, layers, writable layers, logs; absolute */
    const char *run_dir;              /* sockets, engine state: may vanish at boot; absolute */
    const char *engine;               /* crun, runc, runsc */
    struct str_list allowed_engines;  /* what a request may choose besides */
    struct str_map engine_paths;      /* engine name -> binary */
    const char *execd;                /* the static execd binary; "": beside the server */
    struct str_list host_image_paths; /* added to the image `host`, read-only */
    struct str_map rootfs;            /* image name -> root file system directory */
    const char *network;              /* bridge, none */
    const char *bridge;
    const char *subnet; /* IPv4 CIDR of the bridge */
    const char *ipv6;   /* auto, on, off */
    const char *nft_table;
    struct str_list dns;              /* resolvers of the sandboxes; empty: the host's */
    struct str_list blocked_networks; /* CIDRs no sandbox may reach, beside the built-in ones */
    struct str_list allowed_networks; /* CIDRs exempt from the built-in ones */
    int64_t netns_pool;               /* prepared network namespaces kept ready */
    bool user_namespace;
    int64_t id_base, id_count, id_ranges; /* host uids: id_base + i * id_count, i < id_ranges */
    const char *seccomp;                  /* default, unconfined, or a profile's path */
    struct str_list capabilities;         /* kept; empty: the built-in set */
    bool no_new_privileges;
    bool read_only_rootfs;
    int64_t pids_limit;
    const char *default_cpu, *default_memory, *default_disk; /* quantities; "": none */
    const char *default_io_read_bps, *default_io_write_bps;
    int64_t default_io_read_iops, default_io_write_iops;
    int64_t tmpfs_bytes; /* /tmp and /dev/shm where they are tmpfs */
    const char *cgroup_parent;
    int64_t log_max_bytes, log_files;
    int64_t start_timeout_seconds;
    int64_t stop_timeout_seconds; /* SIGTERM to SIGKILL on removal; 0: at once */
};

/* The image store of the embedded runtime. */
struct config_images {
    const char *root;          /* absolute */
    const char *docker_config; /* credentials as `docker login` keeps them; "": none */
    const char *pull_policy;   /* missing, always, never */
    struct str_map mirrors;    /* registry -> "http[s]://host[:port]" */
    struct str_map ca_files;   /* registry -> file */
    struct str_list plain_http, skip_verify; /* registries */
    int64_t max_bytes;                       /* pruned beyond; 0: never */
    int64_t prune_interval_seconds;
};

/* Runtime "docker". */
struct config_docker {
    const char *host; /* unix:///path, tcp://host:port; "": DOCKER_HOST, else the usual socket */
    const char *cert_path; /* directory with ca.pem, cert.pem and key.pem; "": DOCKER_CERT_PATH */
    bool tls_verify;
    const char *network_mode; /* host, bridge, or the name of a network */
    int64_t api_timeout;
    const char *host_ip;
    struct str_list drop_capabilities;
    const char *apparmor_profile;
    const char *seccomp_profile; /* a path, or unconfined */
    bool no_new_privileges;
    int64_t pids_limit;
    bool publish_ports;
    const char *publish_address; /* "": server.host */
    const char *adopt;           /* none, reference, all */
    const char *stage;           /* auto, mount, upload */
    const char *execd;
    int64_t start_timeout_seconds;
};

struct config_egress {
    const char *image;
    const char *mode; /* dns, dns+nft */
    bool disable_ipv6;
};

struct config_storage {
    struct str_list allowed_host_paths;
    const char *ossfs_mount_root;
};

struct config_secure_runtime {
    const char *type; /* "", gvisor, kata, firecracker */
    const char *docker_runtime;
};

struct config_renew {
    bool enabled;
    int64_t min_interval_seconds;
    bool redis_enabled;
    const char *redis_dsn;
    const char *redis_queue_key;
    int64_t redis_consumer_concurrency;
};

struct config {
    int refs; /* atomic */
    struct arena arena;
    const char *path; /* of the file, or NULL */
    struct config_server server;
    struct config_log log;
    struct config_store store;
    struct config_limits limits;
    struct config_proxy proxy;
    struct config_runtime runtime;
    struct config_oci oci;
    struct config_docker docker;
    struct config_images images;
    struct config_egress egress;
    struct config_storage storage;
    struct config_secure_runtime secure_runtime;
    struct config_renew renew;
    const char *pools; /* [pool.NAME] tables, as one JSON object by name */
};

/* Remarks that do not stop the start: unknown keys, keys without effect here. */
#define CONFIG_MAX_NOTES 64
struct config_notes {
    size_t n, n_dropped;
    char *v[CONFIG_MAX_NOTES];
};
void config_notes_done(struct config_notes *n);

/* Reads `path` (NULL: $SANDBOX_CONFIG_PATH, else ~/.sandbox.toml if it is there, else nothing but
 * defaults). NULL with "file:line: key: reason". Environment overrides are applied. */
struct config *config_load(const char *path, struct config_notes *notes, struct err *e);
/* The same from text, for tests and fuzzing. `name` stands for the file in messages. */
struct config *config_parse(const char *name, struct str text, struct config_notes *notes,
                            struct err *e);
struct config *config_ref(struct config *c);
void config_unref(struct config *c); /* NULL is fine */
/* Lists the keys that differ between two configurations but need a restart, one per line. */
int config_needs_restart(const struct config *old, const struct config *new, struct buf *out);

/* A commented file with every key and its default; `example` is "oci" or NULL for the plain one. */
int config_render(struct buf *out, const char *example, struct err *e);
