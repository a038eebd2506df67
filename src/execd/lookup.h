#pragma once
/* Host names to addresses without libc's resolver, which a static program cannot carry into any
 * image: addresses as text, /etc/hosts, then the name servers of /etc/resolv.conf. Blocking: for
 * workers. The codecs are pure. */

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "io/addr.h"

/* 0, -ENOENT for a name nobody knows, -ETIMEDOUT, or another negative errno. */
int lookup_host(struct str host, uint16_t port, struct io_addr *ret);

/* First address for `name` in the text of /etc/hosts. 0 or -ENOENT. */
int hosts_find(struct str text, struct str name, uint16_t port, struct io_addr *ret);

#define DNS_QUERY_MAX 300
enum dns_type { DNS_A = 1, DNS_AAAA = 28 };
/* A query with recursion desired. Its length, or -EINVAL for a name that is none. */
int dns_query_format(struct str name, enum dns_type type, uint16_t id, uint8_t out[DNS_QUERY_MAX]);
/* The first address in an answer to query `id`. 0; -ENOENT: there is none; -EAGAIN: the server
 * failed; -EPROTO: not an answer to it. */
int dns_answer_parse(const uint8_t *p, size_t n, uint16_t id, enum dns_type type, uint16_t port,
                     struct io_addr *ret);
