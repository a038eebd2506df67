/* Connect: where the server is, who we are, and requests to its lifecycle API. */

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/codec.h"
#include "base/must.h"
#include "client/internal.h"

void client_channels_free(struct osb_client *c);

char *dup_or_null(const char *s)
{
    return s ? xstrdup(s) : NULL;
}

static const char *first_of(const char *value, const char *env, const char *fallback)
{
    if (value && value[0]) {
        return value;
    }
    const char *from_env = env ? getenv(env) : NULL;
    return from_env && from_env[0] ? from_env : fallback;
}

static void curl_start(void)
{
    must(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK);
}

/* "host:port", "http://host/prefix", with or without /v1 at the end. */
static int set_base(struct osb_client *c, const char *domain, const char *protocol,
                    struct osb_error *e)
{
    struct str d = str_from(domain), scheme = str_from(protocol);
    ptrdiff_t sep = str_find_str(d, STR("://"));
    if (sep >= 0) {
        scheme = str_sub(d, 0, (size_t)sep);
        d = str_sub(d, (size_t)sep + 3, d.n);
    }
    while (d.n > 0 && d.p[d.n - 1] == '/') {
        d.n--;
    }
    if (str_ends(d, STR("/v1"))) {
        d.n -= 3;
    }
    bool known = str_eq(scheme, STR("http")) || str_eq(scheme, STR("https"));
    if (!known || d.n == 0 || str_find(d, ' ') >= 0) {
        return osb_fail(e, OSB_EINVALID,
                        "'%s' is not a server address: host:port or http(s)://host[:port]", domain);
    }
    c->scheme = str_dup(scheme);
    c->base = xasprintf("%s://%.*s/v1", c->scheme, STR_FMT(d));
    return 0;
}

static char **copy_lines(const char *const *lines)
{
    size_t n = 0;
    while (lines && lines[n]) {
        n++;
    }
    char **out = xcalloc(n + 1, sizeof(*out));
    for (size_t i = 0; i < n; i++) {
        out[i] = xstrdup(lines[i]);
    }
    return out;
}

struct osb_client *osb_client_new(const struct osb_config *cfg, struct osb_error *e)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static const struct osb_config none;
    (void)pthread_once(&once, curl_start);
    cfg = cfg ? cfg : &none;
    struct osb_client *c = NEW(struct osb_client);
    list_init(&c->idle);
    (void)pthread_mutex_init(&c->lock, NULL);
    c->api_key = dup_or_null(first_of(cfg->api_key, "OPEN_SANDBOX_API_KEY", NULL));
    c->user_agent = xstrdup(cfg->user_agent ? cfg->user_agent : "OpenSandbox-C-SDK/" OSB_VERSION);
    c->ca_file = dup_or_null(cfg->ca_file);
    c->headers = copy_lines(cfg->headers);
    c->insecure = cfg->insecure;
    c->use_server_proxy = cfg->use_server_proxy;
    c->request_timeout_ms =
        cfg->request_timeout_ms ? cfg->request_timeout_ms : CLIENT_REQUEST_TIMEOUT_MS;
    const char *domain = first_of(cfg->domain, "OPEN_SANDBOX_DOMAIN", "localhost:8080");
    if (set_base(c, domain, first_of(cfg->protocol, "OPEN_SANDBOX_PROTOCOL", "http"), e) < 0) {
        osb_client_free(c);
        return NULL;
    }
    return c;
}

void osb_client_free(struct osb_client *c)
{
    if (!c) {
        return;
    }
    client_channels_free(c);
    (void)pthread_mutex_destroy(&c->lock);
    for (char **p = c->headers; p && *p; p++) {
        free(*p);
    }
    free(c->headers);
    if (c->api_key) {
        explicit_bzero(c->api_key, strlen(c->api_key));
    }
    free(c->api_key);
    free(c->user_agent);
    free(c->ca_file);
    free(c->scheme);
    free(c->base);
    free(c);
}

