/* The Docker Engine API over libcurl. */

#include "server/runtime/docker/engine.h"

#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/must.h"
#include "base/num.h"

#define API_NEWEST "1.41" /* what this code is written against: engine 20.10 */
#define API_OLDEST 24     /* 1.24: the oldest with everything that is used */
#define DEFAULT_SOCKET "/var/run/docker.sock"

/* ---- where it is ---- */

static const char *env_word(const char *name)
{
    const char *v = getenv(name);
    return v && *v ? v : NULL;
}

/* TLS by the configuration, or as the engine's own client takes it from the environment: a
 * directory with three files, which alone means TLS without looking at the other's name. */
static int open_tls(struct engine *g, const struct config_docker *c, bool *ret_tls, struct err *e)
{
    const char *home = env_word("HOME"), *dir = env_word("DOCKER_CERT_PATH");
    bool verify = env_word("DOCKER_TLS_VERIFY") != NULL;
    if (*c->cert_path) {
        dir = c->cert_path;
        verify = c->tls_verify;
    }
    *ret_tls = dir || verify;
    if (!*ret_tls) {
        return 0;
    }
    cleanup_free char *own = dir ? xstrdup(dir) : xasprintf("%s/.docker", home ? home : "");
    g->ca = verify ? xasprintf("%s/ca.pem", own) : NULL;
    g->cert = xasprintf("%s/cert.pem", own);
    g->key = xasprintf("%s/key.pem", own);
    g->skip_verify = !verify;
    const char *files[] = {g->cert, g->key, g->ca};
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        if (files[i] && access(files[i], R_OK) < 0) {
            return err_sys(e, errno, "TLS to the engine: %s", files[i]);
        }
    }
    return 0;
}

/* The proxy needs the address in numbers. */
static int resolve(struct engine *g, const char *host, struct err *e)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    char text[NI_MAXHOST];
    int r = getaddrinfo(host, NULL, &hints, &list);
    r = r ? r
          : getnameinfo(list->ai_addr, list->ai_addrlen, text, sizeof(text), NULL, 0,
                        NI_NUMERICHOST);
    if (list) {
        freeaddrinfo(list);
    }
    if (r) {
        return err_set(e, ERR_INVALID, "%.100s: %s", host, gai_strerror(r));
    }
    g->host = xstrdup(text);
    return 0;
}

static int open_address(struct engine *g, const struct config_docker *c, const char *address,
                        struct err *e)
{
    struct str a = str_from(address);
    bool tls = false;
    if (str_starts(a, STR("unix://"))) {
        const char *path = address + strlen("unix://");
        g->unix_socket = xstrdup(*path ? path : DEFAULT_SOCKET);
        g->base = xstrdup("http://docker");
        return 0;
    }
    ptrdiff_t scheme = str_find_str(a, STR("://"));
    struct str name = scheme < 0 ? STR("tcp") : str_sub(a, 0, (size_t)scheme);
    struct str rest = scheme < 0 ? a : str_sub(a, (size_t)scheme + 3, a.n);
    while (rest.n && rest.p[rest.n - 1] == '/') {
        rest.n--;
    }
    if (!rest.n ||
        (!str_eq(name, STR("tcp")) && !str_eq(name, STR("http")) && !str_eq(name, STR("https")))) {
        return err_set(e, ERR_INVALID,
                       "'%.100s' is no address of an engine: unix:///path, tcp://host:port or "
                       "https://host:port",
                       address);
    }
    if (open_tls(g, c, &tls, e) < 0) {
        return -1;
    }
    tls |= str_eq(name, STR("https"));
    ptrdiff_t colon = str_rfind(rest, ':');
    bool has_port = colon >= 0 && str_find(str_sub(rest, (size_t)colon, rest.n), ']') < 0;
    g->base = xasprintf("%s://%.*s%s", tls ? "https" : "http", STR_FMT(rest),
                        has_port ? ""
                        : tls    ? ":2376"
                                 : ":2375");
    cleanup_free char *host = str_dup(has_port ? str_sub(rest, 0, (size_t)colon) : rest);
    return resolve(g, host, e);
}

