#pragma once
/* What the files of this room share and nobody else sees: the loop's insides, the stream object and
 * the table through which a transport (plain, TLS) hooks into it. */

#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>

#include "base/list.h"
#include "io/limits.h"
#include "io/loop.h"
#include "io/stream.h"
#include "io/timer.h"

/* Something to run after the callbacks of this turn. Taking the node out of its list cancels it.
 * Also run while the loop is being freed: who would call a user then looks at `freeing`. */
struct io_task {
    struct list node;
    void (*fn)(struct io_task *t);
};

struct io_post_item;

struct io_loop {
    uv_loop_t uv;
    uv_async_t wake;
    uv_timer_t clock;
    uv_check_t check;
    uv_idle_t idle; /* active while tasks wait, so that the poll does not block */
    struct list tasks, owned, signals;
    struct io_timer **heap; /* 1-based 4-ary heap by heap_ms; heap[0] is unused */
    uint32_t n_heap, heap_cap;
    uint64_t clock_due_ms; /* what the uv timer is set to; UINT64_MAX: not set */
    uint64_t fake_ms;      /* 0: real time */
    bool running, firing, freeing;
    char *scratch;               /* relay.c: one buffer for all that is not held */
    int pipes[IO_LOOP_PIPES][2]; /* empty pipes for splicing */
    unsigned n_pipes;
    _Atomic(struct io_post_item *) posted;
    atomic_bool stop;
};

void loop_task_init(struct io_task *t, void (*fn)(struct io_task *t));
/* Harmless when already scheduled. */
void loop_task_add(struct io_loop *l, struct io_task *t);
static inline void loop_task_del(struct io_task *t)
{
    list_del(&t->node);
}

/* timer.c: fires what is due and sets the uv timer to what comes next. */
void timers_init(struct io_loop *l);
void timers_done(struct io_loop *l);
void timers_advance(struct io_loop *l, uint64_t ms);
void timers_stop_clock(struct io_loop *l);

enum io_stream_kind { STREAM_SOCKET, STREAM_PIPE, STREAM_TTY };

/* A transport. read and writev have the semantics of the public functions. */
struct io_stream_ops {
    ssize_t (*read)(struct io_stream *s, void *p, size_t n);
    ssize_t (*writev)(struct io_stream *s, const struct iovec *iov, int n_iov);
    ssize_t (*sendfile)(struct io_stream *s, int fd, off_t *offset, size_t n);
    int (*shutdown)(struct io_stream *s);
    /* Plaintext is buffered: READABLE must be delivered without the kernel. NULL: never. */
    bool (*pending)(struct io_stream *s);
    void (*close)(struct io_stream *s,
                  bool abort); /* before the descriptor is closed; may be NULL */
};

struct io_stream {
    uv_poll_t poll;
    const struct io_stream_ops *ops;
    io_stream_cb *cb;
    void *arg;
    void *transport; /* the TLS state */
    struct io_task again;
    struct io_stream **weak; /* somebody's pointer, set to NULL when the stream closes */
    int fd;
    uint8_t kind;
    uint8_t wanted; /* IO_READABLE | IO_WRITABLE as the owner said */
    uint8_t armed;  /* uv events the kernel is asked for: may be more than needed */
    uint8_t read_needs,
        write_needs; /* the uv event that lets read/write go on (TLS may swap them) */
    bool watch_hup, hup_told;
    bool ended; /* write end of a pipe that was shut down: the descriptor is /dev/null */
    bool closed;
};

/* Like io_stream_from_fd for a descriptor whose kind is known. NULL: cannot be watched, closed. */
struct io_stream *stream_new(struct io_loop *l, int take_fd, enum io_stream_kind kind);
/* Sets the kernel's interest to what is needed now. Transports call it after changing *_needs. */
void stream_rearm(struct io_stream *s);
/* read + write through a buffer, for transports and files that sendfile(2) cannot serve. */
ssize_t stream_copy_file(struct io_stream *s, int fd, off_t *offset, size_t n);

static inline struct io_loop *loop_of(const uv_handle_t *h)
{
    return h->loop->data;
}
