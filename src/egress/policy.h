#pragma once
/* The egress policy: what a sandbox may reach. Rules for names count in their order, rules for
 * addresses by kind (deny before allow). Plain values without I/O. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "net/cidr.h"

enum policy_action { POLICY_DENY, POLICY_ALLOW };
enum policy_kind { POLICY_NAME, POLICY_NET };

struct policy_rule {
    enum policy_action action;
    enum policy_kind kind;
    char *target;     /* as given, without surrounding space */
    char *name;       /* POLICY_NAME: lower case, without "*." */
    bool wildcard;    /* POLICY_NAME: everything below `name`, not itself */
    struct cidr cidr; /* POLICY_NET */
};

struct policy_index;

/* Immutable once made; freed with policy_free(). */
struct policy {
    enum policy_action fallback;
    struct policy_rule *rules;
    size_t n_rules;
    struct policy_index *index; /* first match of a name without walking the list */
};

/* The text of POST /policy. Blank, "null" and "{}" deny everything. NULL and ERR_INVALID. */
struct policy *policy_parse(struct str text, struct err *e);
struct policy *policy_deny_all(void);
void policy_free(struct policy *p);
static inline void policy_free_cleanup(struct policy **p)
{
    policy_free(*p);
}
/* `body` is a JSON array of rules: those first, then the old rules whose target it does not name.
 */
struct policy *policy_patch(const struct policy *old, struct str body, struct err *e);
/* `body` is a JSON array of targets. *ret_removed may be 0: the result then equals `old`. */
struct policy *policy_without(const struct policy *old, struct str body, size_t *ret_removed,
                              struct err *e);
/* What counts: always-deny, always-allow, then the user's rules and fallback. Both may be NULL. */
struct policy *policy_overlay(const struct policy *user, const struct policy *deny,
                              const struct policy *allow);
/* One target per line, '#' comments, all with `action`. */
struct policy *policy_parse_lines(struct str text, enum policy_action action, struct err *e);

/* "allow_all", "deny_all" or "enforcing". */
const char *policy_mode(const struct policy *p);
/* {"egress": [...], "defaultAction": "..."}; indent as in json_dump(). */
int policy_format(const struct policy *p, struct buf *out, int indent);

/* The rule that decides about a name (any case, final dot or not), or NULL: the fallback does. */
const struct policy_rule *policy_find_name(const struct policy *p, struct str name);
bool policy_allows_name(const struct policy *p, struct str name);

enum policy_verdict { POLICY_BY_DEFAULT, POLICY_DENIED, POLICY_ALLOWED };
/* What the rules for addresses say, deny before allow. */
enum policy_verdict policy_check_ip(const struct policy *p, const struct ip *ip);
