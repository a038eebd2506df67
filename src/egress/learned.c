/* What answers have taught. */

#include "egress/learned.h"

#include "base/must.h"
#include "egress/limits.h"

void learned_init(struct learned *l, size_t max)
{
    *l = (struct learned){.max = max};
    list_init(&l->age);
}

static struct str key_of(const struct ip *ip)
{
    return str_n((const char *)ip, sizeof(*ip));
}

/* Unused bytes must not make two keys of one address. */
static struct ip clean(const struct ip *ip)
{
    struct ip c = {.family = ip->family};
    memcpy(c.b, ip->b, ip->family == 4 ? 4 : 16);
    return c;
}

static void name_drop(struct learned *l, struct learned_name *n)
{
    struct learned_addr *a = n->addr;
    list_del(&n->of_addr);
    list_del(&n->age);
    free(n);
    l->n_names--;
    a->expires_ms = 0;
    list_each (it, &a->names) {
        a->expires_ms =
            MAX(a->expires_ms, list_entry(it, struct learned_name, of_addr)->expires_ms);
    }
    if (list_empty(&a->names)) {
        (void)map_del(&l->addrs, key_of(&a->ip));
        free(a);
    }
}

void learned_done(struct learned *l)
{
    while (!list_empty(&l->age)) {
        name_drop(l, list_entry(list_first(&l->age), struct learned_name, age));
    }
    map_done(&l->addrs);
}

uint32_t learned_timeout_s(uint32_t ttl_s)
{
    uint64_t t = (uint64_t)ttl_s + EGRESS_LEARN_GRACE_S;
    return (uint32_t)MIN(t, (uint64_t)EGRESS_LEARN_MAX_S);
}

const struct learned_addr *learned_find(const struct learned *l, const struct ip *ip)
{
    struct ip c = clean(ip);
    return map_get(&l->addrs, key_of(&c));
}

static struct learned_name *name_find(const struct learned_addr *a, struct str name)
{
    if (a) {
        list_each (it, &a->names) {
            struct learned_name *n = list_entry(it, struct learned_name, of_addr);
            if (str_eq_nocase(str_from(n->name), name)) {
                return n;
            }
        }
    }
    return NULL;
}

static struct learned_name *name_new(struct learned_addr *a, struct str name)
{
    struct learned_name *n = xcalloc(1, sizeof(*n) + name.n + 1);
    memcpy(n->name, name.p, name.n);
    n->addr = a;
    list_init(&n->age);
    list_init(&n->of_addr);
    list_push_back(&a->names, &n->of_addr);
    return n;
}

static struct learned_addr *addr_new(struct learned *l, const struct ip *ip)
{
    struct learned_addr *a = NEW(struct learned_addr);
    a->ip = *ip;
    list_init(&a->names);
    (void)map_put(&l->addrs, key_of(ip), a);
    return a;
}

/* The pair not heard of for longest goes, and with its last name the address. */
static struct ip make_room(struct learned *l)
{
    struct learned_name *oldest = list_entry(list_first(&l->age), struct learned_name, age);
    struct ip ip = oldest->addr->ip;
    name_drop(l, oldest);
    return learned_find(l, &ip) ? (struct ip){0} : ip;
}

enum learned_change learned_add(struct learned *l, const struct ip *ip, struct str name,
                                uint64_t now_ms, uint64_t expires_ms, struct ip *ret_dropped)
{
    struct ip c = clean(ip);
    struct learned_addr *a = map_get(&l->addrs, key_of(&c));
    struct learned_name *n = name_find(a, name);
    *ret_dropped = (struct ip){0};
    if (!n) {
        if (l->n_names >= l->max) {
            *ret_dropped = make_room(l);
            a = map_get(&l->addrs, key_of(&c)); /* its only name may have been the oldest */
        }
        a = a ? a : addr_new(l, &c);
        n = name_new(a, name);
        l->n_names++;
    }
    list_del(&n->age);
    list_push_back(&l->age, &n->age);
    n->expires_ms = MAX(n->expires_ms, expires_ms);
    if (expires_ms <= a->expires_ms) {
        return LEARNED_KNOWN;
    }
    a->expires_ms = expires_ms;
    return LEARNED_NEW;
}

bool learned_is_of(const struct learned *l, const struct ip *ip, struct str name, uint64_t now_ms)
{
    if (name.n && name.p[name.n - 1] == '.') {
        name.n--;
    }
    const struct learned_name *n = name_find(learned_find(l, ip), name);
    return n && n->expires_ms > now_ms;
}

/* The only name by which the address is alive; NULL: none or several. */
static const struct learned_name *only_name(const struct learned_addr *a, uint64_t now_ms)
{
    const struct learned_name *found = NULL;
    if (a) {
        list_each (it, &a->names) {
            const struct learned_name *n = list_entry(it, struct learned_name, of_addr);
            if (n->expires_ms > now_ms) {
                if (found) {
                    return NULL;
                }
                found = n;
            }
        }
    }
    return found;
}

bool learned_other(const struct learned *l, const struct ip *ip, struct str name, uint64_t now_ms,
                   learned_may *may, void *arg, struct ip *ret)
{
    bool found = false;
    if (!name.n) {
        const struct learned_name *only = only_name(learned_find(l, ip), now_ms);
        if (!only) {
            return false;
        }
        name = str_from(only->name);
    } else if (!learned_is_of(l, ip, name, now_ms)) {
        return false; /* whoever says so, no answer did */
    }
    list_each (it, &l->age) {
        const struct learned_name *n = list_entry(it, struct learned_name, age);
        if (n->expires_ms > now_ms && n->addr->ip.family != ip->family &&
            str_eq_nocase(str_from(n->name), name) && may(&n->addr->ip, name, arg)) {
            *ret = n->addr->ip;
            found = true;
        }
    }
    return found;
}

void learned_filter(struct learned *l, bool (*keep)(struct str name, void *arg), void *arg)
{
    list_each (it, &l->age) {
        struct learned_name *n = list_entry(it, struct learned_name, age);
        if (!keep(str_from(n->name), arg)) {
            name_drop(l, n);
        }
    }
}
