/* Work routes: the body is collected on the loop, the handler runs in the pool, the answer comes
 * back with a post.
 *
 * While the worker runs, the request belongs to it; the loop touches only what is under the lock
 * and `gone`. When the connection dies meanwhile, the request is kept until the worker has
 * returned.
 *
 * A streamed answer goes through a buffer of at most HTTP_OUT_HIGH. The worker appends and posts;
 * the loop moves the bytes to the response and wakes the worker unless the response is full, in
 * which case the next on_writable does. */

#include <errno.h>
#include <pthread.h>

#include "base/log.h"
#include "base/must.h"
#include "http/internal.h"

struct http_reply_priv {
    struct http_req *req;
    struct http_reply reply;
    bool running; /* loop: submitted and not come back */
    /* under the lock: */
    pthread_mutex_t lock;
    pthread_cond_t room;
    struct buf pipe;    /* from worker to loop */
    struct buf headers; /* "name\0value\0" pairs */
    bool streaming, posted, full, gone, aborted;
    int stream_status;
    char *stream_ctype;
};

bool work_is_running(const struct http_req *req)
{
    return req->work && req->work->running;
}

void work_free(struct http_req *req)
{
    struct http_reply_priv *w = take_ptr(&req->work);
    if (!w) {
        return;
    }
    must(!w->running);
    buf_done(&w->reply.body);
    buf_done(&w->pipe);
    buf_done(&w->headers);
    free(w->stream_ctype);
    (void)pthread_cond_destroy(&w->room);  /* nobody waits: the worker has returned */
    (void)pthread_mutex_destroy(&w->lock); /* nobody holds it */
    free(w);
}

void work_client_gone(struct http_req *req)
{
    struct http_reply_priv *w = req->work;
    (void)pthread_mutex_lock(&w->lock);
    w->gone = true;
    (void)pthread_cond_broadcast(&w->room);
    (void)pthread_mutex_unlock(&w->lock);
}

/* ---- on the loop: the answer ---- */

static void set_headers(struct http_reply_priv *w)
{
    struct str rest = buf_str(&w->headers);
    while (rest.n > 0) {
        struct str name = str_cut(&rest, 0), value = str_cut(&rest, 0);
        http_resp_header(w->req, name, value);
    }
}

static void start_stream(struct http_reply_priv *w)
{
    if (!http_resp_started(w->req)) {
        set_headers(w);
        http_resp_start(w->req, w->stream_status, w->stream_ctype, -1);
    }
}

/* Moves what the worker has written into the response. */
static void pump(struct http_reply_priv *w)
{
    struct buf data;
    (void)pthread_mutex_lock(&w->lock);
    data = w->pipe;
    buf_init(&w->pipe, HTTP_OUT_HIGH);
    w->posted = false;
    (void)pthread_mutex_unlock(&w->lock);
    if (w->req->conn) {
        start_stream(w);
        bool full = data.len > 0 ? !http_resp_write(w->req, buf_str(&data)) : false;
        (void)pthread_mutex_lock(&w->lock);
        w->full = full;
        (void)pthread_cond_broadcast(&w->room);
        (void)pthread_mutex_unlock(&w->lock);
    }
    buf_done(&data);
}

static void on_pump(void *arg)
{
    pump(arg);
}

static void on_room(struct http_req *req, void *arg)
{
    struct http_reply_priv *w = arg;
    (void)pthread_mutex_lock(&w->lock);
    w->full = false;
    (void)pthread_cond_broadcast(&w->room);
    (void)pthread_mutex_unlock(&w->lock);
}

static void answer(struct http_reply_priv *w)
{
    if (w->streaming) {
        pump(w);
        if (w->aborted) {
            http_resp_abort(w->req);
        } else {
            http_resp_end(w->req);
        }
        return;
    }
    set_headers(w);
    int status = w->reply.status ? w->reply.status : 500;
    const char *ctype = w->reply.ctype ? w->reply.ctype : "application/json";
    if (buf_failed(&w->reply.body)) {
        resp_error(w->req, 500, "the answer is too large");
        return;
    }
    resp_send_ref(w->req, status, w->reply.body.len ? ctype : w->reply.ctype,
                  buf_str(&w->reply.body));
}

