#pragma once
/* Between the files of the vault: a request as it was decoded, and a state in the making. */

#include "egress/vault/vault.h"
#include "json/field.h"

struct vault_in_source {
    const char *type, *value;
};
struct vault_in_credential {
    const char *name;
    struct vault_in_source *source;
    struct opt_int revision; /* kept states only */
};
struct vault_in_match {
    struct str_list schemes, hosts, methods, paths;
    struct json *ports;
};
struct vault_in_header {
    const char *name, *credential;
};
struct vault_in_substitution {
    const char *credential, *placeholder;
    struct str_list in;
};
struct vault_in_auth {
    const char *type, *name, *credential;
    struct obj_list headers, substitutions;
};
struct vault_in_binding {
    const char *name;
    struct vault_in_match *match;
    struct vault_in_auth *auth;
    struct obj_list substitutions; /* accepted here as well as in auth */
};
struct vault_in_ops {
    struct obj_list add, replace;
    struct str_list del;
};
struct vault_in_create {
    struct obj_list credentials, bindings;
    struct opt_int revision; /* kept states only */
};
struct vault_in_patch {
    struct opt_int expected;
    struct vault_in_ops *credentials, *bindings;
};

extern const struct json_table vault_create_table, vault_patch_table, vault_kept_table;

/* Lists while a state is built; values still point to where they came from. */
struct vault_draft {
    struct vault_state *state;
    size_t cap_credentials, cap_bindings;
};

/* Both copy into the state's arena; -1 and the reason. */
int vault_normalize_credential(struct arena *a, const struct vault_in_credential *in,
                               struct vault_credential *out, struct err *e);
int vault_normalize_binding(struct arena *a, const struct vault_in_binding *in,
                            struct vault_binding *out, struct err *e);
/* Without surrounding white space. */
struct str vault_trim(const char *s);
bool vault_host_matches(const char *pattern, struct str host);
/* References, coverage by policy (NULL: not checked), ambiguity. Resolves the references. */
int vault_check(struct vault_state *s, const struct policy *policy, struct err *e);
