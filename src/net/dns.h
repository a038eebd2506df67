#pragma once
/* DNS messages (RFC 1035, EDNS of RFC 6891): reading queries and answers, writing short messages.
 * Codec only; nothing is allocated, all input is hostile. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"
#include "net/cidr.h"

#define DNS_HEADER_LEN 12
#define DNS_WIRE_NAME_MAX 255 /* limit: bytes of a name in a message (RFC 1035) */
#define DNS_TEXT_MAX 1012     /* a name as text, each odd byte as \DDD, and a NUL */
#define DNS_MESSAGE_MAX 65535
#define DNS_MAX_POINTERS 32 /* limit: compression pointers followed in one name */

enum dns_type {
    DNS_A = 1,
    DNS_NS = 2,
    DNS_CNAME = 5,
    DNS_SOA = 6,
    DNS_NULL = 10,
    DNS_PTR = 12,
    DNS_MX = 15,
    DNS_TXT = 16,
    DNS_AAAA = 28,
    DNS_SRV = 33,
    DNS_NAPTR = 35,
    DNS_DNAME = 39,
    DNS_OPT = 41,
    DNS_DS = 43,
    DNS_SSHFP = 44,
    DNS_RRSIG = 46,
    DNS_NSEC = 47,
    DNS_DNSKEY = 48,
    DNS_NSEC3 = 50,
    DNS_TLSA = 52,
    DNS_SVCB = 64,
    DNS_HTTPS = 65,
    DNS_ANY = 255,
    DNS_CAA = 257,
};
enum { DNS_IN = 1 };

enum dns_rcode {
    DNS_NOERROR = 0,
    DNS_FORMERR = 1,
    DNS_SERVFAIL = 2,
    DNS_NXDOMAIN = 3,
    DNS_NOTIMP = 4,
    DNS_REFUSED = 5,
    DNS_BADVERS = 16,
};

enum { /* of the flags word */
       DNS_QR = 0x8000,
       DNS_OPCODE = 0x7800,
       DNS_AA = 0x0400,
       DNS_TC = 0x0200,
       DNS_RD = 0x0100,
       DNS_RA = 0x0080,
       DNS_AD = 0x0020,
       DNS_CD = 0x0010,
       DNS_RCODE = 0x000f,
};

struct dns_query {
    uint16_t id, flags, type, cls;
    size_t question_end; /* of the one question, which begins behind the header */
    bool has_edns, wants_dnssec;
    uint16_t udp_size;       /* what the client can take over UDP; at least 512 */
    char name[DNS_TEXT_MAX]; /* lower case, without a final dot; "" is the root */
};

/* 0: fine. DNS_FORMERR, DNS_NOTIMP, DNS_BADVERS: answer so (id and flags are set, the rest when
 * question_end is not 0). -1: not a query, say nothing. */
int dns_query_parse(struct str msg, struct dns_query *ret);

/* Name at *at as text, *at moves behind it. -EBADMSG: malformed, forward or endless pointers. */
int dns_name_parse(struct str msg, size_t *at, char out[DNS_TEXT_MAX]);
/* Text (with \DDD, final dot or not) to wire form. Its length, or -EINVAL. */
int dns_name_format(struct str text, uint8_t out[DNS_WIRE_NAME_MAX]);

enum dns_section { DNS_ANSWER, DNS_AUTHORITY, DNS_ADDITIONAL, DNS__SECTIONS };

struct dns_record {
    enum dns_section section;
    size_t begin, ttl_at, rdata_at;
    uint16_t type, cls, rdata_len;
    uint32_t ttl;
    char name[DNS_TEXT_MAX];
};

/* Walks the records of an answer. */
struct dns_reader {
    struct str msg;
    size_t at;
    uint16_t left[DNS__SECTIONS];
    uint16_t flags, id;
    size_t question_end; /* 0: no question */
};
int dns_reader_init(struct dns_reader *r, struct str msg);         /* 0 or -EBADMSG */
int dns_reader_next(struct dns_reader *r, struct dns_record *ret); /* 1, 0 at the end, -EBADMSG */
/* The address of an A or AAAA record; false for others and for wrong lengths. */
bool dns_record_ip(struct str msg, const struct dns_record *rec, struct ip *ret);
/* The target of a CNAME or DNAME. */
int dns_record_target(struct str msg, const struct dns_record *rec, char out[DNS_TEXT_MAX]);

/* Same question: bytes behind the header, names without case. */
bool dns_same_question(struct str a, size_t a_end, struct str b, size_t b_end);

/* A query with EDNS for the question of another message; options of the client do not travel. */
int dns_query_write(struct buf *out, uint16_t id, uint16_t flags, struct str question,
                    uint16_t udp_size, bool dnssec);
/* An answer without records: id, opcode, RD and CD and the question as asked. `question_end` 0:
 * none. */
int dns_answer_write(struct buf *out, struct str query, const struct dns_query *q,
                     enum dns_rcode rcode, uint16_t more_flags);
/* An OPT record behind what is in `out` from `start` on; counts it. */
int dns_edns_write(struct buf *out, size_t start, uint16_t udp_size, bool dnssec);

uint16_t dns_u16(struct str msg, size_t at); /* within bounds, which are the caller's */
uint32_t dns_u32(struct str msg, size_t at);
void dns_put_u16(char *p, uint16_t v);
void dns_put_u32(char *p, uint32_t v);
