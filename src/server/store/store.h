#pragma once
/* What the server promised, on disk: sandboxes with their expiry and idempotency keys, events, and
 * the tables of snapshots and pools. SQLite in WAL mode, one connection behind one mutex; prepared
 * statements live only in this directory. Blocking: call from workers, never from a loop.
 *
 * Every change is one transaction and takes the event that tells of it along, so that record and
 * history cannot differ. A commit survives the death of the process at any instruction. */

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

struct store;

#define OWNER_DEFAULT "default" /* of everything, as long as keys have no owners of their own */

/* One row of `sandboxes`. Strings are borrowed; NULL is SQL NULL where allowed. */
struct store_sandbox {
    const char *id, *owner, *runtime;
    const char *state, *reason, *message;
    int64_t created_us, transition_us;
    int64_t expires_us; /* 0: never */
    const char *image, *snapshot_id, *os, *arch;
    const char *entrypoint; /* JSON array */
    const char *metadata;   /* JSON object, NULL: none given */
    int64_t renew_extend_s; /* 0: no renewal on access */
    const char *spec;       /* JSON: the request as validated, without registry credentials */
    const char *egress_token;
    const char *idem_key, *idem_hash;
    bool answered;    /* the client has been told the id although it is still Pending */
    const char *pool; /* name of the pool it waits in or was taken from, or NULL */
    bool had_auth;    /* the request carried registry credentials, which are not kept */
};

struct store_event {
    int64_t seq, at_us;
    const char *sandbox_id, *owner;
    const char *type;       /* "created", "paused", ... */
    const char *actor;      /* who: name of the API key, "expiry", "reconcile", "runtime" */
    const char *request_id; /* or "" */
    const char *reason, *message;
};

/* Opens or creates it (mode 0600) and brings the schema up to date. A database that is damaged, not
 * ours or from a newer version is an error and is not touched. */
struct store *store_open(const char *path, struct err *e);
void store_close(struct store *s);
/* Moves the write-ahead log into the database when it has grown. Cheap when there is nothing to do.
 */
void store_checkpoint(struct store *s);

/* ERR_CONFLICT when the id or the owner's idempotency key exists. `ev` may be NULL in all of these.
 */
int store_sandbox_insert(struct store *s, const struct store_sandbox *r,
                         const struct store_event *ev, struct err *e);
/* The same in place of the row of this id: a sandbox that waited in a pool has been taken. */
int store_sandbox_replace(struct store *s, const struct store_sandbox *r,
                          const struct store_event *ev, struct err *e);
int store_sandbox_set_state(struct store *s, const char *id, const char *state, const char *reason,
                            const char *message, int64_t transition_us,
                            const struct store_event *ev, struct err *e);
int store_sandbox_set_expiry(struct store *s, const char *id, int64_t expires_us,
                             const struct store_event *ev, struct err *e);
/* Moves every expiry: the wall clock has been set. */
int store_sandbox_shift_expiry(struct store *s, int64_t by_us, struct err *e);
int store_sandbox_set_metadata(struct store *s, const char *id, const char *metadata,
                               const struct store_event *ev, struct err *e);
int store_sandbox_set_answered(struct store *s, const char *id, struct err *e);
int store_sandbox_delete(struct store *s, const char *id, const struct store_event *ev,
                         struct err *e);
/* Rows in the order of their creation. The row is valid during the call. */
int store_sandbox_each(struct store *s, void (*fn)(const struct store_sandbox *r, void *arg),
                       void *arg, struct err *e);
/* One row, copied into the arena; ERR_NOT_FOUND. */
int store_sandbox_get(struct store *s, struct arena *a, const char *id, struct store_sandbox *ret,
                      struct err *e);

/* One row of `pools`. */
struct store_pool {
    const char *owner, *name;
    const char *spec; /* JSON: template, capacitySpec, origin */
    int64_t created_us;
};
/* New, or another spec for the one there is, whose time of creation stays. */
int store_pool_put(struct store *s, const struct store_pool *p, struct err *e);
int store_pool_delete(struct store *s, const char *owner, const char *name, struct err *e);
/* In the order of their creation. The row is valid during the call. */
int store_pool_each(struct store *s, void (*fn)(const struct store_pool *p, void *arg), void *arg,
                    struct err *e);

int store_event_add(struct store *s, const struct store_event *ev, struct err *e);
/* The newest `limit` events of a sandbox, oldest first. */
int store_event_list(struct store *s, struct arena *a, const char *sandbox_id, unsigned limit,
                     struct store_event **ret, size_t *ret_n, struct err *e);
/* Deletes at most `max_rows` events older than before_us. Returns the number, or -1. */
int store_event_prune(struct store *s, int64_t before_us, unsigned max_rows, struct err *e);

/* ---- snapshots ---- */
struct store_snapshot {
    const char *id, *owner, *sandbox_id;
    const char *name; /* or NULL */
    const char *spec; /* JSON: {"image": name} once there is something to restore from, else {} */
    const char *state, *reason, *message;
    int64_t created_us, transition_us;
};
struct store_snapshot_filter {
    const char *owner, *sandbox_id, *name; /* NULL: any */
    const struct str *states;              /* any of them, exactly; none: all */
    size_t n_states;
    size_t page, page_size; /* from 1 */
};
int store_snapshot_insert(struct store *s, const struct store_snapshot *r,
                          const struct store_event *ev, struct err *e);
/* Only if it is in the state `from` (NULL: in any). spec NULL: as it was. Returns 1 when changed, 0
 * when not, -1. */
int store_snapshot_set_state(struct store *s, const char *id, const char *from,
                             const struct store_snapshot *to, struct err *e);
int store_snapshot_delete(struct store *s, const char *id, struct err *e);
/* owner NULL: of any. ERR_NOT_FOUND. */
int store_snapshot_get(struct store *s, struct arena *a, const char *owner, const char *id,
                       struct store_snapshot *ret, struct err *e);
/* Newest first. */
int store_snapshot_list(struct store *s, struct arena *a, const struct store_snapshot_filter *f,
                        struct store_snapshot **ret, size_t *ret_n, size_t *ret_total,
                        struct err *e);
