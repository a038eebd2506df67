#pragma once
/* The nouns of the lifecycle protocol and their field tables (specs/sandbox-lifecycle.yml): what
 * the server decodes and encodes, and what clients encode and decode. No I/O. */

#include "json/field.h"

/* ---- create ---- */
struct image_auth {
    const char *username, *password;
};

struct image_spec {
    const char *uri;
    struct image_auth *auth; /* never sent back */
};

struct platform_ref {
    const char *os, *arch;
};

struct network_rule {
    const char *action, *target;
};

struct network_policy {
    const char *default_action;
    struct obj_list egress; /* struct network_rule */
};

struct credential_proxy {
    struct opt_bool enabled;
};

struct volume_host {
    const char *path;
};

struct volume_pvc {
    const char *claim_name;
    struct opt_bool create_if_not_exists, delete_on_termination;
    const char *storage_class, *storage;
    struct str_list access_modes;
};

struct volume_ossfs {
    const char *bucket, *endpoint, *version;
    struct str_list options;
    const char *access_key_id, *access_key_secret;
};

struct volume {
    const char *name;
    struct volume_host *host;
    struct volume_pvc *pvc;
    struct volume_ossfs *ossfs;
    const char *mount_path;
    struct opt_bool read_only;
    const char *sub_path;
};

struct create_request {
    struct image_spec *image;
    const char *snapshot_id;
    struct platform_ref *platform;
    struct opt_int timeout;
    struct str_map resource_limits;
    struct json *env; /* object of string or null */
    struct str_map metadata;
    struct str_list entrypoint;
    struct network_policy *network_policy;
    struct credential_proxy *credential_proxy;
    struct opt_bool secure_access;
    struct obj_list volumes; /* struct volume */
    struct str_map extensions;
};

/* ---- sandboxes ---- */
struct sandbox_status {
    const char *state, *reason, *message;
    struct opt_int last_transition_at;
};

struct sandbox_created {
    const char *id;
    struct sandbox_status *status;
    struct str_map metadata;
    struct platform_ref *platform;
    struct opt_int expires_at, created_at;
    struct str_list entrypoint;
};

struct sandbox_view {
    const char *id;
    struct image_spec *image; /* uri only */
    const char *snapshot_id;
    struct platform_ref *platform;
    struct sandbox_status *status;
    struct str_map metadata;
    struct str_list entrypoint;
    struct opt_int expires_at, created_at;
};

struct pagination {
    struct opt_int page, page_size, total_items, total_pages;
    struct opt_bool has_next_page;
};

struct sandbox_list {
    struct obj_list items; /* struct sandbox_view */
    struct pagination *pagination;
};

#define FORK_COUNT_MAX 100    /* limit: sandboxes of one fork */
#define SNAPSHOT_NAME_MAX 256 /* limit: characters of a snapshot's name */

struct snapshot_view {
    const char *id, *sandbox_id, *name;
    struct sandbox_status *status;
    struct opt_int created_at;
};

struct snapshot_list {
    struct obj_list items; /* struct snapshot_view */
    struct pagination *pagination;
};

struct snapshot_request {
    const char *name;
};

struct fork_variant { /* what one sandbox of a fork has of its own */
    struct str_map metadata;
    struct str_map env;
};

struct fork_request {
    struct opt_int count;
    struct str_map metadata, env;
    struct opt_int timeout;
    struct obj_list sandboxes; /* struct fork_variant */
};

struct fork_view {
    struct obj_list items; /* struct sandbox_created */
};

struct renew_request {
    struct opt_int expires_at;
};

struct endpoint_view {
    const char *endpoint;
    struct str_map headers;
};

struct error_view {
    const char *code, *message;
};

extern const struct json_table create_request_table;
extern const struct json_table volume_table;
extern const struct json_table network_policy_table;
extern const struct json_table sandbox_status_table;
extern const struct json_table sandbox_created_table;
extern const struct json_table sandbox_view_table;
extern const struct json_table sandbox_list_table;
extern const struct json_table fork_request_table;
extern const struct json_table fork_view_table;
extern const struct json_table snapshot_view_table;
extern const struct json_table snapshot_list_table;
extern const struct json_table snapshot_request_table;
extern const struct json_table pagination_table;
extern const struct json_table renew_request_table;
extern const struct json_table endpoint_view_table;
extern const struct json_table error_view_table;

/* ---- rules that more than one program applies ---- */
/* Metadata: label rules of the protocol. 0, or -1 with the reason. */
int metadata_key_check(const char *key, struct err *e);
int metadata_value_check(const char *key, const char *value, struct err *e);
/* Keys under "opensandbox.io/" are the server's own. */
bool metadata_key_reserved(const char *key);

/* ---- paths of volumes ---- */
/* What comes behind "C:", where there is one. */
struct str host_path_tail(struct str path);
/* Is `path` the directory `entry` of the allow-list, or below it? */
bool host_path_allowed(struct str path, struct str entry);
