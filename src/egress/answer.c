/* What of an upstream's answer is believed.
 *
 * Only addresses at the end of the chain that begins with the question count. Their names must not
 * be denied by a rule, and addresses of internal networks are refused unless a rule for addresses
 * allows them: otherwise whoever runs a name server could open the way to the machine's own
 * network. The additional section is dropped, so are records of other classes. */

#include "base/cleanup.h"
#include "base/must.h"
#include "egress/limits.h"
#include "egress/resolver_internal.h"

struct findings {
    char (*chain)[DNS_TEXT_MAX];
    size_t n_chain;
    struct ip ips[DNS_MAX_ADDRESSES];
    size_t n_ips;
    uint32_t ttl; /* the least of all answers; of the SOA when there are none */
    bool has_answers;
    size_t additional; /* where it begins */
};

/* Follows CNAMEs in whatever order they come. -1: endless or malformed. */
static int chain_follow(struct str msg, struct findings *f)
{
    for (bool found = true; found;) {
        struct dns_reader r;
        struct dns_record rec;
        int more = dns_reader_init(&r, msg);
        found = false;
        while (!found && more == 0 && (more = dns_reader_next(&r, &rec)) > 0) {
            more = 0;
            if (rec.section != DNS_ANSWER || rec.type != DNS_CNAME || rec.cls != DNS_IN ||
                strcmp(rec.name, f->chain[f->n_chain - 1]) != 0) {
                continue;
            }
            if (f->n_chain >= DNS_MAX_CHAIN ||
                dns_record_target(msg, &rec, f->chain[f->n_chain]) < 0) {
                return -1;
            }
            f->n_chain++;
            found = true;
        }
        if (more < 0) {
            return -1;
        }
    }
    return 0;
}

