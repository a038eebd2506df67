/* Paths against a table with every kind of segment: parameters lie inside the path, in order, and
 * what matched matches again. */

#include <stdint.h>

#include "base/buf.h"
#include "base/must.h"
#include "http/router.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void handler(struct http_req *req)
{
    (void)req;
}

#define R(m, p)                                                                                    \
    {                                                                                              \
        m, p, HTTP_STREAM, .stream = handler                                                       \
    }

static const struct http_route routes[] = {
    R("GET", "/"),         R("GET", "/a"),         R("POST", "/a/{x}"),
    R("GET", "/a/b"),      R("GET", "/a/{x}/{y}"), R("*", "/a/{x}/b/{z...}"),
    R("GET", "/{any...}"), R("HEAD", "/h/{x}"),    {0},
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct http_router *router;
    static const char *const methods[] = {"GET", "POST", "HEAD", "PUT"};
    if (!router) {
        router = http_router_new(routes);
    }
    if (size == 0) {
        return 0;
    }
    struct http_match m;
    struct str path = str_n((const char *)data + 1, size - 1);
    struct str method = str_from(methods[data[0] % ARRAY_LEN(methods)]);
    bool found = http_router_match(router, method, path, &m);
    must(found == (m.route != NULL) && (!found || m.path_known));
    const char *at = path.p;
    for (size_t i = 0; found && i < m.n_params; i++) {
        must(m.params[i].name.n > 0);
        if (m.params[i].raw.n > 0) {
            must(m.params[i].raw.p >= at &&
                 m.params[i].raw.p + m.params[i].raw.n <= path.p + path.n);
            at = m.params[i].raw.p + m.params[i].raw.n;
        }
    }
    struct buf allow = BUF_INIT(4096);
    http_router_allow(router, path, &allow);
    must((allow.len > 0) == m.path_known || found);
    buf_done(&allow);
    return 0;
}
