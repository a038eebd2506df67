/* Reading what nobody wants any more. */

#include "execd/drain.h"

#include <errno.h>
#include <stdlib.h>

#include "execd/limits.h"

struct drain {
    struct list node;
    struct drains *owner;
    struct io_stream *s;
};

static void drain_free(struct drain *d)
{
    list_del(&d->node);
    d->owner->n--;
    io_stream_close(d->s);
    free(d);
}

static void on_readable(struct io_stream *s, unsigned events, void *arg)
{
    char sink[4096];
    ssize_t n = 0;
    for (int i = 0; i < 16; i++) {
        n = io_stream_read(s, sink, sizeof(sink));
        if (n <= 0) {
            break;
        }
    }
    if (n == 0 || (n < 0 && n != -EAGAIN)) {
        drain_free(arg);
    }
}

void drains_init(struct drains *d)
{
    *d = (struct drains){0};
    list_init(&d->all);
}

void drains_add(struct drains *owner, struct io_stream *take_s)
{
    if (owner->n >= EXECD_MAX_DRAINS) {
        drain_free(list_entry(list_first(&owner->all), struct drain, node));
    }
    struct drain *d = NEW(struct drain);
    d->owner = owner;
    d->s = take_s;
    list_push_back(&owner->all, &d->node);
    owner->n++;
    io_stream_set_cb(take_s, on_readable, d);
    io_stream_want(take_s, IO_READABLE);
}

void drains_done(struct drains *d)
{
    while (!list_empty(&d->all)) {
        drain_free(list_entry(list_first(&d->all), struct drain, node));
    }
}
