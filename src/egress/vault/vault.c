/* Building states of the vault: create, patch, restore. */

#include "egress/vault/vault.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "egress/vault/internal.h"
#include "egress/vault/limits.h"
#include "egress/vault/secret.h"

static const char *const auth_names[VAULT_AUTH__COUNT] = {
    [VAULT_BEARER] = "bearer",           [VAULT_BASIC] = "basic",
    [VAULT_API_KEY] = "apiKey",          [VAULT_CUSTOM_HEADERS] = "customHeaders",
    [VAULT_PASSTHROUGH] = "passthrough",
};

const char *vault_auth_name(enum vault_auth a)
{
    return auth_names[a];
}

struct str vault_auth_prefix(enum vault_auth a)
{
    return a == VAULT_BEARER ? STR("Bearer ") : a == VAULT_BASIC ? STR("Basic ") : STR("");
}

struct vault_state *vault_state_ref(struct vault_state *s)
{
    s->refs++;
    return s;
}

void vault_state_unref(struct vault_state *s)
{
    if (s && --s->refs == 0) {
        secret_block_free(s->secrets);
        arena_done(&s->arena);
        free(s);
    }
}

static struct vault_state *state_new(size_t n_credentials, size_t n_bindings)
{
    struct vault_state *s = NEW(struct vault_state);
    s->refs = 1;
    s->credentials = arena_array(&s->arena, n_credentials + 1, sizeof(*s->credentials));
    s->bindings = arena_array(&s->arena, n_bindings + 1, sizeof(*s->bindings));
    return s;
}

/* ---- lists by name ---- */

static struct vault_credential *find_credential(const struct vault_state *s, struct str name)
{
    for (size_t i = 0; i < s->n_credentials; i++) {
        if (str_eq(str_from(s->credentials[i].name), name)) {
            return &s->credentials[i];
        }
    }
    return NULL;
}

static struct vault_binding *find_binding(const struct vault_state *s, struct str name)
{
    for (size_t i = 0; i < s->n_bindings; i++) {
        if (str_eq(str_from(s->bindings[i].name), name)) {
            return &s->bindings[i];
        }
    }
    return NULL;
}

static int by_credential_name(const void *a, const void *b)
{
    return strcmp(((const struct vault_credential *)a)->name,
                  ((const struct vault_credential *)b)->name);
}

static int by_binding_name(const void *a, const void *b)
{
    return strcmp(((const struct vault_binding *)a)->name, ((const struct vault_binding *)b)->name);
}

/* ---- copies ---- */

static struct vault_list copy_list(struct arena *a, const struct vault_list *l)
{
    struct vault_list out = {arena_array(a, l->n + 1, sizeof(*out.v)), l->n};
    for (size_t i = 0; i < l->n; i++) {
        out.v[i] = arena_strdup(a, l->v[i]);
    }
    return out;
}

static struct vault_binding copy_binding(struct arena *a, const struct vault_binding *b)
{
    struct vault_binding out = *b;
    out.name = arena_strdup(a, b->name);
    out.scheme_names = copy_list(a, &b->scheme_names);
    out.hosts = copy_list(a, &b->hosts);
    out.methods = copy_list(a, &b->methods);
    out.paths = copy_list(a, &b->paths);
    out.ports = arena_array(a, b->n_ports, sizeof(*out.ports));
    memcpy(out.ports, b->ports, b->n_ports * sizeof(*out.ports));
    out.headers = arena_array(a, b->n_headers + 1, sizeof(*out.headers));
    for (size_t i = 0; i < b->n_headers; i++) {
        out.headers[i] = (struct vault_header){arena_strdup(a, b->headers[i].name),
                                               arena_strdup(a, b->headers[i].credential), NULL};
    }
    out.substitutions = arena_array(a, b->n_substitutions + 1, sizeof(*out.substitutions));
    for (size_t i = 0; i < b->n_substitutions; i++) {
        const struct vault_substitution *s = &b->substitutions[i];
        out.substitutions[i] = (struct vault_substitution){
            arena_strdup(a, s->credential), arena_strdup(a, s->placeholder), s->in, NULL};
    }
    return out;
}

