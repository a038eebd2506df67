/* Applying policies to the kernel. */

#include "egress/enforcer.h"

#include <unistd.h>

#include "base/cleanup.h"
#include "base/codec.h"
#include "base/log.h"
#include "base/must.h"
#include "base/num.h"
#include "base/rand.h"
#include "base/sha256.h"
#include "egress/egress.h"
#include "egress/learned.h"
#include "egress/limits.h"
#include "egress/nft.h"
#include "egress/packets.h"
#include "egress/restore.h"
#include "egress/ruleset.h"

struct enforcer {
    struct egress *g;
    struct nft *nft;
    struct packets *packets; /* NULL: refused packets are not told */
    struct learned learned;
    uint32_t mark, generation;
    uint32_t old_generation; /* of the worker before us; 0: there was none */
    char old_digest[RESTORE_DIGEST_LEN + 1];
    uint16_t ports[EGRESS_MAX_REDIRECTS];
    size_t n_ports;
    uint64_t n_updates;
    uint16_t listen_port;
};

/* The worker before us may have died with connections open that are allowed. */
static void take_over(struct enforcer *f)
{
    static const char *const sets[] = {"learned_v4", "learned_v6", "kept_v4", "kept_v6"};
    cleanup_(buf_done) struct buf text = BUF_INIT(EGRESS_MAX_SCRIPT);
    struct err e = {0};
    size_t n = 0;
    if (nft_ask(f->nft, "list chain inet " EGRESS_TABLE " pass", &text, &e) < 0 ||
        !restore_generation(buf_str(&text), &f->old_generation, f->old_digest)) {
        return; /* the first one here */
    }
    for (size_t i = 0; i < ARRAY_LEN(sets); i++) {
        char ask[64];
        (void)snprintf(ask, sizeof(ask), "list set inet " EGRESS_TABLE " %s", sets[i]);
        buf_clear(&text);
        if (nft_ask(f->nft, ask, &text, &e) == 0) {
            n += restore_addresses(&f->learned, buf_str(&text), io_now_ms(f->g->loop));
        }
    }
    log_info("rules of an earlier worker are taken over", LOG_I("addresses", n));
}

struct enforcer *enforcer_new(struct egress *g, struct err *e)
{
    struct enforcer *f = NEW(struct enforcer);
    f->g = g;
    f->mark = (uint32_t)rand_below(UINT32_MAX - 1) + 1;
    learned_init(&f->learned, EGRESS_MAX_LEARNED);
    f->nft = nft_new(e);
    if (!f->nft) {
        enforcer_free(f);
        return NULL;
    }
    if (g->cfg.nft) {
        take_over(f);
    }
    struct err why = {0};
    f->packets = g->cfg.nft ? packets_new(g, &why) : NULL;
    if (g->cfg.nft && !f->packets) {
        log_warn("refused packets will be counted but not listed", LOG_ERR(&why));
    }
    return f;
}

void enforcer_free(struct enforcer *f)
{
    if (f) {
        packets_free(f->packets);
        nft_free(f->nft);
        learned_done(&f->learned);
        free(f);
    }
}

uint32_t enforcer_mark(const struct enforcer *f)
{
    return f->mark;
}

static bool still_allowed(struct str name, void *arg)
{
    return policy_allows_name(arg, name);
}

/* Of all that decides about a connection: the policy with its names, and the rules without what is
 * ours, what was learned, and the ports of the interceptor, which come only after the first rules.
 */
static int digest_of(const struct ruleset *rules, char out[RESTORE_DIGEST_LEN + 1], struct err *e)
{
    cleanup_(buf_done) struct buf text = BUF_INIT(EGRESS_MAX_SCRIPT);
    struct ruleset r = *rules;
    r.generation = r.mark = 0;
    r.learned = NULL;
    r.digest = NULL;
    r.is_there = false;
    r.n_ports = 0;
    if (ruleset_format(&r, &text, e) < 0 || policy_format(r.policy, &text, 0) < 0 ||
        buf_printf(&text, "%d", r.cfg->intercept) < 0) {
        return e->code ? -1 : err_set(e, ERR_LIMIT, "the packet rules are too long");
    }
    struct sha256 hash;
    uint8_t sum[SHA256_LEN];
    cleanup_(buf_done) struct buf hex = BUF_INIT(2 * SHA256_LEN);
    sha256_init(&hash);
    sha256_add(&hash, buf_str(&text));
    sha256_done(&hash, sum);
    (void)hex_encode(&hex, sum, RESTORE_DIGEST_LEN / 2);
    return str_to_cstr(buf_str(&hex), out, RESTORE_DIGEST_LEN + 1);
}

