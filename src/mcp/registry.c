#include "mcp/registry.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/list.h"
#include "base/map.h"
#include "base/must.h"
#include "mcp/limits.h"

struct entry {
    struct list node; /* least recently used first; alone when forgotten */
    struct osb_sandbox *s;
    unsigned users;
    bool known;
};

struct registry {
    pthread_mutex_t lock;
    struct map by_id;     /* entries that are known */
    struct map by_handle; /* all entries, by the pointer's bytes */
    struct list order;
};

struct registry *registry_new(void)
{
    struct registry *r = NEW(struct registry);
    list_init(&r->order);
    (void)pthread_mutex_init(&r->lock, NULL);
    return r;
}

static struct str handle_key(struct osb_sandbox *const *s)
{
    return str_n((const char *)s, sizeof(*s));
}

static void entry_free(struct registry *r, struct entry *x)
{
    (void)map_del(&r->by_handle, handle_key(&x->s));
    osb_sandbox_free(x->s);
    free(x);
}

/* With the lock held. */
static void forget(struct registry *r, struct entry *x)
{
    (void)map_del(&r->by_id, str_from(osb_sandbox_id(x->s)));
    list_del(&x->node);
    x->known = false;
    if (x->users == 0) {
        entry_free(r, x);
    }
}

void registry_free(struct registry *r)
{
    if (!r) {
        return;
    }
    list_each (n, &r->order) {
        struct entry *x = list_entry(n, struct entry, node);
        x->users = 0;
        forget(r, x);
    }
    map_done(&r->by_id);
    map_done(&r->by_handle);
    (void)pthread_mutex_destroy(&r->lock);
    free(r);
}

static struct osb_sandbox *use(struct registry *r, struct entry *x)
{
    x->users++;
    list_del(&x->node);
    list_push_back(&r->order, &x->node);
    return x->s;
}

struct osb_sandbox *registry_use(struct registry *r, const char *id)
{
    (void)pthread_mutex_lock(&r->lock);
    struct entry *x = map_get(&r->by_id, str_from(id));
    struct osb_sandbox *s = x ? use(r, x) : NULL;
    (void)pthread_mutex_unlock(&r->lock);
    return s;
}

static void make_room(struct registry *r)
{
    list_each (n, &r->order) {
        struct entry *x = list_entry(n, struct entry, node);
        if (x->users == 0) {
            forget(r, x);
            return;
        }
    }
}

struct osb_sandbox *registry_add(struct registry *r, struct osb_sandbox *take_s)
{
    struct str id = str_from(osb_sandbox_id(take_s));
    (void)pthread_mutex_lock(&r->lock);
    struct entry *x = map_get(&r->by_id, id);
    if (x) {
        osb_sandbox_free(take_s);
    } else {
        if (map_len(&r->by_id) >= MCP_MAX_SANDBOXES) {
            make_room(r);
        }
        x = NEW(struct entry);
        x->s = take_s;
        x->known = true;
        list_init(&x->node);
        (void)map_put(&r->by_id, id, x);
        (void)map_put(&r->by_handle, handle_key(&x->s), x);
    }
    struct osb_sandbox *s = use(r, x);
    (void)pthread_mutex_unlock(&r->lock);
    return s;
}

void registry_give(struct registry *r, struct osb_sandbox *s)
{
    if (!s) {
        return;
    }
    (void)pthread_mutex_lock(&r->lock);
    struct entry *x = map_get(&r->by_handle, handle_key(&s));
    must(x && x->users > 0);
    x->users--;
    if (x->users == 0 && !x->known) {
        entry_free(r, x);
    }
    (void)pthread_mutex_unlock(&r->lock);
}

void registry_forget(struct registry *r, const char *id)
{
    (void)pthread_mutex_lock(&r->lock);
    struct entry *x = map_get(&r->by_id, str_from(id));
    if (x) {
        forget(r, x);
    }
    (void)pthread_mutex_unlock(&r->lock);
}

size_t registry_len(struct registry *r)
{
    (void)pthread_mutex_lock(&r->lock);
    size_t n = map_len(&r->by_id);
    (void)pthread_mutex_unlock(&r->lock);
    return n;
}
