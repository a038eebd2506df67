/* Field tables of the lifecycle protocol. See sandbox.h. */

#include "model/sandbox.h"

#include <ctype.h>

#include <ctype.h>
#include <stdint.h>

#include "base/must.h"

#define DNS_LABEL "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"

/* ---- create ---- */
static const struct json_field image_auth_fields[] = {
    JSON_FIELD(struct image_auth, username, "username", JSON_F_STR, .required = true),
    JSON_FIELD(struct image_auth, password, "password", JSON_F_STR, .required = true),
    {0},
};
static const struct json_table image_auth_table = {"ImageAuth", sizeof(struct image_auth),
                                                   image_auth_fields};

static const struct json_field image_spec_fields[] = {
    JSON_FIELD(struct image_spec, uri, "uri", JSON_F_STR, .required = true),
    JSON_FIELD(struct image_spec, auth, "auth", JSON_F_OBJ, .sub = &image_auth_table),
    {0},
};
static const struct json_table image_spec_table = {"ImageSpec", sizeof(struct image_spec),
                                                   image_spec_fields};

static const struct json_field platform_fields[] = {
    JSON_FIELD(struct platform_ref, os, "os", JSON_F_STR, .required = true),
    JSON_FIELD(struct platform_ref, arch, "arch", JSON_F_STR, .required = true),
    {0},
};
static const struct json_table platform_table = {"PlatformSpec", sizeof(struct platform_ref),
                                                 platform_fields};

static const struct json_field network_rule_fields[] = {
    JSON_FIELD(struct network_rule, action, "action", JSON_F_STR, .required = true),
    JSON_FIELD(struct network_rule, target, "target", JSON_F_STR, .required = true, .min_len = 1),
    {0},
};
static const struct json_table network_rule_table = {"NetworkRule", sizeof(struct network_rule),
                                                     network_rule_fields};

static const struct json_field network_policy_fields[] = {
    JSON_FIELD(struct network_policy, default_action, "defaultAction", JSON_F_STR,
               .alias = "default_action"),
    JSON_FIELD(struct network_policy, egress, "egress", JSON_F_OBJ_LIST,
               .sub = &network_rule_table),
    {0},
};
const struct json_table network_policy_table = {"NetworkPolicy", sizeof(struct network_policy),
                                                network_policy_fields};

static const struct json_field credential_proxy_fields[] = {
    JSON_FIELD(struct credential_proxy, enabled, "enabled", JSON_F_BOOL, .lenient = true),
    {0},
};
static const struct json_table credential_proxy_table = {
    "CredentialProxyConfig", sizeof(struct credential_proxy), credential_proxy_fields};

static const struct json_field volume_host_fields[] = {
    JSON_FIELD(struct volume_host, path, "path", JSON_F_STR, .required = true,
               .pattern = "^(/|[A-Za-z]:[/\\\\])"),
    {0},
};
static const struct json_table volume_host_table = {"Host", sizeof(struct volume_host),
                                                    volume_host_fields};

static const struct json_field volume_pvc_fields[] = {
    JSON_FIELD(struct volume_pvc, claim_name, "claimName", JSON_F_STR, .alias = "claim_name",
               .required = true, .max_len = 253, .pattern = DNS_LABEL),
    JSON_FIELD(struct volume_pvc, create_if_not_exists, "createIfNotExists", JSON_F_BOOL,
               .alias = "create_if_not_exists", .lenient = true),
    JSON_FIELD(struct volume_pvc, delete_on_termination, "deleteOnSandboxTermination", JSON_F_BOOL,
               .alias = "delete_on_sandbox_termination", .lenient = true),
    JSON_FIELD(struct volume_pvc, storage_class, "storageClass", JSON_F_STR,
               .alias = "storage_class"),
    JSON_FIELD(struct volume_pvc, storage, "storage", JSON_F_STR,
               .pattern = "^[0-9]+(\\.[0-9]+)?(Ki|Mi|Gi|Ti|Pi|Ei)?$"),
    JSON_FIELD(struct volume_pvc, access_modes, "accessModes", JSON_F_STR_LIST,
               .alias = "access_modes", .omit_empty = true),
    {0},
};
static const struct json_table volume_pvc_table = {"PVC", sizeof(struct volume_pvc),
                                                   volume_pvc_fields};

