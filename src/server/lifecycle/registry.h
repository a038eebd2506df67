#pragma once
/* The index of all sandboxes in memory: by id for every request, in order of creation for lists, by
 * idempotency key for creates. One read-write lock; it is never held across I/O, so loop threads
 * may take it for reading. */

#include <pthread.h>

#include "base/map.h"
#include "server/lifecycle/sandbox.h"

struct registry {
    pthread_rwlock_t lock;
    struct map by_id;
    struct map by_idem;       /* owner '\n' key */
    struct map owners;        /* owner -> struct owner_count */
    struct sandbox **ordered; /* by created_us, then id */
    size_t n, cap;
};

void registry_init(struct registry *r);
void registry_done(struct registry *r);

void registry_read(struct registry *r);
void registry_write(struct registry *r);
void registry_unlock(struct registry *r);

/* Takes over a reference. -EEXIST when the id or the idempotency key is there already. */
int registry_add(struct registry *r, struct sandbox *take_sb);
/* Puts `take_sb` where `old`, of the same id, was. -EEXIST when its idempotency key is known, or
 * when `old` is not there any more: then nothing has changed. */
int registry_replace(struct registry *r, struct sandbox *old, struct sandbox *take_sb);
/* Gives the registry's reference back. */
void registry_remove(struct registry *r, struct sandbox *sb);

/* A new reference, or NULL. owner NULL: of any owner (the server's own business, and the proxy,
 * where the id is the secret). */
struct sandbox *registry_get(struct registry *r, const char *owner, struct str id);
struct sandbox *registry_get_idem(struct registry *r, const char *owner, const char *key);
size_t registry_count(struct registry *r, const char *owner); /* NULL: all */

struct sandbox_filter {
    const char *owner;
    const struct str *states; /* any of them, in any case; none: all */
    size_t n_states;
    struct str_map metadata; /* all of them */
    size_t page, page_size;  /* from 1 */
};
/* Newest first. Views and everything they point to are in the arena. */
void registry_list(struct registry *r, struct arena *a, const struct sandbox_filter *f,
                   struct sandbox_view **ret, size_t *ret_n, size_t *ret_total);
/* References to all, in order of creation; free() the array after unref. */
struct sandbox **registry_all(struct registry *r, size_t *ret_n);
