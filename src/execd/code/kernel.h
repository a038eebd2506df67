#pragma once
/* A code kernel: one interpreter with its state, reached in one of two ways.
 *
 *   - local: execd starts the process and speaks ZeroMQ to it (kernel_local.c)
 *   - jupyter: a Jupyter server has it, spoken to by REST and WebSocket (kernel_jupyter.c)
 *
 * Loop thread only. The owner gets callbacks until kernel_free(); none comes from inside a call. */

#include <stdbool.h>

#include "base/err.h"
#include "execd/code/message.h"
#include "execd/execd.h"

struct kernel;

struct kernel_events {
    /* Once: it takes code now (e NULL), or never will. */
    void (*on_ready)(struct kernel *k, const struct err *e);
    /* Anything it says on its shell and output channels; not while paused. */
    void (*on_message)(struct kernel *k, const struct kernel_message *m);
    /* After on_ready: its state is lost. `gone`: it takes no code any more, free it; otherwise it
     * has been restarted, or its connection has and what ran cannot be followed any more. */
    void (*on_lost)(struct kernel *k, const char *why, bool gone);
};

struct kernel_class {
    void (*execute)(struct kernel *k, const char *msg_id, struct str code);
    /* Runs code that nobody hears of; false: it cannot now. May be NULL. */
    bool (*prepare)(struct kernel *k, struct str code);
    void (*interrupt)(struct kernel *k);
    /* It did not stop when interrupted: on_lost follows. */
    void (*kill)(struct kernel *k);
    void (*pause)(struct kernel *k, bool on);
    void (*free)(struct kernel *k);
    size_t (*signal)(struct kernel *k, int signo);
    /* False: it has not been seen alive since the last call. Asked while code runs in it. */
    bool (*responds)(struct kernel *k);
};

struct kernel {
    const struct kernel_class *cls;
    const struct kernel_events *events;
    void *owner;
    const char *id; /* what it is called where it lives, or NULL: any name will do */
};

struct kernel_opts {
    const char *language;    /* lower case */
    const char *cwd;         /* NULL: execd's */
    const char *const *envs; /* "NAME=value", NULL-terminated, or NULL */
};

/* NULL with `e` when there is no such kernel here: ERR_NOT_FOUND, listing those there are. */
struct kernel *kernel_local_new(struct execd *x, const struct kernel_opts *o,
                                const struct kernel_events *ev, void *owner, struct err *e);
/* Most failures come through on_ready. */
struct kernel *kernel_jupyter_new(struct execd *x, const struct kernel_opts *o,
                                  const struct kernel_events *ev, void *owner, struct err *e);

static inline void kernel_execute(struct kernel *k, const char *msg_id, struct str code)
{
    k->cls->execute(k, msg_id, code);
}
static inline void kernel_interrupt(struct kernel *k)
{
    k->cls->interrupt(k);
}
static inline void kernel_kill(struct kernel *k)
{
    k->cls->kill(k);
}
static inline void kernel_pause(struct kernel *k, bool on)
{
    k->cls->pause(k, on);
}
/* Shuts it down, in its own time; NULL is fine. */
static inline void kernel_free(struct kernel *k)
{
    if (k) {
        k->cls->free(k);
    }
}
