/* Conversations with the DNS proxy, replayed with a clock of our own and no sockets. */

#include "egress/resolver.h"

#include <errno.h>

#include "../test.h"
#include "base/cleanup.h"
#include "egress/limits.h"
#include "net/dns.h"

struct world {
    struct io_loop *loop;
    struct resolver *r;
    struct policy *policy;
    struct flight *flight; /* the latest that was sent */
    int upstream, n_sent;
    bool tcp;
    char sent[2048];
    size_t sent_len;
    int n_learned, n_refused;
    uint32_t ttl;
    char kind[16];
    int rcode, n_done;
    uint16_t flags;
    size_t answer_len;
    struct asker asker;
};

static const struct io_addr upstreams[2];

static int on_send(void *arg, struct flight *f, const struct io_addr *to, bool tcp, struct str msg)
{
    struct world *w = arg;
    w->flight = f;
    w->upstream = (int)(to - upstreams);
    w->tcp = tcp;
    w->n_sent++;
    w->sent_len = msg.n;
    memcpy(w->sent, msg.p, msg.n);
    return 0;
}

static void on_cancel(void *arg, struct flight *f)
{
    struct world *w = arg;
    w->flight = w->flight == f ? NULL : w->flight;
}

static int on_learn(void *arg, struct str name, const struct ip *ips, size_t n, uint32_t ttl_s)
{
    struct world *w = arg;
    w->n_learned += (int)n;
    w->ttl = ttl_s;
    return 0;
}

static void on_refused(void *arg, const char *kind, struct str name, struct str detail)
{
    struct world *w = arg;
    w->n_refused++;
    (void)snprintf(w->kind, sizeof(w->kind), "%s", kind);
}

static void on_resolved(void *arg, struct str name, const struct ip *ips, size_t n)
{
}

static const struct resolver_ops ops = {on_send, on_cancel, on_learn, on_refused, on_resolved};

static void on_done(struct asker *a, struct str answer)
{
    struct world *w = container_of(a, struct world, asker);
    w->n_done++;
    w->flags = dns_u16(answer, 2);
    w->rcode = w->flags & DNS_RCODE;
    w->answer_len = answer.n;
}

static int setup(void **state)
{
    struct world *w = NEW(struct world);
    struct err e = {0};
    w->loop = io_loop_new();
    io_clock_fake(w->loop);
    w->policy = policy_parse(STR("{\"egress\":[{\"action\":\"allow\",\"target\":\"*.good.test\"},"
                                 "{\"action\":\"deny\",\"target\":\"evil.test\"},"
                                 "{\"action\":\"allow\",\"target\":\"192.168.7.0/24\"}]}"),
                             &e);
    struct resolver_opts o = {.loop = w->loop,
                              .upstreams = upstreams,
                              .n_upstreams = 2,
                              .timeout_ms = 5000,
                              .ops = &ops,
                              .arg = w};
    w->r = resolver_new(&o);
    resolver_set_policy(w->r, w->policy);
    w->asker.done = on_done;
    w->asker.is_udp = true;
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    resolver_free(w->r);
    policy_free(w->policy);
    io_loop_free(w->loop);
    free(w);
    return 0;
}

static struct buf query(const char *name, uint16_t type)
{
    struct buf b = BUF_INIT(2048);
    uint8_t wire[DNS_WIRE_NAME_MAX];
    char head[DNS_HEADER_LEN] = {0x12, 0x34, 0x01, 0, 0, 1}, tail[4];
    int n = dns_name_format(str_from(name), wire);
    dns_put_u16(tail, type);
    dns_put_u16(tail + 2, DNS_IN);
    (void)buf_add(&b, head, sizeof(head));
    (void)buf_add(&b, wire, (size_t)n);
    (void)buf_add(&b, tail, sizeof(tail));
    return b;
}

/* 1: answered at once; -EAGAIN: asked upstream. */
static int ask(struct world *w, const char *name, uint16_t type)
{
    cleanup_(buf_done) struct buf q = query(name, type);
    cleanup_(buf_done) struct buf out = BUF_INIT(1u << 17);
    int r = resolver_try(w->r, buf_str(&q), true, &out);
    if (r > 0) {
        w->flags = dns_u16(buf_str(&out), 2);
        w->rcode = w->flags & DNS_RCODE;
        w->answer_len = out.len;
    } else if (r < 0) {
        resolver_ask(w->r, buf_str(&q), &w->asker);
    }
    return r;
}

struct rr {
    const char *name;
    uint16_t type;
    uint32_t ttl;
    const char *value; /* an address or a name */
};

