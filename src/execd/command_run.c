/* Starting commands: in the foreground, with the output as events of the response, or in the
 * background, with the output in a log. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/must.h"
#include "execd/command.h"
#include "execd/event_run.h"
#include "execd/reply.h"

#define ENAME STR("CommandExecError")

/* ---- foreground ---- */

struct foreground {
    struct event_run run;
    struct command *command;
};

static void on_foreground_end(struct event_run *r, const struct io_child_status *st, bool oom,
                              struct buf *out)
{
    struct foreground *f = container_of(r, struct foreground, run);
    struct outcome o;
    outcome_of(st, f->command->timeout_ms, oom, &o);
    if (o.ok) {
        event_add_complete(out, (int64_t)job_elapsed_ms(r->job), clock_wall_ms());
    } else {
        outcome_add_error(out, &o, clock_wall_ms());
    }
    f->command->job = NULL;
    command_finish(f->command, &o);
}

static void on_foreground_done(struct event_run *r)
{
    struct foreground *f = container_of(r, struct foreground, run);
    event_run_fini(r);
    free(f);
}

void command_start_foreground(struct execd *x, struct http_req *req, const char *text,
                              const struct job_spec *spec)
{
    struct foreground *f = NEW(struct foreground);
    f->run.on_end = on_foreground_end;
    f->run.on_done = on_foreground_done;
    event_run_init(&f->run, x, false);
    f->command = command_new(x, text, false);
    f->command->timeout_ms = spec->timeout_ms;
    int r = event_run_start(&f->run, spec);
    f->command->job = f->run.job;
    event_run_announce(&f->run, req, str_from(f->command->id));
    if (r < 0) {
        command_drop(f->command);
        event_run_fail(&f->run, ENAME, str_from(strerror(-r)));
        on_foreground_done(&f->run);
    }
}

/* ---- background ---- */

static void finish_background(struct command *c)
{
    if (c->ending && !cmd_log_busy(c->log)) {
        command_finish(c, &c->outcome);
    }
}

static size_t on_output(struct job *j, unsigned which, struct str data, void *arg)
{
    struct command *c = arg;
    return cmd_log_write(c->log, data) ? data.n : 0;
}

static void on_end(struct job *j, const struct io_child_status *st, bool oom, void *arg)
{
    struct command *c = arg;
    outcome_of(st, c->timeout_ms, oom, &c->outcome);
    c->ending = true;
    finish_background(c);
}

static void on_close(struct job *j, void *arg)
{
    struct command *c = arg;
    c->job = NULL;
}

static void on_log_room(void *arg)
{
    struct command *c = arg;
    if (c->job) {
        job_resume(c->job);
    }
    finish_background(c);
}

static const struct job_ops background_ops = {
    .on_output = on_output, .on_end = on_end, .on_close = on_close};

static void stream_ignored(struct event_stream *es)
{
}

/* The whole stream of a background command: it has started, or it has not. */
static void answer_background(struct execd *x, struct http_req *req, const char *id, int error,
                              const char *what)
{
    struct event_stream es = {.on_writable = stream_ignored, .on_gone = stream_ignored};
    event_stream_start(&es, x, req, str_from(id));
    struct buf *out = execd_scratch(x);
    int64_t now_ms = clock_wall_ms();
    if (error) {
        const char *trace[] = {what};
        event_add_error(out, STR(CODE_RUNTIME_ERROR), str_from(what), trace, 1, now_ms);
    } else {
        event_add_complete(out, 0, now_ms);
    }
    (void)event_stream_write(&es, buf_str(out));
    event_stream_end(&es);
}

void command_start_background(struct execd *x, struct http_req *req, const char *text,
                              const struct job_spec *spec)
{
    struct job_spec s = *spec;
    s.merge = s.follow = true;
    struct err e = {0};
    struct command *c = command_new(x, text, true);
    c->timeout_ms = spec->timeout_ms;
    c->log = cmd_log_new(x, on_log_room, c, &e);
    if (!c->log) {
        command_drop(c);
        reply_error(req, 500, CODE_RUNTIME_ERROR, "error running commands %s", e.msg);
        return;
    }
    int error = 0;
    c->job = job_start(x, &s, &background_ops, c, &error);
    if (!c->job) {
        struct outcome failed = {.exit_code = 255};
        (void)snprintf(failed.error, sizeof(failed.error), "%s", strerror(-error));
        command_finish(c, &failed);
        answer_background(x, req, c->id, error, failed.error);
        return;
    }
    answer_background(x, req, c->id, 0, NULL);
}
