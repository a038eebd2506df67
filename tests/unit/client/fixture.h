#pragma once
/* A server that plays lifecycle API and execd at once, on a thread of its own. What a sandbox is
 * depends on its id: "box" answers, "gone" does not exist, "slow" answers when it is let go. */

#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "client/opensandbox.h"
#include "http/server.h"
#include "io/addr.h"
#include "json/json.h"

static struct {
    struct io_group *group;
    struct io_pool *pool;
    struct http_server *server;
    char domain[IO_ADDR_TEXT_MAX];
    sem_t entered, leave, left; /* of a request to "slow" */
    struct osb_client *client;
} fx;

static inline void fx_hold(void) /* in a handler */
{
    must(sem_post(&fx.entered) == 0);
    must(sem_wait(&fx.leave) == 0);
    must(sem_post(&fx.left) == 0);
}

/* Lets the one held go, and waits for it: or the next would take what was meant for it. */
static inline void fx_let_go(void)
{
    must(sem_post(&fx.leave) == 0);
    must(sem_wait(&fx.left) == 0);
}

static inline bool fx_is(struct http_req *req, const char *id)
{
    return str_eq(http_req_param(req, "id"), str_from(id));
}

static void fx_sandbox(struct http_req *req, struct http_reply *r)
{
    r->status = 200;
    http_reply_header(r, STR("X-Request-ID"), STR("req-1"));
    if (fx_is(req, "gone")) {
        r->status = 404;
        (void)buf_add_cstr(&r->body, "{\"code\":\"T::GONE\",\"message\":\"it is gone\"}");
        return;
    }
    if (fx_is(req, "plain")) {
        r->status = 503;
        (void)buf_add_cstr(&r->body, "come back later");
        return;
    }
    if (fx_is(req, "slow")) {
        fx_hold();
    }
    (void)buf_add_cstr(
        &r->body,
        fx_is(req, "broken")
            ? "{not json"
            : "{\"id\":\"box\",\"status\":{\"state\":\"Running\"},\"image\":{\"uri\":"
              "\"i\"},\"createdAt\":\"2026-01-01T00:00:00Z\",\"metadata\":{\"k\":\"v\"}}");
}

static void fx_create(struct http_req *req, struct http_reply *r)
{
    must(http_req_header(req, STR("Idempotency-Key")).n > 0);
    r->status = 202;
    (void)buf_add_cstr(&r->body, "{\"id\":\"box\",\"status\":{\"state\":\"Running\"}}");
}

static void fx_delete(struct http_req *req, struct http_reply *r)
{
    r->status = 204;
}

static void fx_endpoint(struct http_req *req, struct http_reply *r)
{
    r->status = 200;
    (void)buf_printf(&r->body, "{\"endpoint\":\"%s/in/%.*s\",\"headers\":{\"X-Box\":\"yes\"}}",
                     fx.domain, STR_FMT(http_req_param(req, "id")));
}

static void fx_ping(struct http_req *req, struct http_reply *r)
{
    r->status = fx_is(req, "dead") ? 503 : 200;
}

/* Answers with the command itself, or the code, as the stream. */
static void fx_command(struct http_req *req, struct http_reply *r)
{
    struct json *j;
    must(str_eq(http_req_header(req, STR("X-Box")), STR("yes")));
    r->status = 200;
    r->ctype = "text/event-stream";
    j = json_parse(http_req_body(req), NULL);
    struct str command = json_str(json_get(j, "command"));
    (void)buf_add_str(&r->body, command.p ? command : json_str(json_get(j, "code")));
    json_free(j);
    if (fx_is(req, "slow")) {
        fx_hold();
    }
}

static void fx_download(struct http_req *req, struct http_reply *r)
{
    r->status = 200;
    r->ctype = "application/octet-stream";
    if (fx_is(req, "slow")) {
        fx_hold();
    }
    (void)buf_add_str(&r->body, http_req_query_get(req, "path", 0));
}

static void fx_snapshot(struct http_req *req, struct http_reply *r)
{
    const char *state = fx_is(req, "ready")    ? "Ready"
                        : fx_is(req, "failed") ? "Failed"
                                               : "Creating";
    if (fx_is(req, "watched")) {
        must(sem_post(&fx.entered) == 0);
    }
    r->status = 200;
    (void)buf_printf(&r->body, "{\"id\":\"s\",\"status\":{\"state\":\"%s\",\"message\":\"why\"}}",
                     state);
}

static const struct http_route fx_routes[] = {
    {.method = "GET", .pattern = "/health", .kind = HTTP_WORK, .work = fx_delete},
    {.method = "POST", .pattern = "/v1/sandboxes", .kind = HTTP_WORK, .work = fx_create},
    {.method = "GET", .pattern = "/v1/sandboxes/{id}", .kind = HTTP_WORK, .work = fx_sandbox},
    {.method = "DELETE", .pattern = "/v1/sandboxes/{id}", .kind = HTTP_WORK, .work = fx_delete},
    {.method = "GET",
     .pattern = "/v1/sandboxes/{id}/endpoints/{port}",
     .kind = HTTP_WORK,
     .work = fx_endpoint},
    {.method = "GET", .pattern = "/v1/snapshots/{id}", .kind = HTTP_WORK, .work = fx_snapshot},
    {.method = "GET", .pattern = "/v1/images/{id}/export", .kind = HTTP_WORK, .work = fx_sandbox},
    {.method = "GET", .pattern = "/v1/pools", .kind = HTTP_WORK, .work = fx_delete},
    {.method = "GET", .pattern = "/v1/pools/{id}", .kind = HTTP_WORK, .work = fx_sandbox},
    {.method = "PUT", .pattern = "/v1/pools/{id}", .kind = HTTP_WORK, .work = fx_delete},
    {.method = "GET", .pattern = "/in/{id}/ping", .kind = HTTP_WORK, .work = fx_ping},
    {.method = "POST", .pattern = "/in/{id}/command", .kind = HTTP_WORK, .work = fx_command},
    {.method = "POST", .pattern = "/in/{id}/code", .kind = HTTP_WORK, .work = fx_command},
    {.method = "GET", .pattern = "/in/{id}/files/download", .kind = HTTP_WORK, .work = fx_download},
    {0},
};

static int fx_start(void **state)
{
    struct io_addr a, bound;
    struct err e = {0};
    (void)unsetenv("OPEN_SANDBOX_DOMAIN");
    (void)unsetenv("OPEN_SANDBOX_API_KEY");
    (void)unsetenv("OPEN_SANDBOX_PROTOCOL");
    must(sem_init(&fx.entered, 0, 0) == 0 && sem_init(&fx.leave, 0, 0) == 0 &&
         sem_init(&fx.left, 0, 0) == 0);
    fx.group = io_group_new(1);
    fx.pool = io_pool_new("work", 8, 256);
    fx.server = http_server_new(io_group_loop(fx.group, 0),
                                &(struct http_server_opts){.routes = fx_routes, .pool = fx.pool});
    must(io_addr_ip(STR("127.0.0.1"), 0, &a) == 0);
    must(http_server_listen(fx.server, &a, NULL, &bound, &e) == 0);
    (void)io_addr_format(&bound, fx.domain);
    io_group_start(fx.group);
    fx.client = osb_client_new(&(struct osb_config){.domain = fx.domain, .api_key = "key"}, NULL);
    must(fx.client);
    return 0;
}

static int fx_stop(void **state)
{
    osb_client_free(fx.client);
    io_pool_free(fx.pool);
    io_group_stop(fx.group);
    http_server_free(fx.server);
    io_group_free(fx.group);
    return 0;
}