static void put_rr(struct buf *b, const struct rr *rr)
{
    uint8_t wire[DNS_WIRE_NAME_MAX], data[DNS_WIRE_NAME_MAX];
    char head[10];
    int n = dns_name_format(str_from(rr->name), wire);
    struct ip ip;
    int len;
    if (rr->type == DNS_CNAME) {
        len = dns_name_format(str_from(rr->value), data);
    } else {
        assert_int_equal(ip_parse(str_from(rr->value), &ip), 0);
        len = rr->type == DNS_A ? 4 : 16;
        memcpy(data, ip.b, (size_t)len);
    }
    dns_put_u16(head, rr->type);
    dns_put_u16(head + 2, DNS_IN);
    dns_put_u32(head + 4, rr->ttl);
    dns_put_u16(head + 8, (uint16_t)len);
    (void)buf_add(b, wire, (size_t)n);
    (void)buf_add(b, head, sizeof(head));
    (void)buf_add(b, data, (size_t)len);
}

static void reply(struct world *w, uint16_t flags, const struct rr *rrs, size_t n)
{
    cleanup_(buf_done) struct buf b = BUF_INIT(1u << 16);
    struct dns_query q;
    assert_non_null(w->flight);
    assert_int_equal(dns_query_parse(str_n(w->sent, w->sent_len), &q), 0);
    (void)buf_add(&b, w->sent, q.question_end);
    dns_put_u16(b.p + 2, (uint16_t)(DNS_QR | DNS_RA | flags));
    dns_put_u16(b.p + 6, (uint16_t)n);
    dns_put_u16(b.p + 10, 0);
    for (size_t i = 0; i < n; i++) {
        put_rr(&b, &rrs[i]);
    }
    resolver_on_answer(w->r, w->flight, buf_str(&b));
}

static void answered_learned_cached(void **state)
{
    struct world *w = *state;
    struct rr a[] = {{"www.good.test", DNS_A, 100, "198.51.100.1"},
                     {"www.good.test", DNS_A, 90, "198.51.100.2"}};
    assert_int_equal(ask(w, "www.good.test", DNS_A), -EAGAIN);
    reply(w, 0, a, 2);
    assert_int_equal(w->n_done, 1);
    assert_int_equal(w->rcode, DNS_NOERROR);
    assert_int_equal(w->n_learned, 2);
    assert_int_equal(w->ttl, 90);
    io_clock_advance(w->loop, 89000);
    assert_int_equal(ask(w, "WWW.good.test", DNS_A), 1);
    io_clock_advance(w->loop, 2000);
    assert_int_equal(ask(w, "www.good.test", DNS_A), -EAGAIN);
    assert_int_equal(w->n_sent, 2);
}

static void long_lives_are_cut(void **state)
{
    struct world *w = *state;
    struct rr a = {"www.good.test", DNS_A, 86400, "198.51.100.1"};
    (void)ask(w, "www.good.test", DNS_A);
    reply(w, 0, &a, 1);
    assert_int_equal(w->ttl, EGRESS_TTL_MAX_S);
}

static void denied_is_not_sent(void **state)
{
    struct world *w = *state;
    assert_int_equal(ask(w, "evil.test", DNS_A), 1);
    assert_int_equal(w->rcode, DNS_NXDOMAIN);
    assert_int_equal(w->flags & (DNS_AA | DNS_RA), 0);
    assert_int_equal(ask(w, "good.test", DNS_TXT), 1);
    assert_int_equal(ask(w, "dns.google", DNS_A), 1);
    assert_int_equal(w->n_sent, 0);
    assert_int_equal(w->n_refused, 3);
}

static void fails_over_and_remembers(void **state)
{
    struct world *w = *state;
    struct rr a = {"a.good.test", DNS_A, 60, "198.51.100.1"};
    (void)ask(w, "a.good.test", DNS_A);
    assert_int_equal(w->upstream, 0);
    io_clock_advance(w->loop, 5001);
    assert_int_equal(w->upstream, 1);
    reply(w, 0, &a, 1);
    assert_int_equal(w->rcode, DNS_NOERROR);
    (void)ask(w, "b.good.test", DNS_A); /* the silent one is asked last now */
    assert_int_equal(w->upstream, 1);
    reply(w, DNS_SERVFAIL, NULL, 0);
    assert_int_equal(w->upstream, 0);
    io_clock_advance(w->loop, 5001);
    assert_int_equal(w->n_done, 2);
    assert_int_equal(w->rcode, DNS_SERVFAIL);
}

static void truncated_goes_over_tcp(void **state)
{
    struct world *w = *state;
    struct rr a = {"a.good.test", DNS_A, 60, "198.51.100.1"};
    (void)ask(w, "a.good.test", DNS_A);
    reply(w, DNS_TC, NULL, 0);
    assert_true(w->tcp);
    assert_int_equal(w->upstream, 0);
    reply(w, 0, &a, 1);
    assert_int_equal(w->n_learned, 1);
}

