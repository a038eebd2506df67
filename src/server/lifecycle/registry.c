/* See registry.h. */

#include "server/lifecycle/registry.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/must.h"

struct owner_count {
    size_t n;
};

void registry_init(struct registry *r)
{
    *r = (struct registry){0};
    pthread_rwlockattr_t attr;
    (void)pthread_rwlockattr_init(&attr);
    /* A stream of readers must not keep a state change out. */
    (void)pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    must(pthread_rwlock_init(&r->lock, &attr) == 0);
    (void)pthread_rwlockattr_destroy(&attr);
}

void registry_done(struct registry *r)
{
    for (size_t i = 0; i < r->n; i++) {
        sandbox_unref(r->ordered[i]);
    }
    free(r->ordered);
    size_t it = 0;
    void *v;
    struct str key;
    while (map_next(&r->owners, &it, &key, &v)) {
        free(v);
    }
    map_done(&r->owners);
    map_done(&r->by_id);
    map_done(&r->by_idem);
    (void)pthread_rwlock_destroy(&r->lock);
}

void registry_read(struct registry *r)
{
    must(pthread_rwlock_rdlock(&r->lock) == 0);
}

void registry_write(struct registry *r)
{
    must(pthread_rwlock_wrlock(&r->lock) == 0);
}

void registry_unlock(struct registry *r)
{
    must(pthread_rwlock_unlock(&r->lock) == 0);
}

static char *idem_name(const char *owner, const char *key)
{
    return xasprintf("%s\n%s", owner, key);
}

static int order(const struct sandbox *a, const struct sandbox *b)
{
    if (a->created_us != b->created_us) {
        return a->created_us < b->created_us ? -1 : 1;
    }
    return strcmp(a->id, b->id);
}

/* Index of the first entry that is not before sb. */
static size_t position(const struct registry *r, const struct sandbox *sb)
{
    size_t lo = 0, hi = r->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (order(r->ordered[mid], sb) < 0) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo;
}

static struct owner_count *owner_get(struct registry *r, const char *owner)
{
    struct owner_count *c = map_get(&r->owners, str_from(owner));
    if (!c) {
        c = NEW(struct owner_count);
        (void)map_put(&r->owners, str_from(owner), c);
    }
    return c;
}

static void insert(struct registry *r, struct sandbox *sb, const char *idem)
{
    if (r->n == r->cap) {
        r->cap = r->cap ? r->cap * 2 : 64;
        r->ordered = xreallocarray(r->ordered, r->cap, sizeof(*r->ordered));
    }
    size_t at = position(r, sb);
    memmove(r->ordered + at + 1, r->ordered + at, (r->n - at) * sizeof(*r->ordered));
    r->ordered[at] = sb;
    r->n++;
    (void)map_put(&r->by_id, str_from(sb->id), sb);
    if (idem) {
        (void)map_put(&r->by_idem, str_from(idem), sb);
    }
    owner_get(r, sb->owner)->n++;
}

static void erase(struct registry *r, struct sandbox *sb, const char *idem)
{
    size_t at = position(r, sb);
    must(at < r->n && r->ordered[at] == sb);
    memmove(r->ordered + at, r->ordered + at + 1, (r->n - at - 1) * sizeof(*r->ordered));
    r->n--;
    (void)map_del(&r->by_id, str_from(sb->id));
    if (idem) {
        (void)map_del(&r->by_idem, str_from(idem));
    }
    owner_get(r, sb->owner)->n--;
}

int registry_add(struct registry *r, struct sandbox *sb)
{
    cleanup_free char *idem = sb->idem_key ? idem_name(sb->owner, sb->idem_key) : NULL;
    registry_write(r);
    bool there =
        map_get(&r->by_id, str_from(sb->id)) || (idem && map_get(&r->by_idem, str_from(idem)));
    if (!there) {
        insert(r, sb, idem);
    }
    registry_unlock(r);
    return there ? -EEXIST : 0;
}

int registry_replace(struct registry *r, struct sandbox *old, struct sandbox *sb)
{
    cleanup_free char *idem = sb->idem_key ? idem_name(sb->owner, sb->idem_key) : NULL;
    cleanup_free char *old_idem = old->idem_key ? idem_name(old->owner, old->idem_key) : NULL;
    registry_write(r);
    bool can = map_get(&r->by_id, str_from(old->id)) == old &&
               !(idem && map_get(&r->by_idem, str_from(idem)));
    if (can) {
        erase(r, old, old_idem);
        insert(r, sb, idem);
    }
    registry_unlock(r);
    if (can) {
        sandbox_unref(old);
    }
    return can ? 0 : -EEXIST;
}

