/* The routes below /credential-vault. Values come in through POST and PATCH and never leave. */

#include "egress/vault/api.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/codec.h"
#include "base/log.h"
#include "base/must.h"
#include "base/num.h"
#include "egress/reply.h"
#include "egress/vault/internal.h"
#include "egress/vault/keep.h"
#include "egress/vault/limits.h"
#include "egress/vault/secret.h"

static struct {
    struct vault_state *current;
    struct vault_keep *keep;
    struct secret_block *extra_block;
    struct str extra;
} vault;

struct vault_state *vault_current(void)
{
    return vault.current;
}

/* ---- over crashes ---- */

/* {"extra": text, "vault": state or null}. */
static int save(const struct vault_state *s)
{
    if (!vault.keep) {
        return 0;
    }
    struct buf b = BUF_INIT(VAULT_KEEP_SLOT);
    (void)buf_reserve(&b, VAULT_KEEP_SLOT / 2); /* growing would leave copies behind */
    struct json_out o;
    json_out_init(&o, &b);
    json_obj_begin(&o);
    json_key(&o, "extra");
    json_put_str(&o, vault.extra);
    json_key(&o, "vault");
    int r = 0;
    if (s) {
        struct buf inner = BUF_INIT(VAULT_KEEP_SLOT);
        (void)buf_reserve(&inner, VAULT_KEEP_SLOT / 2);
        r = vault_serialize(s, &inner);
        json_put_raw(&o, buf_str(&inner));
        secret_wipe(buf_str(&inner));
        buf_done(&inner);
    } else {
        json_put_null(&o);
    }
    json_obj_end(&o);
    r = r < 0 || buf_failed(&b) ? -EFBIG : vault_keep_write(vault.keep, buf_str(&b));
    secret_wipe(buf_str(&b));
    buf_done(&b);
    return r;
}

static void set_extra(struct str s)
{
    struct secret_block *old = vault.extra_block;
    vault.extra_block = secret_block_new(s.n);
    vault.extra = secret_block_add(vault.extra_block, s);
    secret_block_free(old);
}

struct str vault_kept_extra(void)
{
    return vault.extra;
}

void vault_keep_extra(struct str s)
{
    set_extra(s);
    if (save(vault.current) < 0) {
        log_warn("the interceptor's authority will not survive a crash");
    }
}

static int restore(struct err *e)
{
    struct str text = vault_keep_read(vault.keep);
    if (!text.p) {
        return 0;
    }
    cleanup_(json_free) struct json *j = json_parse(text, e);
    if (!j) {
        return err_wrap(e, "kept vault");
    }
    set_extra(json_str(json_get(j, "extra")));
    const struct json *state = json_get(j, "vault");
    if (!json_is_object(state)) {
        return 0;
    }
    struct buf b = BUF_INIT(VAULT_KEEP_SLOT);
    (void)buf_reserve(&b, text.n);
    (void)json_dump(state, &b, 0);
    vault.current = vault_restore(buf_str(&b), e);
    secret_wipe(buf_str(&b));
    buf_done(&b);
    if (!vault.current) {
        return err_wrap(e, "kept vault");
    }
    log_info("credential vault is back after a restart", LOG_I("revision", vault.current->revision),
             LOG_I("bindings", vault.current->n_bindings));
    return 0;
}

static int start(struct egress *g, struct err *e)
{
    const char *text = getenv(VAULT_KEEP_ENV);
    uint32_t fd;

    json_wipe_freed();
    secret_harden_process();
    if (!text || !*text) {
        return 0;
    }
    if (parse_u32(str_from(text), &fd) < 0 || fd < 3) {
        return err_set(e, ERR_INVALID, "%s is not a descriptor", VAULT_KEEP_ENV);
    }
    vault.keep = vault_keep_open((int)fd, e);
    return vault.keep ? restore(e) : -1;
}

static void stop(struct egress *g)
{
    vault_state_unref(vault.current);
    secret_block_free(vault.extra_block);
    vault_keep_close(vault.keep);
    memset(&vault, 0, sizeof(vault));
}

/* Fails, and changes nothing, when the new state cannot be kept. */
static int swap(struct vault_state *take_next, struct err *e)
{
    int r = save(take_next);
    if (r < 0) {
        vault_state_unref(take_next);
        return err_set(e, ERR_INVALID, "the vault as a whole is larger than %u bytes",
                       VAULT_KEEP_SLOT);
    }
    if (take_next && !secret_block_is_locked(take_next->secrets)) {
        log_warn("memory of secrets is not locked: RLIMIT_MEMLOCK is too low");
    }
    vault_state_unref(vault.current);
    vault.current = take_next;
    return 0;
}

/* ---- routes ---- */

static struct egress *app(struct http_req *req)
{
    return http_req_app(req);
}

/* What must hold before a secret may be handed in. False: answered. */
static bool gate(struct http_req *req)
{
    struct egress *g = app(req);
    struct io_addr peer;
    const char *why = NULL;

    if (vault_trim(g->cfg.token).n == 0) {
        why = "credential vault requires an egress token";
    } else if (!g->cfg.intercept) {
        why = "credential vault requires transparent interception";
    } else if (g->cfg.upstream_insecure) {
        why = "credential vault requires verified upstream certificates";
    } else {
        for (struct egress_part *const *p = g->parts; !why && *p; p++) {
            if ((*p)->is_ready && !(*p)->is_ready(g, &why)) {
                why = why ? why : "interception is not ready";
            }
        }
    }
    if (why) {
        reply_text(req, 412, why);
        return false;
    }
    if (http_req_peer(req, &peer) < 0 || !io_addr_is_loopback(&peer)) {
        reply_text(req, 426, "credential vault writes require TLS or a loopback connection");
        return false;
    }
    return true;
}

