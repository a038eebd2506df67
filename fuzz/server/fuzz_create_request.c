/* A create request either gives a plan, and what the store would keep of it gives the same plan
 * again, or a problem with a status, a code and a message. */

#include <stdint.h>

#include "base/must.h"
#include "server/lifecycle/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct config *config(void)
{
    static struct config *cfg;
    struct err e = {0};
    if (!cfg) {
        cfg = config_parse("fuzz", STR("[oci]\nallowed_engines = ['runc']\n"), NULL, &e);
        must(cfg);
    }
    return cfg;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct create_plan *plan = NULL, *again = NULL;
    struct problem p = {0};
    if (plan_build(str_n((const char *)data, size), config(), &plan, &p) < 0) {
        must(p.status == 400 || p.status == 422);
        must(p.code && *p.message);
        must((p.status == 422) == (p.detail != NULL));
        problem_done(&p);
        return 0;
    }
    if (plan->pool_ref) { /* half of a plan: the template of the pool has the rest */
        plan_free(plan);
        return 0;
    }
    must(!plan->spec.entrypoint[plan->entrypoint.n] && plan->entrypoint.n > 0);
    must(plan_build(str_from(plan->spec_json), config(), &again, &p) == 0);
    must(!strcmp(plan->entrypoint_json, again->entrypoint_json));
    must(!strcmp(plan->spec_json, again->spec_json));
    must(plan->spec.n_env == again->spec.n_env && plan->timeout_s == again->timeout_s);
    plan_free(again);
    plan_free(plan);
    return 0;
}
