/* In bridge mode the platform hands out "host:port/proxy/44772" as execd's own address, so most
 * calls come through here and lead back to ourselves: those are routed again, not sent over TCP. */

#include "execd/routes_proxy.h"

#include "base/must.h"
#include "base/num.h"
#include "execd/execd.h"
#include "execd/reply.h"
#include "http/proxy.h"

static void on_error(struct http_req *req, int error, void *arg)
{
    http_resp_send(req, 502, TEXT_CTYPE, STR("Bad Gateway"));
}

/* Who asked: what is known from in front of us, then the one we see. */
static struct str forwarded_for(struct http_req *req)
{
    struct io_addr peer;
    char ip[IO_ADDR_TEXT_MAX] = "", full[IO_ADDR_TEXT_MAX] = "";
    if (http_req_peer(req, &peer) == 0) {
        (void)io_addr_format_ip(&peer, ip);
        (void)io_addr_format(&peer, full);
    }
    struct str before = http_req_header(req, STR("X-Forwarded-For"));
    before = before.n ? str_trim(str_cut(&before, ',')) : http_req_header(req, STR("X-Real-IP"));
    if (before.n == 0) {
        before = str_from(full);
    }
    return str_from(arena_printf(http_req_arena(req), "%.*s, %s", STR_FMT(before), ip));
}

static void forward(struct http_req *req, uint16_t port, struct str target)
{
    struct arena *a = http_req_arena(req);
    struct io_addr *alt = ARENA_NEW(a, struct io_addr);
    struct http_target t = {
        .key = str_from(arena_printf(a, "127.0.0.1:%u", port)), .alt = alt, .netns_fd = -1};
    must(io_addr_ip(STR("127.0.0.1"), port, &t.addr) == 0);
    must(io_addr_ip(STR("::1"), port, alt) == 0);

    struct h1_header *add = arena_array(a, 2, sizeof(*add));
    add[0] = (struct h1_header){STR("X-Forwarded-For"), forwarded_for(req)};
    add[1] = (struct h1_header){STR("X-Forwarded-Proto"), STR("http")};
    static const struct str drop[] = {{"X-Forwarded-Host", 16}};
    http_proxy_start(req, execd_of(req)->client, &t,
                     &(struct http_proxy_opts){
                         .target = target,
                         .add = add,
                         .n_add = 2,
                         .drop = drop,
                         .n_drop = ARRAY_LEN(drop),
                         .on_error = on_error,
                     });
}

void proxy_any(struct http_req *req)
{
    struct str path = http_req_path(req); /* raw: what is escaped stays so */
    struct str rest = str_sub(path, sizeof("/proxy/") - 1, path.n);
    if (!str_starts(path, STR("/proxy/"))) {
        http_resp_send(req, 404, "text/plain", STR("404 page not found"));
        return;
    }
    struct str text = str_cut(&rest, '/');
    uint16_t port;
    if (text.n == 0) {
        http_resp_send(req, 400, TEXT_CTYPE, STR("port is required"));
        return;
    }
    if (parse_port(text, &port) < 0) {
        http_resp_send(req, 400, TEXT_CTYPE, STR("the port must be a number from 1 to 65535"));
        return;
    }
    struct str query = http_req_query(req);
    struct str target = str_from(arena_printf(http_req_arena(req), "/%.*s%s%.*s", STR_FMT(rest),
                                              query.p ? "?" : "", STR_FMT(query)));
    if (port == execd_of(req)->port) {
        http_req_redispatch(req, target);
    } else {
        forward(req, port, target);
    }
}
