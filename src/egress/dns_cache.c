/* The cache of the DNS proxy. */

#include "egress/dns_cache.h"

#include "base/must.h"
#include "egress/limits.h"

#define KEY_MAX (DNS_WIRE_NAME_MAX + 4 + 1)

struct cached {
    struct list age;
    uint64_t stored_ms, expires_ms;
    size_t len, n_ttls;
    uint16_t *ttls; /* where the lives of records are, in `msg` */
    char key[KEY_MAX];
    size_t key_len;
    char msg[];
};

void dns_cache_init(struct dns_cache *c)
{
    *c = (struct dns_cache){0};
    list_init(&c->age);
}

static size_t cost(const struct cached *e)
{
    return sizeof(*e) + e->len + e->n_ttls * sizeof(*e->ttls);
}

static void drop(struct dns_cache *c, struct cached *e)
{
    (void)map_del(&c->entries, str_n(e->key, e->key_len));
    list_del(&e->age);
    c->bytes -= cost(e);
    free(e->ttls);
    free(e);
}

void dns_cache_flush(struct dns_cache *c)
{
    while (!list_empty(&c->age)) {
        drop(c, list_entry(list_first(&c->age), struct cached, age));
    }
}

void dns_cache_done(struct dns_cache *c)
{
    dns_cache_flush(c);
    map_done(&c->entries);
}

/* The question without case, and what else changes the answer. */
static struct str make_key(struct str query, const struct dns_query *q, char out[KEY_MAX])
{
    size_t n = q->question_end - DNS_HEADER_LEN;
    for (size_t i = 0; i < n; i++) {
        char c = query.p[DNS_HEADER_LEN + i];
        out[i] = c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
    }
    out[n] = (char)((q->wants_dnssec ? 1 : 0) | (q->flags & DNS_CD ? 2 : 0));
    return str_n(out, n + 1);
}

static int ttls_find(struct cached *e)
{
    struct dns_reader r;
    struct dns_record rec;
    int more;
    if (dns_reader_init(&r, str_n(e->msg, e->len)) < 0) {
        return -1;
    }
    size_t max = (size_t)r.left[DNS_ANSWER] + r.left[DNS_AUTHORITY];
    e->ttls = xcalloc(MAX(MIN(max, e->len), (size_t)1), sizeof(*e->ttls));
    while ((more = dns_reader_next(&r, &rec)) > 0) {
        e->ttls[e->n_ttls++] = (uint16_t)rec.ttl_at;
    }
    return more;
}

void dns_cache_put(struct dns_cache *c, struct str query, const struct dns_query *q,
                   struct str answer, uint32_t ttl_s, uint64_t now_ms)
{
    if (!ttl_s || answer.n > DNS_CACHE_MAX_ANSWER ||
        q->question_end > DNS_HEADER_LEN + KEY_MAX - 1) {
        return;
    }
    struct cached *e = xcalloc(1, sizeof(*e) + answer.n);
    struct str key = make_key(query, q, e->key);
    list_init(&e->age);
    e->key_len = key.n;
    e->len = answer.n;
    e->stored_ms = now_ms;
    e->expires_ms = now_ms + (uint64_t)ttl_s * 1000;
    memcpy(e->msg, answer.p, answer.n);
    if (ttls_find(e) < 0) {
        free(e->ttls);
        free(e);
        return;
    }
    struct cached *old = map_get(&c->entries, key);
    if (old) {
        drop(c, old);
    }
    while (!list_empty(&c->age) &&
           (map_len(&c->entries) >= DNS_CACHE_ENTRIES || c->bytes + cost(e) > DNS_CACHE_BYTES)) {
        drop(c, list_entry(list_first(&c->age), struct cached, age));
    }
    (void)map_put(&c->entries, key, e);
    list_push_back(&c->age, &e->age);
    c->bytes += cost(e);
}

bool dns_cache_get(struct dns_cache *c, struct str query, const struct dns_query *q,
                   uint64_t now_ms, struct buf *out)
{
    char key[KEY_MAX];
    if (q->question_end > DNS_HEADER_LEN + KEY_MAX - 1) {
        return false;
    }
    struct cached *e = map_get(&c->entries, make_key(query, q, key));
    if (!e) {
        return false;
    }
    if (e->expires_ms <= now_ms) {
        drop(c, e);
        return false;
    }
    size_t start = out->len;
    if (buf_add(out, e->msg, e->len) < 0) {
        return false;
    }
    char *m = out->p + start;
    uint32_t age_s = (uint32_t)((now_ms - e->stored_ms) / 1000);
    struct str msg = str_n(m, e->len);
    for (size_t i = 0; i < e->n_ttls; i++) {
        uint32_t ttl = dns_u32(msg, e->ttls[i]);
        dns_put_u32(m + e->ttls[i], ttl > age_s ? ttl - age_s : 0);
    }
    /* The question as this client wrote it, with its id and its wish for recursion. */
    memcpy(m + DNS_HEADER_LEN, query.p + DNS_HEADER_LEN, q->question_end - DNS_HEADER_LEN);
    dns_put_u16(m, q->id);
    uint16_t flags = dns_u16(msg, 2);
    dns_put_u16(m + 2, (uint16_t)((flags & ~(DNS_RD | DNS_CD)) | (q->flags & (DNS_RD | DNS_CD))));
    return true;
}
