/* What the proxy answers by itself, and the life of what it asks upstream. */

#include "egress/resolver.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/must.h"
#include "base/rand.h"
#include "egress/limits.h"
#include "egress/resolver_internal.h"
#include "egress/ruleset.h"

/* ---- which questions are answered ---- */

/* Types that programs need to reach services. Everything else carries data, not addresses. */
static bool type_is_useful(uint16_t type)
{
    switch (type) {
    case DNS_A:
    case DNS_AAAA:
    case DNS_CNAME:
    case DNS_NS:
    case DNS_SOA:
    case DNS_PTR:
    case DNS_MX:
    case DNS_TXT:
    case DNS_SRV:
    case DNS_NAPTR:
    case DNS_DS:
    case DNS_DNSKEY:
    case DNS_SSHFP:
    case DNS_TLSA:
    case DNS_CAA:
        return true;
    default:
        return false;
    }
}

/* A wildcard lets whole subtrees through; names that are mostly payload are not what it is for. */
static bool is_tunnel_like(const struct policy_rule *rule, struct str name)
{
    size_t suffix = strlen(rule->name), labels = 1;
    struct str front = str_sub(name, 0, name.n > suffix + 1 ? name.n - suffix - 1 : 0);
    for (size_t i = 0; i < front.n; i++) {
        labels += front.p[i] == '.';
    }
    return front.n > DNS_BELOW_MAX_LEN || labels > DNS_BELOW_MAX_LABELS;
}

/* NULL: allowed; else why not. */
static const char *name_refused(const struct policy *p, struct str name)
{
    const struct policy_rule *rule = policy_find_name(p, name);
    bool exact = rule && !rule->wildcard;
    if (!policy_allows_name(p, name)) {
        return rule ? "denied by a rule" : "denied by default";
    }
    if (!exact && ruleset_is_doh_name(name) &&
        (p->fallback == POLICY_DENY || str_eq(name, STR("use-application-dns.net")))) {
        return "a resolver of its own";
    }
    if (rule && rule->wildcard && is_tunnel_like(rule, name)) {
        return "too long below a wildcard";
    }
    return NULL;
}

static bool type_answered_here(struct resolver *r, const struct dns_query *q,
                               enum dns_rcode *ret_rcode)
{
    char detail[32];
    if (q->cls == DNS_IN && (q->type == DNS_HTTPS || q->type == DNS_SVCB)) {
        /* No records: clients connect by name, in the open, without a key to hide it. */
        *ret_rcode = DNS_NOERROR;
        return true;
    }
    if (q->cls == DNS_IN && type_is_useful(q->type)) {
        return false;
    }
    (void)snprintf(detail, sizeof(detail), "class %u type %u", q->cls, q->type);
    if (q->cls == DNS_IN) {
        r->o.ops->refused(r->o.arg, "type", str_from(q->name), str_from(detail));
    }
    *ret_rcode = DNS_REFUSED;
    return true;
}

static void finish_edns(const struct dns_query *q, struct buf *out, size_t start)
{
    if (q->has_edns) {
        (void)dns_edns_write(out, start, DNS_UDP_MAX, q->wants_dnssec);
    }
}

/* Over UDP no more than the client can take; the rest is for TCP. */
void answer_fit(const struct dns_query *q, struct str query, bool is_udp, struct buf *out,
                size_t start)
{
    size_t max = is_udp ? MIN(q->udp_size, DNS_UDP_MAX) : DNS_MESSAGE_MAX;
    finish_edns(q, out, start);
    if (out->len - start > max) {
        uint16_t rcode = dns_u16(str_n(out->p + start, 4), 2) & DNS_RCODE;
        out->len = start;
        (void)dns_answer_write(out, query, q, rcode, DNS_TC | DNS_RA);
        finish_edns(q, out, start);
    }
}

