/* What the server says about sandboxes: one, many, and the small lifecycle calls by id. */

#include <stdio.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/codec.h"
#include "base/must.h"
#include "client/internal.h"

struct osb_info {
    struct json *j; /* borrowed by list items */
    char *text;     /* made when asked for */
    bool owns;
};

struct osb_list {
    struct json *j;
    char *text;
    struct osb_info *items;
    size_t n;
};

static char *path_of(const char *id, const char *suffix)
{
    struct buf b = BUF_INIT(4096);
    (void)buf_add_cstr(&b, "/sandboxes/");
    (void)percent_encode(&b, str_from(id), false);
    (void)buf_add_cstr(&b, suffix);
    return buf_take(&b);
}

static struct osb_info *info_new(struct json *take_j)
{
    if (!take_j) {
        return NULL;
    }
    struct osb_info *i = NEW(struct osb_info);
    i->j = take_j;
    i->owns = true;
    return i;
}

struct osb_info *osb_info_get(struct osb_client *c, const char *id, struct osb_error *e)
{
    cleanup_free char *path = path_of(id, "");
    return info_new(client_json(c, "GET", path, NULL, NULL, e));
}

void osb_info_free(struct osb_info *i)
{
    if (i && i->owns) {
        json_free(i->j);
        free(i->text);
        free(i);
    }
}

static const char *field(const struct osb_info *i, const char *path)
{
    return json_cstr(json_at(i->j, path));
}

const char *osb_info_id(const struct osb_info *i)
{
    const char *s = field(i, "id");
    return s ? s : "";
}

const char *osb_info_state(const struct osb_info *i)
{
    const char *s = field(i, "status.state");
    return s ? s : "Unknown";
}

const char *osb_info_reason(const struct osb_info *i)
{
    return field(i, "status.reason");
}

const char *osb_info_message(const struct osb_info *i)
{
    return field(i, "status.message");
}

const char *osb_info_image(const struct osb_info *i)
{
    return field(i, "image.uri");
}

const char *osb_info_snapshot(const struct osb_info *i)
{
    return field(i, "snapshotId");
}

const char *osb_info_created(const struct osb_info *i)
{
    const char *s = field(i, "createdAt");
    return s ? s : "";
}

const char *osb_info_expires(const struct osb_info *i)
{
    return field(i, "expiresAt");
}

const char *osb_info_metadata(const struct osb_info *i, const char *key)
{
    return json_cstr(json_get(json_get(i->j, "metadata"), key));
}

static char *dump(const struct json *j)
{
    struct buf b = BUF_INIT(CLIENT_MAX_BODY);
    (void)json_dump(j, &b, 0);
    return buf_take(&b);
}

const char *osb_info_json(const struct osb_info *i)
{
    /* Made once, kept with the object: not a change a caller can see. */
    struct osb_info *m = (struct osb_info *)(uintptr_t)i;
    if (!m->text) {
        m->text = dump(i->j);
    }
    return m->text;
}

/* ---- list ---- */

static void list_path(struct buf *path, const struct osb_filter *f)
{
    char number[16];
    (void)buf_add_cstr(path, "/sandboxes");
    for (const char *const *s = f->states; s && *s; s++) {
        (void)query_add(path, "state", *s);
    }
    if (f->metadata && f->metadata->key) {
        struct buf m = BUF_INIT(64u << 10);
        for (const struct osb_pair *p = f->metadata; p->key; p++) {
            (void)buf_add_cstr(&m, m.len ? "&" : "");
            (void)percent_encode(&m, str_from(p->key), false);
            (void)buf_add_char(&m, '=');
            (void)percent_encode(&m, str_from(p->value), false);
        }
        (void)query_add(path, "metadata", buf_cstr(&m));
        buf_done(&m);
    }
    if (f->page) {
        (void)snprintf(number, sizeof(number), "%d", f->page);
        (void)query_add(path, "page", number);
    }
    if (f->page_size) {
        (void)snprintf(number, sizeof(number), "%d", f->page_size);
        (void)query_add(path, "pageSize", number);
    }
}

