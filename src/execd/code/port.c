/* The port that says that code can be run. */

#include "execd/code/port.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/must.h"
#include "base/num.h"
#include "execd/code/context.h"
#include "execd/code/kernelspec.h"
#include "execd/limits.h"
#include "execd/reply.h"
#include "http/server.h"

struct code_port {
    struct http_server *http;
    uint16_t port;
};

static const struct http_route routes[] = {{0}};

static void not_found(struct http_req *req, bool path_known)
{
    reply_error(req, 404, CODE_NOT_SUPPORTED,
                "there is no Jupyter server here: execd runs the kernels, and its /code is the way "
                "to them");
}

static bool have_kernels(void)
{
    cleanup_(arena_done) struct arena a = {0};
    struct kernelspecs *specs = ARENA_NEW(&a, struct kernelspecs);
    kernelspecs_find(&a, specs);
    return specs->n > 0;
}

/* 0: none is wanted. */
static uint16_t wanted_port(const struct execd *x)
{
    const char *text = getenv("JUPYTER_PORT");
    uint16_t port = EXECD_CODE_PORT;
    if (*x->cfg.jupyter_host || (text && *text && parse_port(str_from(text), &port) < 0) ||
        !have_kernels()) {
        return 0;
    }
    return port;
}

void code_port_free(struct code_port *p)
{
    if (p) {
        http_server_free(p->http);
        free(p);
    }
}

void code_port_update(struct execd *x)
{
    uint16_t port = wanted_port(x);
    struct code_port *p = x->code->port;
    if (p ? p->port == port : port == 0) {
        return;
    }
    code_port_free(take_ptr(&x->code->port));
    if (port == 0) {
        return;
    }
    p = NEW(struct code_port);
    p->port = port;
    p->http = http_server_new(x->loop, &(struct http_server_opts){
                                           .routes = routes,
                                           .app = x,
                                           .not_found = not_found,
                                           .max_connections = EXECD_CODE_PORT_CONNECTIONS,
                                       });
    struct io_addr addr, bound;
    struct err e = {0};
    must(io_addr_ip(STR("127.0.0.1"), port, &addr) == 0);
    if (http_server_listen(p->http, &addr, &(struct io_listen_opts){.backlog = 16}, &bound, &e) <
        0) {
        log_debug("the port of the code interpreter is not ours", LOG_I("port", port), LOG_ERR(&e));
        code_port_free(p);
        return;
    }
    x->code->port = p;
}