int resolver_try(struct resolver *r, struct str query, bool is_udp, struct buf *out)
{
    struct dns_query *q = &r->parsed;
    enum dns_rcode rcode;
    size_t start = out->len;
    int v = query.n > DNS_MAX_QUERY ? DNS_FORMERR : dns_query_parse(query, q);
    if (query.n > DNS_MAX_QUERY) {
        *q = (struct dns_query){.id = dns_u16(query, 0), .flags = dns_u16(query, 2)};
    }
    if (v < 0) {
        return 0;
    }
    if (v == DNS_BADVERS) { /* the upper bits of the code are in the OPT record */
        (void)dns_answer_write(out, query, q, DNS_NOERROR, 0);
        (void)dns_edns_write(out, start, DNS_UDP_MAX, false);
        out->p[out->len - 6] = 1;
        return 1;
    }
    if (v > 0) {
        (void)dns_answer_write(out, query, q, (enum dns_rcode)v, 0);
        return 1;
    }
    const char *why = q->cls == DNS_IN ? name_refused(r->policy, str_from(q->name)) : NULL;
    if (why) {
        r->o.ops->refused(r->o.arg, "name", str_from(q->name), str_from(why));
        (void)dns_answer_write(out, query, q, DNS_NXDOMAIN, 0);
        return 1;
    }
    if (type_answered_here(r, q, &rcode)) {
        (void)dns_answer_write(out, query, q, rcode, DNS_RA);
        finish_edns(q, out, start);
        return 1;
    }
    if (dns_cache_get(&r->cache, query, q, io_now_ms(r->o.loop), out)) {
        answer_fit(q, query, is_udp, out, start);
        return 1;
    }
    return -EAGAIN;
}

/* ---- asking upstream ---- */

void flight_set_socket(struct flight *f, void *socket)
{
    f->socket = socket;
}

void *flight_socket(const struct flight *f)
{
    return f->socket;
}

uint16_t flight_id(const struct flight *f)
{
    return f->id;
}

static void flight_free(struct flight *f)
{
    struct resolver *r = f->resolver;
    r->o.ops->cancel(r->o.arg, f);
    io_timer_stop(&f->timer);
    list_del(&f->node);
    r->n_flights--;
    free(f->query);
    free(f);
}

void flight_end(struct flight *f, struct str answer)
{
    struct asker *a = f->asker;
    struct resolver *r = f->resolver;
    if (f->start_ms && a && !a->is_ours && r->o.ops->took) {
        r->o.ops->took(r->o.arg, io_now_ms(r->o.loop) - f->start_ms);
    }
    f->asker = NULL;
    flight_free(f);
    if (a) {
        a->flight = NULL;
        a->done(a, answer);
    }
}

void flight_fail(struct flight *f, enum dns_rcode rcode)
{
    cleanup_(buf_done) struct buf out = BUF_INIT(DNS_MESSAGE_MAX);
    (void)dns_answer_write(&out, str_n(f->query, f->query_len), &f->q, rcode, DNS_RA);
    finish_edns(&f->q, &out, 0);
    flight_end(f, buf_str(&out));
}

/* The next upstream that has not been tried, those that answer first. */
static int next_upstream(const struct flight *f)
{
    const struct resolver *r = f->resolver;
    for (int sick = 0; sick < 2; sick++) {
        for (size_t i = 0; i < r->o.n_upstreams; i++) {
            if (!(f->tried & 1u << i) && r->is_sick[i] == (sick == 1)) {
                return (int)i;
            }
        }
    }
    return -1;
}

static int flight_send(struct flight *f, bool tcp)
{
    struct resolver *r = f->resolver;
    cleanup_(buf_done) struct buf msg = BUF_INIT(DNS_MESSAGE_MAX);
    struct str question = str_sub(str_n(f->query, f->query_len), DNS_HEADER_LEN, f->q.question_end);
    f->id = (uint16_t)rand_u64();
    f->is_tcp = tcp;
    uint16_t flags = DNS_RD | (f->q.flags & DNS_CD);
    if (dns_query_write(&msg, f->id, flags, question, DNS_UDP_MAX, f->q.wants_dnssec) < 0) {
        return -ENOSPC;
    }
    io_timer_start(&f->timer,
                   f->is_probe ? MIN(DNS_PROBE_TIMEOUT_MS, r->o.timeout_ms) : r->o.timeout_ms);
    return r->o.ops->send(r->o.arg, f, &r->o.upstreams[f->upstream], tcp, buf_str(&msg));
}