static const char *const ossfs_versions[] = {"1.0", "2.0", NULL};
static const struct json_field volume_ossfs_fields[] = {
    JSON_FIELD(struct volume_ossfs, bucket, "bucket", JSON_F_STR, .required = true, .min_len = 3,
               .max_len = 63),
    JSON_FIELD(struct volume_ossfs, endpoint, "endpoint", JSON_F_STR, .required = true,
               .min_len = 1),
    JSON_FIELD(struct volume_ossfs, version, "version", JSON_F_STR, .choices = ossfs_versions),
    JSON_FIELD(struct volume_ossfs, options, "options", JSON_F_STR_LIST, .omit_empty = true),
    JSON_FIELD(struct volume_ossfs, access_key_id, "accessKeyId", JSON_F_STR,
               .alias = "access_key_id", .required = true, .min_len = 1),
    JSON_FIELD(struct volume_ossfs, access_key_secret, "accessKeySecret", JSON_F_STR,
               .alias = "access_key_secret", .required = true, .min_len = 1),
    {0},
};
static const struct json_table volume_ossfs_table = {"OSSFS", sizeof(struct volume_ossfs),
                                                     volume_ossfs_fields};

static const struct json_field volume_fields[] = {
    JSON_FIELD(struct volume, name, "name", JSON_F_STR, .required = true, .max_len = 63,
               .pattern = DNS_LABEL),
    JSON_FIELD(struct volume, host, "host", JSON_F_OBJ, .sub = &volume_host_table),
    JSON_FIELD(struct volume, pvc, "pvc", JSON_F_OBJ, .sub = &volume_pvc_table),
    JSON_FIELD(struct volume, ossfs, "ossfs", JSON_F_OBJ, .sub = &volume_ossfs_table),
    JSON_FIELD(struct volume, mount_path, "mountPath", JSON_F_STR, .alias = "mount_path",
               .required = true, .pattern = "^/"),
    JSON_FIELD(struct volume, read_only, "readOnly", JSON_F_BOOL, .alias = "read_only",
               .lenient = true),
    JSON_FIELD(struct volume, sub_path, "subPath", JSON_F_STR, .alias = "sub_path"),
    {0},
};
const struct json_table volume_table = {"Volume", sizeof(struct volume), volume_fields};

static const struct json_field create_request_fields[] = {
    JSON_FIELD(struct create_request, image, "image", JSON_F_OBJ, .sub = &image_spec_table),
    JSON_FIELD(struct create_request, snapshot_id, "snapshotId", JSON_F_STR,
               .alias = "snapshot_id"),
    JSON_FIELD(struct create_request, platform, "platform", JSON_F_OBJ, .sub = &platform_table),
    JSON_FIELD(struct create_request, timeout, "timeout", JSON_F_INT, .min = 60, .max = INT64_MAX,
               .lenient = true),
    JSON_FIELD(struct create_request, resource_limits, "resourceLimits", JSON_F_STR_MAP,
               .alias = "resource_limits"),
    JSON_FIELD(struct create_request, env, "env", JSON_F_ANY),
    JSON_FIELD(struct create_request, metadata, "metadata", JSON_F_STR_MAP),
    JSON_FIELD(struct create_request, entrypoint, "entrypoint", JSON_F_STR_LIST, .min_len = 1,
               .omit_empty = true),
    JSON_FIELD(struct create_request, network_policy, "networkPolicy", JSON_F_OBJ,
               .alias = "network_policy", .sub = &network_policy_table),
    JSON_FIELD(struct create_request, credential_proxy, "credentialProxy", JSON_F_OBJ,
               .alias = "credential_proxy", .sub = &credential_proxy_table),
    JSON_FIELD(struct create_request, secure_access, "secureAccess", JSON_F_BOOL,
               .alias = "secure_access", .lenient = true),
    JSON_FIELD(struct create_request, volumes, "volumes", JSON_F_OBJ_LIST, .sub = &volume_table),
    JSON_FIELD(struct create_request, extensions, "extensions", JSON_F_STR_MAP),
    {0},
};
const struct json_table create_request_table = {
    "CreateSandboxRequest", sizeof(struct create_request), create_request_fields};

