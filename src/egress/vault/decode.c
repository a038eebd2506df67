/* The shapes of the vault API. Unknown fields are errors at every level, keys match in any case. */

#include "egress/vault/internal.h"
#include "egress/vault/limits.h"

#define TABLE(label, type, fields)                                                                 \
    {                                                                                              \
        label, sizeof(struct type), fields, JSON_UNKNOWN_ERROR, true                               \
    }
#define F(type, member, key, kind, ...) JSON_FIELD(struct type, member, key, kind, __VA_ARGS__)

static const struct json_field source_fields[] = {
    F(vault_in_source, type, "type", JSON_F_STR),
    F(vault_in_source, value, "value", JSON_F_STR),
    {0},
};
static const struct json_table source_table = TABLE("Source", vault_in_source, source_fields);

static const struct json_field credential_fields[] = {
    F(vault_in_credential, name, "name", JSON_F_STR),
    F(vault_in_credential, source, "source", JSON_F_OBJ, .sub = &source_table),
    {0},
};
static const struct json_table credential_table =
    TABLE("Credential", vault_in_credential, credential_fields);

static const struct json_field match_fields[] = {
    F(vault_in_match, schemes, "schemes", JSON_F_STR_LIST, .max_len = VAULT_MAX_LIST),
    F(vault_in_match, ports, "ports", JSON_F_ANY),
    F(vault_in_match, hosts, "hosts", JSON_F_STR_LIST, .max_len = VAULT_MAX_LIST),
    F(vault_in_match, methods, "methods", JSON_F_STR_LIST, .max_len = VAULT_MAX_LIST),
    F(vault_in_match, paths, "paths", JSON_F_STR_LIST, .max_len = VAULT_MAX_LIST),
    {0},
};
static const struct json_table match_table = TABLE("Match", vault_in_match, match_fields);

static const struct json_field header_fields[] = {
    F(vault_in_header, name, "name", JSON_F_STR),
    F(vault_in_header, credential, "credential", JSON_F_STR),
    {0},
};
static const struct json_table header_table = TABLE("Header", vault_in_header, header_fields);

static const struct json_field substitution_fields[] = {
    F(vault_in_substitution, credential, "credential", JSON_F_STR),
    F(vault_in_substitution, placeholder, "placeholder", JSON_F_STR),
    F(vault_in_substitution, in, "in", JSON_F_STR_LIST, .max_len = VAULT_MAX_LIST),
    {0},
};
static const struct json_table substitution_table =
    TABLE("Substitution", vault_in_substitution, substitution_fields);

static const struct json_field auth_fields[] = {
    F(vault_in_auth, type, "type", JSON_F_STR),
    F(vault_in_auth, name, "name", JSON_F_STR),
    F(vault_in_auth, credential, "credential", JSON_F_STR),
    F(vault_in_auth, headers, "headers", JSON_F_OBJ_LIST, .sub = &header_table,
      .max_len = VAULT_MAX_HEADERS),
    F(vault_in_auth, substitutions, "substitutions", JSON_F_OBJ_LIST, .sub = &substitution_table,
      .max_len = VAULT_MAX_SUBSTITUTIONS),
    {0},
};
static const struct json_table auth_table = TABLE("Auth", vault_in_auth, auth_fields);

static const struct json_field binding_fields[] = {
    F(vault_in_binding, name, "name", JSON_F_STR),
    F(vault_in_binding, match, "match", JSON_F_OBJ, .sub = &match_table),
    F(vault_in_binding, auth, "auth", JSON_F_OBJ, .sub = &auth_table),
    F(vault_in_binding, substitutions, "substitutions", JSON_F_OBJ_LIST, .sub = &substitution_table,
      .max_len = VAULT_MAX_SUBSTITUTIONS),
    {0},
};
static const struct json_table binding_table = TABLE("Binding", vault_in_binding, binding_fields);

static const struct json_field create_fields[] = {
    F(vault_in_create, credentials, "credentials", JSON_F_OBJ_LIST, .sub = &credential_table),
    F(vault_in_create, bindings, "bindings", JSON_F_OBJ_LIST, .sub = &binding_table),
    {0},
};
const struct json_table vault_create_table = TABLE("Vault", vault_in_create, create_fields);

static const struct json_field credential_ops_fields[] = {
    F(vault_in_ops, add, "add", JSON_F_OBJ_LIST, .sub = &credential_table),
    F(vault_in_ops, replace, "replace", JSON_F_OBJ_LIST, .sub = &credential_table),
    F(vault_in_ops, del, "delete", JSON_F_STR_LIST),
    {0},
};
static const struct json_table credential_ops_table =
    TABLE("CredentialOperations", vault_in_ops, credential_ops_fields);

static const struct json_field binding_ops_fields[] = {
    F(vault_in_ops, add, "add", JSON_F_OBJ_LIST, .sub = &binding_table),
    F(vault_in_ops, replace, "replace", JSON_F_OBJ_LIST, .sub = &binding_table),
    F(vault_in_ops, del, "delete", JSON_F_STR_LIST),
    {0},
};
static const struct json_table binding_ops_table =
    TABLE("BindingOperations", vault_in_ops, binding_ops_fields);

static const struct json_field patch_fields[] = {
    F(vault_in_patch, expected, "expectedRevision", JSON_F_INT),
    F(vault_in_patch, credentials, "credentials", JSON_F_OBJ, .sub = &credential_ops_table),
    F(vault_in_patch, bindings, "bindings", JSON_F_OBJ, .sub = &binding_ops_table),
    {0},
};
const struct json_table vault_patch_table = TABLE("VaultPatch", vault_in_patch, patch_fields);

/* What we wrote ourselves, to be read after a crash: the same with revisions. */
static const struct json_field kept_credential_fields[] = {
    F(vault_in_credential, name, "name", JSON_F_STR),
    F(vault_in_credential, source, "source", JSON_F_OBJ, .sub = &source_table),
    F(vault_in_credential, revision, "revision", JSON_F_INT, .required = true),
    {0},
};
static const struct json_table kept_credential_table =
    TABLE("Credential", vault_in_credential, kept_credential_fields);
static const struct json_field kept_fields[] = {
    F(vault_in_create, revision, "revision", JSON_F_INT, .required = true),
    F(vault_in_create, credentials, "credentials", JSON_F_OBJ_LIST, .sub = &kept_credential_table),
    F(vault_in_create, bindings, "bindings", JSON_F_OBJ_LIST, .sub = &binding_table),
    {0},
};
const struct json_table vault_kept_table = TABLE("Vault", vault_in_create, kept_fields);
