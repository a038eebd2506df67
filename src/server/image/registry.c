/* Requests to a registry: address, authentication, errors in words. */

#include "server/image/registry.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/codec.h"
#include "base/must.h"
#include "net/cidr.h"
#include "net/url.h"
#include "server/fetch/fetch.h"
#include "server/image/digest.h"
#include "server/image/limits.h"
#include "json/json.h"

#define MAX_URL 4096

struct registry {
    struct fetch *fetch;
    struct image_ref ref;
    char base[512]; /* "https://host/v2/repo" */
    char *user, *password, *ca_file, *mirror;
    bool plain_http, skip_verify;
    char *token;    /* bearer token of this repository */
    bool use_basic; /* the registry asked for basic authentication */
    registry_cancel_fn *cancelled;
    void *cancel_arg;
};

static char *dup_or_null(const char *s)
{
    return s ? xstrdup(s) : NULL;
}

static bool is_loopback_host(const char *registry)
{
    struct str host;
    uint16_t port;
    struct ip ip;
    if (authority_parse(str_from(registry), &host, &port) < 0) {
        return false;
    }
    return str_eq(host, STR("localhost")) || (ip_parse(host, &ip) == 0 && ip_is_loopback(&ip));
}

struct registry *registry_open(const struct image_ref *ref, const struct registry_opts *o)
{
    struct registry *r = NEW(struct registry);
    r->fetch = fetch_new();
    r->ref = *ref;
    r->user = dup_or_null(o->user);
    r->password = dup_or_null(o->password);
    r->ca_file = dup_or_null(o->ca_file);
    r->mirror = dup_or_null(o->mirror);
    r->skip_verify = o->skip_verify;
    r->plain_http = o->plain_http;
    /* docker.io is the name people write; its API lives under another one. */
    const char *host =
        strcmp(ref->registry, "docker.io") == 0 ? "registry-1.docker.io" : ref->registry;
    bool http = o->plain_http || (is_loopback_host(host) && !o->ca_file && !o->skip_verify);
    int n = o->mirror ? snprintf(r->base, sizeof(r->base), "%s/v2/%s", o->mirror, ref->repo)
                      : snprintf(r->base, sizeof(r->base), "%s://%s/v2/%s", http ? "http" : "https",
                                 host, ref->repo);
    must(n > 0 && (size_t)n < sizeof(r->base));
    return r;
}

struct registry *registry_clone(const struct registry *r)
{
    struct registry_opts o = {.user = r->user,
                              .password = r->password,
                              .ca_file = r->ca_file,
                              .plain_http = r->plain_http,
                              .skip_verify = r->skip_verify,
                              .mirror = r->mirror};
    struct registry *c = registry_open(&r->ref, &o);
    c->token = dup_or_null(r->token);
    c->use_basic = r->use_basic;
    c->cancelled = r->cancelled;
    c->cancel_arg = r->cancel_arg;
    return c;
}

static void free_secret(char *s)
{
    if (s) {
        explicit_bzero(s, strlen(s));
        free(s);
    }
}

void registry_free(struct registry *r)
{
    if (!r) {
        return;
    }
    fetch_free(r->fetch);
    free(r->user);
    free_secret(r->password);
    free_secret(r->token);
    free(r->ca_file);
    free(r->mirror);
    free(r);
}

void registry_on_cancel(struct registry *r, registry_cancel_fn *fn, void *arg)
{
    r->cancelled = fn;
    r->cancel_arg = arg;
}

/* ---- authentication ---- */

/* key="value" out of a WWW-Authenticate challenge. */
static struct str challenge_get(struct str challenge, const char *key)
{
    char want[32];
    (void)snprintf(want, sizeof(want), "%s=\"", key);
    ptrdiff_t at = str_find_str(challenge, str_from(want));
    if (at < 0) {
        return STR_NULL;
    }
    struct str rest = str_sub(challenge, (size_t)at + strlen(want), challenge.n);
    ptrdiff_t end = str_find(rest, '"');
    return end < 0 ? STR_NULL : str_sub(rest, 0, (size_t)end);
}

