#pragma once
/* A create request made ready: decoded, validated, defaults applied, in the form the runtime takes.
 * The same code reads the request of a client and the one kept in the store, so that a create that
 * was interrupted starts over from what was promised. */

#include "model/sandbox.h"
#include "server/config/config.h"
#include "server/lifecycle/problem.h"
#include "server/runtime/runtime.h"

#define PLAN_HASH_LEN 40

struct create_plan {
    struct arena arena;
    struct json *root;
    struct create_request req;
    struct runtime_spec spec; /* id, egress_token and progress are set by whoever runs it */
    const char *image, *snapshot_id, *os, *arch;
    struct str_list entrypoint;
    int64_t timeout_s;      /* 0: never expires */
    int64_t renew_extend_s; /* 0: no renewal on access */
    bool had_auth;
    bool is_fork;                /* its snapshot is the fork's own */
    const char *pool_ref;        /* extensions.poolRef: this plan is only half of one, see pool.h */
    const char *pool;            /* the pool it was completed from, or NULL */
    const char *pool_revision;   /* hash of the template that was its then */
    bool warm;                   /* its sandbox waits in that pool already */
    const char *spec_json;       /* for the store: without registry credentials */
    const char *entrypoint_json; /* array */
    const char *metadata_json;   /* object, or NULL */
    char hash[PLAN_HASH_LEN + 1]; /* of the request, white space aside */
};

/* 0, or -1 with a 400 or 422. Does not ask the runtime. */
int plan_build(struct str body, const struct config *cfg, struct create_plan **ret,
               struct problem *p);
void plan_free(struct create_plan *plan); /* NULL is fine */

/* ---- parts, for tests ---- */
/* Memory and disk sizes: digits with b, k, kb, ki, m, mb, mi, ... in any case, or a quantity. */
int plan_parse_bytes(struct str s, uint64_t *ret);
/* resourceLimits: unknown names and values that make no sense are refused. */
int plan_limits(const struct str_map *m, struct runtime_limits *ret, struct problem *p);
/* volumes: names, paths and options; the allow-list goes along to the runtime. */
/* 400 for a rule that means nothing. */
int plan_policy_check(const struct network_policy *np, struct problem *p);
int plan_volumes(struct create_plan *plan, const struct config *cfg, struct problem *p);
/* Splits as a POSIX shell would, without expansions. 0, -EINVAL for an open quote. */
int plan_shell_split(struct arena *a, struct str s, struct str_list *ret);
