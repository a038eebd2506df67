/* Create and connect, endpoints, and requests to the services of a sandbox. */

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/codec.h"
#include "base/must.h"
#include "base/rand.h"
#include "client/internal.h"

/* ---- endpoints ---- */

static struct osb_endpoint *endpoint_from_json(const struct osb_client *c, const struct json *j)
{
    const char *text = json_cstr(json_get(j, "endpoint")), *key;
    struct json *headers = json_get(j, "headers"), *value;
    void *it = NULL;
    size_t n = 0;
    if (!text) {
        return NULL;
    }
    struct osb_endpoint *ep = NEW(struct osb_endpoint);
    ep->text = xstrdup(text);
    ep->url = strstr(text, "://") ? xstrdup(text) : xasprintf("%s://%s", c->scheme, text);
    for (size_t len = strlen(ep->url); len > 0 && ep->url[len - 1] == '/'; len--) {
        ep->url[len - 1] = '\0';
    }
    ep->headers = xcalloc(json_len(headers) + 1, sizeof(*ep->headers));
    while (json_next(headers, &it, &key, &value)) {
        if (json_cstr(value)) {
            ep->headers[n++] = (struct osb_pair){xstrdup(key), xstrdup(json_cstr(value))};
        }
    }
    return ep;
}

struct osb_endpoint *osb_endpoint_get(struct osb_client *c, const char *id, int port,
                                      int64_t expires, struct osb_error *e)
{
    char number[24];
    cleanup_(buf_done) struct buf path = BUF_INIT(4096);
    (void)buf_add_cstr(&path, "/sandboxes/");
    (void)percent_encode(&path, str_from(id), false);
    (void)buf_printf(&path, "/endpoints/%d", port);
    if (expires) {
        (void)snprintf(number, sizeof(number), "%lld", (long long)expires);
        (void)query_add(&path, "expires", number);
    } else {
        (void)query_add(&path, "use_server_proxy", c->use_server_proxy ? "true" : "false");
    }
    cleanup_(json_free) struct json *j = client_json(c, "GET", buf_cstr(&path), NULL, NULL, e);
    if (!j) {
        return NULL;
    }
    struct osb_endpoint *ep = endpoint_from_json(c, j);
    if (!ep) {
        (void)osb_fail(e, OSB_EPROTOCOL, "the server named no endpoint for port %d", port);
    }
    return ep;
}

void osb_endpoint_free(struct osb_endpoint *ep)
{
    if (!ep) {
        return;
    }
    for (struct osb_pair *p = ep->headers; p && p->key; p++) {
        free((void *)(uintptr_t)p->key);
        free((void *)(uintptr_t)p->value);
    }
    free(ep->headers);
    free(ep->text);
    free(ep->url);
    free(ep);
}

const char *osb_endpoint_url(const struct osb_endpoint *ep)
{
    return ep->url;
}

const char *osb_endpoint_text(const struct osb_endpoint *ep)
{
    return ep->text;
}

const struct osb_pair *osb_endpoint_headers(const struct osb_endpoint *ep)
{
    return ep->headers;
}

/* ---- services ---- */

const struct osb_endpoint *sandbox_service(struct osb_sandbox *s, enum osb_service svc,
                                           struct osb_error *e)
{
    (void)pthread_mutex_lock(&s->lock);
    struct osb_endpoint **slot = svc == OSB_EGRESS ? &s->egress : &s->execd;
    if (!*slot) {
        *slot = osb_endpoint_get(s->client, s->id,
                                 svc == OSB_EGRESS ? OSB_EGRESS_PORT : OSB_EXECD_PORT, 0, e);
    }
    const struct osb_endpoint *ep = *slot;
    (void)pthread_mutex_unlock(&s->lock);
    return ep;
}

int sandbox_transfer(struct osb_sandbox *s, enum osb_service svc, const char *path,
                     struct transfer *t, struct osb_error *e)
{
    if (svc == OSB_LIFECYCLE) {
        return client_transfer(s->client, path, t, e);
    }
    const struct osb_endpoint *ep = sandbox_service(s, svc, e);
    if (!ep) {
        return -1;
    }
    cleanup_free char *url = xasprintf("%s%s", ep->url, path);
    t->url = url;
    t->headers = ep->headers;
    /* Behind the server's own proxy the key is needed; nowhere else is it sent. */
    size_t n = strlen(s->client->base) - strlen("/v1");
    t->with_key = strncmp(url, s->client->base, n) == 0 && (url[n] == '/' || !url[n]);
    int r = transfer_run(s->client, t, e);
    t->url = NULL;
    t->headers = NULL;
    return r;
}

