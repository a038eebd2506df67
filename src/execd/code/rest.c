/* REST calls to Jupyter. */

#include "execd/code/rest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/codec.h"
#include "base/must.h"
#include "base/num.h"
#include "execd/code/context.h"
#include "execd/limits.h"
#include "http/h1.h"

#define CALL_TIMEOUT_MS 20000u  /* for the next piece of an answer */
#define CALL_DEADLINE_MS 40000u /* for all of it */

struct rest {
    struct list node; /* in the table, so that none is left at the end */
    struct http_call *call;
    struct io_timer deadline;
    rest_cb *cb;
    void *arg;
    int status;
    struct buf body;
};

static int parse_authority(struct arena *a, struct str s, struct jupyter_server *ret)
{
    struct str host, rest = s;
    if (s.n && s.p[0] == '[') {
        rest = str_sub(s, 1, s.n);
        host = str_cut(&rest, ']');
        if (!rest.p || (rest.n && rest.p[0] != ':')) {
            return -1;
        }
        rest = rest.n ? str_sub(rest, 1, rest.n) : STR_NULL;
    } else {
        host = str_cut(&rest, ':');
    }
    ret->port = 80;
    if (host.n == 0 || !h1_is_field_value(s) || (rest.p && parse_port(rest, &ret->port) < 0)) {
        return -1;
    }
    ret->host = arena_str(a, host);
    ret->authority = arena_str(a, s);
    return 0;
}

int jupyter_server_parse(struct arena *a, const char *url, const char *token,
                         struct jupyter_server *ret, struct err *e)
{
    *ret = (struct jupyter_server){0};
    struct str s = str_from(url);
    if (str_starts(s, STR("https://"))) {
        return err_set(e, ERR_UNSUPPORTED,
                       "JUPYTER_HOST: https is not supported here; Jupyter belongs inside the "
                       "sandbox, reached by http");
    }
    if (!str_starts(s, STR("http://"))) {
        return err_set(e, ERR_INVALID, "JUPYTER_HOST: expected http://host:port");
    }
    s = str_sub(s, 7, s.n);
    ptrdiff_t slash = str_find(s, '/');
    struct str path = slash < 0 ? STR("") : str_sub(s, (size_t)slash, s.n);
    while (path.n && path.p[path.n - 1] == '/') {
        path.n--;
    }
    struct str authority = slash < 0 ? s : str_sub(s, 0, (size_t)slash);
    if (parse_authority(a, authority, ret) < 0 || !h1_is_field_value(path) ||
        !h1_is_field_value(str_from(token))) {
        return err_set(e, ERR_INVALID, "JUPYTER_HOST: expected http://host:port");
    }
    cleanup_(buf_done) struct buf encoded = BUF_INIT(16u << 10);
    (void)percent_encode(&encoded, str_from(token), false);
    ret->prefix = arena_str(a, path);
    ret->token = arena_str(a, buf_str(&encoded));
    ret->authorization = *token ? arena_printf(a, "Token %s", token) : NULL;
    return 0;
}

void jupyter_server_target(const struct jupyter_server *s, struct http_target *ret)
{
    *ret = (struct http_target){.key = str_from(s->authority), .addr = s->addr, .netns_fd = -1};
}

size_t jupyter_server_headers(const struct jupyter_server *s, struct h1_header out[3])
{
    size_t n = 0;
    out[n++] = (struct h1_header){STR("Host"), str_from(s->authority)};
    if (s->authorization) {
        out[n++] = (struct h1_header){STR("Authorization"), str_from(s->authorization)};
    }
    return n;
}

static void rest_free(struct rest *r)
{
    list_del(&r->node);
    io_timer_stop(&r->deadline);
    buf_done(&r->body);
    free(r);
}

/* An answer that goes on and on. */
static void give_up(struct rest *r, int error)
{
    http_call_cancel(r->call);
    if (r->cb) {
        r->cb(error, 0, NULL, r->arg);
    }
    rest_free(r);
}

static void on_head(struct http_call *c, const struct h1_head *head, void *arg)
{
    struct rest *r = arg;
    r->status = head->status;
}

static void on_body(struct http_call *c, struct str data, void *arg)
{
    struct rest *r = arg;
    if (buf_add_str(&r->body, data) < 0) {
        give_up(r, -EMSGSIZE);
    }
}

static void on_end(struct http_call *c, int error, void *arg)
{
    struct rest *r = arg;
    struct err e;
    cleanup_(json_free) struct json *body =
        error == 0 && r->body.len ? json_parse(buf_str(&r->body), &e) : NULL;
    if (r->cb) {
        r->cb(error, error ? 0 : r->status, body, r->arg);
    }
    rest_free(r);
}

static void on_deadline(struct io_timer *t)
{
    give_up(container_of(t, struct rest, deadline), -ETIMEDOUT);
}

struct rest *rest_start(struct execd *x, const struct jupyter_server *s, const char *method,
                        const char *path, struct str body, rest_cb *cb, void *arg)
{
    static const struct http_call_ops ops = {
        .on_head = on_head, .on_body = on_body, .on_end = on_end};
    struct rest *r = NEW(struct rest);
    buf_init(&r->body, EXECD_JUPYTER_ANSWER_MAX);
    list_push_back(&x->code->rests, &r->node);
    io_timer_init(&r->deadline, x->loop, on_deadline);
    io_timer_start(&r->deadline, CALL_DEADLINE_MS);
    r->cb = cb;
    r->arg = arg;
    struct http_target target;
    struct h1_header headers[4];
    jupyter_server_target(s, &target);
    size_t n = jupyter_server_headers(s, headers);
    headers[n++] = (struct h1_header){STR("Content-Type"), STR("application/json")};
    cleanup_free char *full = xasprintf("%s%s", s->prefix, path);
    const struct http_call_opts opts = {
        .method = str_from(method),
        .target = str_from(full),
        .headers = headers,
        .n_headers = n,
        .body_len = (int64_t)body.n,
        .keep_body_framing_for_get = strcmp(method, "POST") == 0,
        .head_timeout_ms = CALL_TIMEOUT_MS,
        .idle_timeout_ms = CALL_TIMEOUT_MS,
    };
    r->call = http_call_start(x->client, &target, &opts, &ops, r);
    if (body.n) {
        (void)http_call_write(r->call, body);
        http_call_end_body(r->call);
    }
    return r;
}

void rest_cancel(struct rest *r)
{
    if (r) {
        http_call_cancel(r->call);
        rest_free(r);
    }
}

void rest_cancel_all(struct list *rests)
{
    while (!list_empty(rests)) {
        rest_cancel(list_entry(list_first(rests), struct rest, node));
    }
}
