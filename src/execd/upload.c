/* POST /files/upload: the loop takes the body apart and collects it in batches, a worker does what
 * they say (upload_parts.h). While one batch is written the next is filled; when both are full the
 * client has to wait. So memory is two batches, and a slow disk does not hold up the loop. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/must.h"
#include "execd/execd.h"
#include "execd/limits.h"
#include "execd/reply.h"
#include "execd/routes_files.h"
#include "execd/task.h"
#include "execd/upload_parts.h"
#include "http/multipart.h"

enum step_kind { STEP_META, STEP_BEGIN, STEP_DATA, STEP_END, STEP_FINISH };

struct step {
    enum step_kind kind;
    size_t len; /* bytes of the batch that belong to it */
};

struct batch {
    struct buf data;
    struct step *steps;
    size_t n, cap;
};

enum part_kind { PART_NONE, PART_META, PART_FILE, PART_OTHER };

struct upload {
    struct task task;
    struct execd *x;
    struct http_req *req; /* NULL: it has ended */
    struct multipart *parser;
    struct upload_set *set; /* the worker's while running */
    enum part_kind part;
    struct batch filling, working;
    bool running;  /* a worker has `working` and `set` */
    bool received; /* the whole body is here */
    bool paused, answered, finished;
    bool malformed;
};

/* ---- batches ---- */

static void batch_add(struct batch *b, enum step_kind kind, struct str data)
{
    if (data.n > 0) {
        must(buf_add_str(&b->data, data) == 0);
    }
    bool merge = kind == STEP_DATA && b->n > 0 && b->steps[b->n - 1].kind == STEP_DATA;
    if (merge) {
        b->steps[b->n - 1].len += data.n;
        return;
    }
    if (b->n == b->cap) {
        b->cap = b->cap ? b->cap * 2 : 16;
        b->steps = xreallocarray(b->steps, b->cap, sizeof(b->steps[0]));
    }
    b->steps[b->n++] = (struct step){kind, data.n};
}

static void batch_clear(struct batch *b)
{
    buf_clear(&b->data);
    b->n = 0;
}

static void batch_done(struct batch *b)
{
    buf_done(&b->data);
    free(b->steps);
}

/* In a worker. */
static void batch_run(struct task *t)
{
    struct upload *u = container_of(t, struct upload, task);
    const char *p = u->working.data.p;
    for (size_t i = 0; i < u->working.n; i++) {
        const struct step *step = &u->working.steps[i];
        struct str data = str_n(p, step->len);
        switch (step->kind) {
        case STEP_META:
            upload_set_meta(u->set, data);
            break;
        case STEP_BEGIN:
            upload_set_file_begin(u->set);
            break;
        case STEP_DATA:
            upload_set_file_data(u->set, data);
            break;
        case STEP_END:
            upload_set_file_end(u->set);
            break;
        case STEP_FINISH:
            upload_set_finish(u->set);
            break;
        }
        if (step->len > 0) {
            p += step->len;
        }
    }
}

/* ---- the end ---- */

static void discard(struct task *t)
{
    struct upload *u = container_of(t, struct upload, task);
    upload_set_free(u->set);
}

static void discarded(struct task *t)
{
    struct upload *u = container_of(t, struct upload, task);
    multipart_free(u->parser);
    batch_done(&u->filling);
    batch_done(&u->working);
    free(u);
}

/* Removing a large temporary file takes its time: not on the loop. */
static void upload_free(struct upload *u)
{
    u->task.work = discard;
    u->task.done = discarded;
    task_start_always(u->x->pool, &u->task);
}

static void on_end(struct http_req *req, bool completed, void *arg)
{
    struct upload *u = arg;
    u->req = NULL;
    if (!u->running) {
        upload_free(u);
    }
}

/* Answers, once. The body may still be arriving: it is read to its end and dropped, because many
 * clients do not look for an answer before they have sent everything. */
static void answer(struct upload *u)
{
    if (u->answered || !u->req) {
        return;
    }
    const struct upload_error *e = u->malformed ? NULL : upload_set_error(u->set);
    if (!u->malformed && !e && !u->finished) {
        return;
    }
    u->answered = true;
    if (!u->malformed && !e) {
        reply_empty(u->req);
        return;
    }
    struct buf body = BUF_INIT(64u << 10);
    if (u->malformed) {
        reply_error_body(&body, CODE_INVALID_FILE, STR("multipart form is empty"));
    } else {
        reply_error_body(&body, e->code, str_from(e->msg));
    }
    http_resp_start(u->req, u->malformed ? 400 : e->status, JSON_CTYPE, (int64_t)body.len);
    (void)http_resp_write(u->req, buf_str(&body));
    buf_done(&body);
    if (u->received) {
        http_resp_end(u->req);
    }
}

