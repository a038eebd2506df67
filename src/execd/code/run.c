/* One run of code in a context: what its kernel says about it, as events of a response.
 *
 *   WAITING    the kernel is being started, or the run before has been interrupted and is about to
 *              end; nothing has been sent, so a failure is a plain error
 *   RUNNING    `init` is out, the request is with the kernel
 *
 * Only messages whose parent is this run's request count. A run is over when the kernel has both
 * replied and gone idle; the error, if there was one, is told then, so that exactly one event ends
 * the stream and no output comes behind it. A lost `idle` (a kernel drops output nobody takes) is
 * waited for EXECD_KERNEL_IDLE_MS and no longer; a reply comes before `idle` or never.
 *
 * Backpressure: a long text is sent piece by piece, and nothing more is read from the kernel until
 * the client has taken it. */

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/must.h"
#include "base/utf8.h"
#include "execd/code/complaint.h"
#include "execd/code/context.h"
#include "execd/event.h"
#include "execd/limits.h"
#include "execd/reply.h"
#include "execd/telemetry.h"

#define RESULT_MAX (60u << 20) /* an encoded result or error; a larger one is left out */
/* A kernel that is interrupted just before the code begins goes idle and never replies. Nor does
 * one that fails in its own code, as bash_kernel does with an incomplete command. */
#define INTERRUPTED_MS 1000u
#define NO_REPLY_MS 3000u
/* Between attempts to run what a kernel has aborted without running it, and how many. */
#define ABORTED_MS 100u
#define ABORTED_MAX 10
#define TOO_LARGE "OutputTooLarge"
#define INTERRUPTED "KeyboardInterrupt"
#define HANG_LOOKS 4 /* in the time after which a kernel is taken for hung */
#define FIRST_LOOK_MS 2000u
#define BEGUN_MS 500u /* an interrupt waits so long for the code to have begun */

struct code_run {
    struct context *context;
    struct execd *x;
    struct http_req *req; /* WAITING */
    char *code;
    unsigned attempts; /* a kernel may abort what comes right behind an error: it is sent again */
    bool again;
    struct event_stream es;
    char msg_id[UUID_LEN + 1];
    uint64_t started_ms;
    bool running, begun, replied, idle;
    bool heard;      /* anything at all about this request */
    bool reply_lost; /* it was too large: nobody knows what it said */
    struct io_timer watch;
    unsigned silent;      /* times in a row that the kernel was found hanging */
    bool hung;            /* and was ended for it */
    struct json *error;   /* content of what failed, told at the end */
    struct json *pending; /* content of a `stream` message that is being sent */
    size_t sent;          /* bytes of its text */
    struct complaint complaint;
    struct io_timer late;
    struct io_timer interrupt;
    bool interrupt_waits, interrupt_sent, interrupted; /* interrupted: in vain, and killed */
};

static void run_free(struct code_run *r)
{
    if (r->context->next == r) {
        r->context->next = NULL;
    } else {
        r->context->run = NULL;
    }
    io_timer_stop(&r->late);
    io_timer_stop(&r->interrupt);
    io_timer_stop(&r->watch);
    json_free(r->error);
    json_free(r->pending);
    complaint_done(&r->complaint);
    free(r->code);
    free(r);
}

/* ---- the end ---- */

static void add_error(struct buf *out, struct code_run *r)
{
    struct str ename = json_str(json_get(r->error, "ename"));
    struct str evalue = json_str(json_get(r->error, "evalue"));
    const struct json *trace = json_get(r->error, "traceback");
    size_t n = json_len(trace);
    const char **lines = xcalloc(n + 1, sizeof(*lines));
    for (size_t i = 0; i < n; i++) {
        lines[i] = json_cstr(json_item(trace, i)); /* NULL ones are left out */
    }
    if (evalue.n == 0 && ename.n == 0 && n == 0) {
        complaint_read(&r->complaint, &ename, &evalue);
        lines[n++] = buf_cstr(&r->complaint.tail);
    }
    event_add_error(out, ename.n ? ename : STR("Error"), evalue, lines, n, clock_wall_ms());
    free(lines);
}