int query_add(struct buf *path, const char *key, const char *value)
{
    (void)buf_add_char(path, str_find(buf_str(path), '?') < 0 ? '?' : '&');
    (void)buf_add_cstr(path, key);
    (void)buf_add_char(path, '=');
    return percent_encode(path, str_from(value), false);
}

void pairs_put(struct json_out *o, const char *key, const struct osb_pair *pairs)
{
    if (!pairs) {
        return;
    }
    json_key(o, key);
    json_obj_begin(o);
    for (const struct osb_pair *p = pairs; p->key; p++) {
        json_key(o, p->key);
        json_put_cstr(o, p->value);
    }
    json_obj_end(o);
}

int client_transfer(struct osb_client *c, const char *path, struct transfer *t, struct osb_error *e)
{
    cleanup_free char *url = xasprintf("%s%s", c->base, path);
    t->url = url;
    t->with_key = true;
    int r = transfer_run(c, t, e);
    t->url = NULL;
    return r;
}

struct json *client_json(struct osb_client *c, const char *method, const char *path,
                         const struct buf *body, const struct osb_call *call, struct osb_error *e)
{
    struct err why = {0};
    struct transfer t = {.method = method, .has_body = body != NULL};
    struct json *j = NULL;
    if (body) {
        t.body = buf_str(body);
    }
    if (call) {
        t.call = *call;
    }
    if (client_transfer(c, path, &t, e) == 0 && t.answer.len > 0) {
        j = json_parse(buf_str(&t.answer), &why);
        if (!j) {
            (void)osb_fail(e, OSB_EPROTOCOL, "the server's answer is not JSON: %s", why.msg);
        }
    }
    transfer_done(&t);
    return j;
}

int osb_client_health(struct osb_client *c, struct osb_error *e)
{
    /* /health lives beside /v1, not below it. */
    cleanup_free char *url =
        xasprintf("%.*s/health", (int)(strlen(c->base) - strlen("/v1")), c->base);
    struct transfer t = {.method = "GET", .url = url, .with_key = true};
    int r = transfer_run(c, &t, e);
    transfer_done(&t);
    return r;
}

char *osb_request(struct osb_client *c, const struct osb_request *r, struct osb_error *e)
{
    cleanup_free char *accept = r->accept ? xasprintf("Accept: %s", r->accept) : NULL;
    struct transfer t = transfer_of(r, accept);
    char *out = client_transfer(c, r->path, &t, e) == 0 ? buf_take(&t.answer) : NULL;
    transfer_done(&t);
    return out;
}

/* Cuts a streamed answer into lines. */
struct line_reader {
    struct buf rest;
    osb_line_fn *fn;
    void *arg;
};

static int on_line_data(struct str data, void *arg)
{
    struct line_reader *lr = arg;
    if (buf_add_str(&lr->rest, data) < 0) {
        return -EMSGSIZE;
    }
    struct str rest = buf_str(&lr->rest);
    ptrdiff_t end;
    size_t used = 0;
    while ((end = str_find(rest, '\n')) >= 0) {
        if (end > 0 && !lr->fn(rest.p, (size_t)end, lr->arg)) {
            return -ECANCELED;
        }
        used += (size_t)end + 1;
        rest = str_sub(rest, (size_t)end + 1, rest.n);
    }
    buf_consume(&lr->rest, used);
    return 0;
}

int osb_request_lines(struct osb_client *c, const struct osb_request *r, osb_line_fn *fn, void *arg,
                      struct osb_error *e)
{
    struct line_reader lr = {.rest = BUF_INIT(CLIENT_MAX_EVENT), .fn = fn, .arg = arg};
    struct transfer t = transfer_of(r, NULL);
    t.on_data = on_line_data;
    t.arg = &lr;
    t.no_timeout = true;
    int ok = client_transfer(c, r->path, &t, e);
    if (ok == 0 && lr.rest.len > 0) {
        (void)fn(lr.rest.p, lr.rest.len, arg);
    }
    buf_done(&lr.rest);
    transfer_done(&t);
    return ok;
}
