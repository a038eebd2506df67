/* Forks: one capture of a running sandbox, and several sandboxes made from it, all of them or none.
 *
 * The capture is a snapshot whose row says "fork" and that is never Ready for anybody else. Erasing
 * that row is the moment the fork counts: after a crash before it snapshot_recover() removes what
 * was made, after it the sandboxes are like any others. Their layers stay as long as they do. */

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/must.h"
#include "server/lifecycle/internal.h"

DEFINE_CLEANUP(struct sandbox *, sandbox_unref)

struct forking;

struct child {
    struct create_waiter w;
    struct forking *f;
    struct create_plan *plan;
    struct sandbox *sb; /* a reference; NULL: it failed */
};

struct forking {
    struct lifecycle *lc;
    struct caller c;
    struct child *v;
    size_t n;
    pthread_mutex_t lock;
    pthread_cond_t cond;
    size_t waiting;
    struct problem *p; /* the first one */
};

static void on_done(struct create_waiter *w, struct sandbox *sb, const struct problem *p)
{
    struct child *k = container_of(w, struct child, w);
    struct forking *f = k->f;
    (void)pthread_mutex_lock(&f->lock);
    if (sb) {
        k->sb = sandbox_ref(sb);
    } else if (!f->p->status) {
        (void)problem_set(f->p, p->status, p->code, "%s", p->message);
        f->p->retry_after_s = p->retry_after_s;
    }
    f->waiting--;
    (void)pthread_cond_signal(&f->cond);
    (void)pthread_mutex_unlock(&f->lock);
}

/* ---- requests of the children ---- */

static void merge(struct json *into, const char *key, const struct str_map *m)
{
    if (m->n && !json_is_object(json_get(into, key))) {
        json_set(into, key, json_object_new());
    }
    for (size_t i = 0; i < m->n; i++) {
        json_set(json_get(into, key), m->v[i].key, json_string_new(str_from(m->v[i].value)));
    }
}

/* The request that the source was made from, beginning at the snapshot instead. */
static struct json *child_request(const struct json *source, const struct sandbox_view *now,
                                  const struct fork_request *q, const struct json *request,
                                  const char *snapshot_id, size_t i)
{
    struct json *j = json_clone(source);
    json_del(j, "image");
    json_del(j, "snapshot_id");
    json_del(j, "metadata");
    json_del(json_get(j, "extensions"), "poolRef");
    json_set(j, "snapshotId", json_string_new(str_from(snapshot_id)));
    if (!json_get(j, "resourceLimits") && !json_get(j, "resource_limits")) {
        json_set(j, "resourceLimits", json_object_new());
    }
    if (json_get(request, "timeout")) {
        json_set(j, "timeout", json_clone(json_get(request, "timeout")));
    }
    merge(j, "metadata", &now->metadata);
    merge(j, "metadata", &q->metadata);
    merge(j, "env", &q->env);
    if (i < q->sandboxes.n) {
        const struct fork_variant *own = (const struct fork_variant *)q->sandboxes.v + i;
        merge(j, "metadata", &own->metadata);
        merge(j, "env", &own->env);
    }
    return j;
}

static int build_plan(struct forking *f, struct json *request, struct create_plan **ret)
{
    cleanup_(buf_done) struct buf text = BUF_INIT(2 * CREATE_BODY_MAX);
    if (json_dump(request, &text, 0) < 0) {
        return problem_set(f->p, 413, CODE_INVALID, "the request is too long");
    }
    struct config *cfg = lifecycle_config(f->lc);
    int r = plan_build(buf_str(&text), cfg, ret, f->p);
    config_unref(cfg);
    if (r == 0) {
        (*ret)->is_fork = true;
    }
    return r;
}

static int build_plans(struct forking *f, struct sandbox *sb, const struct fork_request *q,
                       const struct json *request, const char *snapshot_id, struct arena *a)
{
    struct store_sandbox row;
    struct sandbox_view now;
    struct err e = {0};
    if (store_sandbox_get(f->lc->store, a, sb->id, &row, &e) < 0) {
        return problem_err(f->p, 0, CODE_GENERAL, &e);
    }
    registry_read(&f->lc->reg);
    sandbox_to_view(sb, a, &now);
    registry_unlock(&f->lc->reg);
    cleanup_(json_free) struct json *source = json_parse(str_from(row.spec), &e);
    for (size_t i = 0; i < f->n; i++) {
        cleanup_(json_free) struct json *one =
            child_request(source, &now, q, request, snapshot_id, i);
        if (build_plan(f, one, &f->v[i].plan) < 0) {
            return -1;
        }
    }
    return 0;
}

/* ---- making and undoing ---- */

