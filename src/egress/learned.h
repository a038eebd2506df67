#pragma once
/* Addresses that came in answers for allowed names: which name, and until when. Entries outlive
 * their time (a connection may), but their number is bounded: the one not heard of for longest
 * goes. No I/O; time is the caller's. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/map.h"
#include "base/str.h"
#include "net/cidr.h"

struct learned_addr {
    struct ip ip;
    uint64_t expires_ms; /* the latest of its names */
    struct list names;   /* struct learned_name.of_addr */
};

struct learned_name {
    struct list of_addr, age;
    struct learned_addr *addr;
    uint64_t expires_ms;
    char name[];
};

struct learned {
    struct map addrs; /* ip -> struct learned_addr */
    struct list age;  /* struct learned_name, longest unheard first */
    size_t n_names, max;
};

void learned_init(struct learned *l, size_t max);
void learned_done(struct learned *l);
/* TTL of a record to the life of its address: TTL + 60 s, from 60 to 360 s. */
uint32_t learned_timeout_s(uint32_t ttl_s);

enum learned_change { LEARNED_KNOWN, LEARNED_NEW };
/* LEARNED_NEW: the address lives longer than before, the kernel must be told. *ret_dropped is an
 * address that had to make room (family 0: none). */
enum learned_change learned_add(struct learned *l, const struct ip *ip, struct str name,
                                uint64_t now_ms, uint64_t expires_ms, struct ip *ret_dropped);
const struct learned_addr *learned_find(const struct learned *l, const struct ip *ip);
/* Whether the address is alive under this name. */
bool learned_is_of(const struct learned *l, const struct ip *ip, struct str name, uint64_t now_ms);
/* An address of the other family under the name by which `ip` is alive: `name`, or when that is
 * empty the only one it has. Of those for which may() says yes the one heard of last. */
typedef bool learned_may(const struct ip *ip, struct str name, void *arg);
bool learned_other(const struct learned *l, const struct ip *ip, struct str name, uint64_t now_ms,
                   learned_may *may, void *arg, struct ip *ret);
/* Forgets the pairs for which keep() says no. */
void learned_filter(struct learned *l, bool (*keep)(struct str name, void *arg), void *arg);
