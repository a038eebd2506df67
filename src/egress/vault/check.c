/* What must hold for a vault as a whole: references exist, policy covers every host, and for no
 * request could two bindings of the same rank compete. */

#include <string.h>

#include "base/must.h"
#include "egress/vault/internal.h"

static int resolve(const struct vault_state *s, const struct vault_binding *b, const char *name,
                   const struct vault_credential **ret, struct err *e)
{
    for (size_t i = 0; i < s->n_credentials; i++) {
        if (strcmp(s->credentials[i].name, name) == 0) {
            *ret = &s->credentials[i];
            return 0;
        }
    }
    return err_set(e, ERR_INVALID,
                   "binding \"%s\" refers to credential \"%s\", which does not exist", b->name,
                   name);
}

static int resolve_all(struct vault_state *s, struct err *e)
{
    for (size_t i = 0; i < s->n_bindings; i++) {
        struct vault_binding *b = &s->bindings[i];
        for (size_t k = 0; k < b->n_headers; k++) {
            if (resolve(s, b, b->headers[k].credential, &b->headers[k].value, e) < 0) {
                return -1;
            }
        }
        for (size_t k = 0; k < b->n_substitutions; k++) {
            struct vault_substitution *u = &b->substitutions[k];
            if (resolve(s, b, u->credential, &u->value, e) < 0) {
                return -1;
            }
        }
    }
    return 0;
}

/* ---- policy ---- */

/* The rule's text is the host's, or a wildcard above it. */
static bool rule_covers(const struct policy_rule *r, struct str host)
{
    struct str target = str_from(r->target);
    if (r->action != POLICY_ALLOW || r->kind != POLICY_NAME) {
        return false;
    }
    if (str_eq_nocase(target, host)) {
        return true;
    }
    if (!r->wildcard || host.n <= target.n - 1) {
        return false;
    }
    return str_eq_nocase(str_sub(host, host.n - (target.n - 1), host.n),
                         str_sub(target, 1, target.n));
}

static bool policy_covers(const struct policy *p, const char *host)
{
    char probe[300];
    struct str h = str_from(host), name = h;
    bool covered = false;

    for (size_t i = 0; i < p->n_rules && !covered; i++) {
        covered = rule_covers(&p->rules[i], h);
    }
    if (str_starts(h, STR("*."))) { /* hosts are at most 255 bytes */
        size_t n = sizeof("probe") - 1;
        memcpy(probe, "probe", n);
        memcpy(probe + n, h.p + 1, h.n - 1);
        name = str_n(probe, n + h.n - 1);
    }
    return covered && policy_allows_name(p, name);
}

int vault_check_policy(const struct vault_state *s, const struct policy *policy, struct err *e)
{
    if (s->n_bindings && policy->n_rules == 0) {
        return err_set(e, ERR_INVALID, "bindings need an egress policy with rules");
    }
    for (size_t i = 0; i < s->n_bindings; i++) {
        const struct vault_binding *b = &s->bindings[i];
        for (size_t k = 0; k < b->hosts.n; k++) {
            if (!policy_covers(policy, b->hosts.v[k])) {
                return err_set(
                    e, ERR_INVALID,
                    "binding \"%s\": host %s is not allowed by a rule of the egress policy",
                    b->name, b->hosts.v[k]);
            }
        }
    }
    return 0;
}

/* ---- ambiguity ---- */

static bool lists_meet(const struct vault_list *a, const struct vault_list *b)
{
    for (size_t i = 0; i < a->n; i++) {
        for (size_t k = 0; k < b->n; k++) {
            if (strcmp(a->v[i], b->v[k]) == 0) {
                return true;
            }
        }
    }
    return false;
}

static bool ports_meet(const struct vault_binding *a, const struct vault_binding *b)
{
    for (size_t i = 0; i < a->n_ports; i++) {
        for (size_t k = 0; k < b->n_ports; k++) {
            if (a->ports[i] == b->ports[k]) {
                return true;
            }
        }
    }
    return false;
}

/* Two exact names, or two wildcards one of which is above the other. */
static bool hosts_meet(const char *a, const char *b)
{
    bool wild = a[0] == '*';
    if (wild != (b[0] == '*')) {
        return false;
    }
    if (!wild) {
        return strcmp(a, b) == 0;
    }
    struct str x = str_from(a + 1), y = str_from(b + 1); /* with their dots */
    return str_ends(x, y) || str_ends(y, x);
}

static bool path_is_above(const char *pattern, const char *other)
{
    struct str p = str_from(pattern), o = str_from(other);
    return str_ends(p, STR("*")) && str_starts(o, str_sub(p, 0, p.n - 1));
}

static bool paths_meet(const char *a, const char *b)
{
    return strcmp(a, b) == 0 || path_is_above(a, b) || path_is_above(b, a);
}

static bool any_meet(const struct vault_list *a, const struct vault_list *b,
                     bool (*meet)(const char *, const char *))
{
    for (size_t i = 0; i < a->n; i++) {
        for (size_t k = 0; k < b->n; k++) {
            if (meet(a->v[i], b->v[k])) {
                return true;
            }
        }
    }
    return false;
}

static int check_ambiguity(const struct vault_state *s, struct err *e)
{
    for (size_t i = 0; i < s->n_bindings; i++) {
        for (size_t k = 0; k < i; k++) {
            const struct vault_binding *a = &s->bindings[k], *b = &s->bindings[i];
            if ((a->schemes & b->schemes) && ports_meet(a, b) &&
                lists_meet(&a->methods, &b->methods) &&
                any_meet(&a->hosts, &b->hosts, hosts_meet) &&
                any_meet(&a->paths, &b->paths, paths_meet)) {
                return err_set(e, ERR_INVALID, "bindings \"%s\" and \"%s\" are ambiguous", a->name,
                               b->name);
            }
        }
    }
    return 0;
}

int vault_check(struct vault_state *s, const struct policy *policy, struct err *e)
{
    if (policy && s->n_bindings && policy->n_rules == 0) {
        return vault_check_policy(s, policy, e);
    }
    if (resolve_all(s, e) < 0 || (policy && vault_check_policy(s, policy, e) < 0)) {
        return -1;
    }
    return check_ambiguity(s, e);
}
