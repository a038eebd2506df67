/* Pools: sandboxes that are started ahead of their use. */

#include "base/cleanup.h"
#include "base/codec.h"
#include "base/must.h"
#include "client/internal.h"

static char *pool_path(const char *name)
{
    struct buf b = BUF_INIT(4096);
    (void)buf_add_cstr(&b, "/pools/");
    (void)percent_encode(&b, str_from(name), false);
    return buf_take(&b);
}

static int number(const struct json *j, const char *path)
{
    return (int)json_int(json_at(j, path), 0);
}

static void read_pool(const struct json *j, struct osb_pool *ret)
{
    const char *name = json_cstr(json_get(j, "name"));
    *ret = (struct osb_pool){
        .name = xstrdup(name ? name : ""),
        .created_at = dup_or_null(json_cstr(json_get(j, "createdAt"))),
        .revision = dup_or_null(json_cstr(json_at(j, "status.revision"))),
        .capacity = {.buffer_min = number(j, "capacitySpec.bufferMin"),
                     .buffer_max = number(j, "capacitySpec.bufferMax"),
                     .pool_min = number(j, "capacitySpec.poolMin"),
                     .pool_max = number(j, "capacitySpec.poolMax")},
        .total = number(j, "status.total"),
        .allocated = number(j, "status.allocated"),
        .available = number(j, "status.available"),
    };
}

void osb_pool_done(struct osb_pool *p)
{
    free(p->name);
    free(p->created_at);
    free(p->revision);
    *p = (struct osb_pool){0};
}

/* One request whose answer is a pool; ret may be NULL. */
static int ask(struct osb_client *c, const char *method, const char *path, const struct buf *body,
               struct osb_pool *ret, struct osb_error *e)
{
    struct osb_error why = {0};
    cleanup_(json_free) struct json *j = client_json(c, method, path, body, NULL, &why);
    if (!j && why.code == OSB_OK) {
        (void)osb_fail(&why, OSB_EPROTOCOL, "the server's answer is empty");
    }
    if (e) {
        *e = why;
    }
    if (j && ret) {
        read_pool(j, ret);
    }
    return j ? 0 : -1;
}

static void put_capacity(struct json_out *o, const struct osb_capacity *k)
{
    const struct {
        const char *key;
        int value;
    } v[] = {{"bufferMin", k->buffer_min},
             {"bufferMax", k->buffer_max},
             {"poolMin", k->pool_min},
             {"poolMax", k->pool_max}};
    json_key(o, "capacitySpec");
    json_obj_begin(o);
    for (size_t i = 0; i < ARRAY_LEN(v); i++) {
        json_key(o, v[i].key);
        json_put_int(o, v[i].value);
    }
    json_obj_end(o);
}

/* name NULL: not part of it. */
static int describe(struct buf *body, const char *name, const struct osb_create_opts *template_opts,
                    const struct osb_capacity *capacity, struct osb_error *e)
{
    struct json_out o;
    if (!capacity) {
        return osb_fail(e, OSB_EINVALID, "a pool needs a capacity");
    }
    json_out_init(&o, body);
    json_obj_begin(&o);
    if (name) {
        json_key(&o, "name");
        json_put_cstr(&o, name);
    }
    if (template_opts) {
        json_key(&o, "template");
        template_put(&o, template_opts);
    }
    put_capacity(&o, capacity);
    json_obj_end(&o);
    return buf_failed(body) ? osb_fail(e, OSB_ELIMIT, "pool description too large") : 0;
}

int osb_pool_create(struct osb_client *c, const char *name,
                    const struct osb_create_opts *template_opts,
                    const struct osb_capacity *capacity, struct osb_pool *ret, struct osb_error *e)
{
    cleanup_(buf_done) struct buf body = BUF_INIT(8u << 20);
    if (!name || !template_opts) {
        return osb_fail(e, OSB_EINVALID, "a pool needs a name and a template");
    }
    if (describe(&body, name, template_opts, capacity, e) < 0) {
        return -1;
    }
    return ask(c, "POST", "/pools", &body, ret, e);
}

int osb_pool_update(struct osb_client *c, const char *name,
                    const struct osb_create_opts *template_opts,
                    const struct osb_capacity *capacity, struct osb_pool *ret, struct osb_error *e)
{
    cleanup_(buf_done) struct buf body = BUF_INIT(8u << 20);
    cleanup_free char *path = pool_path(name);
    if (describe(&body, NULL, template_opts, capacity, e) < 0) {
        return -1;
    }
    return ask(c, "PUT", path, &body, ret, e);
}

int osb_pool_get(struct osb_client *c, const char *name, struct osb_pool *ret, struct osb_error *e)
{
    cleanup_free char *path = pool_path(name);
    return ask(c, "GET", path, NULL, ret, e);
}

int osb_pool_delete(struct osb_client *c, const char *name, struct osb_error *e)
{
    cleanup_free char *path = pool_path(name);
    struct transfer t = {.method = "DELETE"};
    int r = client_transfer(c, path, &t, e);
    transfer_done(&t);
    return r;
}

int osb_pool_list(struct osb_client *c, struct osb_pool_list *ret, struct osb_error *e)
{
    struct osb_error why = {0};
    cleanup_(json_free) struct json *j = client_json(c, "GET", "/pools", NULL, NULL, &why);
    const struct json *items = json_get(j, "items");
    *ret = (struct osb_pool_list){0};
    if (why.code == OSB_OK && !json_is_array(items)) {
        (void)osb_fail(&why, OSB_EPROTOCOL, "the server's answer has no items");
    }
    if (e) {
        *e = why;
    }
    if (why.code != OSB_OK) {
        return -1;
    }
    ret->n = json_len(items);
    ret->v = xcalloc(ret->n + 1, sizeof(*ret->v));
    for (size_t i = 0; i < ret->n; i++) {
        read_pool(json_item(items, i), &ret->v[i]);
    }
    return 0;
}

void osb_pool_list_done(struct osb_pool_list *l)
{
    for (size_t i = 0; i < l->n; i++) {
        osb_pool_done(&l->v[i]);
    }
    free(l->v);
    *l = (struct osb_pool_list){0};
}
