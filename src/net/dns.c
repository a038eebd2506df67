/* DNS on the wire. */

#include "net/dns.h"

#include <errno.h>
#include <stdio.h>

#include "base/must.h"

uint16_t dns_u16(struct str msg, size_t at)
{
    const uint8_t *p = (const uint8_t *)msg.p + at;
    return (uint16_t)(p[0] << 8 | p[1]);
}

uint32_t dns_u32(struct str msg, size_t at)
{
    return (uint32_t)dns_u16(msg, at) << 16 | dns_u16(msg, at + 2);
}

void dns_put_u16(char *p, uint16_t v)
{
    p[0] = (char)(v >> 8);
    p[1] = (char)v;
}

void dns_put_u32(char *p, uint32_t v)
{
    dns_put_u16(p, (uint16_t)(v >> 16));
    dns_put_u16(p + 2, (uint16_t)v);
}

/* ---- names ---- */

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

static bool is_plain(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-' || c == '_' || c == '*' ||
           c == '/' || c == '=' || c == '+';
}

static size_t label_text(const char *p, size_t n, char *out)
{
    size_t len = 0;
    for (size_t i = 0; i < n; i++) {
        char c = lower(p[i]);
        if (is_plain(c)) {
            out[len++] = c;
        } else {
            unsigned v = (uint8_t)c;
            out[len++] = '\\';
            out[len++] = (char)('0' + v / 100);
            out[len++] = (char)('0' + v / 10 % 10);
            out[len++] = (char)('0' + v % 10);
        }
    }
    return len;
}

int dns_name_parse(struct str msg, size_t *at, char out[DNS_TEXT_MAX])
{
    size_t pos = *at, behind = 0, wire = 1, len = 0, floor = pos;
    for (unsigned jumps = 0;;) {
        if (pos >= msg.n) {
            return -EBADMSG;
        }
        size_t n = (uint8_t)msg.p[pos];
        if ((n & 0xc0) == 0xc0) {
            if (pos + 2 > msg.n || ++jumps > DNS_MAX_POINTERS) {
                return -EBADMSG;
            }
            size_t to = dns_u16(msg, pos) & 0x3fffu;
            behind = behind ? behind : pos + 2;
            if (to >= floor) { /* only ever backwards, so that it ends */
                return -EBADMSG;
            }
            pos = floor = to;
            continue;
        }
        if (n > 63) {
            return -EBADMSG;
        }
        pos++;
        if (!n) {
            break;
        }
        wire += n + 1;
        if (pos + n > msg.n || wire > DNS_WIRE_NAME_MAX) {
            return -EBADMSG;
        }
        if (len) {
            out[len++] = '.';
        }
        len += label_text(msg.p + pos, n, out + len);
        pos += n;
    }
    out[len] = 0;
    *at = behind ? behind : pos;
    return 0;
}

/* One character of a label, escaped or not; -1 when malformed. */
static int take_char(struct str *s)
{
    char c = s->p[0];
    size_t used = 1;
    int v = (uint8_t)c;
    if (c == '\\') {
        if (s->n < 4) {
            return -1;
        }
        v = 0;
        for (size_t i = 1; i < 4; i++) {
            if (s->p[i] < '0' || s->p[i] > '9') {
                return -1;
            }
            v = v * 10 + (s->p[i] - '0');
        }
        used = 4;
    }
    *s = str_sub(*s, used, s->n);
    return v > 255 ? -1 : v;
}

int dns_name_format(struct str text, uint8_t out[DNS_WIRE_NAME_MAX])
{
    size_t len = 0;
    if (text.n && text.p[text.n - 1] == '.') {
        text.n--;
    }
    while (text.n) {
        size_t label = len++;
        while (text.n && text.p[0] != '.') {
            int c = take_char(&text);
            if (c < 0 || len >= DNS_WIRE_NAME_MAX - 1 || len - label > 63) {
                return -EINVAL;
            }
            out[len++] = (uint8_t)c;
        }
        out[label] = (uint8_t)(len - label - 1);
        if (!out[label]) {
            return -EINVAL;
        }
        if (text.n) { /* the dot: something must follow it */
            text = str_sub(text, 1, text.n);
            if (!text.n || len >= DNS_WIRE_NAME_MAX - 1) {
                return -EINVAL;
            }
        }
    }
    out[len++] = 0;
    return (int)len;
}

