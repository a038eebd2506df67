/* libcurl, one easy handle per fetch. */

#include "server/fetch/fetch.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/must.h"
#include "net/cidr.h"
#include "net/http_head.h"
#include "server/fetch/libcurl.h"

#define MAX_HEAD (64u << 10)
#define DEFAULT_BODY (4u << 20)

struct fetch {
    CURL *curl; /* from the first request on */
};

/* State of one request. */
struct transfer {
    const struct fetch_opts *o;
    struct fetch_resp *resp;
    CURL *curl;
    off_t sent;
    uint64_t asked_ms; /* when `cancelled` was last asked */
    int failed;        /* negative errno out of a callback */
    bool refused;      /* an address was not allowed */
};

struct fetch *fetch_new(void)
{
    return NEW(struct fetch);
}

void fetch_free(struct fetch *f)
{
    if (f) {
        if (f->curl) {
            libcurl.easy_cleanup(f->curl);
        }
        free(f);
    }
}

static int open_handle(struct fetch *f, struct err *e)
{
    if (!f->curl) {
        if (libcurl_load(e) < 0) {
            return -1;
        }
        f->curl = libcurl.easy_init();
        must(f->curl);
    }
    return 0;
}

void fetch_resp_done(struct fetch_resp *resp)
{
    buf_done(&resp->body);
    buf_done(&resp->head);
    free(resp->url);
    resp->url = NULL;
}

static size_t on_header(char *p, size_t size, size_t n, void *arg)
{
    struct transfer *t = arg;
    struct str line = str_n(p, size * n);
    if (str_starts(line, STR("HTTP/"))) {
        buf_clear(&t->resp->head); /* a redirect or an interim answer: only the last one counts */
    }
    return buf_add_str(&t->resp->head, line) < 0 ? 0 : size * n;
}

static size_t on_body(char *p, size_t size, size_t n, void *arg)
{
    struct transfer *t = arg;
    long status = 0;
    (void)libcurl.easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &status);
    int r = t->o->on_data && status >= 200 && status < 300
                ? t->o->on_data(str_n(p, size * n), t->o->arg)
                : buf_add(&t->resp->body, p, size * n);
    if (r < 0) {
        t->failed = r;
        return 0;
    }
    return size * n;
}

static size_t on_upload(char *p, size_t size, size_t n, void *arg)
{
    struct transfer *t = arg;
    ssize_t r = pread(t->o->body_fd, p, size * n, t->sent);
    if (r < 0) {
        t->failed = -errno;
        return CURL_READFUNC_ABORT;
    }
    t->sent += r;
    return (size_t)r;
}

static int on_rewind(void *arg, curl_off_t offset, int origin)
{
    struct transfer *t = arg;
    if (origin != SEEK_SET) {
        return CURL_SEEKFUNC_FAIL;
    }
    t->sent = offset;
    return CURL_SEEKFUNC_OK;
}

static int on_progress(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    (void)a, (void)b, (void)c, (void)d;
    struct transfer *t = arg;
    uint64_t now = clock_mono_ms();
    if (!t->o->cancelled || now - t->asked_ms < 1000) {
        return 0;
    }
    t->asked_ms = now;
    return t->o->cancelled(t->o->arg) ? 1 : 0;
}

/* Refuses link-local addresses: a registry named by a user must not make this server ask a metadata
 * service on its behalf. */