static int token_url(const struct registry *r, struct str challenge, bool push, struct buf *url,
                     struct err *e)
{
    struct str realm = challenge_get(challenge, "realm");
    struct str service = challenge_get(challenge, "service");
    struct url parsed;
    if (url_parse(realm, &parsed) < 0) {
        return err_set(e, ERR_UNAVAILABLE, "registry %s: unreadable authentication challenge",
                       r->ref.registry);
    }
    /* Credentials are about to be sent there. */
    if (r->user && str_eq(parsed.scheme, STR("http")) && strncmp(r->base, "https:", 6) == 0) {
        return err_set(e, ERR_DENIED, "registry %s wants credentials sent in the clear",
                       r->ref.registry);
    }
    (void)buf_add_str(url, realm);
    (void)buf_add_char(url, str_find(realm, '?') < 0 ? '?' : '&');
    if (service.n > 0) {
        (void)buf_add_cstr(url, "service=");
        (void)percent_encode(url, service, false);
        (void)buf_add_char(url, '&');
    }
    (void)buf_printf(url, "scope=repository:%s:pull%s", r->ref.repo, push ? ",push" : "");
    return buf_failed(url)
               ? err_set(e, ERR_LIMIT, "registry %s: challenge too long", r->ref.registry)
               : 0;
}

static int get_token(struct registry *r, struct str challenge, bool push, struct err *e)
{
    cleanup_(buf_done) struct buf url = BUF_INIT(MAX_URL);
    struct fetch_resp resp;
    if (token_url(r, challenge, push, &url, e) < 0) {
        return -1;
    }
    struct fetch_opts o = {.url = buf_cstr(&url),
                           .user = r->user,
                           .password = r->password,
                           .ca_file = r->ca_file,
                           .skip_verify = r->skip_verify,
                           .follow = true,
                           .total_timeout_ms = 30000,
                           .max_body = 1u << 20,
                           .connect_timeout_ms = IMAGE_CONNECT_TIMEOUT_MS};
    int ok = fetch_do(r->fetch, &o, &resp, e);
    if (ok == 0 && resp.status != 200) {
        ok = err_set(e,
                     resp.status == 401 || resp.status == 403 ? ERR_UNAUTHORIZED : ERR_UNAVAILABLE,
                     "registry %s refused %s (status %d from its token service)", r->ref.registry,
                     r->user ? "the credentials" : "anonymous access", resp.status);
    }
    if (ok == 0) {
        cleanup_(json_free) struct json *j = json_parse(buf_str(&resp.body), NULL);
        const char *token = json_cstr(json_get(j, "token"));
        token = token ? token : json_cstr(json_get(j, "access_token"));
        if (token) {
            free_secret(r->token);
            r->token = xstrdup(token);
        } else {
            ok = err_set(e, ERR_UNAVAILABLE,
                         "registry %s: no token in the answer of its token service",
                         r->ref.registry);
        }
    }
    fetch_resp_done(&resp);
    return ok;
}

/* Reads the challenge of a 401. 0: credentials are ready, ask again. */
static int authenticate(struct registry *r, const struct fetch_resp *resp, bool push, struct err *e)
{
    struct str challenge = fetch_header(resp, "WWW-Authenticate");
    if (str_starts_nocase(challenge, STR("Bearer "))) {
        return get_token(r, challenge, push, e);
    }
    if (str_starts_nocase(challenge, STR("Basic")) && r->user && !r->use_basic) {
        r->use_basic = true;
        return 0;
    }
    return err_set(e, ERR_UNAUTHORIZED, "registry %s: %s", r->ref.registry,
                   r->user ? "user name or password refused" : "authentication required");
}

static bool fetch_cancelled(void *arg)
{
    const struct registry *r = arg;
    return r->cancelled && r->cancelled(r->cancel_arg);
}

/* One request, authenticated when the registry asks for it. */
static int request(struct registry *r, struct fetch_opts *o, struct fetch_resp *resp, bool push,
                   struct err *e)
{
    for (int attempt = 0;; attempt++) {
        o->bearer = r->token;
        o->user = r->use_basic && !r->token ? r->user : NULL;
        o->password = r->password;
        o->ca_file = r->ca_file;
        o->skip_verify = r->skip_verify;
        o->connect_timeout_ms = IMAGE_CONNECT_TIMEOUT_MS;
        o->cancelled = r->cancelled && !o->on_data ? fetch_cancelled : o->cancelled;
        o->arg = o->arg ? o->arg : r;
        if (fetch_do(r->fetch, o, resp, e) < 0) {
            return -1;
        }
        if (resp->status != 401 || attempt >= 2) {
            return 0;
        }
        struct fetch_resp challenge = *resp;
        int ok = authenticate(r, &challenge, push, e);
        fetch_resp_done(resp);
        if (ok < 0) {
            *resp = (struct fetch_resp){0};
            return -1;
        }
    }
}