/* ---- queries ---- */

static int skip_plain_name(struct str msg, size_t *at, char out[DNS_TEXT_MAX])
{
    for (size_t pos = *at; pos < msg.n && msg.p[pos]; pos += (uint8_t)msg.p[pos] + 1u) {
        if ((uint8_t)msg.p[pos] > 63) { /* there is nothing before it that a pointer could mean */
            return -EBADMSG;
        }
    }
    return dns_name_parse(msg, at, out);
}

static int read_additional(struct str msg, size_t at, unsigned n, struct dns_query *q)
{
    char name[DNS_TEXT_MAX];
    for (unsigned i = 0; i < n; i++) {
        if (dns_name_parse(msg, &at, name) < 0 || at + 10 > msg.n) {
            return DNS_FORMERR;
        }
        uint16_t type = dns_u16(msg, at), size = dns_u16(msg, at + 2);
        uint32_t ttl = dns_u32(msg, at + 4);
        at += 10u + dns_u16(msg, at + 8);
        if (at > msg.n || (type == DNS_OPT && (q->has_edns || name[0]))) {
            return DNS_FORMERR;
        }
        if (type == DNS_OPT) {
            q->has_edns = true;
            q->udp_size = MAX(size, (uint16_t)512);
            q->wants_dnssec = ttl & 0x8000;
            if (ttl >> 16 & 0xff) {
                return DNS_BADVERS;
            }
        }
    }
    return 0;
}

int dns_query_parse(struct str msg, struct dns_query *ret)
{
    struct dns_query *q = ret;
    q->question_end = 0;
    q->has_edns = q->wants_dnssec = false;
    q->udp_size = 512;
    q->name[0] = 0;
    if (msg.n < DNS_HEADER_LEN || (dns_u16(msg, 2) & DNS_QR)) {
        return -1;
    }
    q->id = dns_u16(msg, 0);
    q->flags = dns_u16(msg, 2);
    if (q->flags & DNS_OPCODE) {
        return DNS_NOTIMP;
    }
    if (dns_u16(msg, 4) != 1 || dns_u16(msg, 6) || dns_u16(msg, 8) || dns_u16(msg, 10) > 2) {
        return DNS_FORMERR;
    }
    size_t at = DNS_HEADER_LEN;
    if (skip_plain_name(msg, &at, q->name) < 0 || at + 4 > msg.n) {
        return DNS_FORMERR;
    }
    q->type = dns_u16(msg, at);
    q->cls = dns_u16(msg, at + 2);
    q->question_end = at + 4;
    return read_additional(msg, q->question_end, dns_u16(msg, 10), q);
}

/* ---- answers ---- */

int dns_reader_init(struct dns_reader *r, struct str msg)
{
    *r = (struct dns_reader){.msg = msg, .at = DNS_HEADER_LEN};
    if (msg.n < DNS_HEADER_LEN || msg.n > DNS_MESSAGE_MAX) {
        return -EBADMSG;
    }
    r->id = dns_u16(msg, 0);
    r->flags = dns_u16(msg, 2);
    unsigned questions = dns_u16(msg, 4);
    for (unsigned i = 0; i < DNS__SECTIONS; i++) {
        r->left[i] = dns_u16(msg, 6 + 2 * i);
    }
    if (questions > 1) {
        return -EBADMSG;
    }
    if (questions) {
        char name[DNS_TEXT_MAX];
        if (skip_plain_name(msg, &r->at, name) < 0 || r->at + 4 > msg.n) {
            return -EBADMSG;
        }
        r->at += 4;
        r->question_end = r->at;
    }
    return 0;
}