static void create_all(struct forking *f)
{
    for (size_t i = 0; i < f->n; i++) {
        struct child *k = &f->v[i];
        cleanup_(problem_done) struct problem p = {0};
        k->f = f;
        k->w.done = on_done;
        list_init(&k->w.node);
        (void)pthread_mutex_lock(&f->lock);
        bool go_on = !f->p->status;
        f->waiting += go_on;
        (void)pthread_mutex_unlock(&f->lock);
        if (go_on && lifecycle_create(f->lc, &f->c, take_ptr(&k->plan), NULL, &k->w, &p) < 0) {
            on_done(&k->w, NULL, &p);
        }
    }
    (void)pthread_mutex_lock(&f->lock);
    while (f->waiting) {
        (void)pthread_cond_wait(&f->cond, &f->lock);
    }
    (void)pthread_mutex_unlock(&f->lock);
}

static void remove_all(struct forking *f)
{
    for (size_t i = 0; i < f->n; i++) {
        struct sandbox *sb = take_ptr(&f->v[i].sb);
        cleanup_(problem_done) struct problem ignored = {0}; /* what stays is tried again */
        if (sb) {
            (void)lifecycle_delete(f->lc, &f->c, str_from(sb->id), &ignored);
            sandbox_unref(sb);
        }
    }
}

void fork_undo(struct lifecycle *lc, const char *snapshot_id)
{
    size_t n;
    struct sandbox **all = registry_all(&lc->reg, &n);
    for (size_t i = 0; i < n; i++) {
        if (all[i]->snapshot_id && strcmp(all[i]->snapshot_id, snapshot_id) == 0) {
            (void)remove_decide(lc, all[i], false);
            (void)expiry_set(&lc->expiry, all[i], clock_mono_ms());
        }
        sandbox_unref(all[i]);
    }
    free(all);
}

static int run(struct forking *f, struct sandbox *sb, const char *snapshot_id)
{
    struct err e = {0};
    if (snapshot_capture(f->lc, sb, snapshot_id, &e) < 0) {
        return problem_err(f->p, 500, "SNAPSHOT::CAPTURE_FAILED", &e);
    }
    FAULT_POINT("server.fork.captured");
    create_all(f);
    FAULT_POINT("server.fork.created");
    if (f->p->status) {
        remove_all(f);
        return -1;
    }
    return 0;
}

static int fork_sandbox(struct forking *f, struct sandbox *sb, const struct fork_request *q,
                        const struct json *request, struct arena *a)
{
    struct store_snapshot snap;
    struct err e = {0};
    if (snapshot_check_source(f->lc, sb, f->p) < 0 ||
        snapshot_record(f->lc, &f->c, sb, NULL, SNAPSHOT_FORK, a, &snap, f->p) < 0) {
        return -1;
    }
    FAULT_POINT("server.fork.recorded");
    int r = build_plans(f, sb, q, request, snap.id, a);
    r = r < 0 ? r : run(f, sb, snap.id);
    if (snapshot_end_fork(f->lc, snap.id, &e) < 0) {
        /* The next start would take it for a fork that was cut short. */
        log_error("the snapshot of a fork could not be erased", LOG_S("id", snap.id), LOG_ERR(&e));
        if (r == 0) {
            remove_all(f);
            r = problem_err(f->p, 500, CODE_GENERAL, &e);
        }
    }
    FAULT_POINT("server.fork.done");
    return r;
}

static int read_request(const struct json *request, struct arena *a, struct fork_request *q,
                        size_t *ret_n, struct problem *p)
{
    struct json_issues is = {0};
    struct err e = {0};
    if (request && json_decode(a, &fork_request_table, request, q, &is, &e) < 0) {
        return problem_issues(p, "body", &is, request);
    }
    *ret_n = q->count.has ? (size_t)q->count.v : MAX(q->sandboxes.n, (size_t)1);
    if (*ret_n > FORK_COUNT_MAX || q->sandboxes.n > *ret_n) {
        return problem_set(p, 400, CODE_INVALID,
                           "sandboxes: %zu entries for a fork of %zu (at most %d)", q->sandboxes.n,
                           *ret_n, FORK_COUNT_MAX);
    }
    return 0;
}

int lifecycle_fork(struct lifecycle *lc, const struct caller *c, struct str id,
                   const struct json *request, struct arena *a, struct sandbox ***ret,
                   size_t *ret_n, struct problem *p)
{
    struct fork_request q = {0};
    struct forking f = {.lc = lc, .c = *c, .p = p};
    cleanup_(sandbox_unref) struct sandbox *sb = lifecycle_get(lc, c, id, p);
    if (!sb || read_request(request, a, &q, &f.n, p) < 0) {
        return -1;
    }
    (void)pthread_mutex_init(&f.lock, NULL);
    (void)pthread_cond_init(&f.cond, NULL);
    f.v = arena_array(a, f.n, sizeof(*f.v));
    int r = fork_sandbox(&f, sb, &q, request, a);
    *ret = arena_array(a, f.n, sizeof(**ret));
    *ret_n = r == 0 ? f.n : 0;
    for (size_t i = 0; i < f.n; i++) {
        plan_free(f.v[i].plan);
        (*ret)[i] = f.v[i].sb;
    }
    (void)pthread_cond_destroy(&f.cond);
    (void)pthread_mutex_destroy(&f.lock);
    return r;
}