/* ---- sandboxes ---- */
static const struct json_field sandbox_status_fields[] = {
    JSON_FIELD(struct sandbox_status, state, "state", JSON_F_STR, .required = true),
    JSON_FIELD(struct sandbox_status, reason, "reason", JSON_F_STR, .omit_empty = true),
    JSON_FIELD(struct sandbox_status, message, "message", JSON_F_STR, .omit_empty = true),
    JSON_FIELD(struct sandbox_status, last_transition_at, "lastTransitionAt", JSON_F_TIME),
    {0},
};
const struct json_table sandbox_status_table = {"SandboxStatus", sizeof(struct sandbox_status),
                                                sandbox_status_fields};

static const struct json_field sandbox_created_fields[] = {
    JSON_FIELD(struct sandbox_created, id, "id", JSON_F_STR, .required = true),
    JSON_FIELD(struct sandbox_created, status, "status", JSON_F_OBJ, .sub = &sandbox_status_table,
               .required = true),
    JSON_FIELD(struct sandbox_created, metadata, "metadata", JSON_F_STR_MAP),
    JSON_FIELD(struct sandbox_created, platform, "platform", JSON_F_OBJ, .sub = &platform_table),
    JSON_FIELD(struct sandbox_created, expires_at, "expiresAt", JSON_F_TIME),
    JSON_FIELD(struct sandbox_created, created_at, "createdAt", JSON_F_TIME, .required = true),
    JSON_FIELD(struct sandbox_created, entrypoint, "entrypoint", JSON_F_STR_LIST),
    {0},
};
const struct json_table sandbox_created_table = {
    "CreateSandboxResponse", sizeof(struct sandbox_created), sandbox_created_fields};

static const struct json_field sandbox_view_fields[] = {
    JSON_FIELD(struct sandbox_view, id, "id", JSON_F_STR, .required = true),
    JSON_FIELD(struct sandbox_view, image, "image", JSON_F_OBJ, .sub = &image_spec_table),
    JSON_FIELD(struct sandbox_view, snapshot_id, "snapshotId", JSON_F_STR, .omit_empty = true),
    JSON_FIELD(struct sandbox_view, platform, "platform", JSON_F_OBJ, .sub = &platform_table),
    JSON_FIELD(struct sandbox_view, status, "status", JSON_F_OBJ, .sub = &sandbox_status_table,
               .required = true),
    JSON_FIELD(struct sandbox_view, metadata, "metadata", JSON_F_STR_MAP, .omit_empty = true),
    JSON_FIELD(struct sandbox_view, entrypoint, "entrypoint", JSON_F_STR_LIST),
    JSON_FIELD(struct sandbox_view, expires_at, "expiresAt", JSON_F_TIME),
    JSON_FIELD(struct sandbox_view, created_at, "createdAt", JSON_F_TIME, .required = true),
    {0},
};
const struct json_table sandbox_view_table = {"Sandbox", sizeof(struct sandbox_view),
                                              sandbox_view_fields};

static const struct json_field pagination_fields[] = {
    JSON_FIELD(struct pagination, page, "page", JSON_F_INT),
    JSON_FIELD(struct pagination, page_size, "pageSize", JSON_F_INT),
    JSON_FIELD(struct pagination, total_items, "totalItems", JSON_F_INT),
    JSON_FIELD(struct pagination, total_pages, "totalPages", JSON_F_INT),
    JSON_FIELD(struct pagination, has_next_page, "hasNextPage", JSON_F_BOOL),
    {0},
};
const struct json_table pagination_table = {"PaginationInfo", sizeof(struct pagination),
                                            pagination_fields};