int dns_reader_next(struct dns_reader *r, struct dns_record *ret)
{
    unsigned section = 0;
    while (section < DNS__SECTIONS && !r->left[section]) {
        section++;
    }
    if (section == DNS__SECTIONS) {
        return 0;
    }
    size_t at = r->at;
    ret->begin = at;
    if (dns_name_parse(r->msg, &at, ret->name) < 0 || at + 10 > r->msg.n) {
        return -EBADMSG;
    }
    ret->section = section;
    ret->type = dns_u16(r->msg, at);
    ret->cls = dns_u16(r->msg, at + 2);
    ret->ttl_at = at + 4;
    ret->ttl = dns_u32(r->msg, at + 4);
    ret->rdata_len = dns_u16(r->msg, at + 8);
    ret->rdata_at = at + 10;
    if (ret->rdata_at + ret->rdata_len > r->msg.n) {
        return -EBADMSG;
    }
    if (ret->ttl & 0x80000000u) { /* RFC 2181: taken as zero */
        ret->ttl = ret->type == DNS_OPT ? ret->ttl : 0;
    }
    r->left[section]--;
    r->at = ret->rdata_at + ret->rdata_len;
    return 1;
}

bool dns_record_ip(struct str msg, const struct dns_record *rec, struct ip *ret)
{
    bool is_v4 = rec->type == DNS_A && rec->rdata_len == 4;
    bool is_v6 = rec->type == DNS_AAAA && rec->rdata_len == 16;
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    if (rec->cls != DNS_IN || (!is_v4 && !is_v6)) {
        return false;
    }
    *ret = (struct ip){.family = is_v4 ? 4 : 6};
    const char *p = msg.p + rec->rdata_at;
    if (is_v6 && memcmp(p, mapped, sizeof(mapped)) == 0) {
        ret->family = 4; /* ::ffff:a.b.c.d reaches a.b.c.d */
        memcpy(ret->b, p + sizeof(mapped), 4);
    } else {
        memcpy(ret->b, p, rec->rdata_len);
    }
    return true;
}

int dns_record_target(struct str msg, const struct dns_record *rec, char out[DNS_TEXT_MAX])
{
    size_t at = rec->rdata_at;
    if (rec->type != DNS_CNAME && rec->type != DNS_DNAME) {
        return -EINVAL;
    }
    int r = dns_name_parse(msg, &at, out);
    return r < 0 || at != rec->rdata_at + rec->rdata_len ? -EBADMSG : 0;
}

bool dns_same_question(struct str a, size_t a_end, struct str b, size_t b_end)
{
    if (!a_end || a_end != b_end) {
        return false;
    }
    for (size_t i = DNS_HEADER_LEN; i < a_end; i++) { /* lengths of labels are never letters */
        if (lower(a.p[i]) != lower(b.p[i])) {
            return false;
        }
    }
    return true;
}

/* ---- writing ---- */

static int put_header(struct buf *out, uint16_t id, uint16_t flags, unsigned n_questions)
{
    char h[DNS_HEADER_LEN] = {0};
    dns_put_u16(h, id);
    dns_put_u16(h + 2, flags);
    dns_put_u16(h + 4, (uint16_t)n_questions);
    return buf_add(out, h, sizeof(h));
}

int dns_edns_write(struct buf *out, size_t start, uint16_t udp_size, bool dnssec)
{
    char opt[11] = {0};
    dns_put_u16(opt + 1, DNS_OPT);
    dns_put_u16(opt + 3, udp_size);
    dns_put_u16(opt + 7, dnssec ? 0x8000 : 0);
    int r = buf_add(out, opt, sizeof(opt));
    if (r == 0) {
        struct str msg = str_n(out->p + start, out->len - start);
        dns_put_u16(out->p + start + 10, (uint16_t)(dns_u16(msg, 10) + 1));
    }
    return r;
}

int dns_query_write(struct buf *out, uint16_t id, uint16_t flags, struct str question,
                    uint16_t udp_size, bool dnssec)
{
    size_t start = out->len;
    (void)put_header(out, id, flags, 1);
    (void)buf_add_str(out, question);
    int r = dns_edns_write(out, start, udp_size, dnssec);
    return r < 0 || buf_failed(out) ? -ENOSPC : 0;
}

int dns_answer_write(struct buf *out, struct str query, const struct dns_query *q,
                     enum dns_rcode rcode, uint16_t more_flags)
{
    uint16_t flags = DNS_QR | (q->flags & (DNS_OPCODE | DNS_RD | DNS_CD)) | more_flags;
    (void)put_header(out, q->id, flags | (rcode & DNS_RCODE), q->question_end ? 1 : 0);
    if (q->question_end) {
        (void)buf_add_str(out, str_sub(query, DNS_HEADER_LEN, q->question_end));
    }
    return buf_failed(out) ? -ENOSPC : 0;
}