static struct vault_state *state_copy(const struct vault_state *old, size_t more_credentials,
                                      size_t more_bindings)
{
    struct vault_state *s =
        state_new(old->n_credentials + more_credentials, old->n_bindings + more_bindings);
    for (size_t i = 0; i < old->n_credentials; i++) {
        s->credentials[i] = old->credentials[i]; /* the value is copied by seal() */
        s->credentials[i].name = arena_strdup(&s->arena, old->credentials[i].name);
    }
    s->n_credentials = old->n_credentials;
    for (size_t i = 0; i < old->n_bindings; i++) {
        s->bindings[i] = copy_binding(&s->arena, &old->bindings[i]);
    }
    s->n_bindings = old->n_bindings;
    return s;
}

/* ---- the secrets ---- */

static bool is_unreserved(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           strchr("-._~", c);
}

/* Every form of one value that could come back: with its prefix, percent-encoded, raw. Counts the
 * bytes when `block` is NULL. */
static size_t add_forms(struct vault_state *s, struct secret_block *block, struct str value)
{
    static const char hex[] = "0123456789ABCDEF";
    struct str prefixes[] = {STR("Bearer "), STR("Basic "), STR("")};
    char form[VAULT_MAX_VALUE * 3 + 16];
    size_t total = 0, n = 0;

    for (size_t i = 0; i < ARRAY_LEN(prefixes); i++) {
        memcpy(form, prefixes[i].p, prefixes[i].n);
        memcpy(form + prefixes[i].n, value.p, value.n);
        n = prefixes[i].n + value.n;
        total += n + 1;
        if (block) {
            s->redactions[s->n_redactions++] = secret_block_add(block, str_n(form, n));
        }
    }
    n = 0;
    for (size_t i = 0; i < value.n; i++) {
        if (is_unreserved(value.p[i])) {
            form[n++] = value.p[i];
        } else {
            form[n++] = '%';
            form[n++] = hex[(unsigned char)value.p[i] >> 4];
            form[n++] = hex[(unsigned char)value.p[i] & 15];
        }
    }
    if (n != value.n) {
        total += n + 1;
        if (block) {
            s->redactions[s->n_redactions++] = secret_block_add(block, str_n(form, n));
        }
    }
    explicit_bzero(form, sizeof(form));
    return total;
}

static int longest_first(const void *a, const void *b)
{
    const struct str *x = a, *y = b;
    return x->n == y->n ? str_cmp(*x, *y) : x->n < y->n ? 1 : -1;
}

/* Moves all values into one locked block and lists what answers must not show. */
static void seal(struct vault_state *s)
{
    size_t total = 0;
    for (size_t i = 0; i < s->n_credentials; i++) {
        total += s->credentials[i].value.n + 1 + add_forms(s, NULL, s->credentials[i].value);
    }
    s->secrets = secret_block_new(total);
    s->redactions = arena_array(&s->arena, s->n_credentials * 4 + 1, sizeof(*s->redactions));
    for (size_t i = 0; i < s->n_credentials; i++) {
        struct vault_credential *c = &s->credentials[i];
        c->value = secret_block_add(s->secrets, c->value);
        (void)add_forms(s, s->secrets, c->value);
    }
    qsort(s->redactions, s->n_redactions, sizeof(*s->redactions), longest_first);
}

static int finish(struct vault_state *s, const struct policy *policy, bool check_policy,
                  struct err *e)
{
    if (s->n_credentials > VAULT_MAX_CREDENTIALS || s->n_bindings > VAULT_MAX_BINDINGS) {
        return err_set(e, ERR_INVALID, "more than %d credentials or %d bindings",
                       VAULT_MAX_CREDENTIALS, VAULT_MAX_BINDINGS);
    }
    qsort(s->credentials, s->n_credentials, sizeof(*s->credentials), by_credential_name);
    qsort(s->bindings, s->n_bindings, sizeof(*s->bindings), by_binding_name);
    if (vault_check(s, check_policy ? policy : NULL, e) < 0) {
        return -1;
    }
    size_t total = 0;
    for (size_t i = 0; i < s->n_credentials; i++) {
        total += s->credentials[i].value.n;
    }
    if (total > VAULT_KEEP_SLOT / 4) {
        return err_set(e, ERR_INVALID, "the values together are longer than %u bytes",
                       VAULT_KEEP_SLOT / 4);
    }
    seal(s);
    return 0;
}

/* ---- operations ---- */

static int add_credential(struct vault_state *s, const struct vault_in_credential *in,
                          uint64_t revision, struct err *e)
{
    struct vault_credential c;
    if (vault_normalize_credential(&s->arena, in, &c, e) < 0) {
        return -1;
    }
    if (find_credential(s, str_from(c.name))) {
        return err_set(e, ERR_INVALID, "credential \"%s\" exists already", c.name);
    }
    c.revision = in->revision.has ? (uint64_t)in->revision.v : revision;
    s->credentials[s->n_credentials++] = c;
    return 0;
}