static void on_done(void *arg)
{
    struct http_reply_priv *w = arg;
    struct http_req *req = w->req;
    struct http_server *s = req->server;
    w->running = false;
    if (req->conn) {
        answer(w);
    } else {
        req_end(req, false);
        req_free(req);
    }
    server_unref(s);
}

/* ---- in the pool ---- */

static void run(void *arg)
{
    struct http_reply_priv *w = arg;
    log_set_request_id(http_req_id(w->req));
    w->req->match.route->work(w->req, &w->reply);
    log_set_request_id(STR(""));
    io_post(w->req->server->loop, on_done, w);
}

void http_reply_header(struct http_reply *r, struct str name, struct str value)
{
    struct http_reply_priv *w = r->priv;
    if (bug_if(!h1_is_token(name) || !h1_is_field_value(value))) {
        return;
    }
    (void)buf_add_str(&w->headers, name); /* beyond HTTP_MAX_HEAD headers are left out */
    (void)buf_add_char(&w->headers, 0);
    (void)buf_add_str(&w->headers, value);
    (void)buf_add_char(&w->headers, 0);
}

int http_reply_stream(struct http_reply *r, int status, const char *ctype)
{
    struct http_reply_priv *w = r->priv;
    (void)pthread_mutex_lock(&w->lock);
    bool post = !w->posted && !w->gone;
    int ret = w->gone ? -EPIPE : 0;
    w->stream_status = r->status = status;
    free(w->stream_ctype);
    w->stream_ctype = ctype ? xstrdup(ctype) : NULL;
    w->streaming = true;
    w->posted |= post;
    (void)pthread_mutex_unlock(&w->lock);
    if (post) {
        io_post(w->req->server->loop, on_pump, w);
    }
    return ret;
}

int http_reply_write(struct http_reply *r, struct str data)
{
    struct http_reply_priv *w = r->priv;
    if (bug_if(!w->streaming)) {
        return -EINVAL;
    }
    while (data.n > 0) {
        (void)pthread_mutex_lock(&w->lock);
        while (!w->gone && (w->full || w->pipe.len >= HTTP_OUT_HIGH)) {
            (void)pthread_cond_wait(&w->room, &w->lock);
        }
        bool gone = w->gone, post = false;
        if (!gone) {
            size_t n = MIN(data.n, HTTP_OUT_HIGH - w->pipe.len);
            (void)buf_add(&w->pipe, data.p, n); /* fits: n was limited to the maximum */
            data = str_sub(data, n, data.n);
            post = !w->posted;
            w->posted = true;
        }
        (void)pthread_mutex_unlock(&w->lock);
        if (gone) {
            return -EPIPE;
        }
        if (post) {
            io_post(w->req->server->loop, on_pump, w);
        }
    }
    return 0;
}

void http_reply_abort(struct http_reply *r)
{
    r->priv->aborted = true; /* read on the loop after the handler has returned */
}

/* ---- on the loop: the request ---- */

static void submit(struct http_req *req, struct str body, void *arg)
{
    struct http_reply_priv *w = req->work;
    (void)http_req_id(req); /* made here, so that both threads see the same */
    w->running = true;
    req->server->n_refs++;
    int r = io_pool_submit(req->server->opts.pool, run, w);
    if (r < 0) {
        w->running = false;
        req->server->n_refs--;
        resp_error(req, 503, "too many requests are waiting, try again");
    }
}

void work_start(struct http_req *req)
{
    size_t max = req->match.route->max_body;
    must(req->server->opts.pool);
    if (!req->work) { /* else: dispatched again */
        struct http_reply_priv *w = req->work = NEW(struct http_reply_priv);
        w->req = req;
        w->reply.priv = w;
        buf_init(&w->reply.body, HTTP_MAX_REPLY);
        buf_init(&w->pipe, HTTP_OUT_HIGH);
        buf_init(&w->headers, HTTP_MAX_HEAD);
        must(pthread_mutex_init(&w->lock, NULL) == 0 && pthread_cond_init(&w->room, NULL) == 0);
        req->peer.len = 0;
        if (io_stream_peer(req->conn->stream, &req->peer) < 0) {
            req->peer.len = 0;
        }
        http_resp_on_writable(req, on_room, w);
    }
    http_req_collect(req, max ? max : HTTP_MAX_WORK_BODY, submit, NULL);
}
