/* What the kernel's logger reports: packets of both families, cut short at every byte. */

#include "egress/nflog.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>
#include <netinet/in.h>

#include "../test.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/must.h"

struct seen {
    size_t n;
    struct nflog_packet last;
    char to[NFLOG_TEXT_MAX], from[NFLOG_TEXT_MAX], prefix[16];
};

static void on_packet(const struct nflog_packet *p, void *arg)
{
    struct seen *s = arg;
    s->n++;
    s->last = *p;
    (void)nflog_target(p, s->to);
    (void)nflog_source(p, s->from);
    assert_int_equal(str_to_cstr(p->prefix, s->prefix, sizeof(s->prefix)), 0);
}

static void attr(struct buf *b, uint16_t type, const void *p, size_t n)
{
    struct nlattr a = {.nla_len = (uint16_t)(NLA_HDRLEN + n), .nla_type = type};
    (void)buf_add(b, &a, sizeof(a));
    (void)buf_add(b, p, n);
    while (b->len % 4) {
        (void)buf_add_char(b, 0);
    }
}

/* A message with one packet; prefix NULL: none. */
static void message(struct buf *b, const uint8_t *packet, size_t n, const char *prefix,
                    uint32_t seq)
{
    cleanup_(buf_done) struct buf body = BUF_INIT(4096);
    struct nfgenmsg g = {.version = NFNETLINK_V0};
    seq = htonl(seq);
    (void)buf_add(&body, &g, sizeof(g));
    if (prefix) {
        attr(&body, NFULA_PREFIX, prefix, strlen(prefix) + 1);
    }
    attr(&body, NFULA_PAYLOAD, packet, n);
    attr(&body, NFULA_SEQ, &seq, sizeof(seq));
    struct nlmsghdr h = {.nlmsg_len = (uint32_t)(NLMSG_HDRLEN + body.len),
                         .nlmsg_type = NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET};
    (void)buf_add(b, &h, sizeof(h));
    (void)buf_add(b, body.p, body.len);
}

static struct seen parse(const uint8_t *packet, size_t n)
{
    cleanup_(buf_done) struct buf b = BUF_INIT(4096);
    struct seen s = {0};
    message(&b, packet, n, NULL, 7);
    (void)nflog_parse(b.p, b.len, on_packet, &s);
    return s;
}

#define V4(frag, proto)                                                                            \
    0x45, 0, 0, 40, 0, 1, (frag) >> 8, (frag)&255, 64, proto, 0, 0, 192, 0, 0, 2, 198, 51, 100, 66
#define V6(next)                                                                                   \
    0x60, 0, 0, 0, 0, 40, next, 64, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0x20, 0x01, \
        0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x66
#define PORTS 0x12, 0x34, 0x01, 0xbb, 0, 0, 0, 0

static void what_a_packet_is(void **state)
{
    static const struct {
        uint8_t p[96];
        size_t n;
        const char *to, *from;
    } cases[] = {
        {{V4(0, 6), PORTS}, 28, "198.51.100.66:443/tcp", "192.0.0.2:4660/tcp"},
        {{V4(0x2000, 17), PORTS}, 28, "198.51.100.66:443/udp", "192.0.0.2:4660/udp"},
        {{V4(0x00b9, 17), PORTS}, 28, "198.51.100.66/udp", "192.0.0.2/udp"}, /* a later fragment */
        {{V4(0, 1), PORTS}, 28, "198.51.100.66/icmp", "192.0.0.2/icmp"},
        {{V4(0, 253)}, 20, "198.51.100.66/253", "192.0.0.2/253"},
        {{V4(0, 6), 1, 2, 3}, 23, "198.51.100.66/tcp", "192.0.0.2/tcp"},
        {{V6(6), PORTS}, 48, "[2001:db8::66]:443/tcp", "[fd00::2]:4660/tcp"},
        {{V6(58), PORTS}, 48, "2001:db8::66/icmpv6", "fd00::2/icmpv6"},
        {{V6(0), 60, 0, 0, 0, 0, 0, 0, 0, 17, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, PORTS},
         72,
         "[2001:db8::66]:443/udp",
         "[fd00::2]:4660/udp"},
        {{V6(44), 17, 0, 0, 1, 0, 0, 0, 0, PORTS}, 56, "[2001:db8::66]:443/udp", NULL},
        {{V6(44), 17, 0, 0, 8, 0, 0, 0, 0, PORTS}, 56, "2001:db8::66/udp", NULL},
        {{V6(0), 17, 255}, 48, "2001:db8::66/udp", NULL}, /* a header longer than the packet */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct seen s = parse(cases[i].p, cases[i].n);
        assert_int_equal(s.n, 1);
        assert_string_equal(s.to, cases[i].to);
        if (cases[i].from) {
            assert_string_equal(s.from, cases[i].from);
        }
        assert_true(s.last.has_seq && s.last.seq == 7);
    }
}

static void what_is_no_packet(void **state)
{
    const uint8_t v4[] = {V4(0, 6), PORTS}, other[] = {0x55, 0, 0, 0};
    assert_int_equal(parse(v4, 19).n, 0);
    assert_int_equal(parse(v4, 0).n, 0);
    assert_int_equal(parse(other, sizeof(other)).n, 0);
    assert_int_equal(nflog_parse("", 0, on_packet, NULL), 0);
}

static void many_in_one_and_cut_anywhere(void **state)
{
    const uint8_t v4[] = {V4(0, 6), PORTS}, v6[] = {V6(17), PORTS};
    cleanup_(buf_done) struct buf b = BUF_INIT(4096);
    struct seen s = {0};
    message(&b, v4, sizeof(v4), "invalid", 1);
    size_t first = b.len;
    message(&b, v6, sizeof(v6), NULL, 2);
    assert_int_equal(nflog_parse(b.p, b.len, on_packet, &s), 0);
    assert_int_equal(s.n, 2);
    assert_string_equal(s.prefix, "");
    assert_true(s.last.seq == 2);
    for (size_t n = 0; n < b.len; n++) {
        cleanup_free char *copy = xmalloc(n ? n : 1); /* a sanitizer sees its end */
        memcpy(copy, b.p, n);
        s = (struct seen){0};
        (void)nflog_parse(copy, n, on_packet, &s);
        assert_int_equal(s.n, n >= first);
        if (s.n) {
            assert_string_equal(s.prefix, "invalid");
        }
    }
}

static void answers(void **state)
{
    struct {
        struct nlmsghdr h;
        struct nlmsgerr e;
    } m = {.h = {.nlmsg_len = sizeof(m), .nlmsg_type = NLMSG_ERROR}, .e = {.error = -EBUSY}};
    assert_int_equal(nflog_answer(&m, sizeof(m)), -EBUSY);
    m.e.error = 0;
    assert_int_equal(nflog_answer(&m, sizeof(m)), 0);
    assert_int_equal(nflog_answer(&m, sizeof(m) - 1), -EBADMSG);
    m.h.nlmsg_type = NLMSG_NOOP;
    assert_int_equal(nflog_answer(&m, sizeof(m)), -EBADMSG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_packet_is),
        cmocka_unit_test(what_is_no_packet),
        cmocka_unit_test(many_in_one_and_cut_anywhere),
        cmocka_unit_test(answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