/* ---- the loop's side ---- */

static void batch_written(struct task *t);

static void start_batch(struct upload *u)
{
    struct batch full = u->filling;
    u->filling = u->working;
    u->working = full;
    u->running = true;
    u->task.work = batch_run;
    u->task.done = batch_written;
    task_start_always(u->x->pool, &u->task);
}

static void batch_written(struct task *t)
{
    struct upload *u = container_of(t, struct upload, task);
    u->running = false;
    u->finished = u->working.n > 0 && u->working.steps[u->working.n - 1].kind == STEP_FINISH;
    batch_clear(&u->working);
    if (!u->req) {
        upload_free(u);
        return;
    }
    answer(u);
    if (!u->req || u->answered) {
        batch_clear(&u->filling); /* nothing of it matters any more */
    } else if (u->filling.data.len >= UPLOAD_BATCH || u->received) {
        start_batch(u);
    }
    if (u->req && u->paused) {
        u->paused = false;
        http_req_resume(u->req);
    }
}

static int on_part(const struct multipart_part *part, void *arg)
{
    struct upload *u = arg;
    if (str_eq(part->name, STR("metadata"))) {
        u->part = PART_META;
        batch_add(&u->filling, STEP_META, STR(""));
    } else if (str_eq(part->name, STR("file")) && part->filename.p) {
        u->part = PART_FILE;
        batch_add(&u->filling, STEP_BEGIN, STR(""));
    } else {
        u->part = PART_OTHER;
    }
    return 0;
}

static int on_data(struct str data, void *arg)
{
    struct upload *u = arg;
    if (u->part == PART_FILE) {
        batch_add(&u->filling, STEP_DATA, data);
    } else if (u->part == PART_META) {
        struct step *step = &u->filling.steps[u->filling.n - 1];
        if (step->len + data.n > UPLOAD_MAX_METADATA) {
            return -EMSGSIZE;
        }
        must(buf_add_str(&u->filling.data, data) == 0);
        step->len += data.n;
    }
    return 0;
}

static int on_part_end(void *arg)
{
    struct upload *u = arg;
    if (u->part == PART_FILE) {
        batch_add(&u->filling, STEP_END, STR(""));
    }
    u->part = PART_NONE;
    return 0;
}

static void on_body(struct http_req *req, struct str data, bool is_last, void *arg)
{
    struct upload *u = arg;
    u->received = is_last;
    if (u->answered) {
        if (is_last) {
            http_resp_end(req);
        }
        return;
    }
    if (!u->malformed && multipart_feed(u->parser, data) < 0) {
        u->malformed = true;
    }
    if (is_last && !u->malformed && !multipart_done(u->parser)) {
        u->malformed = true;
    }
    if (u->malformed) {
        if (is_last) {
            answer(u);
        }
        return;
    }
    if (is_last) {
        batch_add(&u->filling, STEP_FINISH, STR(""));
    }
    /* Metadata is looked at whole, so a batch never ends inside of it. */
    bool is_full = u->filling.data.len >= UPLOAD_BATCH && u->part != PART_META;
    if ((is_full || is_last) && !u->running) {
        start_batch(u);
    } else if (is_full && !is_last) {
        u->paused = true;
        http_req_pause(req);
    }
}

void files_upload(struct http_req *req)
{
    struct str boundary;
    if (multipart_boundary(http_req_header(req, STR("Content-Type")), &boundary) < 0) {
        reply_error(req, 400, CODE_INVALID_FILE, "multipart form is empty");
        return;
    }
    static const struct multipart_ops ops = {on_part, on_data, on_part_end};
    struct upload *u = NEW(struct upload);
    u->x = execd_of(req);
    u->req = req;
    u->task.loop = u->x->loop;
    u->set = upload_set_new();
    u->parser = multipart_new(boundary, &ops, u);
    buf_init(&u->filling.data, UPLOAD_BATCH_MAX);
    buf_init(&u->working.data, UPLOAD_BATCH_MAX);
    http_req_on_end(req, on_end, u);
    http_req_on_body(req, on_body, u);
}
