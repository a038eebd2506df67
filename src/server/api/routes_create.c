/* POST /sandboxes. The only lifecycle route that is a stream: a create may take long, and holds no
 * worker while it waits for its turn.
 *
 * Who touches the call when: the loop owns `req`, `timer`, `answered`; a worker writes the result
 * and then posts. Three things hold a reference: the request (until its end), the waiter (until
 * done() or its removal), each job in flight. */

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/must.h"
#include "io/timer.h"
#include "server/api/api.h"

#define CREATE_RETRY_MS 50u

struct create_call {
    int refs; /* atomic */
    struct app *app;
    struct io_loop *loop;
    /* loop */
    struct http_req *req; /* NULL: over */
    struct io_timer timer;
    bool answered;
    /* fixed before the first job */
    char *body;
    size_t body_len;
    char *idem_key, *actor, *request_id;
    const char *owner;
    /* atomic */
    bool gone;
    struct create_waiter waiter;
    /* the answer, by the worker that posts it */
    int status, retry_after_s;
    struct buf out;
    char id[SANDBOX_ID_MAX];
};

static struct create_call *call_ref(struct create_call *c)
{
    __atomic_add_fetch(&c->refs, 1, __ATOMIC_RELAXED);
    return c;
}

static void call_unref(struct create_call *c)
{
    if (__atomic_sub_fetch(&c->refs, 1, __ATOMIC_ACQ_REL) > 0) {
        return;
    }
    buf_done(&c->out);
    free(c->body);
    free(c->idem_key);
    free(c->actor);
    free(c->request_id);
    free(c);
}

/* ---- answering ---- */
static void send_answer(struct create_call *c)
{
    char retry[16], location[SANDBOX_ID_MAX + 16];
    if (c->retry_after_s) {
        (void)snprintf(retry, sizeof(retry), "%d", c->retry_after_s);
        http_resp_header(c->req, STR("Retry-After"), str_from(retry));
    }
    if (c->id[0]) {
        (void)snprintf(location, sizeof(location), "/v1/sandboxes/%s", c->id);
        http_resp_header(c->req, STR("Location"), str_from(location));
    }
    http_resp_send(c->req, c->status, "application/json", buf_str(&c->out));
}

static void on_answer(void *arg) /* loop; carries a reference */
{
    struct create_call *c = arg;
    if (c->req && !c->answered) {
        c->answered = true;
        io_timer_stop(&c->timer);
        send_answer(c);
    }
    call_unref(c);
}

static void answer_problem(struct create_call *c, const struct problem *p)
{
    c->status = p->status;
    c->retry_after_s = p->retry_after_s;
    problem_write(&c->out, p);
    io_post(c->loop, on_answer, call_ref(c));
}

static void answer_sandbox(struct create_call *c, struct sandbox *sb)
{
    struct arena a = {0};
    struct sandbox_created v;
    struct registry *reg = lifecycle_registry(c->app->lc);
    registry_read(reg);
    sandbox_to_created(sb, &a, &v);
    registry_unlock(reg);
    struct json_out o;
    json_out_init(&o, &c->out);
    json_encode(&o, &sandbox_created_table, &v);
    arena_done(&a);
    c->status = 202;
    (void)str_to_cstr(str_from(sb->id), c->id, sizeof(c->id));
    io_post(c->loop, on_answer, call_ref(c));
}

static void on_done(struct create_waiter *w, struct sandbox *sb,
                    const struct problem *p) /* worker */
{
    struct create_call *c = container_of(w, struct create_call, waiter);
    if (sb) {
        answer_sandbox(c, sb);
    } else {
        answer_problem(c, p);
    }
    call_unref(c); /* the waiter's */
}

/* ---- working ---- */
static void detach(void *arg) /* worker; carries a reference */
{
    struct create_call *c = arg;
    struct sandbox *sb = NULL;
    if (lifecycle_create_detach(c->app->lc, &c->waiter, &sb)) {
        answer_sandbox(c, sb);
        sandbox_unref(sb);
        call_unref(c); /* the waiter's */
    }
    call_unref(c);
}