static void forged_answers_are_waited_out(void **state)
{
    struct world *w = *state;
    struct rr a = {"a.good.test", DNS_A, 60, "198.51.100.1"};
    (void)ask(w, "a.good.test", DNS_A);
    w->sent[0] ^= 1;
    reply(w, 0, &a, 1);
    assert_int_equal(w->n_done, 0);
    w->sent[0] ^= 1;
    w->sent[DNS_HEADER_LEN + 1] = 'b';
    reply(w, 0, &a, 1);
    assert_int_equal(w->n_done, 0);
    w->sent[DNS_HEADER_LEN + 1] = 'a';
    reply(w, 0, &a, 1);
    assert_int_equal(w->n_done, 1);
}

static void rebinding_and_aliases(void **state)
{
    struct world *w = *state;
    struct rr inner = {"a.good.test", DNS_A, 60, "10.0.0.1"};
    struct rr allowed = {"b.good.test", DNS_A, 60, "192.168.7.9"};
    struct rr trap[] = {{"c.good.test", DNS_CNAME, 60, "evil.test"},
                        {"evil.test", DNS_A, 60, "198.51.100.9"}};
    struct rr stray[] = {{"d.good.test", DNS_A, 60, "198.51.100.9"},
                         {"bank.test", DNS_A, 60, "198.51.100.8"}};
    struct rr shuffled[] = {{"y.test", DNS_A, 60, "198.51.100.7"},
                            {"x.test", DNS_CNAME, 60, "y.test"},
                            {"e.good.test", DNS_CNAME, 60, "x.test"}};
    struct rr loop[] = {{"f.good.test", DNS_CNAME, 60, "f.good.test"}};
    (void)ask(w, "a.good.test", DNS_A);
    reply(w, 0, &inner, 1);
    assert_int_equal(w->rcode, DNS_NXDOMAIN);
    assert_string_equal(w->kind, "rebinding");
    (void)ask(w, "b.good.test", DNS_A);
    reply(w, 0, &allowed, 1);
    assert_int_equal(w->n_learned, 1);
    (void)ask(w, "c.good.test", DNS_A);
    reply(w, 0, trap, 2);
    assert_int_equal(w->rcode, DNS_NXDOMAIN);
    (void)ask(w, "d.good.test", DNS_A);
    reply(w, 0, stray, 2); /* not believed: the other upstream is asked */
    reply(w, 0, stray, 2);
    assert_int_equal(w->rcode, DNS_SERVFAIL);
    assert_int_equal(w->n_learned, 1);
    (void)ask(w, "e.good.test", DNS_A);
    reply(w, 0, shuffled, 3);
    assert_int_equal(w->n_learned, 2);
    (void)ask(w, "f.good.test", DNS_A);
    reply(w, 0, loop, 1);
    reply(w, 0, loop, 1);
    assert_int_equal(w->rcode, DNS_SERVFAIL);
}

static void a_flood_is_stopped(void **state)
{
    struct world *w = *state;
    char name[64];
    const struct rr *none = NULL;
    for (unsigned i = 0; i < DNS_MISS_BURST + 5; i++) {
        (void)snprintf(name, sizeof(name), "n%u.good.test", i);
        (void)ask(w, name, DNS_A);
        if (w->flight) {
            reply(w, DNS_NXDOMAIN, none, 0);
        }
    }
    assert_int_equal(w->n_sent, DNS_MISS_BURST);
    assert_int_equal(w->rcode, DNS_REFUSED);
    assert_string_equal(w->kind, "rate");
    io_clock_advance(w->loop, 1000);
    (void)ask(w, "later.good.test", DNS_A);
    assert_int_equal(w->n_sent, DNS_MISS_BURST + 1);
}

static void a_policy_change_on_the_way(void **state)
{
    struct world *w = *state;
    struct rr a = {"a.good.test", DNS_A, 60, "198.51.100.1"};
    struct policy *closed = policy_deny_all();
    (void)ask(w, "a.good.test", DNS_A);
    resolver_set_policy(w->r, closed);
    reply(w, 0, &a, 1);
    assert_int_equal(w->rcode, DNS_NXDOMAIN);
    assert_int_equal(w->n_learned, 0);
    policy_free(w->policy);
    w->policy = closed;
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(answered_learned_cached),    TEST(long_lives_are_cut),
        TEST(denied_is_not_sent),         TEST(fails_over_and_remembers),
        TEST(truncated_goes_over_tcp),    TEST(forged_answers_are_waited_out),
        TEST(rebinding_and_aliases),      TEST(a_flood_is_stopped),
        TEST(a_policy_change_on_the_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