/* ---- calls ---- */

static struct fetch *take_fetch(struct engine *g)
{
    struct fetch *f = NULL;
    (void)pthread_mutex_lock(&g->lock);
    if (g->n_idle) {
        f = g->idle[--g->n_idle];
    }
    (void)pthread_mutex_unlock(&g->lock);
    return f ? f : fetch_new();
}

static void give_fetch(struct engine *g, struct fetch *f)
{
    (void)pthread_mutex_lock(&g->lock);
    bool kept = g->n_idle < DOCKER_IDLE_CONNECTIONS;
    if (kept) {
        g->idle[g->n_idle++] = f;
    }
    (void)pthread_mutex_unlock(&g->lock);
    if (!kept) {
        fetch_free(f);
    }
}

static void read_answer(struct fetch_resp *resp, struct engine_answer *ret)
{
    ret->status = resp->status;
    ret->body = resp->body;
    resp->body = (struct buf){0};
    struct str type = fetch_header(resp, "Content-Type");
    struct str date = fetch_header(resp, "Date");
    (void)http_date_parse(date, &ret->date_s);
    if (ret->body.len && str_starts(type, STR("application/json"))) {
        struct err ignored = {0}; /* a broken body is a body that is not there */
        ret->json = json_parse(buf_str(&ret->body), &ignored);
    }
    if (ret->status >= 400) {
        struct str text = json_str(json_get(ret->json, "message"));
        text = str_trim(text.p ? text : buf_str(&ret->body));
        (void)snprintf(ret->message, sizeof(ret->message), "%.*s", STR_FMT(text));
    }
}

int engine_do(struct engine *g, const struct engine_call *c, struct engine_answer *ret,
              struct err *e)
{
    cleanup_(buf_done) struct buf body = BUF_INIT(DOCKER_BODY_MAX);
    cleanup_free char *url = g->version[0] ? xasprintf("%s/v%s%s", g->base, g->version, c->path)
                                           : xasprintf("%s%s", g->base, c->path);
    *ret = (struct engine_answer){0};
    struct fetch_opts o = {
        .method = c->method,
        .url = url,
        .unix_socket = g->unix_socket,
        .no_proxy = true,
        .ca_file = g->ca,
        .cert_file = g->cert,
        .key_file = g->key,
        .skip_verify = g->skip_verify,
        .total_timeout_ms = c->is_stream    ? 0
                            : c->timeout_ms ? c->timeout_ms
                                            : g->timeout_ms,
        .max_body = DOCKER_BODY_MAX,
        .on_data = c->on_data,
        .cancelled = c->cancelled,
        .arg = c->arg,
    };
    size_t n = 0;
    if (c->body) {
        must(json_dump(c->body, &body, 0) == 0);
        o.body = buf_str(&body);
        o.headers[n++] = "Content-Type: application/json";
    } else if (c->raw.p) {
        o.body = c->raw;
        o.headers[n++] = "Content-Type: application/x-tar";
    }
    o.headers[n] = c->header;
    struct fetch *f = take_fetch(g);
    struct fetch_resp resp;
    int r = fetch_do(f, &o, &resp, e);
    if (r == 0) {
        read_answer(&resp, ret);
    } else {
        (void)err_wrap(e, "the Docker engine does not answer at %s",
                       g->unix_socket ? g->unix_socket : g->base);
    }
    fetch_resp_done(&resp);
    give_fetch(g, f);
    return r;
}

void engine_answer_done(struct engine_answer *a)
{
    json_free(a->json);
    buf_done(&a->body);
    a->json = NULL;
}

