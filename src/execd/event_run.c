/* Jobs as event streams. */

#include "execd/event_run.h"

#include <signal.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/must.h"

static size_t on_output(struct job *j, unsigned which, struct str data, void *arg)
{
    struct event_run *r = arg;
    int64_t now_ms = clock_wall_ms();
    struct str in = data;
    while (in.n && !r->es.blocked && event_stream_open(&r->es)) {
        struct buf *out = execd_scratch(r->x);
        lines_feed(&r->lines[which], &in, out, now_ms);
        (void)event_stream_write(&r->es, buf_str(out));
    }
    return event_stream_open(&r->es) ? data.n - in.n : data.n;
}

static void on_job_end(struct job *j, const struct io_child_status *st, bool oom, void *arg)
{
    struct event_run *r = arg;
    struct buf *out = execd_scratch(r->x);
    int64_t now_ms = clock_wall_ms();
    for (size_t i = 0; i < ARRAY_LEN(r->lines); i++) {
        lines_end(&r->lines[i], out, now_ms);
    }
    r->on_end(r, st, oom, out);
    r->job = NULL;
    (void)event_stream_write(&r->es, buf_str(out));
    event_stream_end(&r->es);
    r->on_done(r);
}

static const struct job_ops job_ops = {.on_output = on_output, .on_end = on_job_end};

static void on_writable(struct event_stream *es)
{
    struct event_run *r = container_of(es, struct event_run, es);
    if (r->job) {
        job_resume(r->job);
    }
}

static void on_gone(struct event_stream *es)
{
    struct event_run *r = container_of(es, struct event_run, es);
    if (!r->job) {
        if (r->on_gone) {
            r->on_gone(r);
        }
        return;
    }
    if (r->kill_on_gone) {
        (void)job_signal(r->job, SIGKILL);
    }
    job_discard(r->job); /* may be the end of it */
}

void event_run_init(struct event_run *r, struct execd *x, bool lf_only)
{
    r->x = x;
    r->es = (struct event_stream){.x = x, .on_writable = on_writable, .on_gone = on_gone};
    lines_init(&r->lines[0], STR("stdout"), lf_only);
    lines_init(&r->lines[1], STR("stderr"), lf_only);
}

void event_run_fini(struct event_run *r)
{
    lines_done(&r->lines[0]);
    lines_done(&r->lines[1]);
}

void event_run_announce(struct event_run *r, struct http_req *req, struct str id)
{
    event_stream_start(&r->es, r->x, req, id);
}

int event_run_start(struct event_run *r, const struct job_spec *spec)
{
    int error = 0;
    r->job = job_start(r->x, spec, &job_ops, r, &error);
    return r->job ? 0 : error;
}

void event_run_fail(struct event_run *r, struct str ename, struct str evalue)
{
    struct buf *out = execd_scratch(r->x);
    cleanup_free char *text = str_dup(evalue);
    const char *trace[] = {text};
    event_add_error(out, ename, evalue, trace, 1, clock_wall_ms());
    (void)event_stream_write(&r->es, buf_str(out));
    event_stream_end(&r->es);
}