struct osb_list *osb_list(struct osb_client *c, const struct osb_filter *f, struct osb_error *e)
{
    static const struct osb_filter none;
    cleanup_(buf_done) struct buf path = BUF_INIT(128u << 10);
    list_path(&path, f ? f : &none);
    struct json *j = client_json(c, "GET", buf_cstr(&path), NULL, NULL, e);
    if (!j) {
        return NULL;
    }
    struct osb_list *l = NEW(struct osb_list);
    struct json *items = json_get(j, "items");
    l->j = j;
    l->n = json_len(items);
    l->items = xcalloc(l->n + 1, sizeof(*l->items));
    for (size_t i = 0; i < l->n; i++) {
        l->items[i].j = json_item(items, i);
    }
    return l;
}

void osb_list_free(struct osb_list *l)
{
    if (!l) {
        return;
    }
    for (size_t i = 0; i < l->n; i++) {
        free(l->items[i].text);
    }
    free(l->items);
    free(l->text);
    json_free(l->j);
    free(l);
}

size_t osb_list_len(const struct osb_list *l)
{
    return l->n;
}

const struct osb_info *osb_list_item(const struct osb_list *l, size_t i)
{
    return i < l->n ? &l->items[i] : NULL;
}

int osb_list_total(const struct osb_list *l)
{
    return (int)json_int(json_at(l->j, "pagination.totalItems"), 0);
}

bool osb_list_has_next(const struct osb_list *l)
{
    return json_bool(json_at(l->j, "pagination.hasNextPage"), false);
}

const char *osb_list_json(const struct osb_list *l)
{
    struct osb_list *m = (struct osb_list *)(uintptr_t)l;
    if (!m->text) {
        m->text = dump(l->j);
    }
    return m->text;
}

/* ---- by id ---- */

static int simple(struct osb_client *c, const char *method, const char *id, const char *suffix,
                  struct osb_error *e)
{
    cleanup_free char *path = path_of(id, suffix);
    struct transfer t = {.method = method};
    int r = client_transfer(c, path, &t, e);
    transfer_done(&t);
    return r;
}

int osb_kill_id(struct osb_client *c, const char *id, struct osb_error *e)
{
    return simple(c, "DELETE", id, "", e);
}

int osb_pause_id(struct osb_client *c, const char *id, struct osb_error *e)
{
    return simple(c, "POST", id, "/pause", e);
}

int osb_resume_id(struct osb_client *c, const char *id, struct osb_error *e)
{
    return simple(c, "POST", id, "/resume", e);
}

int osb_renew_id(struct osb_client *c, const char *id, int64_t seconds, char ret_expires[40],
                 struct osb_error *e)
{
    char when[RFC3339_MAX];
    cleanup_free char *path = path_of(id, "/renew-expiration");
    cleanup_(buf_done) struct buf body = BUF_INIT(256);
    rfc3339_format(clock_wall_us() + seconds * 1000000, 6, when);
    (void)buf_printf(&body, "{\"expiresAt\":\"%s\"}", when);
    cleanup_(json_free) struct json *j = client_json(c, "POST", path, &body, NULL, e);
    if (!j) {
        return -1;
    }
    if (ret_expires) {
        const char *s = json_cstr(json_get(j, "expiresAt"));
        (void)snprintf(ret_expires, 40, "%s", s ? s : when);
    }
    return 0;
}

struct osb_info *osb_patch_metadata(struct osb_client *c, const char *id,
                                    const struct osb_pair *patch, struct osb_error *e)
{
    cleanup_free char *path = path_of(id, "/metadata");
    cleanup_(buf_done) struct buf body = BUF_INIT(1u << 20);
    struct json_out o;
    json_out_init(&o, &body);
    json_obj_begin(&o);
    for (const struct osb_pair *p = patch; p && p->key; p++) {
        json_key(&o, p->key);
        json_put_cstr(&o, p->value); /* NULL writes null: the key is deleted */
    }
    json_obj_end(&o);
    return info_new(client_json(c, "PATCH", path, &body, NULL, e));
}