int engine_check(const struct engine_answer *a, const char *what, struct err *e)
{
    if ((a->status >= 200 && a->status < 300) || a->status == 304) {
        return 0;
    }
    enum err_code code = a->status == 400   ? ERR_INVALID
                         : a->status == 404 ? ERR_NOT_FOUND
                         : a->status == 409 ? ERR_CONFLICT
                         : a->status == 503 ? ERR_UNAVAILABLE
                                            : ERR_IO;
    return err_set(e, code, "%s: %s (engine status %d)", what,
                   a->message[0] ? a->message : "no reason given", a->status);
}

int engine_run(struct engine *g, const char *method, const char *path, int ok_status,
               const char *what, struct err *e)
{
    cleanup_(engine_answer_done) struct engine_answer a;
    struct engine_call c = {.method = method, .path = path};
    if (engine_do(g, &c, &a, e) < 0) {
        return -1;
    }
    return ok_status && a.status == ok_status ? 0 : engine_check(&a, what, e);
}

int engine_lines_add(struct engine_lines *l, struct str data)
{
    if (!l->rest.max) {
        buf_init(&l->rest, DOCKER_EVENT_MAX);
    }
    if (buf_add_str(&l->rest, data) < 0) {
        return -EMSGSIZE;
    }
    struct str rest = buf_str(&l->rest);
    size_t used = 0;
    int r = 0;
    ptrdiff_t nl;
    while (r >= 0 && (nl = str_find(rest, '\n')) >= 0) {
        struct str line = str_trim(str_sub(rest, 0, (size_t)nl));
        rest = str_sub(rest, (size_t)nl + 1, rest.n);
        used += (size_t)nl + 1;
        r = line.n ? l->on_line(line, l->arg) : 0;
    }
    buf_consume(&l->rest, used);
    return r;
}

/* ---- beginning and end ---- */

/* The older one of ours and the engine's. */
static int agree(struct engine *g, struct err *e)
{
    cleanup_(engine_answer_done) struct engine_answer a;
    struct engine_call c = {.path = "/version", .timeout_ms = 15000};
    if (engine_do(g, &c, &a, e) < 0 || engine_check(&a, "version", e) < 0) {
        return -1;
    }
    struct str theirs = json_str(json_get(a.json, "ApiVersion")), ours = STR(API_NEWEST);
    struct str minor = theirs, our_minor = ours;
    uint64_t t = 0, o = 0;
    struct str major = str_cut(&minor, '.');
    (void)str_cut(&our_minor, '.');
    if (!str_eq(major, STR("1")) || parse_u64(minor, &t) < 0 || parse_u64(our_minor, &o) < 0 ||
        t < API_OLDEST) {
        return err_set(e, ERR_UNSUPPORTED, "the engine speaks API %.*s; 1.%d or newer is needed",
                       STR_FMT(theirs), API_OLDEST);
    }
    return str_to_cstr(t < o ? theirs : ours, g->version, sizeof(g->version)) < 0
               ? err_set(e, ERR_UNSUPPORTED, "the engine's API version makes no sense")
               : 0;
}

int engine_open(struct engine *g, const struct config_docker *c, struct err *e)
{
    (void)pthread_mutex_init(&g->lock, NULL);
    g->timeout_ms = (uint64_t)c->api_timeout * 1000;
    const char *address = *c->host ? c->host : env_word("DOCKER_HOST");
    if (open_address(g, c, address ? address : "unix://" DEFAULT_SOCKET, e) < 0) {
        return -1;
    }
    return agree(g, e) < 0 ? err_wrap(e, "DOCKER::INITIALIZATION_ERROR") : 0;
}

void engine_close(struct engine *g)
{
    while (g->n_idle) {
        fetch_free(g->idle[--g->n_idle]);
    }
    char *texts[] = {g->base, g->unix_socket, g->host, g->ca, g->cert, g->key};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        free(texts[i]);
    }
    (void)pthread_mutex_destroy(&g->lock);
}
