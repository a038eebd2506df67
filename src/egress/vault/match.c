/* Which binding a request uses, and hiding secrets in what comes back. */

#include <string.h>

#include "base/must.h"
#include "egress/vault/internal.h"

/* 2: the very name, 1: below a wildcard, 0: neither. */
static int host_rank(const struct vault_binding *b, struct str host)
{
    int rank = 0;
    for (size_t i = 0; i < b->hosts.n; i++) {
        struct str h = str_from(b->hosts.v[i]);
        if (h.p[0] != '*') {
            if (str_eq(h, host)) {
                return 2;
            }
        } else if (host.n > h.n - 1 && str_ends(host, str_sub(h, 1, h.n))) {
            rank = 1;
        }
    }
    return rank;
}

static bool has_port(const struct vault_binding *b, uint16_t port)
{
    for (size_t i = 0; i < b->n_ports; i++) {
        if (b->ports[i] == port) {
            return true;
        }
    }
    return false;
}

static bool has_method(const struct vault_binding *b, struct str method)
{
    for (size_t i = 0; i < b->methods.n; i++) {
        if (str_eq(str_from(b->methods.v[i]), method)) {
            return true;
        }
    }
    return false;
}

static bool has_path(const struct vault_binding *b, struct str path)
{
    for (size_t i = 0; i < b->paths.n; i++) {
        struct str p = str_from(b->paths.v[i]);
        if (str_ends(p, STR("*")) ? str_starts(path, str_sub(p, 0, p.n - 1)) : str_eq(path, p)) {
            return true;
        }
    }
    return false;
}

enum vault_match vault_find(const struct vault_state *s, const struct vault_request *q,
                            const struct vault_binding **ret)
{
    int best = 0;
    size_t n = 0;

    for (size_t i = 0; i < s->n_bindings; i++) {
        const struct vault_binding *b = &s->bindings[i];
        if (!(b->schemes & q->scheme) || !has_port(b, q->port) || !has_method(b, q->method) ||
            !has_path(b, q->path)) {
            continue;
        }
        int rank = host_rank(b, q->host);
        if (rank > best) {
            best = rank;
            n = 1;
            *ret = b;
        } else if (rank && rank == best) {
            n++;
        }
    }
    return n == 0 ? VAULT_NO_MATCH : n == 1 ? VAULT_MATCH : VAULT_AMBIGUOUS;
}

bool vault_has_host(const struct vault_state *s, enum vault_scheme scheme, uint16_t port,
                    struct str host)
{
    for (size_t i = 0; s && i < s->n_bindings; i++) {
        const struct vault_binding *b = &s->bindings[i];
        if ((b->schemes & scheme) && has_port(b, port) && host_rank(b, host)) {
            return true;
        }
    }
    return false;
}

bool vault_has_port(const struct vault_state *s, enum vault_scheme scheme, uint16_t port)
{
    for (size_t i = 0; s && i < s->n_bindings; i++) {
        if ((s->bindings[i].schemes & scheme) && has_port(&s->bindings[i], port)) {
            return true;
        }
    }
    return false;
}

/* The length of the secret that `text` begins with, or 0. */
static size_t secret_at(const struct vault_state *s, struct str text)
{
    for (size_t i = 0; i < s->n_redactions; i++) {
        struct str r = s->redactions[i];
        if (r.p[0] == text.p[0] && str_starts(text, r)) {
            return r.n;
        }
    }
    return 0;
}

bool vault_shows(const struct vault_state *s, struct str text)
{
    for (size_t at = 0; at < text.n; at++) {
        if (secret_at(s, str_sub(text, at, text.n))) {
            return true;
        }
    }
    return false;
}

void vault_redact(const struct vault_state *s, struct str text, struct buf *out)
{
    size_t from = 0, at = 0;
    while (at < text.n) {
        size_t hit = secret_at(s, str_sub(text, at, text.n));
        if (hit) {
            (void)buf_add_str(out, str_sub(text, from, at));
            (void)buf_add_str(out, STR("[REDACTED]")); /* the caller looks at buf_failed() */
            from = at + hit;
        }
        at += hit ? hit : 1;
    }
    (void)buf_add_str(out, str_sub(text, from, at));
}
