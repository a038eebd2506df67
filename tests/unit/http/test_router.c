#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/must.h"
#include "http/router.h"

static void handler(struct http_req *req)
{
}

#define R(m, p)                                                                                    \
    {                                                                                              \
        m, p, HTTP_STREAM, .stream = handler                                                       \
    }

static const struct http_route routes[] = {
    R("GET", "/"),
    R("GET", "/sandboxes"),
    R("POST", "/sandboxes"),
    R("GET", "/sandboxes/{id}"),
    R("DELETE", "/sandboxes/{sandbox}"),
    R("GET", "/sandboxes/stats"),
    R("POST", "/sandboxes/{id}/pause"),
    R("*", "/sandboxes/{id}/proxy/{port}/{rest...}"),
    R("GET", "/a/b/c"),
    R("GET", "/a/{x}/d"),
    R("GET", "/a/{rest...}"),
    R("POST", "/a/b"),
    R("HEAD", "/own"),
    R("GET", "/own"),
    R("*", "/any"),
    R("GET", "/any"),
    {0},
};

static struct http_router *router;

static int setup(void **state)
{
    router = http_router_new(routes);
    return 0;
}

static int teardown(void **state)
{
    http_router_free(router);
    http_router_free(NULL);
    return 0;
}

/* "pattern name=raw ..." or "404" / "405". */
static void expect(const char *method, const char *path, const char *want)
{
    struct http_match m;
    char got[256];
    bool found = http_router_match(router, str_from(method), str_from(path), &m);
    assert_int_equal(found, m.route != NULL);
    if (!found) {
        (void)snprintf(got, sizeof(got), "%s", m.path_known ? "405" : "404");
    } else {
        int n = snprintf(got, sizeof(got), "%s %s", m.route->method, m.route->pattern);
        for (size_t i = 0; i < m.n_params; i++) {
            n += snprintf(got + n, sizeof(got) - (size_t)n, " %.*s=%.*s", STR_FMT(m.params[i].name),
                          STR_FMT(m.params[i].raw));
        }
    }
    if (strcmp(got, want) != 0) {
        fail_msg("%s %s: \"%s\" instead of \"%s\"", method, path, got, want);
    }
}

static void test_match(void **state)
{
    expect("GET", "/", "GET /");
    expect("GET", "/sandboxes", "GET /sandboxes");
    expect("GET", "/sandboxes/", "GET /sandboxes");
    expect("POST", "/sandboxes", "POST /sandboxes");
    expect("GET", "/sandboxes/1", "GET /sandboxes/{id} id=1");
    expect("GET", "/sandboxes/1/", "GET /sandboxes/{id} id=1");
    expect("DELETE", "/sandboxes/1", "DELETE /sandboxes/{sandbox} sandbox=1");
    expect("GET", "/sandboxes/stats", "GET /sandboxes/stats");
    expect("DELETE", "/sandboxes/stats", "DELETE /sandboxes/{sandbox} sandbox=stats");
    expect("GET", "/sandboxes/a%2Fb", "GET /sandboxes/{id} id=a%2Fb");
    expect("POST", "/sandboxes/1/pause", "POST /sandboxes/{id}/pause id=1");
}

static void test_rest(void **state)
{
    const char *p = "* /sandboxes/{id}/proxy/{port}/{rest...}";
    char want[128];
    (void)snprintf(want, sizeof(want), "%s id=1 port=80 rest=", p);
    expect("GET", "/sandboxes/1/proxy/80", want);
    expect("PUT", "/sandboxes/1/proxy/80/", want);
    (void)snprintf(want, sizeof(want), "%s id=1 port=80 rest=x//../y%%20z/", p);
    expect("QUERY", "/sandboxes/1/proxy/80/x//../y%20z/", want);
    expect("GET", "/sandboxes/1/proxy", "404");
}

static void test_backtracking(void **state)
{
    expect("GET", "/a/b/c", "GET /a/b/c");
    expect("GET", "/a/b/d", "GET /a/{x}/d x=b");
    expect("GET", "/a/b/e", "GET /a/{rest...} rest=b/e");
    expect("GET", "/a/b", "GET /a/{rest...} rest=b"); /* POST /a/b does not hide it */
    expect("POST", "/a/b", "POST /a/b");
    expect("GET", "/a", "GET /a/{rest...} rest=");
}

static void test_methods(void **state)
{
    expect("HEAD", "/sandboxes", "GET /sandboxes");
    expect("HEAD", "/own", "HEAD /own");
    expect("HEAD", "/any", "GET /any");
    expect("PUT", "/any", "* /any");
    expect("PUT", "/sandboxes", "405");
    expect("get", "/sandboxes", "405");
    expect("GET", "/sandboxes/1/pause", "405");
}

static void test_no_match(void **state)
{
    expect("GET", "", "404");
    expect("OPTIONS", "*", "404");
    expect("GET", "sandboxes", "404");
    expect("GET", "//", "404");
    expect("GET", "//sandboxes", "404");
    expect("GET", "/sandboxes//", "404");
    expect("GET", "/sandboxes//pause", "404");
    expect("GET", "/sandbox", "404");
    expect("GET", "/sandboxes/1/2", "404");
    expect("GET", "/Sandboxes", "404");
}

static void test_allow(void **state)
{
    struct buf b = BUF_INIT(1000);
    http_router_allow(router, STR("/sandboxes"), &b);
    assert_string_equal(buf_cstr(&b), "GET, HEAD, POST");
    buf_clear(&b);
    http_router_allow(router, STR("/nothing"), &b);
    assert_int_equal(b.len, 0);
    buf_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_match),        cmocka_unit_test(test_rest),
        cmocka_unit_test(test_backtracking), cmocka_unit_test(test_methods),
        cmocka_unit_test(test_no_match),     cmocka_unit_test(test_allow),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