void registry_remove(struct registry *r, struct sandbox *sb)
{
    cleanup_free char *idem = sb->idem_key ? idem_name(sb->owner, sb->idem_key) : NULL;
    registry_write(r);
    bool there = map_get(&r->by_id, str_from(sb->id)) == sb;
    if (there) {
        erase(r, sb, idem);
    }
    registry_unlock(r);
    if (there) {
        sandbox_unref(sb);
    }
}

struct sandbox *registry_get(struct registry *r, const char *owner, struct str id)
{
    registry_read(r);
    struct sandbox *sb = map_get(&r->by_id, id);
    if (sb && owner && strcmp(owner, sb->owner) != 0) {
        sb = NULL;
    }
    if (sb) {
        sandbox_ref(sb);
    }
    registry_unlock(r);
    return sb;
}

struct sandbox *registry_get_idem(struct registry *r, const char *owner, const char *key)
{
    cleanup_free char *idem = idem_name(owner, key);
    registry_read(r);
    struct sandbox *sb = map_get(&r->by_idem, str_from(idem));
    if (sb) {
        sandbox_ref(sb);
    }
    registry_unlock(r);
    return sb;
}

size_t registry_count(struct registry *r, const char *owner)
{
    registry_read(r);
    const struct owner_count *c = owner ? map_get(&r->owners, str_from(owner)) : NULL;
    size_t n = owner ? (c ? c->n : 0) : r->n;
    registry_unlock(r);
    return n;
}

/* A filter with what is the same for all entries worked out once. */
struct matcher {
    const char *owner; /* NULL: no need to look */
    unsigned states;   /* bit per state */
    uint64_t metadata_bits;
    const struct str_map *metadata;
};

static struct matcher matcher_make(struct registry *r, const struct sandbox_filter *f)
{
    struct matcher m = {.states = f->n_states ? 0 : ~0u, .metadata = &f->metadata};
    const struct owner_count *c = f->owner ? map_get(&r->owners, str_from(f->owner)) : NULL;
    m.owner = f->owner && (c ? c->n : 0) != r->n ? f->owner : NULL; /* nobody else is here */
    for (int state = 0; state < SB__COUNT; state++) {
        for (size_t i = 0; i < f->n_states; i++) {
            if (str_eq_nocase(f->states[i],
                              str_from(sandbox_state_name((enum sandbox_state)state)))) {
                m.states |= 1u << state;
            }
        }
    }
    for (size_t i = 0; i < f->metadata.n; i++) {
        m.metadata_bits |= metadata_bit(f->metadata.v[i].key, f->metadata.v[i].value);
    }
    return m;
}

static bool matches_all(const struct matcher *m)
{
    return !m->owner && m->states == ~0u && !m->metadata->n;
}

static bool matches(const struct matcher *m, const struct sandbox *sb)
{
    if (!(m->states & (1u << sb->state)) ||
        (sb->metadata_bits & m->metadata_bits) != m->metadata_bits ||
        (m->owner && strcmp(m->owner, sb->owner) != 0)) {
        return false;
    }
    for (size_t i = 0; i < m->metadata->n; i++) {
        const char *v = str_map_get(&sb->metadata, m->metadata->v[i].key);
        if (!v || strcmp(v, m->metadata->v[i].value) != 0) {
            return false;
        }
    }
    return true;
}

void registry_list(struct registry *r, struct arena *a, const struct sandbox_filter *f,
                   struct sandbox_view **ret, size_t *ret_n, size_t *ret_total)
{
    struct sandbox_view *v = arena_array(a, f->page_size, sizeof(*v));
    size_t total = 0, n = 0, skip = 0;
    if (__builtin_mul_overflow(f->page - 1, f->page_size, &skip)) {
        skip = SIZE_MAX;
    }
    registry_read(r);
    struct matcher m = matcher_make(r, f);
    if (matches_all(&m)) { /* no need to walk: the page is known */
        total = r->n;
        for (size_t i = skip; i < total && n < f->page_size; i++) {
            sandbox_to_view(r->ordered[total - 1 - i], a, &v[n++]);
        }
    }
    for (size_t i = matches_all(&m) ? 0 : r->n; i-- > 0;) {
        const struct sandbox *sb = r->ordered[i];
        if (!matches(&m, sb)) {
            continue;
        }
        if (total >= skip && n < f->page_size) {
            sandbox_to_view(sb, a, &v[n++]);
        }
        total++;
    }
    registry_unlock(r);
    *ret = v;
    *ret_n = n;
    *ret_total = total;
}

struct sandbox **registry_all(struct registry *r, size_t *ret_n)
{
    registry_read(r);
    struct sandbox **v = xcalloc(r->n + 1, sizeof(struct sandbox *));
    for (size_t i = 0; i < r->n; i++) {
        v[i] = sandbox_ref(r->ordered[i]);
    }
    *ret_n = r->n;
    registry_unlock(r);
    return v;
}