static int rules_load(struct enforcer *f, const struct policy *p, struct err *e)
{
    cleanup_(buf_done) struct buf text = BUF_INIT(EGRESS_MAX_SCRIPT);
    const struct egress_config *c = &f->g->cfg;
    char digest[RESTORE_DIGEST_LEN + 1];
    struct ruleset r = {
        .cfg = c,
        .policy = p,
        .learned = &f->learned,
        .now_ms = io_now_ms(f->g->loop),
        .mark = f->mark,
        .uid = c->uid ? c->uid : geteuid(),
        .dns_port = EGRESS_DNS_PORT,
        .listen_port = f->listen_port,
        .ports = f->ports,
        .n_ports = f->n_ports,
        .can_log = f->packets != NULL,
    };
    if (digest_of(&r, digest, e) < 0) {
        return -1;
    }
    r.digest = digest;
    /* What the worker before us let through under this very policy need not be judged again. */
    bool same = !f->g->is_ready && f->old_generation && strcmp(digest, f->old_digest) == 0;
    r.generation = same ? f->old_generation : (uint32_t)rand_below(UINT32_MAX - 1) + 1;
    r.is_there = f->generation || same;
    if (ruleset_format(&r, &text, e) < 0) {
        return -1;
    }
    int done = nft_run(f->nft, buf_cstr(&text), e);
    if (done < 0 && r.is_there) { /* somebody took it away, or the kernel is too old for that */
        log_warn("the packet rules are made anew", LOG_ERR(e));
        *e = (struct err){0};
        buf_clear(&text);
        r.is_there = false;
        done = ruleset_format(&r, &text, e) < 0 ? -1 : nft_run(f->nft, buf_cstr(&text), e);
    }
    if (done < 0) {
        return -1;
    }
    f->n_updates++;
    f->generation = r.generation;
    return 0;
}

int enforcer_apply(struct enforcer *f, const struct policy *p, struct err *e)
{
    /* A name that is allowed again later must be asked for again: nothing is lost by forgetting
     * before the rules are in force, even if they then cannot be. */
    union {
        const struct policy *in;
        void *out;
    } arg = {.in = p};
    learned_filter(&f->learned, still_allowed, arg.out);
    return rules_load(f, p, e);
}

int enforcer_learn(struct enforcer *f, struct str name, const struct ip *ips, size_t n,
                   uint32_t ttl_s, struct err *e)
{
    uint32_t timeout_s = learned_timeout_s(ttl_s);
    uint64_t now = io_now_ms(f->g->loop);
    cleanup_(buf_done) struct buf text = BUF_INIT(EGRESS_MAX_SCRIPT);
    bool made_room = false;
    for (size_t i = 0; i < n; i++) {
        struct ip dropped;
        enum learned_change c = learned_add(&f->learned, &ips[i], name, now,
                                            now + (uint64_t)timeout_s * 1000, &dropped);
        if (dropped.family) {
            log_warn("an address made room for another", LOG_I("limit", EGRESS_MAX_LEARNED));
            ruleset_forget(&text, &dropped);
            made_room = true;
        }
        if (c == LEARNED_NEW) {
            ruleset_learn(&text, learned_find(&f->learned, &ips[i]), timeout_s);
        }
    }
    if (f->g->cfg.nft && text.len && nft_run(f->nft, buf_cstr(&text), e) < 0) {
        return -1;
    }
    f->n_updates += text.len > 0;
    return made_room ? 1 : 0;
}

bool enforcer_knows(const struct enforcer *f, const struct ip *ip, struct str name)
{
    return learned_is_of(&f->learned, ip, name, io_now_ms(f->g->loop));
}