char *osb_sandbox_request(struct osb_sandbox *s, enum osb_service svc, const struct osb_request *r,
                          struct osb_error *e)
{
    cleanup_free char *accept = r->accept ? xasprintf("Accept: %s", r->accept) : NULL;
    struct transfer t = transfer_of(r, accept);
    char *out = sandbox_transfer(s, svc, r->path, &t, e) == 0 ? buf_take(&t.answer) : NULL;
    transfer_done(&t);
    return out;
}

bool osb_is_healthy(struct osb_sandbox *s)
{
    struct transfer t = {.method = "GET", .call = {.timeout_ms = 5000}};
    int r = sandbox_transfer(s, OSB_EXECD, "/ping", &t, NULL);
    transfer_done(&t);
    return r == 0;
}

/* ---- handles ---- */

static struct osb_sandbox *sandbox_new(struct osb_client *c, const char *id)
{
    struct osb_sandbox *s = NEW(struct osb_sandbox);
    s->client = c;
    s->id = xstrdup(id);
    (void)pthread_mutex_init(&s->lock, NULL);
    return s;
}

struct osb_sandbox *osb_attach(struct osb_client *c, const char *id)
{
    return sandbox_new(c, id);
}

void osb_sandbox_free(struct osb_sandbox *s)
{
    if (s) {
        osb_endpoint_free(s->execd);
        osb_endpoint_free(s->egress);
        (void)pthread_mutex_destroy(&s->lock);
        free(s->id);
        free(s);
    }
}

const char *osb_sandbox_id(const struct osb_sandbox *s)
{
    return s->id;
}

struct osb_client *osb_sandbox_client(const struct osb_sandbox *s)
{
    return s->client;
}

static bool pause_ms(uint64_t ms, const struct osb_token *token)
{
    struct timespec ts = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
    (void)nanosleep(&ts, NULL);
    return !token_canceled(token);
}

/* Asks until the daemon inside answers, a final state is reached, or time is up. */
static int wait_ready(struct osb_sandbox *s, uint64_t timeout_ms, uint64_t poll_ms,
                      const struct osb_call *call, struct osb_error *e)
{
    uint64_t deadline = clock_mono_ms() + timeout_ms, wait = 5;
    struct osb_error last = {0};
    do {
        struct transfer t = {.method = "GET", .call = {.timeout_ms = 5000, .token = call->token}};
        int r = sandbox_transfer(s, OSB_EXECD, "/ping", &t, &last);
        transfer_done(&t);
        if (r == 0) {
            return 0;
        }
        if (last.code == OSB_ECANCELED || last.code == OSB_EUNAUTHORIZED) {
            break;
        }
        struct osb_info *i = osb_info_get(s->client, s->id, NULL);
        const char *state = i ? osb_info_state(i) : "";
        bool over = strcmp(state, "Failed") == 0 || strcmp(state, "Terminated") == 0;
        if (over) {
            (void)osb_fail(&last, OSB_ENOTREADY, "sandbox %s is %s: %s", s->id, state,
                           osb_info_message(i) ? osb_info_message(i) : "no reason given");
        }
        osb_info_free(i);
        if (over) {
            break;
        }
        if (!pause_ms(wait, call->token)) {
            (void)osb_fail(&last, OSB_ECANCELED, "canceled");
            break;
        }
        wait = MIN(wait * 2, poll_ms ? poll_ms : CLIENT_READY_POLL_MS);
    } while (clock_mono_ms() < deadline);
    if (e) {
        *e = last;
        if (last.code != OSB_ECANCELED && last.code != OSB_ENOTREADY &&
            last.code != OSB_EUNAUTHORIZED) {
            char why[ERR_MSG_MAX];
            (void)snprintf(why, sizeof(why), "%s", last.message);
            (void)osb_fail(
                e, OSB_ENOTREADY,
                "sandbox %s did not answer within %llu ms; the last attempt said: %.300s", s->id,
                (unsigned long long)timeout_ms, why);
        }
    }
    return -1;
}

int osb_wait_ready(struct osb_sandbox *s, uint64_t poll_ms, const struct osb_call *call,
                   struct osb_error *e)
{
    static const struct osb_call none;
    call = call ? call : &none;
    return wait_ready(s, call->timeout_ms ? call->timeout_ms : CLIENT_READY_TIMEOUT_MS, poll_ms,
                      call, e);
}

struct osb_sandbox *osb_connect(struct osb_client *c, const char *id, const struct osb_call *call,
                                struct osb_error *e)
{
    struct osb_sandbox *s = sandbox_new(c, id);
    if (!sandbox_service(s, OSB_EXECD, e) || osb_wait_ready(s, 0, call, e) < 0) {
        osb_sandbox_free(s);
        return NULL;
    }
    return s;
}

