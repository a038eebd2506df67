/* The request object: its life, and what handlers ask it. */

#include <errno.h>

#include "base/clock.h"
#include "base/codec.h"
#include "base/must.h"
#include "base/rand.h"
#include "http/internal.h"

/* ---- life ---- */

static void req_clear(struct http_req *req)
{
    arena_done(&req->arena);
    buf_done(&req->headers);
    buf_done(&req->collected);
    free(req->stash);
    work_free(req);
}

static void req_init(struct http_req *req, struct http_conn *c)
{
    memset(req, 0, offsetof(struct http_req, id));
    req->conn = c;
    req->server = c->server;
    req->in = req->inline_in;
    req->in_cap = REQ_INLINE;
    req->length_left = -1;
    buf_init(&req->headers, HTTP_MAX_HEAD);
    req->sent_before = c->out.sent;
    req->match.route = NULL;
    req->match.n_params = 0;
    req->head.n_headers = 0;
    req->head.method = req->head.target = req->head.host = STR_NULL;
    req->head.minor = 1;
    req->head.content_length = -1;
    req->head.chunked = req->head.keep_alive = req->head.expect_continue = false;
    req->head.has_upgrade = false;
}

struct http_req *req_new(struct http_conn *c)
{
    struct http_server *s = c->server;
    struct http_req *req = s->free_reqs;
    if (req) {
        s->free_reqs = req->next_free;
        s->n_free_reqs--;
    } else {
        req = xmalloc(sizeof(*req));
    }
    req_init(req, c);
    return req;
}

void req_free(struct http_req *req)
{
    struct http_server *s = req->server;
    req_clear(req);
    if (req->in != req->inline_in) {
        free(req->in);
    }
    if (s->closed || s->n_free_reqs >= HTTP_MAX_FREE_REQUESTS) {
        free(req);
        return;
    }
    req->next_free = s->free_reqs;
    s->free_reqs = req;
    s->n_free_reqs++;
}

void req_next(struct http_req *req)
{
    struct str pending = req->pending;
    char *stash = take_ptr(&req->stash), *old = req->in == req->inline_in ? NULL : req->in;
    req_clear(req);
    req_init(req, req->conn);
    if (pending.n > req->in_cap) {
        req->in = xmalloc(HTTP_MAX_HEAD);
        req->in_cap = HTTP_MAX_HEAD;
        must(pending.n <= req->in_cap);
    }
    memmove(req->in, pending.p, pending.n);
    req->in_len = pending.n;
    free(stash);
    free(old);
}

bool req_grow(struct http_req *req)
{
    if (req->in_cap >= HTTP_MAX_HEAD) {
        return false;
    }
    size_t cap = MIN(req->in_cap * 4, HTTP_MAX_HEAD);
    char *p = req->in == req->inline_in ? NULL : req->in;
    p = xrealloc(p, cap);
    if (req->in == req->inline_in) {
        memcpy(p, req->inline_in, req->in_len);
    }
    req->in = p;
    req->in_cap = cap;
    /* What an unfinished parse left behind points into the old buffer. */
    req->head.n_headers = 0;
    req->head.method = req->head.target = req->head.host = STR_NULL;
    return true;
}

void req_end(struct http_req *req, bool completed)
{
    struct http_server *s = req->server;
    if (req->over || !req->begun) {
        return;
    }
    req->ending = true;
    req->over = true;
    if (req->on_end) {
        req->on_end(req, completed, req->end_arg);
    }
    if (s->opts.after && !s->closed) {
        uint64_t sent = req->conn ? req->conn->out.sent - req->sent_before : 0;
        s->opts.after(req, req->status, sent, clock_mono_us() - req->start_us);
    }
    req->ending = false;
}

/* Path and query out of a target; of an absolute one only what follows the authority. */
void req_set_target(struct http_req *req, struct str target)
{
    struct str rest = target;
    if (target.n > 0 && target.p[0] != '/') {
        ptrdiff_t at = str_find_str(target, STR("://"));
        if (at >= 0) {
            rest = str_sub(target, (size_t)at + 3, target.n);
            size_t n = 0;
            while (n < rest.n && rest.p[n] != '/' && rest.p[n] != '?') {
                n++;
            }
            rest = str_sub(rest, n, rest.n);
        }
    }
    req->target = target;
    req->path = str_cut(&rest, '?');
    req->query = rest;
    if (req->path.n == 0 && target.n > 0) {
        req->path = STR("/"); /* http://host and http://host?query */
    }
}

/* ---- facts ---- */

struct str http_req_method(const struct http_req *req)
{
    return req->head.method;
}

struct str http_req_target(const struct http_req *req)
{
    return req->target;
}

struct str http_req_path(const struct http_req *req)
{
    return req->path;
}

