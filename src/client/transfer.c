/* Requests. Each runs on a channel, a curl handle inside a curl multi handle of its own: that gives
 * kept-alive connections, deadlines, and a poll that a cancellation token can interrupt at once.
 * Channels that are not in use wait in the client for the next request. */

#include <curl/curl.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/must.h"
#include "client/internal.h"
#include "net/http_head.h"

#define MAX_HEAD (64u << 10)
#define MAX_ERROR_BODY (1u << 20)

struct channel {
    struct list node;
    CURLM *multi;
    CURL *easy;
};

/* ---- channels ---- */

static struct channel *channel_take(struct osb_client *c)
{
    (void)pthread_mutex_lock(&c->lock);
    struct list *n = list_pop_front(&c->idle);
    if (n) {
        c->n_idle--;
    }
    (void)pthread_mutex_unlock(&c->lock);
    if (n) {
        return list_entry(n, struct channel, node);
    }
    struct channel *ch = NEW(struct channel);
    list_init(&ch->node);
    ch->multi = curl_multi_init();
    ch->easy = curl_easy_init();
    must(ch->multi && ch->easy);
    return ch;
}

static void channel_free(struct channel *ch)
{
    curl_easy_cleanup(ch->easy);
    (void)curl_multi_cleanup(ch->multi);
    free(ch);
}

static void channel_give(struct osb_client *c, struct channel *ch)
{
    bool keep = false;
    (void)pthread_mutex_lock(&c->lock);
    if (c->n_idle < CLIENT_MAX_IDLE_CHANNELS) {
        list_push_front(&c->idle, &ch->node);
        c->n_idle++;
        keep = true;
    }
    (void)pthread_mutex_unlock(&c->lock);
    if (!keep) {
        channel_free(ch);
    }
}

void client_channels_free(struct osb_client *c);
void client_channels_free(struct osb_client *c)
{
    struct list *n;
    while ((n = list_pop_front(&c->idle))) {
        channel_free(list_entry(n, struct channel, node));
    }
}

/* ---- callbacks ---- */

struct run {
    struct transfer *t;
    CURL *easy;
    int failed; /* negative errno out of a callback */
    bool too_large;
};

static size_t on_header(char *p, size_t size, size_t n, void *arg)
{
    struct run *r = arg;
    struct str line = str_n(p, size * n);
    if (str_starts(line, STR("HTTP/"))) {
        buf_clear(&r->t->head);
    }
    return buf_add_str(&r->t->head, line) < 0 ? 0 : size * n;
}

static size_t on_body(char *p, size_t size, size_t n, void *arg)
{
    struct run *r = arg;
    struct transfer *t = r->t;
    long status = 0;
    (void)curl_easy_getinfo(r->easy, CURLINFO_RESPONSE_CODE, &status);
    bool ok = status >= 200 && status < 300;
    if (ok && t->on_data) {
        r->failed = t->on_data(str_n(p, size * n), t->arg);
        return r->failed < 0 ? 0 : size * n;
    }
    if (!ok && t->answer.len + size * n > MAX_ERROR_BODY) {
        return size * n; /* nobody reads more of an error */
    }
    if (buf_add(&t->answer, p, size * n) < 0) {
        r->too_large = true;
        return 0;
    }
    return size * n;
}

static size_t on_upload(char *p, size_t size, size_t n, void *arg)
{
    struct run *r = arg;
    ssize_t got = r->t->read(p, size * n, r->t->read_arg);
    if (got < 0) {
        r->failed = got < -4095 ? -EIO : (int)got;
        return CURL_READFUNC_ABORT;
    }
    return (size_t)got;
}

/* ---- options ---- */

static void add_header(struct curl_slist **list, const char *name, const char *value)
{
    cleanup_free char *line = xasprintf("%s: %s", name, value);
    *list = curl_slist_append(*list, line);
}