static const struct json_field sandbox_list_fields[] = {
    JSON_FIELD(struct sandbox_list, items, "items", JSON_F_OBJ_LIST, .sub = &sandbox_view_table),
    JSON_FIELD(struct sandbox_list, pagination, "pagination", JSON_F_OBJ, .sub = &pagination_table),
    {0},
};
const struct json_table sandbox_list_table = {"ListSandboxesResponse", sizeof(struct sandbox_list),
                                              sandbox_list_fields};

static const struct json_field snapshot_view_fields[] = {
    JSON_FIELD(struct snapshot_view, id, "id", JSON_F_STR, .required = true),
    JSON_FIELD(struct snapshot_view, sandbox_id, "sandboxId", JSON_F_STR, .required = true),
    JSON_FIELD(struct snapshot_view, name, "name", JSON_F_STR),
    JSON_FIELD(struct snapshot_view, status, "status", JSON_F_OBJ, .sub = &sandbox_status_table,
               .required = true),
    JSON_FIELD(struct snapshot_view, created_at, "createdAt", JSON_F_TIME, .required = true),
    {0},
};
const struct json_table snapshot_view_table = {"Snapshot", sizeof(struct snapshot_view),
                                               snapshot_view_fields};

static const struct json_field snapshot_list_fields[] = {
    JSON_FIELD(struct snapshot_list, items, "items", JSON_F_OBJ_LIST, .sub = &snapshot_view_table),
    JSON_FIELD(struct snapshot_list, pagination, "pagination", JSON_F_OBJ,
               .sub = &pagination_table),
    {0},
};
const struct json_table snapshot_list_table = {"ListSnapshotsResponse",
                                               sizeof(struct snapshot_list), snapshot_list_fields};

static const struct json_field snapshot_request_fields[] = {
    JSON_FIELD(struct snapshot_request, name, "name", JSON_F_STR, .min_len = 1,
               .max_len = SNAPSHOT_NAME_MAX),
    {0},
};
const struct json_table snapshot_request_table = {
    "CreateSnapshotRequest", sizeof(struct snapshot_request), snapshot_request_fields};

static const struct json_field fork_variant_fields[] = {
    JSON_FIELD(struct fork_variant, metadata, "metadata", JSON_F_STR_MAP),
    JSON_FIELD(struct fork_variant, env, "env", JSON_F_STR_MAP),
    {0},
};
static const struct json_table fork_variant_table = {"ForkVariant", sizeof(struct fork_variant),
                                                     fork_variant_fields};

static const struct json_field fork_request_fields[] = {
    JSON_FIELD(struct fork_request, count, "count", JSON_F_INT, .min = 1, .max = FORK_COUNT_MAX,
               .lenient = true),
    JSON_FIELD(struct fork_request, metadata, "metadata", JSON_F_STR_MAP),
    JSON_FIELD(struct fork_request, env, "env", JSON_F_STR_MAP),
    JSON_FIELD(struct fork_request, timeout, "timeout", JSON_F_INT, .min = 60, .lenient = true),
    JSON_FIELD(struct fork_request, sandboxes, "sandboxes", JSON_F_OBJ_LIST,
               .sub = &fork_variant_table),
    {0},
};
const struct json_table fork_request_table = {"ForkSandboxRequest", sizeof(struct fork_request),
                                              fork_request_fields};

static const struct json_field fork_view_fields[] = {
    JSON_FIELD(struct fork_view, items, "items", JSON_F_OBJ_LIST, .sub = &sandbox_created_table),
    {0},
};
const struct json_table fork_view_table = {"ForkSandboxResponse", sizeof(struct fork_view),
                                           fork_view_fields};

static const struct json_field renew_request_fields[] = {
    JSON_FIELD(struct renew_request, expires_at, "expiresAt", JSON_F_TIME, .alias = "expires_at",
               .required = true, .lenient = true),
    {0},
};
const struct json_table renew_request_table = {"RenewSandboxExpirationRequest",
                                               sizeof(struct renew_request), renew_request_fields};

static const struct json_field endpoint_view_fields[] = {
    JSON_FIELD(struct endpoint_view, endpoint, "endpoint", JSON_F_STR, .required = true),
    JSON_FIELD(struct endpoint_view, headers, "headers", JSON_F_STR_MAP, .omit_empty = true),
    {0},
};
const struct json_table endpoint_view_table = {"Endpoint", sizeof(struct endpoint_view),
                                               endpoint_view_fields};

