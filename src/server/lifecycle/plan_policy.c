/* networkPolicy: what the sidecar would refuse is refused before anything is made. */

#include "net/cidr.h"
#include "net/domain.h"
#include "server/lifecycle/plan.h"

static bool is_action(const char *s)
{
    struct str a = str_trim_space(str_from(s ? s : ""));
    return !a.n || str_eq_nocase(a, STR("allow")) || str_eq_nocase(a, STR("deny"));
}

static bool is_target(struct str s)
{
    struct cidr net;
    char name[DOMAIN_MAX + 1];
    bool below;
    return cidr_parse(s, &net) == 0 || domain_target(s, name, &below) == 0;
}

int plan_policy_check(const struct network_policy *np, struct problem *p)
{
    const struct network_rule *rules = np->egress.v;
    if (!is_action(np->default_action)) {
        return problem_set(
            p, 400, CODE_INVALID,
            "networkPolicy.defaultAction must be \"allow\" or \"deny\", not \"%.64s\"",
            np->default_action);
    }
    for (size_t i = 0; i < np->egress.n; i++) {
        if (!is_action(rules[i].action)) {
            return problem_set(
                p, 400, CODE_INVALID,
                "networkPolicy.egress[%zu].action must be \"allow\" or \"deny\", not \"%.64s\"", i,
                rules[i].action);
        }
        if (!is_target(str_trim_space(str_from(rules[i].target)))) {
            return problem_set(p, 400, CODE_INVALID,
                               "networkPolicy.egress[%zu].target: \"%.128s\" is neither a name, "
                               "\"*.\" and a name, "
                               "an address nor a network",
                               i, rules[i].target);
        }
    }
    return 0;
}