/* Its turn: now, or when there is a kernel. */
static void begin(struct code_run *r)
{
    struct context *c = r->context;
    struct err e = {0};
    c->run = r;
    if (c->ready) {
        code_run_ready(r);
    } else if (context_start_kernel(c, &e) < 0) {
        code_run_fail(r, CODE_RUNTIME_ERROR, e.msg);
    }
}

static void end(struct code_run *r, struct buf *terminal, bool ok)
{
    struct context *c = r->context;
    telemetry_execution(r->x->telemetry, TELEMETRY_RUN_CODE, ok, clock_mono_ms() - r->started_ms);
    (void)event_stream_write(&r->es, buf_str(terminal));
    event_stream_end(&r->es);
    run_free(r);
    if (c->kernel) {
        kernel_pause(c->kernel, false);
    }
    if (c->next) {
        begin(take_ptr(&c->next));
    }
}

static void set_error(struct code_run *r, struct str ename, struct str evalue)
{
    r->error = json_object_new();
    json_set(r->error, "ename", json_string_new(ename));
    json_set(r->error, "evalue", json_string_new(evalue));
}

static void finish(struct code_run *r)
{
    cleanup_(buf_done) struct buf out = BUF_INIT(RESULT_MAX);
    if (!r->error && r->reply_lost) {
        set_error(r, STR(TOO_LARGE), STR("the kernel's reply is larger than 32 MiB"));
    }
    bool ok = !r->error;
    if (ok) {
        event_add_complete(&out, (int64_t)(clock_mono_ms() - r->started_ms), clock_wall_ms());
    } else {
        add_error(&out, r);
        if (buf_failed(&out)) {
            buf_clear(&out);
            event_add_error(&out, json_str(json_get(r->error, "ename")),
                            STR("(its text is too long)"), NULL, 0, clock_wall_ms());
        }
    }
    end(r, &out, ok);
}

static void finish_if_over(struct code_run *r)
{
    if (r->pending || r->again) {
        return;
    }
    if (r->replied && r->idle) {
        finish(r);
    } else if (r->replied || r->idle) {
        io_timer_start(&r->late, r->replied          ? EXECD_KERNEL_IDLE_MS
                                 : r->interrupt_sent ? INTERRUPTED_MS
                                                     : NO_REPLY_MS);
    }
}

static void on_late(struct io_timer *t)
{
    struct code_run *r = container_of(t, struct code_run, late);
    if (r->again && !r->interrupt_sent) {
        r->again = r->idle = r->begun = false;
        rand_uuid(r->msg_id);
        kernel_execute(r->context->kernel, r->msg_id, str_from(r->code));
        return;
    }
    if (r->es.blocked) {
        io_timer_start(&r->late, EXECD_KERNEL_IDLE_MS);
        return;
    }
    if (!r->replied && !r->error && r->interrupt_sent) {
        set_error(r, STR(INTERRUPTED), STR("the code was interrupted"));
    } else if (!r->replied && !r->error) {
        set_error(r, STR("ExecutionAborted"),
                  STR("the kernel gave the code up without an answer; it may be incomplete"));
    }
    finish(r);
}

void code_run_fail(struct code_run *r, const char *ename, const char *why)
{
    if (!r->running) {
        struct http_req *req = take_ptr(&r->req);
        if (req) {
            http_req_on_end(req, NULL, NULL);
            reply_error(req, 500, CODE_RUNTIME_ERROR, "error running codes %s", why);
        }
        run_free(r);
        return;
    }
    cleanup_(buf_done) struct buf out = BUF_INIT(RESULT_MAX);
    if (r->interrupted && strcmp(ename, "KernelDied") == 0) {
        why = "the code did not stop when it was interrupted, and its kernel was ended; its state "
              "is lost";
    } else if (r->hung && strcmp(ename, "KernelDied") == 0) {
        why = "the kernel hung (it was stopped, or did not take the code), and was ended; its "
              "state is lost";
    }
    const char *trace[] = {why};
    event_add_error(&out, str_from(ename), str_from(why), trace, 1, clock_wall_ms());
    end(r, &out, false);
}