static const struct json_field error_view_fields[] = {
    JSON_FIELD(struct error_view, code, "code", JSON_F_STR, .required = true),
    JSON_FIELD(struct error_view, message, "message", JSON_F_STR, .required = true),
    {0},
};
const struct json_table error_view_table = {"ErrorResponse", sizeof(struct error_view),
                                            error_view_fields};

/* ---- metadata ---- */
#define LABEL_NAME_MAX 63
#define LABEL_PREFIX_MAX 253

static bool alnum(char c)
{
    return isalnum((unsigned char)c) && (unsigned char)c < 128;
}

/* [A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])? */
static bool label_text(struct str s)
{
    if (!s.n || !alnum(s.p[0]) || !alnum(s.p[s.n - 1])) {
        return false;
    }
    for (size_t i = 0; i < s.n; i++) {
        if (!alnum(s.p[i]) && !strchr("-_.", s.p[i])) {
            return false;
        }
    }
    return true;
}

static bool dns_subdomain(struct str s)
{
    while (s.p) {
        struct str label = str_cut(&s, '.');
        if (!label.n || label.p[0] == '-' || label.p[label.n - 1] == '-') {
            return false;
        }
        for (size_t i = 0; i < label.n; i++) {
            char c = label.p[i];
            if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '-') {
                return false;
            }
        }
    }
    return true;
}

bool metadata_key_reserved(const char *key)
{
    return str_starts(str_from(key), STR("opensandbox.io/"));
}

int metadata_key_check(const char *key, struct err *e)
{
    if (metadata_key_reserved(key)) {
        return err_set(e, ERR_INVALID,
                       "metadata key '%.80s' uses the reserved prefix 'opensandbox.io/'", key);
    }
    struct str name = str_from(key), prefix = STR_NULL;
    ptrdiff_t slash = str_find(name, '/');
    if (slash >= 0) {
        prefix = str_sub(name, 0, (size_t)slash);
        name = str_sub(name, (size_t)slash + 1, name.n);
        if (prefix.n > LABEL_PREFIX_MAX || !prefix.n || !dns_subdomain(prefix)) {
            return err_set(e, ERR_INVALID,
                           "metadata key '%.80s': the part before '/' must be a lower-case DNS "
                           "name of at most 253 characters",
                           key);
        }
    }
    if (name.n > LABEL_NAME_MAX || !label_text(name)) {
        return err_set(e, ERR_INVALID,
                       "metadata key '%.80s': the name must have 1 to 63 letters, digits, '-', "
                       "'_' or '.', and begin and end with a letter or digit",
                       key);
    }
    return 0;
}

int metadata_value_check(const char *key, const char *value, struct err *e)
{
    struct str v = str_from(value);
    if (v.n && (v.n > LABEL_NAME_MAX || !label_text(v))) {
        return err_set(
            e, ERR_INVALID,
            "metadata value of '%.80s' must be empty or have at most 63 letters, digits, "
            "'-', '_' or '.', and begin and end with a letter or digit",
            key);
    }
    return 0;
}

/* ---- paths of volumes ---- */

struct str host_path_tail(struct str path)
{
    bool drive = path.n >= 2 && isalpha((unsigned char)path.p[0]) && path.p[1] == ':';
    return drive ? str_sub(path, 2, path.n) : path;
}

static struct str without_slash(struct str path)
{
    return path.n && path.p[path.n - 1] == '/' ? str_sub(path, 0, path.n - 1) : path;
}

bool host_path_allowed(struct str path, struct str entry)
{
    entry = without_slash(entry);
    struct str tail = host_path_tail(path), entry_tail = host_path_tail(entry);
    struct str drive = str_sub(path, 0, path.n - tail.n);
    struct str entry_drive = str_sub(entry, 0, entry.n - entry_tail.n);
    return str_eq_nocase(drive, entry_drive) && str_starts(tail, entry_tail) &&
           (tail.n == entry_tail.n || tail.p[entry_tail.n] == '/');
}
