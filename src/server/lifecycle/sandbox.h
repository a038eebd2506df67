#pragma once
/* One sandbox in memory. The store has the same facts on disk; this is what requests read.
 *
 * Facts never change after sandbox_new(). Everything below them has a lock, named at each group.
 * Reference-counted: the registry holds one, each operation and each waiting timer another.
 *
 * States:
 *
 *   Pending ──► Running ◄──► Pausing/Paused/Resuming
 *      │           │  └────────► Terminated (entrypoint ended with 0), Failed (any other end)
 *      └─► Failed  │
 *                  ▼
 *              Stopping ──► gone      (from every state: delete, expiry) */

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/list.h"
#include "model/sandbox.h"
#include "server/runtime/runtime.h"
#include "server/store/store.h"
#include "json/field.h"

enum sandbox_state {
    SB_PENDING,
    SB_RUNNING,
    SB_PAUSING,
    SB_PAUSED,
    SB_RESUMING,
    SB_STOPPING,
    SB_TERMINATED,
    SB_FAILED,
    SB__COUNT
};

enum sandbox_op {
    OP_NONE,
    OP_CREATE,
    OP_PAUSE,
    OP_RESUME,
    OP_REMOVE,
    OP_INSPECT,
    OP_SNAPSHOT,
    OP__COUNT
};

struct create_plan;

struct sandbox {
    int refs; /* atomic */
    /* facts */
    struct arena arena;
    char id[SANDBOX_ID_MAX];
    const char *owner;
    const char *image, *snapshot_id, *os, *arch;
    struct str_list entrypoint;
    const char *idem_key, *idem_hash;
    const char *egress_token;
    const char *pool; /* name of the pool it waits in or was taken from, or NULL */
    bool is_member;   /* waits in it: nobody's yet, and shown to nobody */
    int64_t created_us;
    int64_t renew_extend_s;
    bool had_auth;

    /* registry lock */
    enum sandbox_state state;
    char *reason, *message;
    int64_t transition_us, expires_us;
    struct str_map metadata; /* in metadata_arena, replaced as a whole */
    uint64_t metadata_bits;  /* metadata_bit() of each pair: most filters need to look no further */
    struct arena metadata_arena;
    bool removing; /* decided; nothing else may begin */

    /* operation lock (lifecycle/op.c) */
    enum sandbox_op op;
    bool answered;
    struct list waiters; /* struct create_waiter */
    unsigned n_waiters;
    struct create_plan *plan; /* while it is being created */

    /* expiry lock (lifecycle/expiry.c) */
    uint64_t due_ms;  /* monotonic */
    size_t heap_slot; /* 1-based; 0: not in the heap */

    /* atomic */
    unsigned n_failed; /* removals */
    bool cancelled;    /* the create shall give up */
    bool renew_queued;
    uint64_t renewed_ms; /* monotonic, of the last renewal on access */
};

/* Owner of the sandboxes that wait in pools: this, the pool's name, '@', the pool's owner. No key's
 * owner begins like it. */
#define MEMBER_OWNER "pool/"

struct sandbox *sandbox_ref(struct sandbox *sb);
void sandbox_unref(struct sandbox *sb); /* NULL is fine */
/* From a row of the store; NULL with ERR_INTERNAL when the row's JSON cannot be read. */
struct sandbox *sandbox_from_row(const struct store_sandbox *row, struct err *e);

const char *sandbox_state_name(enum sandbox_state s); /* "Running" */
int sandbox_state_parse(const char *name, enum sandbox_state *ret);
const char *sandbox_op_name(enum sandbox_op op);

uint64_t metadata_bit(const char *key, const char *value); /* one of 64, by hash */

/* With the registry lock held for writing. */
void sandbox_set_state(struct sandbox *sb, enum sandbox_state state, const char *reason,
                       const char *message, int64_t transition_us);
void sandbox_set_metadata(struct sandbox *sb, const struct str_map *m);

/* With the registry lock held for reading: copies what the API shows into the arena. */
void sandbox_to_view(const struct sandbox *sb, struct arena *a, struct sandbox_view *ret);
void sandbox_to_created(const struct sandbox *sb, struct arena *a, struct sandbox_created *ret);