static curl_socket_t on_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *a)
{
    (void)purpose;
    struct transfer *t = arg;
    char text[INET6_ADDRSTRLEN] = "";
    struct ip ip;
    if (a->family == AF_INET) {
        (void)inet_ntop(AF_INET, &((struct sockaddr_in *)(void *)&a->addr)->sin_addr, text,
                        sizeof(text));
    } else if (a->family == AF_INET6) {
        (void)inet_ntop(AF_INET6, &((struct sockaddr_in6 *)(void *)&a->addr)->sin6_addr, text,
                        sizeof(text));
    }
    if (text[0] && ip_parse(str_from(text), &ip) == 0 &&
        (ip_is_link_local(&ip) || ip_is_metadata(&ip))) {
        t->refused = true;
        return CURL_SOCKET_BAD;
    }
    return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

static void set_tls(CURL *c, const struct fetch_opts *o)
{
    if (o->ca_file) {
        libcurl.easy_setopt(c, CURLOPT_CAINFO, o->ca_file);
    }
    if (o->cert_file) {
        libcurl.easy_setopt(c, CURLOPT_SSLCERT, o->cert_file);
        libcurl.easy_setopt(c, CURLOPT_SSLKEY, o->key_file);
    }
    libcurl.easy_setopt(c, CURLOPT_SSL_VERIFYPEER, o->skip_verify ? 0L : 1L);
    libcurl.easy_setopt(c, CURLOPT_SSL_VERIFYHOST, o->skip_verify ? 0L : 2L);
}

static void set_auth(CURL *c, const struct fetch_opts *o)
{
    if (o->bearer) {
        libcurl.easy_setopt(c, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
        libcurl.easy_setopt(c, CURLOPT_XOAUTH2_BEARER, o->bearer);
    } else if (o->user) {
        libcurl.easy_setopt(c, CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
        libcurl.easy_setopt(c, CURLOPT_USERNAME, o->user);
        libcurl.easy_setopt(c, CURLOPT_PASSWORD, o->password ? o->password : "");
    }
}

static void set_body(CURL *c, const struct fetch_opts *o, struct transfer *t)
{
    if (o->body_len > 0) {
        libcurl.easy_setopt(c, CURLOPT_UPLOAD, 1L);
        libcurl.easy_setopt(c, CURLOPT_INFILESIZE_LARGE, (curl_off_t)o->body_len);
        libcurl.easy_setopt(c, CURLOPT_READFUNCTION, on_upload);
        libcurl.easy_setopt(c, CURLOPT_READDATA, t);
        libcurl.easy_setopt(c, CURLOPT_SEEKFUNCTION, on_rewind);
        libcurl.easy_setopt(c, CURLOPT_SEEKDATA, t);
    } else if (o->body.p ||
               (o->method && (strcmp(o->method, "POST") == 0 || strcmp(o->method, "PUT") == 0))) {
        libcurl.easy_setopt(c, CURLOPT_POST, 1L);
        libcurl.easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)o->body.n);
        libcurl.easy_setopt(c, CURLOPT_POSTFIELDS, o->body.p ? o->body.p : "");
    }
    if (o->method && strcmp(o->method, "HEAD") == 0) {
        libcurl.easy_setopt(c, CURLOPT_NOBODY, 1L);
    } else if (o->method) {
        libcurl.easy_setopt(c, CURLOPT_CUSTOMREQUEST, o->method);
    }
}

static void set_transport(CURL *c, const struct fetch_opts *o, struct transfer *t)
{
    bool https = strncmp(o->url, "https:", 6) == 0;
    libcurl.easy_setopt(c, CURLOPT_URL, o->url);
    libcurl.easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    libcurl.easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, https ? "https" : "http,https");
    libcurl.easy_setopt(c, CURLOPT_FOLLOWLOCATION, o->follow ? 1L : 0L);
    libcurl.easy_setopt(c, CURLOPT_MAXREDIRS, 5L);
    libcurl.easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    libcurl.easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS,
                        (long)(o->connect_timeout_ms ? o->connect_timeout_ms : 15000));
    libcurl.easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)o->total_timeout_ms);
    if (o->stall_seconds) {
        libcurl.easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1024L);
        libcurl.easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)o->stall_seconds);
    }
    if (o->no_proxy) {
        libcurl.easy_setopt(c, CURLOPT_NOPROXY, "*");
    }
    if (o->unix_socket) {
        libcurl.easy_setopt(c, CURLOPT_UNIX_SOCKET_PATH, o->unix_socket);
    } else {
        libcurl.easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, on_socket);
        libcurl.easy_setopt(c, CURLOPT_OPENSOCKETDATA, t);
    }
    if (o->resume_from) {
        libcurl.easy_setopt(c, CURLOPT_RESUME_FROM_LARGE, (curl_off_t)o->resume_from);
    }
    libcurl.easy_setopt(c, CURLOPT_BUFFERSIZE, 256L << 10);
}

