/* Images: list, look, pull, push, export, remove, prune. (Import: routes_image_import.c.) */

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/must.h"
#include "base/num.h"
#include "server/api/image.h"
#include "server/image/archive.h"
#include "server/image/derive.h"
#include "server/image/limits.h"

#define CODE_FAILED "IMAGE::FAILED"

struct image_store *images_of(struct app *app, struct problem *p)
{
    struct image_store *s = app->rt->ops->images ? app->rt->ops->images(app->rt) : NULL;
    if (!s) {
        (void)problem_set(p, 501, "IMAGE::NOT_SUPPORTED",
                          "images of the runtime %s are kept by its own engine",
                          app->rt->ops->name);
    }
    return s;
}

int image_problem(struct problem *p, const char *code, const struct err *e)
{
    static const struct {
        enum err_code code;
        int status;
        const char *text; /* NULL: the caller's */
    } rows[] = {
        {ERR_NOT_FOUND, 404, "IMAGE::NOT_FOUND"},
        {ERR_CONFLICT, 409, "IMAGE::IN_USE"},
        {ERR_INVALID, 400, "IMAGE::INVALID"},
        {ERR_UNAUTHORIZED, 403, "IMAGE::ACCESS_DENIED"}, /* 401 would be about our own key */
        {ERR_DENIED, 403, "IMAGE::ACCESS_DENIED"},
        {ERR_UNAVAILABLE, 502, NULL},
        {ERR_TIMEOUT, 502, NULL},
        {ERR_LIMIT, 507, NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (rows[i].code == e->code) {
            return problem_set(p, rows[i].status, rows[i].text ? rows[i].text : code, "%s", e->msg);
        }
    }
    return problem_set(p, e->sys == ENOSPC ? 507 : 500, code, "%s", e->msg);
}

bool image_call_begin(struct app *app, struct problem *p)
{
    unsigned max = MAX((unsigned)app->cfg->server.thread_pool_size / 2, 1u);
    if (__atomic_add_fetch(&app->n_image_calls, 1, __ATOMIC_ACQ_REL) <= max) {
        return true;
    }
    image_call_end(app);
    (void)problem_set(p, 503, CODE_GENERAL, "%u images are being worked on already", max);
    p->retry_after_s = 5;
    return false;
}

void image_call_end(struct app *app)
{
    (void)__atomic_sub_fetch(&app->n_image_calls, 1, __ATOMIC_ACQ_REL);
}

/* ---- as JSON ---- */
static void put_time(struct json_out *o, const char *key, int64_t us)
{
    char text[RFC3339_MAX];
    if (us) {
        rfc3339_format(us, 6, text);
        json_key(o, key);
        json_put_cstr(o, text);
    }
}

static void put_text(struct json_out *o, const char *key, const char *value)
{
    if (value && *value) {
        json_key(o, key);
        json_put_cstr(o, value);
    }
}

static void put_config(struct json_out *o, const struct image *img)
{
    json_key(o, "config");
    json_obj_begin(o);
    json_key(o, "env");
    json_arr_begin(o);
    for (char **v = img->env; v && *v; v++) {
        json_put_cstr(o, *v);
    }
    json_arr_end(o);
    put_text(o, "user", img->user);
    put_text(o, "workingDir", img->working_dir);
    if (img->labels) {
        cleanup_(buf_done) struct buf b = BUF_INIT(IMAGE_MAX_RECORD);
        if (json_dump(img->labels, &b, 0) == 0) {
            json_key(o, "labels");
            json_put_raw(o, buf_str(&b));
        }
    }
    json_obj_end(o);
}

void image_encode(struct json_out *o, struct image_store *s, const struct image *img)
{
    json_obj_begin(o);
    put_text(o, "name", img->name);
    put_text(o, "digest", img->digest);
    put_text(o, "os", img->os);
    put_text(o, "arch", img->arch);
    put_text(o, "base", img->base);
    json_key(o, "size");
    json_put_int(o, (int64_t)img->size);
    json_key(o, "pulled");
    json_put_bool(o, img->pulled);
    json_key(o, "inUse");
    json_put_bool(o, image_store_is_pinned(s, img));
    put_time(o, "createdAt", img->created_us);
    put_time(o, "lastUsedAt", img->used_us);
    put_config(o, img);
    json_key(o, "layers");
    json_arr_begin(o);
    for (size_t i = 0; i < img->n_layers; i++) {
        json_obj_begin(o);
        put_text(o, "id", img->layers[i].id);
        json_key(o, "size");
        json_put_int(o, (int64_t)img->layers[i].size);
        json_obj_end(o);
    }
    json_arr_end(o);
    json_obj_end(o);
}

static void reply_image(struct http_reply *r, int status, struct image_store *s,
                        const struct image *img)
{
    struct json_out o;
    r->status = status;
    json_out_init(&o, &r->body);
    image_encode(&o, s, img);
}

/* ---- list, look, remove, prune ---- */
struct listing {
    struct json_out o;
    struct image_store *s;
};

static void list_one(const struct image *img, void *arg)
{
    struct listing *l = arg;
    if (!str_starts(str_from(img->name), STR(IMAGE_SNAPSHOT_PREFIX))) { /* those are snapshots */
        image_encode(&l->o, l->s, img);
    }
}

void route_image_list(struct http_req *req, struct http_reply *r)
{
    cleanup_(problem_done) struct problem p = {0};
    struct err e = {0};
    struct listing l = {.s = images_of(app_of(req), &p)};
    if (!l.s) {
        reply_problem(r, &p);
        return;
    }
    json_out_init(&l.o, &r->body);
    json_obj_begin(&l.o);
    json_key(&l.o, "items");
    json_arr_begin(&l.o);
    if (image_store_list(l.s, list_one, &l, &e) < 0) {
        buf_clear(&r->body);
        (void)image_problem(&p, CODE_FAILED, &e);
        reply_problem(r, &p);
        return;
    }
    json_arr_end(&l.o);
    json_key(&l.o, "bytes");
    json_put_int(&l.o, (int64_t)image_store_bytes(l.s));
    json_obj_end(&l.o);
    r->status = 200;
}

/* The image of the path, or NULL after an answer. */
/* /images/{image}, or the image that a snapshot is: those belong to the snapshot's owner. */
static const char *name_of(struct http_req *req, struct problem *p)
{
    struct arena *a = http_req_arena(req);
    struct str name = http_req_param(req, "image"), prefix = STR(IMAGE_SNAPSHOT_PREFIX);
    struct str id = name.p ? STR_NULL : http_req_param(req, "id");
    if (name.p && str_starts(name, prefix)) {
        id = str_sub(name, prefix.n, name.n);
    }
    if (!id.p) {
        return arena_str(a, name);
    }
    struct caller c = api_caller(req);
    struct store_snapshot row;
    if (lifecycle_snapshot_get(app_of(req)->lc, &c, id, a, &row, p) < 0) {
        return NULL;
    }
    if (strcmp(row.state, "Ready") != 0) {
        (void)problem_set(p, 409, "SNAPSHOT::NOT_READY", "snapshot %s is %s", row.id, row.state);
        return NULL;
    }
    return arena_printf(a, IMAGE_SNAPSHOT_PREFIX "%s", row.id);
}

static struct image *image_of(struct http_req *req, struct http_reply *r, struct image_store **ret)
{
    cleanup_(problem_done) struct problem p = {0};
    struct err e = {0};
    struct image *img = NULL;
    *ret = images_of(app_of(req), &p);
    const char *name = *ret ? name_of(req, &p) : NULL;
    if (name) {
        img = image_store_peek(*ret, name, NULL, &e);
    }
    if (name && !img) {
        (void)image_problem(&p, CODE_FAILED, &e);
    }
    if (!img) {
        reply_problem(r, &p);
    }
    return img;
}

void route_image_get(struct http_req *req, struct http_reply *r)
{
    struct image_store *s;
    cleanup_(image_free) struct image *img = image_of(req, r, &s);
    if (img) {
        reply_image(r, 200, s, img);
    }
}

void route_image_delete(struct http_req *req, struct http_reply *r)
{
    cleanup_(problem_done) struct problem p = {0};
    struct err e = {0};
    struct image_store *s;
    cleanup_(image_free) struct image *img = image_of(req, r, &s);
    if (!img) {
        return;
    }
    if (str_starts(str_from(img->name), STR(IMAGE_SNAPSHOT_PREFIX))) {
        (void)problem_set(&p, 409, "IMAGE::IN_USE", "%s belongs to a snapshot: delete that",
                          img->name);
    } else if (image_store_remove(s, img->name, &e) < 0) {
        (void)image_problem(&p, CODE_FAILED, &e);
    } else {
        log_info("image removed", LOG_S("image", img->name), LOG_S("actor", api_caller(req).actor));
        r->status = 204;
        return;
    }
    reply_problem(r, &p);
}

static int read_prune(struct http_req *req, struct image_prune *ret, struct problem *p)
{
    cleanup_(json_free) struct json *j = NULL;
    struct str body = http_req_body(req);
    *ret = (struct image_prune){0};
    if (!str_trim(body).n) {
        return 0;
    }
    if (body_json(req, body, &j, p) < 0) {
        return -1;
    }
    struct json *max = json_get(j, "maxBytes");
    if (max && !json_is_null(max) && (!json_is_int(max) || json_int(max, -1) < 0)) {
        return problem_invalid(p, "int_type", "[\"body\",\"maxBytes\"]",
                               "Input should be an integer that is not negative");
    }
    ret->max_bytes = (uint64_t)json_int(max, 0);
    return 0;
}

void route_image_prune(struct http_req *req, struct http_reply *r)
{
    cleanup_(problem_done) struct problem p = {0};
    struct err e = {0};
    struct image_prune what;
    struct image_pruned done;
    struct image_store *s = images_of(app_of(req), &p);
    if (!s || read_prune(req, &what, &p) < 0) {
        reply_problem(r, &p);
        return;
    }
    if (image_store_prune(s, &what, &done, &e) < 0) {
        (void)image_problem(&p, CODE_FAILED, &e);
        reply_problem(r, &p);
        return;
    }
    struct json_out o;
    r->status = 200;
    json_out_init(&o, &r->body);
    json_obj_begin(&o);
    json_key(&o, "images");
    json_put_int(&o, done.images);
    json_key(&o, "bytes");
    json_put_int(&o, (int64_t)done.bytes);
    json_key(&o, "left");
    json_put_int(&o, (int64_t)done.left);
    json_obj_end(&o);
}

/* ---- pull and push ---- */
struct transfer {
    struct image_store *s;
    struct image_task *t;
    struct json *body;
    const char *name, *target, *user, *password, *arch;
    bool always;
};

static int want_text(const struct json *j, const char *key, bool required, const char **ret,
                     struct problem *p)
{
    struct json *v = json_get(j, key);
    *ret = json_cstr(v);
    if ((v && !json_is_null(v) && !*ret) || (required && (!*ret || !**ret))) {
        cleanup_free char *loc = xasprintf("[\"body\",\"%s\"]", key);
        return problem_invalid(p, v ? "string_type" : "missing", loc, "%s",
                               v ? "Input should be a valid string" : "Field required");
    }
    return 0;
}

static int want_auth(struct transfer *x, struct problem *p)
{
    struct json *auth = json_get(x->body, "auth");
    if (!auth || json_is_null(auth)) {
        return 0;
    }
    if (!json_is_object(auth)) {
        return problem_invalid(p, "dict_type", "[\"body\",\"auth\"]",
                               "Input should be a valid dictionary");
    }
    return want_text(auth, "username", true, &x->user, p) < 0 ||
                   want_text(auth, "password", true, &x->password, p) < 0
               ? -1
               : 0;
}

static bool on_progress(const char *layer, const char *what, uint64_t done, uint64_t total,
                        void *arg)
{
    struct transfer *x = arg;
    return strcmp(what, "ready") == 0 || image_task_report(x->t, layer, what, done, total);
}

static struct image *run_pull(struct image_task *t, void *arg, struct err *e)
{
    struct transfer *x = arg;
    x->t = t;
    struct image_pull p = {
        .name = x->name,
        .user = x->user,
        .password = x->password,
        .always = x->always,
        .progress = on_progress,
        .arg = x,
    };
    struct image *img = image_store_pull(x->s, &p, e);
    if (img) {
        image_store_unpin_image(x->s, img);
    }
    return img;
}

void route_image_pull(struct http_req *req, struct http_reply *r)
{
    static const struct image_task_ops ops = {run_pull, "IMAGE::PULL_FAILED"};
    cleanup_(problem_done) struct problem p = {0};
    struct transfer x = {.s = images_of(app_of(req), &p)};
    if (x.s && body_json(req, http_req_body(req), &x.body, &p) == 0 &&
        want_text(x.body, "uri", true, &x.name, &p) == 0 && want_auth(&x, &p) == 0 &&
        image_call_begin(app_of(req), &p)) {
        x.always = json_bool(json_get(x.body, "always"), false);
        log_info("image pull", LOG_S("image", x.name), LOG_S("actor", api_caller(req).actor));
        image_task_stream(req, r, x.s, &ops, &x);
        image_call_end(app_of(req));
    } else {
        reply_problem(r, &p);
    }
    json_free(x.body);
}

static struct image *run_push(struct image_task *t, void *arg, struct err *e)
{
    struct transfer *x = arg;
    struct image_push p = {
        .name = x->name, .target = x->target, .user = x->user, .password = x->password};
    struct image *img = image_store_peek(x->s, x->name, NULL, e);
    (void)image_task_report(t, "", "resolving", 0, 0);
    if (img && image_push(x->s, &p, e) < 0) {
        image_free(img);
        return NULL;
    }
    return img;
}

void route_image_push(struct http_req *req, struct http_reply *r)
{
    static const struct image_task_ops ops = {run_push, "IMAGE::PUSH_FAILED"};
    cleanup_(problem_done) struct problem p = {0};
    struct transfer x = {0};
    cleanup_(image_free) struct image *img = image_of(req, r, &x.s);
    if (!img) {
        return;
    }
    x.name = img->name;
    if (body_json(req, http_req_body(req), &x.body, &p) == 0 &&
        want_text(x.body, "target", false, &x.target, &p) == 0 && want_auth(&x, &p) == 0 &&
        image_call_begin(app_of(req), &p)) {
        log_info("image push", LOG_S("image", x.name), LOG_S("actor", api_caller(req).actor));
        image_task_stream(req, r, x.s, &ops, &x);
        image_call_end(app_of(req));
    } else {
        reply_problem(r, &p);
    }
    json_free(x.body);
}

/* ---- export ---- */
struct export
{
    struct image_store *s;
    const char *name;
    int write_fd;
    int result;
    struct err e;
};

static void *export_main(void *arg)
{
    struct export *x = arg;
    x->result = image_export(x->s, x->name, x->write_fd, &x->e);
    (void)close(x->write_fd);
    return NULL;
}

/* The answer begins with the first bytes: until then a failure has a status. Returns whether all
 * there was could be passed on. */
static bool copy_out(int fd, struct http_reply *r, bool *ret_started)
{
    cleanup_free char *chunk = xmalloc(IMAGE_CHUNK);
    for (;;) {
        ssize_t n = read(fd, chunk, IMAGE_CHUNK);
        if (n == 0) {
            return true;
        }
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n > 0 && !*ret_started) {
            *ret_started = true;
            (void)http_reply_stream(r, 200, "application/x-tar");
        }
        if (n < 0 || http_reply_write(r, str_n(chunk, (size_t)n)) < 0) {
            return false;
        }
    }
}