/* ---- create ---- */

static void put_string(struct json_out *o, const char *key, const char *value)
{
    if (value) {
        json_key(o, key);
        json_put_cstr(o, value);
    }
}

static void put_strings(struct json_out *o, const char *key, const char *const *list)
{
    if (list) {
        json_key(o, key);
        json_arr_begin(o);
        for (; *list; list++) {
            json_put_cstr(o, *list);
        }
        json_arr_end(o);
    }
}

static void put_volume(struct json_out *o, const struct osb_volume *v)
{
    json_obj_begin(o);
    put_string(o, "name", v->name);
    put_string(o, "mountPath", v->mount_path);
    put_string(o, "subPath", v->sub_path);
    json_key(o, "readOnly");
    json_put_bool(o, v->read_only);
    if (v->host_path) {
        json_key(o, "host");
        json_obj_begin(o);
        put_string(o, "path", v->host_path);
        json_obj_end(o);
    }
    if (v->pvc_claim) {
        json_key(o, "pvc");
        json_obj_begin(o);
        put_string(o, "claimName", v->pvc_claim);
        json_key(o, "createIfNotExists");
        json_put_bool(o, !v->pvc_must_exist);
        json_key(o, "deleteOnSandboxTermination");
        json_put_bool(o, v->pvc_delete_with_sandbox);
        put_string(o, "storage", v->pvc_storage);
        put_string(o, "storageClass", v->pvc_storage_class);
        json_obj_end(o);
    }
    if (v->ossfs_bucket) {
        json_key(o, "ossfs");
        json_obj_begin(o);
        put_string(o, "bucket", v->ossfs_bucket);
        put_string(o, "endpoint", v->ossfs_endpoint);
        put_string(o, "accessKeyId", v->ossfs_key_id);
        put_string(o, "accessKeySecret", v->ossfs_key_secret);
        put_string(o, "version", v->ossfs_version);
        put_strings(o, "options", v->ossfs_options);
        json_obj_end(o);
    }
    json_obj_end(o);
}

static void put_image(struct json_out *o, const struct osb_create_opts *opts)
{
    if (!opts->image) {
        put_string(o, "snapshotId", opts->snapshot_id);
        return;
    }
    json_key(o, "image");
    json_obj_begin(o);
    put_string(o, "uri", opts->image);
    if (opts->image_user) {
        json_key(o, "auth");
        json_obj_begin(o);
        put_string(o, "username", opts->image_user);
        put_string(o, "password", opts->image_password ? opts->image_password : "");
        json_obj_end(o);
    }
    json_obj_end(o);
}

static void put_policy(struct json_out *o, const struct osb_create_opts *opts)
{
    if (!opts->egress_default && opts->n_egress_rules == 0) {
        return;
    }
    json_key(o, "networkPolicy");
    json_obj_begin(o);
    put_string(o, "defaultAction", opts->egress_default ? opts->egress_default : "deny");
    json_key(o, "egress");
    json_arr_begin(o);
    for (size_t i = 0; i < opts->n_egress_rules; i++) {
        json_obj_begin(o);
        put_string(o, "action", opts->egress_rules[i].action);
        put_string(o, "target", opts->egress_rules[i].target);
        json_obj_end(o);
    }
    json_arr_end(o);
    json_obj_end(o);
}

/* Out of a pool: what is not given is as in its template. */
static bool is_pooled(const struct osb_create_opts *o)
{
    for (const struct osb_pair *p = o->extensions; p && p->key; p++) {
        if (strcmp(p->key, "poolRef") == 0) {
            return true;
        }
    }
    return false;
}

static const struct osb_pair usual_resources[] = {{"cpu", "1"}, {"memory", "2Gi"}, {0}};

/* What sandboxes of a pool have in common, and single ones have too. */
static void put_shape(struct json_out *o, const struct osb_create_opts *opts)
{
    if (opts->image || opts->snapshot_id) {
        put_image(o, opts);
    }
    pairs_put(o, "env", opts->env);
    pairs_put(o, "metadata", opts->metadata);
    pairs_put(o, "extensions", opts->extensions);
    if (opts->os || opts->arch) {
        json_key(o, "platform");
        json_obj_begin(o);
        put_string(o, "os", opts->os ? opts->os : "linux");
        put_string(o, "arch", opts->arch ? opts->arch : "amd64");
        json_obj_end(o);
    }
    put_policy(o, opts);
    if (opts->credential_proxy) {
        json_key(o, "credentialProxy");
        json_put_raw(o, STR("{\"enabled\":true}"));
    }
    if (opts->secure_access) {
        json_key(o, "secureAccess");
        json_put_bool(o, true);
    }
    if (opts->n_volumes) {
        json_key(o, "volumes");
        json_arr_begin(o);
        for (size_t i = 0; i < opts->n_volumes; i++) {
            put_volume(o, &opts->volumes[i]);
        }
        json_arr_end(o);
    }
}