static struct curl_slist *request_headers(const struct osb_client *c, const struct transfer *t)
{
    struct curl_slist *h = curl_slist_append(NULL, "Expect:");
    if (t->has_body || t->read) {
        add_header(&h, "Content-Type", t->content_type ? t->content_type : "application/json");
    }
    if (t->read && t->read_len < 0) {
        h = curl_slist_append(h, "Transfer-Encoding: chunked");
    }
    if (t->with_key && c->api_key) {
        add_header(&h, "OPEN-SANDBOX-API-KEY", c->api_key);
    }
    for (const struct osb_pair *p = t->headers; p && p->key; p++) {
        add_header(&h, p->key, p->value);
    }
    for (char **p = c->headers; p && *p; p++) {
        h = curl_slist_append(h, *p);
    }
    for (size_t i = 0; i < ARRAY_LEN(t->extra) && t->extra[i]; i++) {
        h = curl_slist_append(h, t->extra[i]);
    }
    return h;
}

static void set_body(CURL *x, struct run *r)
{
    struct transfer *t = r->t;
    if (t->read) {
        curl_easy_setopt(x, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(x, CURLOPT_READFUNCTION, on_upload);
        curl_easy_setopt(x, CURLOPT_READDATA, r);
        curl_easy_setopt(x, CURLOPT_UPLOAD_BUFFERSIZE, 512L << 10);
        if (t->read_len >= 0) {
            curl_easy_setopt(x, CURLOPT_INFILESIZE_LARGE, (curl_off_t)t->read_len);
        }
    } else if (t->has_body || strcmp(t->method, "POST") == 0 || strcmp(t->method, "PUT") == 0) {
        curl_easy_setopt(x, CURLOPT_POST, 1L);
        curl_easy_setopt(x, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)t->body.n);
        curl_easy_setopt(x, CURLOPT_POSTFIELDS, t->body.p ? t->body.p : "");
    }
    curl_easy_setopt(x, CURLOPT_CUSTOMREQUEST, t->method);
}

