/* The route table as a tree of path segments.
 *
 * Matching walks the tree with backtracking: at each node the literal child is tried first, then
 * the parameter, then the rest. A deeper match for another method does not hide a shallower one for
 * the method asked for. The depth is that of the patterns, so a long path costs nothing extra. */

#include "http/router.h"

#include "base/buf.h"
#include "base/must.h"

struct method {
    struct str name;
    const struct http_route *route;
};

struct node {
    struct str literal;
    struct node *children; /* literal ones, linked by next */
    struct node *next;
    struct node *param, *rest;
    struct method *methods;
    size_t n_methods;
};

struct http_router {
    struct node root;
};

/* ---- building ---- */

static bool is_param(struct str seg)
{
    return seg.n >= 3 && seg.p[0] == '{' && seg.p[seg.n - 1] == '}';
}

static bool is_rest(struct str seg)
{
    return is_param(seg) && str_ends(seg, STR("...}"));
}

static struct str param_name(struct str seg)
{
    return str_sub(seg, 1, seg.n - (is_rest(seg) ? 4 : 1));
}

static struct node *literal_child(const struct node *n, struct str seg)
{
    for (struct node *c = n->children; c; c = c->next) {
        if (str_eq(c->literal, seg)) {
            return c;
        }
    }
    return NULL;
}

static struct node *child_for(struct node *n, struct str seg)
{
    if (is_param(seg)) {
        struct node **slot = is_rest(seg) ? &n->rest : &n->param;
        if (!*slot) {
            *slot = NEW(struct node);
        }
        return *slot;
    }
    must(str_find(seg, '{') < 0 && str_find(seg, '}') < 0); /* malformed pattern */
    struct node *c = literal_child(n, seg);
    if (!c) {
        c = NEW(struct node);
        c->literal = seg;
        c->next = n->children;
        n->children = c;
    }
    return c;
}

static void add_method(struct node *n, const struct http_route *route)
{
    struct str name = str_from(route->method);
    for (size_t i = 0; i < n->n_methods; i++) {
        must(!str_eq(n->methods[i].name, name)); /* two routes for the same method and path */
    }
    n->methods = xreallocarray(n->methods, n->n_methods + 1, sizeof(*n->methods));
    n->methods[n->n_methods++] = (struct method){name, route};
}

/* The segments of a pattern; without the leading slash, and "/" alone has none. */
static struct str pattern_segments(const struct http_route *route)
{
    struct str p = str_from(route->pattern);
    must(p.n > 0 && p.p[0] == '/');
    p = str_sub(p, 1, p.n);
    return p.n ? p : STR_NULL;
}

static void add_route(struct http_router *r, const struct http_route *route)
{
    must(route->kind == HTTP_WORK ? route->work != NULL : route->stream != NULL);
    struct str rest = pattern_segments(route);
    struct node *n = &r->root;
    size_t n_params = 0;
    while (rest.p) {
        struct str seg = str_cut(&rest, '/');
        must(seg.n > 0 && n_params <= HTTP_MAX_PARAMS);
        must(!is_rest(seg) || !rest.p); /* the rest is last */
        n_params += is_param(seg);
        n = child_for(n, seg);
    }
    must(n_params <= HTTP_MAX_PARAMS);
    add_method(n, route);
}

struct http_router *http_router_new(const struct http_route *routes)
{
    struct http_router *r = NEW(struct http_router);
    for (; routes->method; routes++) {
        add_route(r, routes);
    }
    return r;
}

static void node_done(struct node *n)
{
    for (struct node *c = n->children, *next; c; c = next) {
        next = c->next;
        node_done(c);
        free(c);
    }
    if (n->param) {
        node_done(n->param);
        free(n->param);
    }
    if (n->rest) {
        node_done(n->rest);
        free(n->rest);
    }
    free(n->methods);
}

void http_router_free(struct http_router *r)
{
    if (r) {
        node_done(&r->root);
        free(r);
    }
}

/* ---- matching ---- */

struct search {
    struct str method;
    struct buf *allow; /* not matching, but collecting the methods of the path */
    struct http_match *ret;
    struct str values[HTTP_MAX_PARAMS];
};

static const struct http_route *node_route(const struct node *n, struct str method)
{
    const struct http_route *any = NULL, *get = NULL;
    bool is_head = str_eq(method, STR("HEAD"));
    for (size_t i = 0; i < n->n_methods; i++) {
        if (str_eq(n->methods[i].name, method)) {
            return n->methods[i].route;
        }
        if (is_head && str_eq(n->methods[i].name, STR("GET"))) {
            get = n->methods[i].route;
        } else if (str_eq(n->methods[i].name, STR("*"))) {
            any = n->methods[i].route;
        }
    }
    return get ? get : any;
}

static void collect_methods(const struct node *n, struct buf *out)
{
    for (size_t i = 0; i < n->n_methods; i++) {
        (void)buf_printf(out, "%s%s", out->len ? ", " : "", n->methods[i].route->method);
        if (str_eq(n->methods[i].name, STR("GET"))) {
            (void)buf_add_cstr(out, ", HEAD");
        }
    }
}

/* The path ends at this node. */
static bool accept_node(const struct node *n, struct search *s, size_t n_params)
{
    if (n->n_methods == 0) {
        return false;
    }
    s->ret->path_known = true;
    if (s->allow) {
        collect_methods(n, s->allow);
        return false;
    }
    s->ret->route = node_route(n, s->method);
    if (!s->ret->route) {
        return false;
    }
    s->ret->n_params = n_params;
    struct str rest = pattern_segments(s->ret->route);
    for (size_t i = 0; rest.p;) {
        struct str seg = str_cut(&rest, '/');
        if (is_param(seg)) {
            s->ret->params[i].name = param_name(seg);
            s->ret->params[i].raw = s->values[i];
            i++;
        }
    }
    return true;
}

/* `path` is what follows the slash after this node's segment; NULL: nothing, not even a slash. */
static bool search_node(const struct node *n, struct str path, struct search *s, size_t n_params)
{
    if ((!path.p || path.n == 0) && accept_node(n, s, n_params)) {
        return true;
    }
    if (path.p && path.n > 0) {
        struct str rest = path, seg = str_cut(&rest, '/');
        const struct node *c = literal_child(n, seg);
        if (c && search_node(c, rest, s, n_params)) {
            return true;
        }
        if (n->param && seg.n > 0) {
            s->values[n_params] = seg;
            if (search_node(n->param, rest, s, n_params + 1)) {
                return true;
            }
        }
    }
    if (n->rest) {
        s->values[n_params] = path.p ? path : STR("");
        return accept_node(n->rest, s, n_params + 1);
    }
    return false;
}

bool http_router_match(const struct http_router *r, struct str method, struct str path,
                       struct http_match *ret)
{
    struct search s = {.method = method, .ret = ret};
    ret->route = NULL;
    ret->path_known = false;
    ret->n_params = 0;
    if (path.n == 0 || path.p[0] != '/') {
        return false;
    }
    return search_node(&r->root, str_sub(path, 1, path.n), &s, 0);
}

void http_router_allow(const struct http_router *r, struct str path, struct buf *out)
{
    struct http_match m = {0};
    struct search s = {.allow = out, .ret = &m};
    if (path.n > 0 && path.p[0] == '/') {
        (void)search_node(&r->root, str_sub(path, 1, path.n), &s, 0);
    }
}