/* ---- output ---- */

/* As much of the pending text as the client takes. */
static void pump(struct code_run *r)
{
    struct str text = json_str(json_get(r->pending, "text"));
    const char *name = json_cstr(json_get(r->pending, "name"));
    struct str type = name && strcmp(name, "stderr") == 0 ? STR("stderr") : STR("stdout");
    while (r->pending && !r->es.blocked) {
        struct str rest = str_sub(text, r->sent, text.n);
        if (rest.n == 0 || !event_stream_open(&r->es)) {
            json_free(take_ptr(&r->pending));
            break;
        }
        size_t n = rest.n > EXECD_EVENT_TEXT_MAX ? utf8_floor(rest, EXECD_EVENT_TEXT_MAX) : rest.n;
        struct buf *out = execd_scratch(r->x);
        event_add_text(out, type, str_sub(rest, 0, n), clock_wall_ms());
        r->sent += n;
        (void)event_stream_write(&r->es, buf_str(out));
    }
    if (r->context->kernel) {
        kernel_pause(r->context->kernel, r->pending || r->es.blocked);
    }
}

static void say(struct code_run *r, const char *text)
{
    struct buf *out = execd_scratch(r->x);
    event_add_text(out, STR("stderr"), str_from(text), clock_wall_ms());
    (void)event_stream_write(&r->es, buf_str(out));
}

static void put_value(struct json_out *o, const struct json *v)
{
    if (json_is_string(v)) {
        json_put_str(o, json_str(v));
        return;
    }
    /* Clients want strings: an object is told as the text of one. */
    cleanup_(buf_done) struct buf text = BUF_INIT(RESULT_MAX);
    (void)json_dump(v, &text, 0);
    json_put_str(o, buf_str(&text));
}

static void add_result(struct buf *out, const struct json *content, bool update)
{
    struct json_out o;
    const struct json *data = json_get(content, "data");
    const char *display_id = json_cstr(json_at(content, "transient.display_id"));
    const char *type;
    struct json *value;
    void *it = NULL;
    json_out_init(&o, out);
    json_obj_begin(&o);
    json_key(&o, "type");
    json_put_cstr(&o, "result");
    json_key(&o, "timestamp");
    json_put_int(&o, clock_wall_ms());
    if (display_id) {
        json_key(&o, "display_id");
        json_put_cstr(&o, display_id);
        json_key(&o, "update");
        json_put_bool(&o, update);
    }
    json_key(&o, "results");
    json_obj_begin(&o);
    bool has_plain = json_get(data, "text/plain") != NULL;
    while (json_next(data, &it, &type, &value)) {
        if (strcmp(type, "text/plain") == 0) {
            json_key(&o, "text");
            put_value(&o, value);
        } else if (has_plain && strcmp(type, "text") == 0) {
            continue; /* no MIME type, and its place is taken */
        }
        json_key(&o, type);
        put_value(&o, value);
    }
    json_obj_end(&o);
    json_obj_end(&o);
    (void)buf_add_str(out, STR("\n\n"));
}

static void add_count(struct buf *out, const struct json *content)
{
    int64_t count = json_int(json_get(content, "execution_count"), 0);
    if (count > 0) {
        (void)buf_printf(out,
                         "{\"type\":\"execution_count\",\"execution_count\":%lld,"
                         "\"timestamp\":%lld}\n\n",
                         (long long)count, (long long)clock_wall_ms());
    }
}

static void on_result(struct code_run *r, const struct kernel_message *m, bool counted, bool update)
{
    cleanup_(buf_done) struct buf out = BUF_INIT(RESULT_MAX);
    if (!event_stream_open(&r->es) || !json_is_object(json_get(m->content, "data"))) {
        return;
    }
    if (counted) {
        add_count(&out, m->content);
    }
    add_result(&out, m->content, update);
    if (buf_failed(&out)) {
        say(r, "[a result was left out: it is too large]\n");
    } else {
        (void)event_stream_write(&r->es, buf_str(&out));
    }
}