static void set_options(CURL *x, const struct osb_client *c, struct run *r, uint64_t timeout_ms)
{
    curl_easy_reset(x);
    curl_easy_setopt(x, CURLOPT_URL, r->t->url);
    curl_easy_setopt(x, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(x, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(x, CURLOPT_CONNECTTIMEOUT_MS,
                     (long)MIN(c->request_timeout_ms, (uint64_t)30000));
    curl_easy_setopt(x, CURLOPT_TIMEOUT_MS, (long)timeout_ms);
    curl_easy_setopt(x, CURLOPT_USERAGENT, c->user_agent);
    curl_easy_setopt(x, CURLOPT_BUFFERSIZE, 256L << 10);
    curl_easy_setopt(x, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(x, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(x, CURLOPT_HEADERDATA, r);
    curl_easy_setopt(x, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(x, CURLOPT_WRITEDATA, r);
    if (c->ca_file) {
        curl_easy_setopt(x, CURLOPT_CAINFO, c->ca_file);
    }
    if (c->insecure) {
        curl_easy_setopt(x, CURLOPT_SSL_VERIFYPEER, 0L);
        curl_easy_setopt(x, CURLOPT_SSL_VERIFYHOST, 0L);
    }
    set_body(x, r);
}

/* ---- running ---- */

/* The transfer's end, or -1 when the token was canceled first. */
static int drive(struct channel *ch, const struct osb_token *token, CURLcode *ret)
{
    struct curl_waitfd extra = {.fd = token_fd(token), .events = CURL_WAIT_POLLIN};
    int running = 1;
    while (running) {
        int left;
        (void)curl_multi_perform(ch->multi, &running);
        CURLMsg *m = curl_multi_info_read(ch->multi, &left);
        if (m && m->msg == CURLMSG_DONE) {
            *ret = m->data.result;
            return 0;
        }
        if (token_canceled(token)) {
            return -1;
        }
        if (running) {
            (void)curl_multi_poll(ch->multi, token ? &extra : NULL, token ? 1 : 0, 60000, NULL);
        }
    }
    *ret = CURLE_RECV_ERROR;
    return 0;
}

static int transport_error(const struct run *r, CURLcode code, const char *text,
                           struct osb_error *e)
{
    if (r->too_large) {
        return osb_fail(e, OSB_ELIMIT, "the answer is larger than %u MiB", CLIENT_MAX_BODY >> 20);
    }
    if (r->failed < 0) {
        return r->failed == -ECANCELED ? osb_fail(e, OSB_ECANCELED, "canceled")
                                       : osb_fail(e, OSB_EIO, "%s", strerror(-r->failed));
    }
    const char *why = text[0] ? text : curl_easy_strerror(code);
    return osb_fail(e, code == CURLE_OPERATION_TIMEDOUT ? OSB_ETIMEOUT : OSB_ENETWORK, "%s: %s",
                    r->t->url, why);
}

static void copy_text(char *out, size_t n, struct str s)
{
    (void)snprintf(out, n, "%.*s", (int)MIN(s.n, n - 1), s.p ? s.p : "");
}

/* The error a server describes: {"code","message"}, {"error"}, a "detail" list or text, or plain
 * text. */
static int status_error(const struct transfer *t, struct osb_error *e)
{
    if (!e) {
        return -1;
    }
    cleanup_(json_free) struct json *j = json_parse(buf_str(&t->answer), NULL);
    struct json *detail = json_get(j, "detail"), *first = json_item(detail, 0);
    struct str msg = json_str(json_get(j, "message"));
    msg = msg.n ? msg : json_str(json_get(j, "error"));
    msg = msg.n ? msg : json_str(detail);
    msg = msg.n ? msg : json_str(json_get(first, "msg"));
    if (msg.n == 0 && !j) {
        msg = str_trim(str_sub(buf_str(&t->answer), 0, 300));
    }
    e->code = osb_code_from_status(t->status);
    copy_text(e->api_code, sizeof(e->api_code), json_str(json_get(j, "code")));
    if (msg.n) {
        copy_text(e->message, sizeof(e->message), msg);
    } else {
        (void)snprintf(e->message, sizeof(e->message), "the server answered with status %d",
                       t->status);
    }
    return -1;
}

int transfer_run(struct osb_client *c, struct transfer *t, struct osb_error *e)
{
    if (token_canceled(t->call.token)) {
        if (e) {
            *e = (struct osb_error){0};
        }
        return osb_fail(e, OSB_ECANCELED, "canceled");
    }
    struct channel *ch = channel_take(c);
    struct run r = {.t = t, .easy = ch->easy};
    char text[CURL_ERROR_SIZE] = "";
    CURLcode code = CURLE_OK;
    uint64_t timeout = t->call.timeout_ms ? t->call.timeout_ms
                       : t->no_timeout    ? 0
                                          : c->request_timeout_ms;

    if (e) {
        *e = (struct osb_error){0};
    }
    t->status = 0;
    t->answer = BUF_INIT(CLIENT_MAX_BODY);
    t->head = BUF_INIT(MAX_HEAD);
    set_options(ch->easy, c, &r, timeout);
    struct curl_slist *headers = request_headers(c, t);
    curl_easy_setopt(ch->easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(ch->easy, CURLOPT_ERRORBUFFER, text);
    (void)curl_multi_add_handle(ch->multi, ch->easy);
    int canceled = drive(ch, t->call.token, &code);
    long status = 0;
    (void)curl_easy_getinfo(ch->easy, CURLINFO_RESPONSE_CODE, &status);
    (void)curl_multi_remove_handle(ch->multi, ch->easy);
    curl_easy_setopt(ch->easy, CURLOPT_ERRORBUFFER, NULL);
    curl_slist_free_all(headers);
    channel_give(c, ch);

    t->status = (int)status;
    if (e) {
        e->http_status = t->status;
        copy_text(e->request_id, sizeof(e->request_id), transfer_header(t, "X-Request-ID"));
    }
    if (canceled < 0) {
        return osb_fail(e, OSB_ECANCELED, "canceled");
    }
    if (code != CURLE_OK) {
        return transport_error(&r, code, text, e);
    }
    return status >= 200 && status < 300 ? 0 : status_error(t, e);
}

struct transfer transfer_of(const struct osb_request *r, const char *accept)
{
    return (struct transfer){.method = r->method,
                             .body = str_from(r->body),
                             .has_body = r->body != NULL,
                             .extra = {accept},
                             .call = r->call};
}

void transfer_done(struct transfer *t)
{
    buf_done(&t->answer);
    buf_done(&t->head);
}

struct str transfer_header(const struct transfer *t, const char *name)
{
    return http_head_get(buf_str(&t->head), str_from(name));
}