/* The registry's own words, if it has any. */
static int status_error(const struct registry *r, const char *what, const struct fetch_resp *resp,
                        struct err *e)
{
    cleanup_(json_free) struct json *j = json_parse(buf_str(&resp->body), NULL);
    struct str words = json_str(json_get(json_item(json_get(j, "errors"), 0), "message"));
    enum err_code code = resp->status == 404   ? ERR_NOT_FOUND
                         : resp->status == 401 ? ERR_UNAUTHORIZED
                         : resp->status == 403 ? ERR_DENIED
                         : resp->status == 429 ? ERR_LIMIT
                                               : ERR_UNAVAILABLE;
    return err_set(e, code, "%s/%s: %s: status %d%s%.*s", r->ref.registry, r->ref.repo, what,
                   resp->status, words.n ? ": " : "", (int)MIN(words.n, (size_t)200),
                   words.p ? words.p : "");
}

/* ---- manifests ---- */

int registry_get_manifest(struct registry *r, const char *reference, struct registry_manifest *ret,
                          struct err *e)
{
    char url[MAX_URL];
    struct fetch_resp resp;
    (void)snprintf(url, sizeof(url), "%s/manifests/%s", r->base, reference);
    struct fetch_opts o = {
        .url = url,
        .headers = {"Accept: application/vnd.oci.image.index.v1+json",
                    "Accept: application/vnd.oci.image.manifest.v1+json",
                    "Accept: application/vnd.docker.distribution.manifest.list.v2+json",
                    "Accept: application/vnd.docker.distribution.manifest.v2+json"},
        .follow = true,
        .total_timeout_ms = 60000,
        .max_body = IMAGE_MAX_MANIFEST};
    int ok = request(r, &o, &resp, false, e);
    if (ok == 0 && resp.status != 200) {
        ok = status_error(r, reference, &resp, e);
    }
    if (ok == 0) {
        struct str type = fetch_header(&resp, "Content-Type");
        ptrdiff_t semi = str_find(type, ';');
        type = str_trim(str_sub(type, 0, semi < 0 ? type.n : (size_t)semi));
        *ret = (struct registry_manifest){.body = BUF_INIT(IMAGE_MAX_MANIFEST)};
        (void)str_to_cstr(type, ret->media_type, sizeof(ret->media_type));
        (void)buf_add_str(&ret->body, buf_str(&resp.body));
        digest_of(buf_str(&ret->body), ret->digest);
        if (image_digest_valid(str_from(reference)) && strcmp(reference, ret->digest) != 0) {
            buf_done(&ret->body);
            ok = err_set(e, ERR_INVALID,
                         "%s/%s: manifest does not have the digest %s that was asked for",
                         r->ref.registry, r->ref.repo, reference);
        }
    }
    fetch_resp_done(&resp);
    return ok;
}

void registry_manifest_done(struct registry_manifest *m)
{
    buf_done(&m->body);
}

/* ---- blobs, down ---- */

int registry_get_blob(struct registry *r, const char *digest, struct buf *out, struct err *e)
{
    char url[MAX_URL], got[IMAGE_DIGEST_MAX];
    struct fetch_resp resp;
    (void)snprintf(url, sizeof(url), "%s/blobs/%s", r->base, digest);
    struct fetch_opts o = {
        .url = url, .follow = true, .total_timeout_ms = 60000, .max_body = IMAGE_MAX_MANIFEST};
    int ok = request(r, &o, &resp, false, e);
    if (ok == 0 && resp.status != 200) {
        ok = status_error(r, digest, &resp, e);
    }
    if (ok == 0) {
        digest_of(buf_str(&resp.body), got);
        ok = strcmp(got, digest) == 0
                 ? 0
                 : err_set(e, ERR_INVALID, "%s/%s: blob does not have its digest %s",
                           r->ref.registry, r->ref.repo, digest);
    }
    if (ok == 0) {
        ok = buf_add_str(out, buf_str(&resp.body)) < 0
                 ? err_set(e, ERR_LIMIT, "image config too large")
                 : 0;
    }
    fetch_resp_done(&resp);
    return ok;
}