/* ---- what the kernel says ---- */

static void on_reply(struct code_run *r, const struct json *content)
{
    struct str status = json_str(json_get(content, "status"));
    bool aborted =
        str_eq(status, STR("aborted")) || str_eq(status, STR("abort")); /* tslab's word */
    if (aborted && !r->interrupt_sent && r->attempts++ < ABORTED_MAX) {
        r->again = true;
        io_timer_start(&r->late, ABORTED_MS);
        return;
    }
    r->replied = true;
    if (str_eq(status, STR("ok")) || r->error) {
        return;
    }
    if (str_eq(status, STR("error"))) {
        r->error = json_clone(content);
        return;
    }
    if (aborted && r->interrupt_sent) { /* bash_kernel's way to say it */
        set_error(r, STR(INTERRUPTED), STR("the code was interrupted"));
    } else {
        set_error(r, STR("ExecutionAborted"), STR("the kernel did not run the code"));
    }
}

/* Only what it was about is known. */
static void deliver_too_large(struct code_run *r, const struct kernel_message *m)
{
    if (strcmp(m->type, "execute_reply") == 0) {
        r->replied = r->reply_lost = true;
    } else if (strcmp(m->type, "error") != 0) {
        say(r, "[output was left out: more than 32 MiB in one piece]\n");
    } else if (!r->error) {
        set_error(r, STR(TOO_LARGE), STR("the code failed, with an error larger than 32 MiB"));
    }
}

static void deliver(struct code_run *r, const struct kernel_message *m)
{
    if (m->truncated) {
        deliver_too_large(r, m);
    } else if (strcmp(m->type, "stream") == 0) {
        r->pending = json_ref(m->content);
        r->sent = 0;
        if (str_eq(json_str(json_get(m->content, "name")), STR("stderr"))) {
            complaint_add(&r->complaint, json_str(json_get(m->content, "text")));
        }
    } else if (strcmp(m->type, "execute_result") == 0) {
        on_result(r, m, true, false);
    } else if (strcmp(m->type, "display_data") == 0) {
        on_result(r, m, false, false);
    } else if (strcmp(m->type, "update_display_data") == 0) {
        on_result(r, m, false, true);
    } else if (strcmp(m->type, "error") == 0 && !r->error) {
        r->error = json_ref(m->content);
    } else if (strcmp(m->type, "execute_reply") == 0) {
        on_reply(r, m->content);
    } else if (strcmp(m->type, "status") == 0) {
        r->idle |= str_eq(json_str(json_get(m->content, "execution_state")), STR("idle"));
    }
}

static void interrupt_now(struct code_run *r)
{
    if (!r->interrupt_sent) { /* asked once more, it is not given more time */
        io_timer_start(&r->interrupt, EXECD_KERNEL_INTERRUPT_MS);
    }
    r->interrupt_waits = false;
    r->interrupt_sent = true;
    kernel_interrupt(r->context->kernel);
}

void code_run_message(struct code_run *r, const struct kernel_message *m)
{
    if (!r->running || strcmp(m->parent_id, r->msg_id) != 0) {
        return;
    }
    r->heard = true;
    deliver(r, m);
    if (strcmp(m->type, "status") != 0 && !r->begun) {
        r->begun = true;
        if (r->interrupt_waits || r->interrupt_sent) { /* one that came before was not noticed */
            interrupt_now(r);
        }
    }
    pump(r);
    finish_if_over(r);
}

/* ---- interrupting ---- */

static void on_interrupt_timer(struct io_timer *t)
{
    struct code_run *r = container_of(t, struct code_run, interrupt);
    if (r->interrupt_waits) {
        interrupt_now(r);
    } else {
        r->interrupted = true;
        kernel_kill(r->context->kernel); /* the end of the run follows */
    }
}