static void reply_state(struct http_req *req, int status)
{
    cleanup_(buf_done) struct buf b = BUF_INIT(16u << 20);
    vault_format(vault.current, &b);
    reply_json(req, status, buf_str(&b));
}

static void log_change(const char *what)
{
    log_info(what, LOG_I("revision", vault.current ? vault.current->revision : 0),
             LOG_I("credentials", vault.current ? vault.current->n_credentials : 0),
             LOG_I("bindings", vault.current ? vault.current->n_bindings : 0));
}

static void on_create(struct http_req *req, struct str body, void *arg)
{
    struct err e = {0};
    struct vault_state *s = NULL;

    if (vault.current) {
        (void)err_set(&e, ERR_CONFLICT, "credential vault exists already");
    } else {
        s = vault_create(body, egress_policy(app(req)), &e);
    }
    secret_wipe(body);
    if (!s || swap(s, &e) < 0) {
        reply_err(req, &e);
        return;
    }
    log_change("credential vault created");
    reply_state(req, 201);
}

static void on_patch(struct http_req *req, struct str body, void *arg)
{
    struct err e = {0};
    struct vault_state *s = NULL;

    if (!vault.current) {
        (void)err_set(&e, ERR_NOT_FOUND, "credential vault does not exist");
    } else {
        s = vault_patch(vault.current, body, egress_policy(app(req)), &e);
    }
    secret_wipe(body);
    if (!s || swap(s, &e) < 0) {
        reply_err(req, &e);
        return;
    }
    log_change("credential vault changed");
    reply_state(req, 200);
}

static void post_vault(struct http_req *req)
{
    if (gate(req)) {
        http_req_collect(req, VAULT_MAX_BODY, on_create, NULL);
    }
}

static void patch_vault(struct http_req *req)
{
    if (gate(req)) {
        http_req_collect(req, VAULT_MAX_BODY, on_patch, NULL);
    }
}

static void delete_vault(struct http_req *req)
{
    struct err e = {0};
    if (!gate(req)) {
        return;
    }
    if (!vault.current) {
        reply_text(req, 404, "credential vault does not exist");
        return;
    }
    must(swap(NULL, &e) == 0); /* nothing is always small enough to be kept */
    log_change("credential vault deleted");
    http_resp_send(req, 204, NULL, STR_NULL);
}

static bool exists(struct http_req *req)
{
    if (!vault.current) {
        reply_text(req, 404, "credential vault does not exist");
    }
    return vault.current != NULL;
}

static void get_vault(struct http_req *req)
{
    if (exists(req)) {
        reply_state(req, 200);
    }
}

static void get_list(struct http_req *req,
                     void (*format)(const struct vault_state *s, struct buf *out))
{
    cleanup_(buf_done) struct buf b = BUF_INIT(16u << 20);
    if (exists(req)) {
        format(vault.current, &b);
        reply_json(req, 200, buf_str(&b));
    }
}

static void get_one(struct http_req *req, const char *kind,
                    int (*format)(const struct vault_state *s, struct str name, struct buf *out))
{
    cleanup_(buf_done) struct buf name = BUF_INIT(VAULT_MAX_TEXT), b = BUF_INIT(16u << 20);
    char text[64];

    if (!exists(req)) {
        return;
    }
    if (percent_decode(&name, http_req_param_raw(req, "name"), false) < 0 ||
        format(vault.current, vault_trim(buf_cstr(&name)), &b) < 0) {
        (void)snprintf(text, sizeof(text), "%s not found", kind);
        reply_text(req, 404, text);
        return;
    }
    reply_json(req, 200, buf_str(&b));
}

static void get_credentials(struct http_req *req)
{
    get_list(req, vault_format_credentials);
}

static void get_bindings(struct http_req *req)
{
    get_list(req, vault_format_bindings);
}

static void get_credential(struct http_req *req)
{
    get_one(req, "credential", vault_format_credential);
}

static void get_binding(struct http_req *req)
{
    get_one(req, "binding", vault_format_binding);
}

/* Where the reference's proxy process fetches secrets from. Ours is in the same process. */
static void get_active(struct http_req *req)
{
    reply_text(req, 403, "forbidden");
}

#define ROOT "/credential-vault"
static const struct http_route routes[] = {
    {"GET", ROOT, HTTP_STREAM, get_vault},
    {"POST", ROOT, HTTP_STREAM, post_vault},
    {"PATCH", ROOT, HTTP_STREAM, patch_vault},
    {"DELETE", ROOT, HTTP_STREAM, delete_vault},
    {"GET", ROOT "/credentials", HTTP_STREAM, get_credentials},
    {"GET", ROOT "/credentials/{name...}", HTTP_STREAM, get_credential},
    {"GET", ROOT "/bindings", HTTP_STREAM, get_bindings},
    {"GET", ROOT "/bindings/{name...}", HTTP_STREAM, get_binding},
    {"GET", ROOT "/_active", HTTP_STREAM, get_active, .flags = EGRESS_ROUTE_OPEN},
    {0},
};

/* ---- policy ---- */

static int check_policy(struct egress *g, const struct policy *effective, struct err *e)
{
    if (!vault.current || vault_check_policy(vault.current, effective, e) == 0) {
        return 0;
    }
    return err_wrap(e, "credential vault policy validation");
}

struct egress_part vault_part = {
    .name = "vault",
    .routes = routes,
    .start = start,
    .stop = stop,
    .check_policy = check_policy,
};
