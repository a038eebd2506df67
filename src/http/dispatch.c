/* From a parsed head to its handler. */

#include "base/clock.h"
#include "base/must.h"
#include "http/internal.h"

static void set_body(struct http_req *req)
{
    const struct h1_head *h = &req->head;
    if (h->chunked) {
        req->body = BODY_CHUNKED;
    } else if (h->content_length > 0) {
        req->body = BODY_LENGTH;
        req->body_left = (uint64_t)h->content_length;
    } else {
        req->body = BODY_NONE;
        req->body_end = true;
    }
}

static void not_found(struct http_req *req)
{
    const struct http_server *s = req->server;
    bool known = req->match.path_known;
    if (known) {
        struct buf allow = BUF_INIT(1024);
        http_router_allow(s->router, req->path, &allow);
        http_resp_header(req, STR("Allow"), buf_str(&allow));
        buf_done(&allow);
    }
    if (s->opts.not_found) {
        s->opts.not_found(req, known);
        return;
    }
    struct buf body = BUF_INIT(1024);
    resp_default_error(known ? 405 : 404,
                       known ? "the path does not know this method" : "no such path", &body);
    http_resp_send(req, known ? 405 : 404, "application/json", buf_str(&body));
    buf_done(&body);
}

static void call_handler(struct http_req *req)
{
    const struct http_route *route = req->match.route;
    if (!route) {
        not_found(req);
    } else if (route->kind == HTTP_WORK) {
        work_start(req);
    } else {
        route->stream(req);
    }
}

void req_dispatch(struct http_req *req)
{
    const struct http_server *s = req->server;
    req->begun = true;
    if (s->opts.after) {
        req->start_us = clock_mono_us();
    }
    set_body(req);
    req_set_target(req, req->head.target);
    (void)http_router_match(s->router, req->head.method, req->path, &req->match);
    if (!s->opts.before || s->opts.before(req, req->match.route)) {
        call_handler(req);
    }
}

void http_req_redispatch(struct http_req *req, struct str new_target)
{
    if (bug_if(req->started) || ++req->n_dispatch > HTTP_MAX_DISPATCH) {
        resp_error(req, 500, "a request was passed on in a circle");
        return;
    }
    req_set_target(req, str_n(arena_str(&req->arena, new_target), new_target.n));
    (void)http_router_match(req->server->router, req->head.method, req->path, &req->match);
    call_handler(req);
}
