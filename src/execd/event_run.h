#pragma once
/* A job whose output goes to a client as events: foreground commands and session runs. Owned by
 * whoever embeds it. */

#include "execd/event.h"
#include "execd/job.h"
#include "execd/lines.h"

struct event_run {
    struct execd *x;
    struct event_stream es;
    struct job *job; /* NULL: not started, or over */
    struct lines lines[2];
    bool kill_on_gone; /* when the client leaves: kill the group, or let it run on unheard */
    /* The client has left before the job was started. May be NULL. */
    void (*on_gone)(struct event_run *r);
    /* The process is over: append the terminal event to `out`. Afterwards the stream is ended and
     * on_done called, which may free the whole thing. */
    void (*on_end)(struct event_run *r, const struct io_child_status *st, bool oom,
                   struct buf *out);
    void (*on_done)(struct event_run *r);
};

/* Fill the callbacks first. `lf_only`: see lines.h. */
void event_run_init(struct event_run *r, struct execd *x, bool lf_only);
void event_run_fini(struct event_run *r);
/* Head, `init` and `ping`: as soon as it is certain that a stream is what the client gets. */
void event_run_announce(struct event_run *r, struct http_req *req, struct str id);
/* 0 or -errno. */
int event_run_start(struct event_run *r, const struct job_spec *spec);
/* Ends the stream with one error event, for a run that never started. */
void event_run_fail(struct event_run *r, struct str ename, struct str evalue);