static bool in_chain(const struct findings *f, const char *name)
{
    for (size_t i = 0; i < f->n_chain; i++) {
        if (strcmp(f->chain[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static int record_take(struct str msg, const struct dns_record *rec, struct findings *f)
{
    struct ip ip;
    if (rec->section == DNS_ANSWER) {
        f->has_answers = true;
        f->ttl = MIN(f->ttl, rec->ttl);
        if (dns_record_ip(msg, rec, &ip)) {
            if (!in_chain(f, rec->name) || f->n_ips >= DNS_MAX_ADDRESSES) {
                return -1;
            }
            f->ips[f->n_ips++] = ip;
        }
    } else if (rec->section == DNS_AUTHORITY && rec->type == DNS_SOA && rec->rdata_len >= 20) {
        uint32_t minimum = dns_u32(msg, rec->rdata_at + rec->rdata_len - 4u);
        f->ttl = f->has_answers ? f->ttl : MIN(rec->ttl, minimum);
    }
    return 0;
}

static int answer_read(struct str msg, struct findings *f)
{
    struct dns_reader r;
    struct dns_record rec;
    int more;
    if (dns_reader_init(&r, msg) < 0 || chain_follow(msg, f) < 0) {
        return -1;
    }
    f->ttl = UINT32_MAX;
    f->additional = r.at;
    while ((more = dns_reader_next(&r, &rec)) > 0) {
        if (rec.section != DNS_ADDITIONAL) {
            f->additional = r.at;
        }
        if (record_take(msg, &rec, f) < 0) {
            return -1;
        }
    }
    f->ttl = f->ttl == UINT32_MAX ? 0 : f->ttl;
    return more;
}

/* NULL: fine; else the kind of refusal. *ret_what is what is refused. */
static const char *answer_refused(const struct resolver *r, const struct findings *f,
                                  char ret_what[DNS_TEXT_MAX])
{
    for (size_t i = 1; i < f->n_chain; i++) {
        const struct policy_rule *rule = policy_find_name(r->policy, str_from(f->chain[i]));
        if (rule && rule->action == POLICY_DENY) {
            (void)snprintf(ret_what, DNS_TEXT_MAX, "alias of %s", f->chain[i]);
            return "name";
        }
    }
    for (size_t i = 0; i < f->n_ips; i++) {
        enum policy_verdict v = policy_check_ip(r->policy, &f->ips[i]);
        bool open =
            v == POLICY_ALLOWED || (v == POLICY_BY_DEFAULT && r->policy->fallback == POLICY_ALLOW);
        if (ip_is_internal(&f->ips[i]) && !open) {
            char text[IP_TEXT_MAX];
            (void)snprintf(ret_what, DNS_TEXT_MAX, "resolves to %s", ip_format(&f->ips[i], text));
            return "rebinding";
        }
    }
    return NULL;
}

/* The answer as clients get it: our header, no additional section, lives that do not outlast the
 * addresses' own. */
static void answer_rewrite(const struct flight *f, struct str msg, const struct findings *found,
                           struct buf *out)
{
    struct dns_reader r;
    struct dns_record rec;
    uint16_t flags = dns_u16(msg, 2);
    (void)buf_add_str(out, str_sub(msg, 0, found->additional));
    dns_put_u16(out->p, f->q.id);
    dns_put_u16(out->p + 2, (uint16_t)(DNS_QR | DNS_RA | (f->q.flags & (DNS_RD | DNS_CD)) |
                                       (flags & (DNS_AD | DNS_RCODE))));
    dns_put_u16(out->p + 10, 0);
    memcpy(out->p + DNS_HEADER_LEN, f->query + DNS_HEADER_LEN, f->q.question_end - DNS_HEADER_LEN);
    if (dns_reader_init(&r, buf_str(out)) == 0) {
        while (dns_reader_next(&r, &rec) > 0) {
            dns_put_u32(out->p + rec.ttl_at, MIN(rec.ttl, EGRESS_TTL_MAX_S));
        }
    }
}

static void answer_deliver(struct flight *f, struct str msg, const struct findings *found)
{
    struct resolver *r = f->resolver;
    cleanup_(buf_done) struct buf out = BUF_INIT(2u * DNS_MESSAGE_MAX);
    struct str query = str_n(f->query, f->query_len);
    bool ours = f->asker && f->asker->is_ours;
    uint32_t ttl = MIN(found->ttl, EGRESS_TTL_MAX_S);
    if (found->n_ips && !ours) {
        int learned = r->o.ops->learn(r->o.arg, str_from(f->q.name), found->ips, found->n_ips, ttl);
        if (learned < 0) {
            flight_fail(f, DNS_SERVFAIL);
            return;
        }
        if (learned > 0) { /* answers whose address had to go must not be given again */
            dns_cache_flush(&r->cache);
        }
    }
    answer_rewrite(f, msg, found, &out);
    if (!ours) {
        dns_cache_put(&r->cache, query, &f->q, buf_str(&out), ttl, io_now_ms(r->o.loop));
        r->o.ops->resolved(r->o.arg, str_from(f->q.name), found->ips, found->n_ips);
    }
    answer_fit(&f->q, query, f->asker && f->asker->is_udp, &out, 0);
    flight_end(f, buf_str(&out));
}

void answer_take(struct flight *f, struct str msg)
{
    struct resolver *r = f->resolver;
    char what[DNS_TEXT_MAX];
    const char *kind = NULL;
    struct findings *found = NEW(struct findings);
    found->chain = xcalloc(DNS_MAX_CHAIN, sizeof(*found->chain));
    (void)snprintf(found->chain[0], DNS_TEXT_MAX, "%s", f->q.name);
    found->n_chain = 1;
    int v = answer_read(msg, found);
    bool judged = v == 0 && !(f->asker && f->asker->is_ours);
    /* The policy may have changed while the question was on its way. */
    if (judged && !policy_allows_name(r->policy, str_from(f->q.name))) {
        kind = "name";
        (void)snprintf(what, sizeof(what), "denied meanwhile");
    } else if (judged) {
        kind = answer_refused(r, found, what);
    }
    if (v < 0) {
        flight_next(f);
    } else if (kind) {
        r->o.ops->refused(r->o.arg, kind, str_from(f->q.name), str_from(what));
        flight_fail(f, DNS_NXDOMAIN);
    } else {
        answer_deliver(f, msg, found);
    }
    free(found->chain);
    free(found);
}