static void export_stream(struct http_reply *r, struct export *x)
{
    cleanup_(problem_done) struct problem p = {0};
    int fds[2], error = 0;
    pthread_t thread;
    bool started = false;
    if (pipe2(fds, O_CLOEXEC) < 0) {
        x->result = err_sys(&x->e, errno, "export");
    } else {
        x->write_fd = fds[1];
        error = pthread_create(&thread, NULL, export_main, x);
        if (error) {
            (void)close(fds[1]);
            x->result = err_sys(&x->e, error, "export");
        } else {
            (void)copy_out(fds[0], r, &started);
        }
        (void)close(fds[0]); /* a writer that is not done then fails, which is its end */
        if (!error) {
            (void)pthread_join(thread, NULL);
        }
    }
    if (x->result < 0 && started) {
        log_warn("image export ended early", LOG_S("image", x->name), LOG_ERR(&x->e));
        http_reply_abort(r); /* half an archive must not look whole */
    } else if (x->result < 0) {
        (void)image_problem(&p, CODE_FAILED, &x->e);
        reply_problem(r, &p);
    }
}

void route_image_export(struct http_req *req, struct http_reply *r)
{
    cleanup_(problem_done) struct problem p = {0};
    struct export x = {0};
    cleanup_(image_free) struct image *img = image_of(req, r, &x.s);
    if (!img) {
        return;
    }
    if (!image_call_begin(app_of(req), &p)) {
        reply_problem(r, &p);
        return;
    }
    x.name = img->name;
    if (image_store_pin_image(x.s, img)) {
        export_stream(r, &x);
        image_store_unpin_image(x.s, img);
    } else {
        (void)problem_set(&p, 404, "IMAGE::NOT_FOUND", "image %s was just removed", img->name);
        reply_problem(r, &p);
    }
    image_call_end(app_of(req));
}