/* A layer on its way into a file. */
struct download {
    struct registry *r;
    int fd;
    uint64_t have, size;
    bool restarted; /* the server ignored the Range: what comes is the beginning again */
    void (*on_bytes)(uint64_t n, void *arg);
    void *arg;
};

static int on_layer_data(struct str data, void *arg)
{
    struct download *d = arg;
    if (data.n > d->size - d->have) {
        return -EMSGSIZE; /* more than the manifest claims */
    }
    for (size_t done = 0; done < data.n;) {
        ssize_t w = pwrite(d->fd, data.p + done, data.n - done, (off_t)(d->have + done));
        if (w < 0 && errno == EINTR) {
            continue;
        }
        if (w < 0) {
            return -errno;
        }
        done += (size_t)w;
    }
    d->have += data.n;
    if (d->on_bytes) {
        d->on_bytes(data.n, d->arg);
    }
    return 0;
}

static bool download_cancelled(void *arg)
{
    const struct download *d = arg;
    return fetch_cancelled(d->r);
}

/* One attempt. 0: all bytes are there. -1 with e->code ERR_UNAVAILABLE or ERR_TIMEOUT: worth
 * another. */
static int download_once(struct download *d, const char *url, struct err *e)
{
    struct fetch_resp resp;
    struct fetch_opts o = {.url = url,
                           .follow = true,
                           .stall_seconds = IMAGE_STALL_SECONDS,
                           .resume_from = d->have,
                           .on_data = on_layer_data,
                           .cancelled = download_cancelled,
                           .arg = d};
    int ok = request(d->r, &o, &resp, false, e);
    if (e->sys == ERANGE || (ok == 0 && resp.status == 416)) {
        /* Cannot resume: from the beginning, in the next attempt. */
        d->have = 0;
        d->restarted = true;
        ok = err_set(e, ERR_UNAVAILABLE, "the registry cannot resume a transfer");
    } else if (ok == 0 && resp.status != 200 && resp.status != 206) {
        ok = status_error(d->r, "layer", &resp, e);
    } else if (ok == 0 && d->have < d->size) {
        ok = err_set(e, ERR_UNAVAILABLE, "layer ended after %llu of %llu bytes",
                     (unsigned long long)d->have, (unsigned long long)d->size);
    }
    if (ok < 0 && e->sys == EMSGSIZE) {
        ok = err_set(e, ERR_INVALID, "layer is larger than the %llu bytes its manifest claims",
                     (unsigned long long)d->size);
    }
    fetch_resp_done(&resp);
    return ok;
}

static int download_verify(struct download *d, const char *digest, struct err *e)
{
    char got[IMAGE_DIGEST_MAX];
    struct digest *sum = digest_new();
    int r = ftruncate(d->fd, (off_t)d->size) < 0 ? -errno : digest_add_fd(sum, d->fd);
    digest_final(sum, got);
    digest_free(sum);
    if (r < 0) {
        return err_sys(e, r, "reading a downloaded layer");
    }
    return strcmp(got, digest) == 0
               ? 0
               : err_set(e, ERR_INVALID, "layer does not have its digest %s", digest);
}

int registry_fetch_blob(struct registry *r, const char *digest, uint64_t size, int fd,
                        void (*on_bytes)(uint64_t n, void *arg), void *arg, struct err *e)
{
    char url[MAX_URL];
    struct stat st;
    struct download d = {.r = r, .fd = fd, .size = size, .on_bytes = on_bytes, .arg = arg};
    if (size > IMAGE_MAX_LAYER_BYTES) {
        return err_set(e, ERR_LIMIT, "layer claims %llu bytes", (unsigned long long)size);
    }
    (void)snprintf(url, sizeof(url), "%s/blobs/%s", r->base, digest);
    if (fstat(fd, &st) == 0 && st.st_size > 0 && (uint64_t)st.st_size <= size) {
        d.have = (uint64_t)st.st_size;
    }
    for (int attempt = 1; d.have < size; attempt++) {
        if (download_once(&d, url, e) == 0) {
            break;
        }
        bool again = (e->code == ERR_UNAVAILABLE || e->code == ERR_TIMEOUT) && !fetch_cancelled(r);
        if (!again || attempt >= IMAGE_PULL_TRIES) {
            return -1;
        }
        (void)usleep(d.restarted ? 0 : 200000u << (unsigned)attempt); /* 0.4 s to 3.2 s */
        d.restarted = false;
    }
    return download_verify(&d, digest, e);
}