static int add_binding(struct vault_state *s, const struct vault_in_binding *in, struct err *e)
{
    struct vault_binding b;
    if (vault_normalize_binding(&s->arena, in, &b, e) < 0) {
        return -1;
    }
    if (find_binding(s, str_from(b.name))) {
        return err_set(e, ERR_INVALID, "binding \"%s\" exists already", b.name);
    }
    s->bindings[s->n_bindings++] = b;
    return 0;
}

static int add_all(struct vault_state *s, const struct vault_in_create *in, struct err *e)
{
    for (size_t i = 0; i < in->credentials.n; i++) {
        const struct vault_in_credential *c = in->credentials.v;
        if (add_credential(s, c + i, s->revision, e) < 0) {
            return -1;
        }
    }
    for (size_t i = 0; i < in->bindings.n; i++) {
        const struct vault_in_binding *b = in->bindings.v;
        if (add_binding(s, b + i, e) < 0) {
            return -1;
        }
    }
    return 0;
}

/* Names of one kind in one request: each may be used by one operation only. */
static int check_names(const struct vault_in_ops *ops, const char *kind, size_t size, struct err *e)
{
    const struct obj_list *lists[] = {&ops->replace, &ops->add};
    size_t total = ops->del.n + ops->replace.n + ops->add.n, n = 0;
    if (total > 2 * VAULT_MAX_CREDENTIALS) {
        return err_set(e, ERR_INVALID, "more than %d operations", 2 * VAULT_MAX_CREDENTIALS);
    }
    struct str *names = xcalloc(total + 1, sizeof(*names));
    int r = 0;
    for (size_t i = 0; i < ops->del.n; i++) {
        names[n++] = vault_trim(ops->del.v[i]);
    }
    for (size_t l = 0; l < ARRAY_LEN(lists); l++) {
        for (size_t i = 0; i < lists[l]->n; i++) {
            /* `name` is the first member of both kinds. */
            names[n++] = vault_trim(*(const char *const *)((const char *)lists[l]->v + i * size));
        }
    }
    for (size_t i = 0; r == 0 && i < n; i++) {
        if (names[i].n == 0) {
            r = err_set(e, ERR_INVALID, "%s name is required", kind);
        }
        for (size_t k = 0; r == 0 && k < i; k++) {
            if (str_eq(names[i], names[k])) {
                r = err_set(e, ERR_INVALID, "%s \"%.*s\" is named by two operations", kind,
                            (int)MIN(names[i].n, VAULT_MAX_NAME), names[i].p);
            }
        }
    }
    free(names);
    return r;
}

static int patch_credentials(struct vault_state *s, const struct vault_in_ops *ops, struct err *e)
{
    if (check_names(ops, "credential", sizeof(struct vault_in_credential), e) < 0) {
        return -1;
    }
    for (size_t i = 0; i < ops->del.n; i++) {
        struct str name = vault_trim(ops->del.v[i]);
        struct vault_credential *c = find_credential(s, name);
        if (!c) {
            return err_set(e, ERR_INVALID, "credential \"%.*s\" does not exist",
                           (int)MIN(name.n, VAULT_MAX_NAME), name.p);
        }
        *c = s->credentials[--s->n_credentials];
    }
    const struct vault_in_credential *in = ops->replace.v;
    for (size_t i = 0; i < ops->replace.n; i++) {
        struct vault_credential new, *c;
        if (vault_normalize_credential(&s->arena, &in[i], &new, e) < 0) {
            return -1;
        }
        c = find_credential(s, str_from(new.name));
        if (!c) {
            return err_set(e, ERR_INVALID, "credential \"%s\" does not exist", new.name);
        }
        *c = new;
        c->revision = s->revision;
    }
    in = ops->add.v;
    for (size_t i = 0; i < ops->add.n; i++) {
        if (add_credential(s, &in[i], s->revision, e) < 0) {
            return -1;
        }
    }
    return 0;
}