static bool allows_after(const struct enforcer *f, const struct policy *p, const struct ip *ip,
                         uint64_t time_ms)
{
    enum policy_verdict v = policy_check_ip(p, ip);
    const struct learned_addr *a = learned_find(&f->learned, ip);
    if (v != POLICY_BY_DEFAULT) {
        return v == POLICY_ALLOWED;
    }
    return p->fallback == POLICY_ALLOW || (a && a->expires_ms > time_ms);
}

bool enforcer_allows(const struct enforcer *f, const struct policy *p, const struct ip *ip)
{
    return allows_after(f, p, ip, io_now_ms(f->g->loop));
}

bool enforcer_keeps(const struct enforcer *f, const struct policy *p, const struct ip *ip)
{
    return allows_after(f, p, ip, 0);
}

struct other {
    const struct enforcer *f;
    const struct policy *p;
};

/* No less strict than the packet rules, which our own connections pass by: those refuse addresses
 * of the gateway itself and of resolvers too. */
static bool other_may(const struct ip *ip, struct str name, void *arg)
{
    const struct other *o = arg;
    return policy_allows_name(o->p, name) && enforcer_allows(o->f, o->p, ip) &&
           !ip_is_internal(ip) && !ruleset_is_doh_ip(&o->f->g->cfg, ip);
}

bool enforcer_other(const struct enforcer *f, const struct policy *p, const struct ip *ip,
                    struct str name, struct ip *ret)
{
    struct other o = {f, p};
    return learned_other(&f->learned, ip, name, io_now_ms(f->g->loop), other_may, &o, ret);
}

int enforcer_redirect(struct enforcer *f, const uint16_t *ports, size_t n, uint16_t listen_port,
                      struct err *e)
{
    if (n > EGRESS_MAX_REDIRECTS) {
        return err_set(e, ERR_LIMIT, "at most %d ports can be intercepted", EGRESS_MAX_REDIRECTS);
    }
    struct enforcer old = *f;
    memcpy(f->ports, ports ? ports : f->ports, n * sizeof(*ports));
    f->n_ports = n;
    f->listen_port = listen_port;
    if (f->generation && rules_load(f, egress_policy(f->g), e) < 0) {
        memcpy(f->ports, old.ports, sizeof(f->ports));
        f->n_ports = old.n_ports;
        f->listen_port = old.listen_port;
        return -1;
    }
    return 0;
}

void enforcer_rest(struct enforcer *f)
{
    nft_rest(f->nft);
}

int enforcer_verify(struct enforcer *f, struct err *e)
{
    cleanup_(buf_done) struct buf text = BUF_INIT(64u << 10);
    char want[32];
    const char *chain = f->g->cfg.nft      ? "list chain inet " EGRESS_TABLE " pass"
                        : f->g->cfg.inside ? "list chain inet " EGRESS_TABLE " nat_in"
                                           : "list chain inet " EGRESS_TABLE " nat_out";
    if (nft_ask(f->nft, chain, &text, e) < 0) {
        return -1;
    }
    (void)snprintf(want, sizeof(want), f->g->cfg.nft ? "0x%08x" : "redirect to :%u",
                   f->g->cfg.nft ? f->generation : EGRESS_DNS_PORT);
    if (str_find_str(buf_str(&text), str_from(want)) < 0) {
        return err_set(e, ERR_IO, "the packet rules are not ours any more");
    }
    return 0;
}

uint64_t enforcer_updates(const struct enforcer *f)
{
    return f->n_updates;
}

uint64_t enforcer_take_untold(struct enforcer *f)
{
    cleanup_(buf_done) struct buf text = BUF_INIT(64u << 10);
    struct err e = {0};
    uint64_t n = 0;
    if (nft_ask(f->nft, "reset counter inet " EGRESS_TABLE " untold", &text, &e) < 0) {
        log_warn("the refused packets cannot be counted", LOG_ERR(&e));
        return 0;
    }
    ptrdiff_t at = str_find_str(buf_str(&text), STR("packets "));
    struct str rest = at < 0 ? STR_NULL : str_sub(buf_str(&text), (size_t)at + 8, text.len);
    return parse_u64(str_cut(&rest, ' '), &n) < 0 ? 0 : n;
}