struct str http_req_query(const struct http_req *req)
{
    return req->query;
}

struct str http_req_host(const struct http_req *req)
{
    return req->head.host;
}

int http_req_minor(const struct http_req *req)
{
    return req->head.minor;
}

struct str http_req_header(const struct http_req *req, struct str name)
{
    return h1_header_get(req->head.headers, req->head.n_headers, name);
}

const struct h1_header *http_req_headers(const struct http_req *req, size_t *ret_n)
{
    *ret_n = req->head.n_headers;
    return req->head.headers;
}

int64_t http_req_content_length(const struct http_req *req)
{
    return req->head.content_length;
}

bool http_req_has_body(const struct http_req *req)
{
    return req->body != BODY_NONE;
}

bool http_req_is_upgrade(const struct http_req *req, struct str protocol)
{
    return req->head.has_upgrade &&
           h1_header_has_token(req->head.headers, req->head.n_headers, STR("Upgrade"), protocol);
}

struct arena *http_req_arena(struct http_req *req)
{
    return &req->arena;
}

struct io_loop *http_req_loop(const struct http_req *req)
{
    return req->server->loop;
}

struct http_server *http_req_server(const struct http_req *req)
{
    return req->server;
}

void *http_req_app(const struct http_req *req)
{
    return req->server->opts.app;
}

int http_req_peer(const struct http_req *req, struct io_addr *ret)
{
    if (req->work) { /* maybe in another thread: only what was noted before */
        *ret = req->peer;
        return req->peer.len ? 0 : -ENOTCONN;
    }
    return req->conn && req->conn->stream ? io_stream_peer(req->conn->stream, ret) : -ENOTCONN;
}

const struct http_route *http_req_route(const struct http_req *req)
{
    return req->match.route;
}

void http_req_set_data(struct http_req *req, void *data)
{
    req->data = data;
}

void *http_req_data(const struct http_req *req)
{
    return req->data;
}

bool http_req_client_gone(const struct http_req *req)
{
    return atomic_load(&req->gone);
}

void http_req_on_end(struct http_req *req, http_end_cb *cb, void *arg)
{
    req->on_end = cb;
    req->end_arg = arg;
}

/* ---- parameters ---- */

struct str http_req_param_raw(struct http_req *req, const char *name)
{
    struct str n = str_from(name);
    for (size_t i = 0; i < req->match.n_params; i++) {
        if (str_eq(req->match.params[i].name, n)) {
            return req->match.params[i].raw;
        }
    }
    return STR_NULL;
}

static struct str decode(struct http_req *req, struct str raw, bool plus_is_space)
{
    struct buf b = BUF_INIT(HTTP_MAX_TARGET);
    struct str ret = STR_NULL;
    if (percent_decode(&b, raw, plus_is_space) == 0) {
        ret = str_n(arena_str(&req->arena, buf_str(&b)), b.len);
    }
    buf_done(&b);
    return ret;
}

struct str http_req_param(struct http_req *req, const char *name)
{
    struct str raw = http_req_param_raw(req, name);
    return raw.p ? decode(req, raw, false) : STR_NULL;
}

/* Keys may be encoded too; they are compared decoded. */
static bool key_is(struct http_req *req, struct str raw, struct str key)
{
    if (str_find(raw, '%') < 0 && str_find(raw, '+') < 0) {
        return str_eq(raw, key);
    }
    return str_eq(decode(req, raw, true), key);
}

struct str http_req_query_get(struct http_req *req, const char *key, size_t i)
{
    struct str rest = req->query, k = str_from(key);
    while (rest.p) {
        struct str value = str_cut(&rest, '&');
        struct str name = str_cut(&value, '=');
        if (key_is(req, name, k) && i-- == 0) {
            return decode(req, value.p ? value : STR(""), true);
        }
    }
    return STR_NULL;
}

/* ---- identity ---- */

static bool is_visible(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] <= ' ' || s.p[i] > '~') {
            return false;
        }
    }
    return s.n > 0 && s.n <= REQ_ID_MAX;
}

void http_req_set_id(struct http_req *req, struct str id)
{
    if (is_visible(id)) {
        memcpy(req->id, id.p, id.n);
        req->id_len = (uint8_t)id.n;
    }
}

/* Made on first use: most requests are never asked for it. */
struct str http_req_id(const struct http_req *req)
{
    struct http_req *r = (struct http_req *)(uintptr_t)req;
    if (r->id_len == 0) {
        http_req_set_id(r, http_req_header(r, STR("X-Request-ID")));
    }
    if (r->id_len == 0) {
        char id[ID_HEX_LEN + 1];
        rand_id_hex(id);
        http_req_set_id(r, str_n(id, ID_HEX_LEN));
    }
    return str_n(r->id, r->id_len);
}
