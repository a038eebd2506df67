/* Request bodies: decoding the framing, pushing pieces to the handler, collecting, throwing away.
 */

#include <errno.h>

#include "base/must.h"
#include "http/internal.h"

bool body_wanted(const struct http_req *req)
{
    if (req->draining) {
        return !req->body_end;
    }
    return req->on_body && !req->paused && (!req->last_told || req->replay) && !req->ended;
}

bool body_can_drain(const struct http_req *req)
{
    if (req->head.expect_continue && !req->continue_sent && !req->body_used) {
        return false; /* nobody knows whether the client will send it now */
    }
    return req->body != BODY_LENGTH || req->body_left <= HTTP_MAX_DRAIN;
}

/* Keeps unused bytes when they lie in memory that the next read overwrites. */
void body_stash(struct http_req *req)
{
    const char *scratch = req->server->scratch, *p = req->pending.p;
    if (p < scratch || p >= scratch + sizeof(req->server->scratch)) {
        return;
    }
    char *copy = xmalloc(req->pending.n);
    memcpy(copy, p, req->pending.n);
    free(req->stash);
    req->stash = copy;
    req->pending.p = copy;
}

static void deliver(struct http_req *req, struct str data, bool is_last)
{
    req->body_used = true;
    if (req->draining) {
        req->drained += data.n;
        return;
    }
    req->last_told = is_last;
    req->on_body(req, data, is_last, req->body_arg);
}

static void pump_length(struct http_req *req)
{
    size_t n = (size_t)MIN(req->body_left, req->pending.n);
    if (n == 0 && req->body_left > 0) {
        return;
    }
    struct str data = str_sub(req->pending, 0, n);
    req->pending = str_sub(req->pending, n, req->pending.n);
    req->body_left -= n;
    req->body_end = req->body_left == 0;
    deliver(req, data, req->body_end);
}

/* One piece; false when there is none. */
static bool pump_chunk(struct http_req *req)
{
    struct str data;
    int r = h1_chunked_next(&req->chunked, &req->pending, &data);
    if (r == 1) {
        deliver(req, data, false);
        return !req->draining || req->drained <= HTTP_MAX_DRAIN;
    }
    if (r == 2) {
        req->body_end = true;
        deliver(req, STR(""), true);
    } else if (r < 0) {
        if (req->over) {
            req->conn->broken = true;
        } else {
            resp_error(req, 400, "malformed chunked body");
        }
    }
    return false;
}

static void on_collect(struct http_req *req, struct str data, bool is_last, void *arg);

/* The body once more, out of what was collected. */
static void replay(struct http_req *req)
{
    struct str body = buf_str(&req->collected);
    req->replay = false;
    if (req->on_body == on_collect) {
        req->on_collect(req, body, req->collect_arg);
    } else {
        req->on_body(req, body, true, req->body_arg);
    }
}

void body_pump(struct http_req *req)
{
    if (req->replay) {
        replay(req);
        return;
    }
    if (req->body_end) { /* there was none, or it ended while nobody listened */
        deliver(req, STR(""), true);
    } else if (req->body == BODY_LENGTH) {
        pump_length(req);
    } else {
        while (body_wanted(req) && pump_chunk(req)) {
        }
    }
    if (req->draining && req->drained > HTTP_MAX_DRAIN) {
        req->close_after = true;
    }
}

/* ---- what handlers call ---- */

void http_req_on_body(struct http_req *req, http_body_cb *cb, void *arg)
{
    req->on_body = cb;
    req->body_arg = arg;
    req->replay = req->last_told;
    if (req->head.expect_continue && !req->body_used && req->pending.n == 0) {
        http_resp_continue(req);
    }
    if (req->conn) {
        conn_schedule(req->conn);
    }
}

void http_req_pause(struct http_req *req)
{
    req->paused = true;
}

void http_req_resume(struct http_req *req)
{
    if (req->paused) {
        req->paused = false;
        if (req->conn) {
            conn_schedule(req->conn);
        }
    }
}

static void on_collect(struct http_req *req, struct str data, bool is_last, void *arg)
{
    if (data.n > req->collect_max - req->collected.len || buf_add_str(&req->collected, data) < 0) {
        resp_error(req, 413, "the request body is too large");
        return;
    }
    if (is_last) {
        req->on_collect(req, buf_str(&req->collected), req->collect_arg);
    }
}

void http_req_collect(struct http_req *req, size_t max, http_collect_cb *cb, void *arg)
{
    req->on_collect = cb;
    req->collect_arg = arg;
    req->collect_max = max;
    req->collected.max = MAX(max, req->collected.cap); /* it may hold a body already */
    if ((req->head.content_length > 0 && (uint64_t)req->head.content_length > max) ||
        req->collected.len > max) {
        resp_error(req, 413, "the request body is too large");
        return;
    }
    http_req_on_body(req, on_collect, NULL);
}

struct str http_req_body(const struct http_req *req)
{
    return buf_str(&req->collected);
}
