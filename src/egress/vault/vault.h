#pragma once
/* The credential vault of one sandbox: credentials, and bindings that say where each is put.
 *
 * A state is immutable. Every change builds the next one as a whole, validates it, and swaps one
 * pointer, so a request sees either the old vault or the new one, and whoever is in the middle of
 * using an old value keeps a reference to it. Secrets are in one locked block per state; everything
 * else is in an arena. One thread. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "egress/policy.h"

struct secret_block;

enum vault_scheme { VAULT_HTTP = 1, VAULT_HTTPS = 2 };

enum vault_auth {
    VAULT_BEARER,
    VAULT_BASIC,
    VAULT_API_KEY,
    VAULT_CUSTOM_HEADERS,
    VAULT_PASSTHROUGH, /* no header; substitutions only */
    VAULT_AUTH__COUNT
};

enum vault_surface { VAULT_PATH = 1, VAULT_QUERY = 2, VAULT_HEADER = 4, VAULT_BODY = 8 };

struct vault_list {
    const char **v;
    size_t n;
};

struct vault_credential {
    const char *name;
    struct str value; /* in the state's locked block */
    uint64_t revision;
};

/* A header that the binding sets: its value is `prefix` and the credential's value. */
struct vault_header {
    const char *name, *credential;
    const struct vault_credential *value;
};

struct vault_substitution {
    const char *credential, *placeholder;
    unsigned in; /* enum vault_surface */
    const struct vault_credential *value;
};

struct vault_binding {
    const char *name;
    unsigned schemes; /* enum vault_scheme */
    struct vault_list scheme_names, hosts, methods, paths;
    uint16_t *ports;
    size_t n_ports;
    enum vault_auth auth;
    struct vault_header *headers;
    size_t n_headers;
    struct vault_substitution *substitutions;
    size_t n_substitutions;
};

struct vault_state {
    unsigned refs;
    uint64_t revision;
    struct arena arena;
    struct secret_block *secrets;
    struct vault_credential *credentials; /* sorted by name, and so are the bindings */
    size_t n_credentials;
    struct vault_binding *bindings;
    size_t n_bindings;
    struct str *redactions; /* what no answer may show, longest first; in the locked block */
    size_t n_redactions;
};

/* ---- states ---- */

struct vault_state *vault_state_ref(struct vault_state *s);
void vault_state_unref(struct vault_state *s); /* NULL is fine; the last one wipes */
static inline void vault_state_unref_cleanup(struct vault_state **s)
{
    vault_state_unref(*s);
}
/* "Bearer ", "Basic " or "". */
struct str vault_auth_prefix(enum vault_auth a);
const char *vault_auth_name(enum vault_auth a);

/* Both build the next state out of a request body; NULL and the reason: ERR_INVALID (400),
 * ERR_CONFLICT (expectedRevision: 409). No message quotes a value. `policy` is the effective one.
 */
struct vault_state *vault_create(struct str body, const struct policy *policy, struct err *e);
struct vault_state *vault_patch(const struct vault_state *old, struct str body,
                                const struct policy *policy, struct err *e);
/* Whether every binding's hosts are covered by an explicit allow rule of this policy. */
int vault_check_policy(const struct vault_state *s, const struct policy *policy, struct err *e);

/* ---- what the API shows: never a value ---- */
void vault_format(const struct vault_state *s, struct buf *out);
void vault_format_credentials(const struct vault_state *s, struct buf *out);
void vault_format_bindings(const struct vault_state *s, struct buf *out);
int vault_format_credential(const struct vault_state *s, struct str name, struct buf *out);
int vault_format_binding(const struct vault_state *s, struct str name, struct buf *out);

/* ---- what is kept over a crash: all of it, values included ---- */
int vault_serialize(const struct vault_state *s, struct buf *out);
struct vault_state *vault_restore(struct str text, struct err *e);

/* ---- use ---- */

struct vault_request {
    enum vault_scheme scheme;
    uint16_t port;
    struct str host; /* lower case, no port, no final dot */
    struct str method, path;
};

enum vault_match { VAULT_NO_MATCH, VAULT_MATCH, VAULT_AMBIGUOUS };

enum vault_match vault_find(const struct vault_state *s, const struct vault_request *q,
                            const struct vault_binding **ret);
/* Does any binding mention this host on this port, whatever method and path? */
bool vault_has_host(const struct vault_state *s, enum vault_scheme scheme, uint16_t port,
                    struct str host);
bool vault_has_port(const struct vault_state *s, enum vault_scheme scheme, uint16_t port);
/* Is a secret of the state (raw, rendered, percent-encoded) somewhere in the text? */
bool vault_shows(const struct vault_state *s, struct str text);
/* Appends the text with each of them replaced. */
void vault_redact(const struct vault_state *s, struct str text, struct buf *out);