static void probe_over(struct flight *f, bool answered)
{
    struct resolver *r = f->resolver;
    char text[IO_ADDR_TEXT_MAX];
    size_t i = f->upstream;
    if (!answered) {
        log_warn("[dns] upstream probe failed",
                 LOG_S("upstream", io_addr_format(&r->o.upstreams[i], text)));
    }
    r->is_sick[i] = !answered;
    flight_free(f);
}

void flight_next(struct flight *f)
{
    if (f->is_probe) {
        probe_over(f, false);
        return;
    }
    for (int i; (i = next_upstream(f)) >= 0;) {
        f->tried |= 1u << i;
        f->upstream = (size_t)i;
        if (flight_send(f, false) == 0) {
            return;
        }
    }
    flight_fail(f, DNS_SERVFAIL);
}

static void on_timeout(struct io_timer *t)
{
    struct flight *f = container_of(t, struct flight, timer);
    f->resolver->is_sick[f->upstream] = true; /* until it answers a probe */
    flight_next(f);
}

static struct flight *flight_new(struct resolver *r, struct str query)
{
    struct flight *f = NEW(struct flight);
    f->resolver = r;
    f->query = xmalloc(MAX(query.n, (size_t)1));
    memcpy(f->query, query.p, query.n);
    f->query_len = query.n;
    list_init(&f->node);
    list_push_back(&r->flights, &f->node);
    r->n_flights++;
    io_timer_init(&f->timer, r->o.loop, on_timeout);
    return f;
}

static void fail_now(struct resolver *r, struct str query, struct asker *a, enum dns_rcode rcode)
{
    struct flight *f = flight_new(r, query);
    (void)dns_query_parse(query, &f->q);
    f->asker = a;
    flight_fail(f, rcode);
}

/* A bucket of lookups that leave the sandbox: filled slowly, emptied by a tunnel. */
static bool take_token(struct resolver *r)
{
    uint64_t now = io_now_ms(r->o.loop);
    uint64_t add = (now - r->tokens_ms) * DNS_MISS_PER_S / 1000;
    if (add) {
        r->tokens = (unsigned)MIN(r->tokens + add, (uint64_t)DNS_MISS_BURST);
        r->tokens_ms = now;
    }
    if (!r->tokens) {
        return false;
    }
    r->tokens--;
    return true;
}

void resolver_ask(struct resolver *r, struct str query, struct asker *a)
{
    a->flight = NULL;
    if (!a->is_ours && !take_token(r)) {
        struct dns_query q;
        (void)dns_query_parse(query, &q);
        r->o.ops->refused(r->o.arg, "rate", str_from(q.name), STR("too many lookups"));
        fail_now(r, query, a, DNS_REFUSED);
        return;
    }
    if (!r->o.n_upstreams || r->n_flights >= DNS_MAX_FLIGHTS) {
        fail_now(r, query, a, DNS_SERVFAIL);
        return;
    }
    struct flight *f = flight_new(r, query);
    (void)dns_query_parse(query, &f->q);
    f->asker = a;
    f->start_ms = MAX(io_now_ms(r->o.loop), (uint64_t)1);
    a->flight = f;
    flight_next(f);
}

static size_t name_query(struct str name, uint16_t type, char out[DNS_MAX_QUERY])
{
    uint8_t wire[DNS_WIRE_NAME_MAX];
    int n = dns_name_format(name, wire);
    if (n < 0) {
        return 0;
    }
    memset(out, 0, DNS_HEADER_LEN);
    dns_put_u16(out + 2, DNS_RD);
    dns_put_u16(out + 4, 1);
    memcpy(out + DNS_HEADER_LEN, wire, (size_t)n);
    dns_put_u16(out + DNS_HEADER_LEN + n, type);
    dns_put_u16(out + DNS_HEADER_LEN + n + 2, DNS_IN);
    return DNS_HEADER_LEN + (size_t)n + 4;
}