/* ---- blobs and manifests, up ---- */

static int upload_location(const struct registry *r, const struct fetch_resp *resp,
                           const char *digest, struct buf *url, struct err *e)
{
    struct str location = fetch_header(resp, "Location");
    if (location.n == 0) {
        return err_set(e, ERR_UNAVAILABLE, "registry %s: upload without a location",
                       r->ref.registry);
    }
    if (location.p[0] == '/') { /* relative to the host of this registry */
        struct str base = str_from(r->base);
        ptrdiff_t end = str_find_str(base, STR("/v2/"));
        (void)buf_add_str(url, str_sub(base, 0, (size_t)end));
    }
    (void)buf_add_str(url, location);
    (void)buf_printf(url, "%cdigest=%s", str_find(location, '?') < 0 ? '?' : '&', digest);
    return buf_failed(url)
               ? err_set(e, ERR_LIMIT, "registry %s: location too long", r->ref.registry)
               : 0;
}

static int has_blob(struct registry *r, const char *digest, bool *ret, struct err *e)
{
    char url[MAX_URL];
    struct fetch_resp resp;
    (void)snprintf(url, sizeof(url), "%s/blobs/%s", r->base, digest);
    struct fetch_opts o = {.method = "HEAD", .url = url, .follow = true, .total_timeout_ms = 30000};
    int ok = request(r, &o, &resp, true, e);
    *ret = ok == 0 && resp.status == 200;
    fetch_resp_done(&resp);
    return ok;
}

int registry_put_blob(struct registry *r, const char *digest, int fd, uint64_t size, struct err *e)
{
    bool there = false;
    char url[MAX_URL];
    struct fetch_resp resp;
    cleanup_(buf_done) struct buf location = BUF_INIT(MAX_URL);
    if (has_blob(r, digest, &there, e) < 0 || there) {
        return there ? 0 : -1;
    }
    (void)snprintf(url, sizeof(url), "%s/blobs/uploads/", r->base);
    struct fetch_opts start = {.method = "POST", .url = url, .total_timeout_ms = 30000};
    int ok = request(r, &start, &resp, true, e);
    if (ok == 0) {
        ok = resp.status == 202 ? upload_location(r, &resp, digest, &location, e)
                                : status_error(r, "upload", &resp, e);
    }
    fetch_resp_done(&resp);
    if (ok < 0) {
        return -1;
    }
    struct fetch_opts put = {.method = "PUT",
                             .url = buf_cstr(&location),
                             .body_fd = fd,
                             .body_len = size,
                             .headers = {"Content-Type: application/octet-stream"},
                             .stall_seconds = IMAGE_STALL_SECONDS};
    ok = request(r, &put, &resp, true, e);
    if (ok == 0 && resp.status != 201) {
        ok = status_error(r, "upload", &resp, e);
    }
    fetch_resp_done(&resp);
    return ok;
}

int registry_put_manifest(struct registry *r, const char *reference, const char *media_type,
                          struct str body, struct err *e)
{
    char url[MAX_URL], type[192];
    struct fetch_resp resp;
    (void)snprintf(url, sizeof(url), "%s/manifests/%s", r->base, reference);
    (void)snprintf(type, sizeof(type), "Content-Type: %s", media_type);
    struct fetch_opts o = {
        .method = "PUT", .url = url, .headers = {type}, .body = body, .total_timeout_ms = 60000};
    int ok = request(r, &o, &resp, true, e);
    if (ok == 0 && resp.status != 201) {
        ok = status_error(r, reference, &resp, e);
    }
    fetch_resp_done(&resp);
    return ok;
}
