/* Open addressing with linear probing. Removed slots become tombstones, so that removing while
 * iterating moves nothing; rehashing sweeps them. */

#include "base/map.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "base/rand.h"

struct map_slot {
    uint64_t hash;
    char *key; /* NULL: never used */
    size_t key_len;
    void *value; /* NULL with a key: tombstone (the key is `dead`) */
};

#define MAP_MIN_SLOTS 8u

static char dead[1];
static uint64_t sip_key[2];
static pthread_once_t sip_once = PTHREAD_ONCE_INIT;

static void sip_init(void)
{
    rand_bytes(sip_key, sizeof(sip_key));
}

#define ROTL(x, b) (((x) << (b)) | ((x) >> (64 - (b))))

static void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = ROTL(v[1], 13) ^ v[0];
    v[0] = ROTL(v[0], 32);
    v[2] += v[3];
    v[3] = ROTL(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = ROTL(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = ROTL(v[1], 17) ^ v[2];
    v[2] = ROTL(v[2], 32);
}

/* SipHash-1-3. */
uint64_t map_hash(struct str key)
{
    (void)pthread_once(&sip_once, sip_init);
    uint64_t v[4] = {
        sip_key[0] ^ 0x736f6d6570736575u,
        sip_key[1] ^ 0x646f72616e646f6du,
        sip_key[0] ^ 0x6c7967656e657261u,
        sip_key[1] ^ 0x7465646279746573u,
    };
    size_t whole = key.n & ~(size_t)7;
    for (size_t i = 0; i < whole; i += 8) {
        uint64_t m;
        memcpy(&m, key.p + i, 8);
        v[3] ^= m;
        sip_round(v);
        v[0] ^= m;
    }
    uint64_t last = (uint64_t)key.n << 56;
    for (size_t i = whole; i < key.n; i++) {
        last |= (uint64_t)(unsigned char)key.p[i] << (8 * (i - whole));
    }
    v[3] ^= last;
    sip_round(v);
    v[0] ^= last;
    v[2] ^= 0xff;
    sip_round(v);
    sip_round(v);
    sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

void map_done(struct map *m)
{
    for (size_t i = 0; i < m->n_slots; i++) {
        if (m->slots[i].value) {
            free(m->slots[i].key);
        }
    }
    free(m->slots);
    *m = (struct map){0};
}

static struct map_slot *find(const struct map *m, struct str key, uint64_t hash)
{
    if (!m->n_slots) {
        return NULL;
    }
    for (size_t i = hash & (m->n_slots - 1);; i = (i + 1) & (m->n_slots - 1)) {
        struct map_slot *s = &m->slots[i];
        if (!s->key) {
            return NULL;
        }
        if (s->value && s->hash == hash && str_eq(str_n(s->key, s->key_len), key)) {
            return s;
        }
    }
}

static struct map_slot *find_free(struct map_slot *slots, size_t n_slots, uint64_t hash)
{
    size_t i = hash & (n_slots - 1);
    while (slots[i].value) {
        i = (i + 1) & (n_slots - 1);
    }
    return &slots[i];
}

static void rehash(struct map *m)
{
    size_t n_slots = MAP_MIN_SLOTS;
    while (n_slots < (m->n + 1) * 2) {
        n_slots *= 2;
    }
    struct map_slot *slots = xcalloc(n_slots, sizeof(*slots));
    for (size_t i = 0; i < m->n_slots; i++) {
        if (m->slots[i].value) {
            *find_free(slots, n_slots, m->slots[i].hash) = m->slots[i];
        }
    }
    free(m->slots);
    m->slots = slots;
    m->n_slots = n_slots;
    m->n_dead = 0;
}

void *map_get(const struct map *m, struct str key)
{
    const struct map_slot *s = m->n ? find(m, key, map_hash(key)) : NULL;
    return s ? s->value : NULL;
}

void *map_put(struct map *m, struct str key, void *value)
{
    must(value);
    uint64_t hash = map_hash(key);
    struct map_slot *s = find(m, key, hash);
    if (s) {
        void *old = s->value;
        s->value = value;
        return old;
    }
    /* At most three quarters in use: a probe always meets an empty slot. */
    if ((m->n + m->n_dead + 1) * 4 > m->n_slots * 3) {
        rehash(m);
    }
    s = find_free(m->slots, m->n_slots, hash);
    if (s->key) {
        m->n_dead--;
    }
    *s = (struct map_slot){hash, str_dup(key), key.n, value};
    m->n++;
    return NULL;
}

void *map_del(struct map *m, struct str key)
{
    struct map_slot *s = m->n ? find(m, key, map_hash(key)) : NULL;
    if (!s) {
        return NULL;
    }
    void *old = s->value;
    free(s->key);
    *s = (struct map_slot){.key = dead};
    m->n--;
    m->n_dead++;
    return old;
}

bool map_next(const struct map *m, size_t *it, struct str *ret_key, void **ret_value)
{
    while (*it < m->n_slots) {
        const struct map_slot *s = &m->slots[(*it)++];
        if (s->value) {
            if (ret_key) {
                *ret_key = str_n(s->key, s->key_len);
            }
            if (ret_value) {
                *ret_value = s->value;
            }
            return true;
        }
    }
    return false;
}