static int patch_bindings(struct vault_state *s, const struct vault_in_ops *ops, struct err *e)
{
    if (check_names(ops, "binding", sizeof(struct vault_in_binding), e) < 0) {
        return -1;
    }
    for (size_t i = 0; i < ops->del.n; i++) {
        struct str name = vault_trim(ops->del.v[i]);
        struct vault_binding *b = find_binding(s, name);
        if (!b) {
            return err_set(e, ERR_INVALID, "binding \"%.*s\" does not exist",
                           (int)MIN(name.n, VAULT_MAX_NAME), name.p);
        }
        *b = s->bindings[--s->n_bindings];
    }
    const struct vault_in_binding *in = ops->replace.v;
    for (size_t i = 0; i < ops->replace.n; i++) {
        struct vault_binding new, *b;
        if (vault_normalize_binding(&s->arena, &in[i], &new, e) < 0) {
            return -1;
        }
        b = find_binding(s, str_from(new.name));
        if (!b) {
            return err_set(e, ERR_INVALID, "binding \"%s\" does not exist", new.name);
        }
        *b = new;
    }
    in = ops->add.v;
    for (size_t i = 0; i < ops->add.n; i++) {
        if (add_binding(s, &in[i], e) < 0) {
            return -1;
        }
    }
    return 0;
}

/* ---- requests ---- */

/* Copies of values that decoding left behind. */
static void wipe_credentials(const struct obj_list *l)
{
    const struct vault_in_credential *c = l->v;
    for (size_t i = 0; i < l->n; i++) {
        if (c[i].source) {
            secret_wipe(str_from(c[i].source->value));
        }
    }
}

static struct json *parse_body(struct str body, struct err *e)
{
    struct json *j = json_parse_first(body, e);
    if (!j && e) {
        char *near = strstr(e->msg, " near ");
        if (near) {
            *near = 0; /* the parser quotes what it stumbled over */
        }
        return NULL;
    }
    if (j && !json_is_object(j)) {
        (void)err_set(e, ERR_INVALID, "the body must be a JSON object");
        json_free(j);
        return NULL;
    }
    return j;
}

static struct vault_state *build(struct str body, const struct json_table *table,
                                 const struct policy *policy, bool check_policy, struct err *e)
{
    cleanup_(arena_done) struct arena a = {0};
    cleanup_(json_free) struct json *j = parse_body(body, e);
    struct vault_in_create in;

    if (!j || json_decode(&a, table, j, &in, NULL, e) < 0) {
        return NULL;
    }
    cleanup_(vault_state_unref) struct vault_state *s = state_new(in.credentials.n, in.bindings.n);
    s->revision = in.revision.has ? (uint64_t)in.revision.v : 1;
    int r = add_all(s, &in, e) < 0 ? -1 : finish(s, policy, check_policy, e);
    wipe_credentials(&in.credentials);
    return r < 0 ? NULL : take_ptr(&s);
}

struct vault_state *vault_create(struct str body, const struct policy *policy, struct err *e)
{
    return build(body, &vault_create_table, policy, true, e);
}

struct vault_state *vault_restore(struct str text, struct err *e)
{
    /* The policy of before the crash admitted it; requests are checked against today's. */
    return build(text, &vault_kept_table, NULL, false, e);
}

static int apply_patch(struct vault_state *s, const struct vault_in_patch *in, struct err *e)
{
    if (in->credentials && patch_credentials(s, in->credentials, e) < 0) {
        return -1;
    }
    return in->bindings ? patch_bindings(s, in->bindings, e) : 0;
}

struct vault_state *vault_patch(const struct vault_state *old, struct str body,
                                const struct policy *policy, struct err *e)
{
    static const struct vault_in_ops nothing;
    cleanup_(arena_done) struct arena a = {0};
    cleanup_(json_free) struct json *j = parse_body(body, e);
    struct vault_in_patch in;

    if (!j || json_decode(&a, &vault_patch_table, j, &in, NULL, e) < 0) {
        return NULL;
    }
    const struct vault_in_ops *c = in.credentials ? in.credentials : &nothing;
    const struct vault_in_ops *b = in.bindings ? in.bindings : &nothing;
    cleanup_(vault_state_unref) struct vault_state *s = state_copy(old, c->add.n, b->add.n);
    s->revision = old->revision + 1;
    int r = 0;
    if (in.expected.has && in.expected.v != (int64_t)old->revision) {
        r = err_set(e, ERR_CONFLICT, "expectedRevision is %lld, the vault is at revision %llu",
                    (long long)in.expected.v, (unsigned long long)old->revision);
    }
    if (r == 0) {
        r = apply_patch(s, &in, e) < 0 ? -1 : finish(s, policy, true, e);
    }
    wipe_credentials(&c->add);
    wipe_credentials(&c->replace);
    return r < 0 ? NULL : take_ptr(&s);
}
