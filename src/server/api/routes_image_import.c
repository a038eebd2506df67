/* POST /images/import: an archive of any size on its way into the store.
 *
 * The body goes to a file of the store, piece by piece: while a worker writes one, no other comes.
 * When it is whole a worker imports it. The loop owns `req`; what a worker needs is fixed before it
 * is asked. Two hold a reference: the request until its end, and the job in flight. */

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/must.h"
#include "server/api/image.h"
#include "server/image/archive.h"

struct import_call {
    unsigned refs; /* loop */
    struct app *app;
    struct io_loop *loop;
    struct image_store *s;
    struct http_req *req; /* loop; NULL: over */
    char *name, *actor;
    int fd;
    uint64_t len;
    /* the job in flight */
    struct buf piece;
    bool is_last;
    int error;
    int status;
    struct buf answer;
};

static void call_unref(struct import_call *c)
{
    if (--c->refs > 0) {
        return;
    }
    image_call_end(c->app);
    if (c->fd >= 0) {
        (void)close(c->fd);
    }
    buf_done(&c->piece);
    buf_done(&c->answer);
    free(c->name);
    free(c->actor);
    free(c);
}

/* ---- in the pool ---- */
static void import(struct import_call *c)
{
    struct err e = {0};
    cleanup_(problem_done) struct problem p = {0};
    struct image *img = lseek(c->fd, 0, SEEK_SET) < 0
                            ? NULL
                            : image_import(c->s, c->fd, c->name && *c->name ? c->name : NULL, &e);
    if (!img) {
        if (e.code == ERR_IO && e.sys != ENOSPC) { /* what cannot be read is no archive */
            e.code = e.sys ? ERR_IO : ERR_INVALID;
        }
        (void)image_problem(&p, "IMAGE::IMPORT_FAILED", &e);
        c->status = p.status;
        problem_write(&c->answer, &p);
        return;
    }
    struct json_out o;
    log_info("image import", LOG_S("image", img->name), LOG_S("actor", c->actor));
    c->status = 201;
    json_out_init(&o, &c->answer);
    image_encode(&o, c->s, img);
    image_free(img);
}

static void on_written(void *arg);

static void write_piece(void *arg)
{
    struct import_call *c = arg;
    c->error = fd_write_full(c->fd, c->piece.p, c->piece.len);
    if (c->error == 0 && c->is_last) {
        import(c);
    }
    io_post(c->loop, on_written, c);
}

/* ---- on the loop ---- */
static void fail(struct import_call *c, int status, const char *code, const char *text)
{
    cleanup_(problem_done) struct problem p = {0};
    (void)problem_set(&p, status, code, "%s", text);
    http_resp_close_after(c->req);
    resp_problem(c->req, &p);
}

static void on_written(void *arg)
{
    struct import_call *c = arg;
    c->len += c->piece.len;
    buf_clear(&c->piece);
    if (c->req && c->error) {
        fail(c, c->error == -ENOSPC ? 507 : 500, "IMAGE::IMPORT_FAILED", strerror(-c->error));
    } else if (c->req && c->status) {
        http_resp_send(c->req, c->status, "application/json", buf_str(&c->answer));
    } else if (c->req) {
        http_req_resume(c->req);
    }
    call_unref(c);
}

static void on_body(struct http_req *req, struct str data, bool is_last, void *arg)
{
    struct import_call *c = arg;
    if (http_resp_started(req)) {
        return;
    }
    if (c->len + data.n > IMAGE_IMPORT_MAX || data.n > IMAGE_PIECE_MAX) {
        fail(c, 413, CODE_GENERAL, "the archive is too large");
        return;
    }
    (void)buf_add_str(&c->piece, data);
    c->is_last = is_last;
    c->refs++;
    http_req_pause(req);
    if (io_pool_submit(c->app->pool, write_piece, c) < 0) {
        c->refs--;
        fail(c, 503, CODE_GENERAL, "too many requests are waiting");
    }
}

static void on_end(struct http_req *req, bool completed, void *arg)
{
    struct import_call *c = arg;
    c->req = NULL;
    call_unref(c);
}

void route_image_import(struct http_req *req)
{
    cleanup_(problem_done) struct problem p = {0};
    struct app *app = app_of(req);
    struct image_store *s = images_of(app, &p);
    if (!s || !image_call_begin(app, &p)) {
        resp_problem(req, &p);
        return;
    }
    struct import_call *c = NEW(struct import_call);
    struct str name = http_req_query_get(req, "name", 0);
    c->refs = 1;
    c->app = app;
    c->loop = http_req_loop(req);
    c->s = s;
    c->req = req;
    c->name = name.n ? str_dup(name) : NULL;
    c->actor = xstrdup(api_caller(req).actor);
    buf_init(&c->piece, IMAGE_PIECE_MAX);
    buf_init(&c->answer, 4u << 20);
    c->fd = open(image_store_dir(s), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    http_req_on_end(req, on_end, c);
    if (c->fd < 0) {
        fail(c, 500, "IMAGE::IMPORT_FAILED", strerror(errno));
        return;
    }
    http_req_on_body(req, on_body, c);
}