static void set_callbacks(CURL *c, struct transfer *t)
{
    libcurl.easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
    libcurl.easy_setopt(c, CURLOPT_HEADERDATA, t);
    libcurl.easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
    libcurl.easy_setopt(c, CURLOPT_WRITEDATA, t);
    libcurl.easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
    libcurl.easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress);
    libcurl.easy_setopt(c, CURLOPT_XFERINFODATA, t);
}

static int transport_error(const struct transfer *t, CURLcode r, const char *text, struct err *e)
{
    if (t->refused) {
        return err_set(e, ERR_DENIED, "%s: link-local and metadata addresses are not allowed",
                       t->o->url);
    }
    if (t->failed == -ENOSPC && !t->o->on_data) {
        return err_set(e, ERR_LIMIT, "%s: answer too large", t->o->url);
    }
    if (t->failed < 0) {
        return err_sys(e, t->failed, "%s", t->o->url);
    }
    if (r == CURLE_ABORTED_BY_CALLBACK) {
        return err_sys(e, ECANCELED, "%s", t->o->url);
    }
    const char *why = text[0] ? text : libcurl.easy_strerror(r);
    if (r == CURLE_RANGE_ERROR) {
        (void)err_set(e, ERR_UNAVAILABLE, "%s: the server cannot resume", t->o->url);
        e->sys = ERANGE;
        return -1;
    }
    return err_set(e, r == CURLE_OPERATION_TIMEDOUT ? ERR_TIMEOUT : ERR_UNAVAILABLE, "%s: %s",
                   t->o->url, why);
}

int fetch_do(struct fetch *f, const struct fetch_opts *o, struct fetch_resp *resp, struct err *e)
{
    struct curl_slist *headers = NULL;
    char text[CURL_ERROR_SIZE] = "";

    *resp = (struct fetch_resp){.body = BUF_INIT(o->max_body ? o->max_body : DEFAULT_BODY),
                                .head = BUF_INIT(MAX_HEAD)};
    if (open_handle(f, e) < 0) {
        return -1;
    }
    CURL *c = f->curl;
    struct transfer t = {.o = o, .resp = resp, .curl = c, .asked_ms = clock_mono_ms()};
    libcurl.easy_reset(c); /* options only: live connections stay */
    set_transport(c, o, &t);
    set_tls(c, o);
    set_auth(c, o);
    set_body(c, o, &t);
    set_callbacks(c, &t);
    for (size_t i = 0; i < FETCH_MAX_HEADERS && o->headers[i]; i++) {
        headers = libcurl.slist_append(headers, o->headers[i]);
    }
    headers = libcurl.slist_append(headers, "Expect:");
    libcurl.easy_setopt(c, CURLOPT_HTTPHEADER, headers);
    libcurl.easy_setopt(c, CURLOPT_USERAGENT, "opensandbox/" OSB_VERSION);
    libcurl.easy_setopt(c, CURLOPT_ERRORBUFFER, text);

    CURLcode r = libcurl.easy_perform(c);
    libcurl.slist_free_all(headers);
    libcurl.easy_setopt(c, CURLOPT_ERRORBUFFER, NULL);
    if (r != CURLE_OK) {
        return transport_error(&t, r, text, e);
    }
    long status = 0;
    char *url = NULL;
    (void)libcurl.easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
    (void)libcurl.easy_getinfo(c, CURLINFO_EFFECTIVE_URL, &url);
    resp->status = (int)status;
    resp->url = xstrdup(url ? url : o->url);
    return 0;
}

struct str fetch_header(const struct fetch_resp *resp, const char *name)
{
    return http_head_get(buf_str(&resp->head), str_from(name));
}
