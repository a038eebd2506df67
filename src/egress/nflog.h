#pragma once
/* Packets as the kernel's logger (nfnetlink_log) reports them: bytes in, structs out. No I/O. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "net/cidr.h"

#define NFLOG_TEXT_MAX 80 /* of nflog_target() and nflog_source() */

struct nflog_packet {
    struct ip src, dst;
    uint16_t sport, dport; /* has_ports only */
    uint8_t proto;         /* IPPROTO_* of what the packet carries */
    bool has_ports;        /* TCP, UDP, SCTP or DCCP, and not a later fragment */
    bool has_seq;
    uint32_t seq;      /* of this group; a gap is packets that were lost */
    struct str prefix; /* what the rule calls it; borrowed */
};

typedef void nflog_fn(const struct nflog_packet *p, void *arg);

/* One datagram of the socket, which holds any number of messages; fn is called for each packet in
 * it. Returns how many messages held none that could be read. */
size_t nflog_parse(const void *data, size_t n, nflog_fn *fn, void *arg);
/* The error of the answer to a request, or 0; -EBADMSG when it is none. */
int nflog_answer(const void *data, size_t n);
/* Where to: "198.51.100.1:443/tcp", "[2001:db8::1]:53/udp", "198.51.100.1/icmp", ".../253". */
const char *nflog_target(const struct nflog_packet *p, char out[NFLOG_TEXT_MAX]);
/* Where from, in the same way. */
const char *nflog_source(const struct nflog_packet *p, char out[NFLOG_TEXT_MAX]);