static void create_body(const struct osb_create_opts *opts, struct buf *body)
{
    static const char *const forever[] = {"tail", "-f", "/dev/null", NULL};
    struct json_out o;
    json_out_init(&o, body);
    json_obj_begin(&o);
    bool pooled = is_pooled(opts);
    if (opts->entrypoint || !pooled) {
        put_strings(&o, "entrypoint", opts->entrypoint ? opts->entrypoint : forever);
    }
    if (opts->timeout_seconds >= 0) {
        json_key(&o, "timeout");
        json_put_int(&o, opts->timeout_seconds ? opts->timeout_seconds : 600);
    }
    if (opts->resources || !pooled) {
        pairs_put(&o, "resourceLimits", opts->resources ? opts->resources : usual_resources);
    }
    put_shape(&o, opts);
    json_obj_end(&o);
}

void template_put(struct json_out *o, const struct osb_create_opts *opts)
{
    json_obj_begin(o);
    put_strings(o, "entrypoint", opts->entrypoint);
    if (opts->timeout_seconds) { /* the server says what does not belong here */
        json_key(o, "timeout");
        json_put_int(o, opts->timeout_seconds);
    }
    pairs_put(o, "resourceLimits", opts->resources ? opts->resources : usual_resources);
    put_shape(o, opts);
    json_obj_end(o);
}

static int check_create(const struct osb_create_opts *o, struct osb_error *e)
{
    if (!is_pooled(o) && (o->image != NULL) == (o->snapshot_id != NULL)) {
        return osb_fail(e, OSB_EINVALID, "give either an image or a snapshot");
    }
    if (o->image_password && !o->image_user) {
        return osb_fail(e, OSB_EINVALID, "an image password needs an image user");
    }
    return 0;
}

/* The id of the new sandbox, on the heap. A broken connection is tried once more: the idempotency
 * key makes that safe. */
static char *post_create(struct osb_client *c, const struct osb_create_opts *o, struct osb_error *e)
{
    cleanup_(buf_done) struct buf body = BUF_INIT(8u << 20);
    char key[UUID_LEN + 1];
    rand_uuid(key);
    cleanup_free char *header =
        xasprintf("Idempotency-Key: %s", o->idempotency_key ? o->idempotency_key : key);
    create_body(o, &body);
    if (buf_failed(&body)) {
        (void)osb_fail(e, OSB_ELIMIT, "create request too large");
        return NULL;
    }
    for (int attempt = 0;; attempt++) {
        struct osb_error why = {0};
        struct transfer t = {.method = "POST",
                             .body = buf_str(&body),
                             .has_body = true,
                             .extra = {header},
                             .call = o->call};
        if (!t.call.timeout_ms) {
            t.call.timeout_ms = MAX(c->request_timeout_ms, o->ready_timeout_ms);
        }
        char *id = NULL;
        if (client_transfer(c, "/sandboxes", &t, &why) == 0) {
            cleanup_(json_free) struct json *j = json_parse(buf_str(&t.answer), NULL);
            id = dup_or_null(json_cstr(json_get(j, "id")));
            if (!id) {
                (void)osb_fail(&why, OSB_EPROTOCOL, "the server's answer has no id");
            }
        }
        transfer_done(&t);
        bool again = !id && why.code == OSB_ENETWORK && attempt == 0;
        if (!again) {
            if (e) {
                *e = why;
            }
            return id;
        }
    }
}

struct osb_sandbox *osb_create(struct osb_client *c, const struct osb_create_opts *o,
                               struct osb_error *e)
{
    if (!o || check_create(o, e) < 0) {
        return NULL;
    }
    cleanup_free char *id = post_create(c, o, e);
    if (!id) {
        return NULL;
    }
    struct osb_sandbox *s = sandbox_new(c, id);
    if (o->skip_ready ||
        wait_ready(s, o->ready_timeout_ms ? o->ready_timeout_ms : CLIENT_READY_TIMEOUT_MS,
                   o->ready_poll_ms, &o->call, e) == 0) {
        return s;
    }
    (void)osb_kill_id(c, id, NULL); /* the error that is reported is the first one */
    osb_sandbox_free(s);
    return NULL;
}