void resolver_ask_name(struct resolver *r, struct str name, uint16_t type, struct asker *a)
{
    char query[DNS_MAX_QUERY] = {0};
    size_t n = name_query(name, type, query);
    a->is_ours = true;
    a->is_udp = false;
    if (!n) {
        n = name_query(STR("invalid"), type, query);
        fail_now(r, str_n(query, n), a, DNS_SERVFAIL);
        return;
    }
    resolver_ask(r, str_n(query, n), a);
}

bool resolver_first_addr(struct str answer, uint16_t port, struct io_addr *ret)
{
    struct dns_reader r;
    struct dns_record rec;
    struct ip ip;
    char text[IP_TEXT_MAX];
    if (dns_reader_init(&r, answer) < 0) {
        return false;
    }
    while (dns_reader_next(&r, &rec) > 0) {
        if (rec.section == DNS_ANSWER && dns_record_ip(answer, &rec, &ip) &&
            io_addr_ip(str_from(ip_format(&ip, text)), port, ret) == 0) {
            return true;
        }
    }
    return false;
}

void resolver_forget(struct resolver *r, struct asker *a)
{
    if (a->flight) {
        a->flight->asker = NULL;
        flight_free(a->flight);
        a->flight = NULL;
    }
}

void resolver_on_failure(struct resolver *r, struct flight *f)
{
    flight_next(f);
}

void resolver_on_answer(struct resolver *r, struct flight *f, struct str msg)
{
    struct dns_reader reader;
    struct str query = str_n(f->query, f->query_len);
    bool is_it = dns_reader_init(&reader, msg) == 0 && (reader.flags & DNS_QR) &&
                 reader.id == f->id &&
                 dns_same_question(query, f->q.question_end, msg, reader.question_end);
    if (!is_it) { /* somebody else's, or forged: over UDP the real one may still come */
        if (f->is_tcp) {
            flight_next(f);
        }
        return;
    }
    uint16_t rcode = reader.flags & DNS_RCODE;
    if (f->is_probe) {
        probe_over(f, true);
    } else if ((reader.flags & DNS_TC) && !f->is_tcp) {
        if (flight_send(f, true) < 0) {
            flight_next(f);
        }
    } else if (rcode != DNS_NOERROR && rcode != DNS_NXDOMAIN) {
        flight_next(f);
    } else {
        answer_take(f, msg);
    }
}

/* ---- life ---- */

static void on_probe(struct io_timer *t)
{
    struct resolver *r = container_of(t, struct resolver, probe);
    char query[DNS_MAX_QUERY];
    size_t n = r->o.probe_name ? name_query(str_trim(str_from(r->o.probe_name)), DNS_A, query)
                               : name_query(STR_NULL, DNS_NS, query);
    for (size_t i = 0; n && i < r->o.n_upstreams; i++) {
        struct flight *f = flight_new(r, str_n(query, n));
        (void)dns_query_parse(str_n(query, n), &f->q);
        f->is_probe = true;
        f->upstream = i;
        if (flight_send(f, false) < 0) {
            probe_over(f, false);
        }
    }
    io_timer_start(&r->probe, r->o.probe_ms);
}

struct resolver *resolver_new(const struct resolver_opts *o)
{
    struct resolver *r = NEW(struct resolver);
    r->o = *o;
    r->tokens = DNS_MISS_BURST;
    r->tokens_ms = io_now_ms(o->loop);
    list_init(&r->flights);
    dns_cache_init(&r->cache);
    io_timer_init(&r->probe, o->loop, on_probe);
    if (o->probe_ms && o->n_upstreams) {
        io_timer_start(&r->probe, 1);
    }
    return r;
}

void resolver_free(struct resolver *r)
{
    if (!r) {
        return;
    }
    io_timer_stop(&r->probe);
    while (!list_empty(&r->flights)) {
        flight_free(list_entry(list_first(&r->flights), struct flight, node));
    }
    dns_cache_done(&r->cache);
    free(r);
}

void resolver_set_policy(struct resolver *r, const struct policy *p)
{
    r->policy = p;
    dns_cache_flush(&r->cache);
}