void code_run_interrupt(struct context *c)
{
    struct code_run *r = c->run;
    if (c->next) {
        code_run_fail(c->next, CODE_RUNTIME_ERROR, "interrupted before its turn");
    }
    if (!r) {
        return;
    }
    if (!r->running) {
        code_run_fail(r, CODE_RUNTIME_ERROR, "interrupted before its kernel was there");
    } else if (r->begun || r->interrupt_sent) {
        interrupt_now(r);
    } else {
        /* An idle kernel ignores interrupts: it has to have begun first. */
        r->interrupt_waits = true;
        io_timer_start(&r->interrupt, BEGUN_MS);
    }
}

/* ---- hanging ---- */

/* Code may take as long as it likes. A kernel hangs that does not even take it, or that is there no
 * more and has not said so: its process is stopped, or the server between us is. */
static void on_watch(struct io_timer *t)
{
    struct code_run *r = container_of(t, struct code_run, watch);
    struct kernel *k = r->context->kernel;
    bool alive = k->cls->responds(k);
    r->silent = r->es.blocked || (alive && r->heard) ? 0 : r->silent + 1;
    if (r->silent <= HANG_LOOKS) { /* the first look comes early and does not count */
        io_timer_start(&r->watch, (uint64_t)r->x->cfg.code_hang_ms / HANG_LOOKS);
    } else if (!r->interrupted) {
        r->hung = true;
        kernel_kill(k); /* the end of the run follows */
    }
}

/* ---- the beginning ---- */

static void on_writable(struct event_stream *es)
{
    struct code_run *r = container_of(es, struct code_run, es);
    pump(r);
    finish_if_over(r);
}

/* The kernel goes on, unheard. */
static void on_gone(struct event_stream *es)
{
    on_writable(es);
}

static void on_waiter_gone(struct http_req *req, bool completed, void *arg)
{
    struct code_run *r = arg;
    r->req = NULL;
    run_free(r); /* it has not begun, and now nobody wants it */
}

void code_run_ready(struct code_run *r)
{
    struct http_req *req = take_ptr(&r->req);
    r->running = true;
    r->started_ms = clock_mono_ms();
    event_stream_start(&r->es, r->x, req, str_from(r->context->id));
    if (r->x->cfg.code_hang_ms > 0) {
        io_timer_start(&r->watch,
                       MIN(FIRST_LOOK_MS, (uint64_t)r->x->cfg.code_hang_ms / HANG_LOOKS));
    }
    kernel_execute(r->context->kernel, r->msg_id, str_from(r->code));
}

void code_run_start(struct context *c, struct http_req *req, struct str code)
{
    struct code_run *r = NEW(struct code_run);
    r->context = c;
    r->x = c->x;
    r->req = req;
    r->code = str_dup(code);
    r->es = (struct event_stream){.x = c->x, .on_writable = on_writable, .on_gone = on_gone};
    r->started_ms = clock_mono_ms();
    rand_uuid(r->msg_id);
    complaint_init(&r->complaint);
    io_timer_init(&r->late, c->x->loop, on_late);
    io_timer_init(&r->interrupt, c->x->loop, on_interrupt_timer);
    io_timer_init(&r->watch, c->x->loop, on_watch);
    http_req_on_end(req, on_waiter_gone, r);
    if (c->run) {
        c->next = r;
    } else {
        begin(r);
    }
}

bool code_run_is_busy(const struct context *c)
{
    /* An interrupted run ends within EXECD_KERNEL_INTERRUPT_MS, one way or the other. */
    return c->run && (c->next || !(c->run->interrupt_waits || c->run->interrupt_sent));
}

static void stream_ignored(struct event_stream *es)
{
}

void code_run_busy(struct context *c, struct http_req *req)
{
    if (!c->id) {
        reply_error(req, 500, CODE_RUNTIME_ERROR, "error running codes session is busy");
        return;
    }
    struct event_stream es = {.on_writable = stream_ignored, .on_gone = stream_ignored};
    event_stream_start(&es, c->x, req, str_from(c->id));
    struct buf *out = execd_scratch(c->x);
    const char *trace[] = {"session is busy"};
    event_add_error(out, STR(CODE_RUNTIME_ERROR), str_from(trace[0]), trace, 1, clock_wall_ms());
    (void)event_stream_write(&es, buf_str(out));
    event_stream_end(&es);
}