static void begin(void *arg) /* worker; carries a reference */
{
    struct create_call *c = arg;
    cleanup_(problem_done) struct problem p = {0};
    struct create_plan *plan = NULL;
    struct caller who = {c->owner, c->actor, c->request_id};
    struct config *cfg = lifecycle_config(c->app->lc);
    if (__atomic_load_n(&c->gone, __ATOMIC_ACQUIRE)) {
        /* left before anything was done */
    } else if (plan_build(str_n(c->body, c->body_len), cfg, &plan, &p) < 0) {
        answer_problem(c, &p);
    } else {
        c->waiter.done = on_done;
        call_ref(c);
        if (lifecycle_create(c->app->lc, &who, plan, c->idem_key, &c->waiter, &p) < 0) {
            answer_problem(c, &p);
            call_unref(c);
        } else if (__atomic_load_n(&c->gone, __ATOMIC_ACQUIRE) &&
                   lifecycle_create_leave(c->app->lc, &c->waiter)) {
            call_unref(c);
        } else if (cfg->server.create_wait_seconds == 0) {
            detach(call_ref(c)); /* no timer: the sandbox could be quicker than it */
        }
    }
    config_unref(cfg);
    call_unref(c);
}

static void on_slow(struct io_timer *t) /* loop */
{
    struct create_call *c = container_of(t, struct create_call, timer);
    io_timer_start(t, CREATE_RETRY_MS); /* in case it could not be detached yet */
    if (io_pool_submit(c->app->pool, detach, call_ref(c)) < 0) {
        call_unref(c);
    }
}

/* ---- the request ---- */
static void on_end(struct http_req *req, bool completed, void *arg)
{
    struct create_call *c = arg;
    c->req = NULL;
    io_timer_stop(&c->timer);
    if (!c->answered) {
        __atomic_store_n(&c->gone, true, __ATOMIC_RELEASE);
        if (lifecycle_create_leave(c->app->lc, &c->waiter)) {
            call_unref(c);
        }
    }
    call_unref(c);
}

static int check_request(struct http_req *req, struct str body, struct str idem, struct problem *p)
{
    if (str_trim(body).n && !is_json_request(req)) {
        return problem_invalid(p, "model_attributes_type", "[\"body\"]",
                               "Input should be a JSON object: send Content-Type application/json");
    }
    if (idem.n > IDEMPOTENCY_KEY_MAX || memchr(idem.p ? idem.p : "", '\n', idem.n)) {
        return problem_set(p, 400, CODE_INVALID, "Idempotency-Key is longer than %u bytes",
                           IDEMPOTENCY_KEY_MAX);
    }
    return 0;
}

static void on_body(struct http_req *req, struct str body, void *arg)
{
    cleanup_(problem_done) struct problem p = {0};
    struct str idem = str_trim(http_req_header(req, STR("Idempotency-Key")));
    if (check_request(req, body, idem, &p) < 0) {
        resp_problem(req, &p);
        return;
    }
    struct caller who = api_caller(req);
    struct create_call *c = NEW(struct create_call);
    c->refs = 1;
    c->app = app_of(req);
    c->loop = http_req_loop(req);
    c->req = req;
    c->body = str_dup(body);
    c->body_len = body.n;
    c->idem_key = idem.n ? str_dup(idem) : NULL;
    c->owner = who.owner; /* static */
    c->actor = xstrdup(who.actor);
    c->request_id = xstrdup(who.request_id);
    buf_init(&c->out, 4u << 20);
    list_init(&c->waiter.node);
    http_req_on_end(req, on_end, c);
    io_timer_init(&c->timer, c->loop, on_slow);
    struct config *cfg = lifecycle_config(c->app->lc);
    io_timer_start(&c->timer, MAX((uint64_t)cfg->server.create_wait_seconds * 1000, 1u));
    config_unref(cfg);
    if (io_pool_submit(c->app->pool, begin, call_ref(c)) < 0) {
        c->answered = true;
        (void)problem_set(&p, 503, CODE_GENERAL, "too many requests are waiting");
        p.retry_after_s = 2;
        resp_problem(req, &p);
        call_unref(c);
    }
}

void route_sandbox_create(struct http_req *req)
{
    http_req_collect(req, CREATE_BODY_MAX, on_body, NULL);
}
