#pragma once
/* Answers for as long as their records live. Bounded in number and bytes; no I/O. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/map.h"
#include "base/str.h"
#include "net/dns.h"

struct dns_cache {
    struct map entries; /* question and flags -> struct cached */
    struct list age;    /* oldest first */
    size_t bytes;
};

void dns_cache_init(struct dns_cache *c);
void dns_cache_done(struct dns_cache *c);
void dns_cache_flush(struct dns_cache *c);
/* `answer` has no additional section; it is good for ttl_s from now_ms on. */
void dns_cache_put(struct dns_cache *c, struct str query, const struct dns_query *q,
                   struct str answer, uint32_t ttl_s, uint64_t now_ms);
/* The answer to this very query, lives shortened by its age, without EDNS; false: none. */
bool dns_cache_get(struct dns_cache *c, struct str query, const struct dns_query *q,
                   uint64_t now_ms, struct buf *out);
