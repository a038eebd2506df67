/* Pools after a start: those of the store, those the configuration declares, and their members. */

#include "base/cleanup.h"
#include "base/log.h"
#include "base/must.h"
#include "server/lifecycle/pool.h"

struct load {
    struct lifecycle *lc;
    struct list rows; /* struct row: the store's lock is held while they are read */
};

struct row {
    struct list node;
    char *owner, *name, *spec;
    int64_t created_us;
};

static void on_row(const struct store_pool *p, void *arg)
{
    struct load *l = arg;
    struct row *r = NEW(struct row);
    r->owner = xstrdup(p->owner);
    r->name = xstrdup(p->name);
    r->spec = xstrdup(p->spec);
    r->created_us = p->created_us;
    list_push_back(&l->rows, &r->node);
}

static int decode_capacity(const struct json *j, struct pool_capacity *ret, struct err *e)
{
    struct arena a = {0};
    int r = json_decode(&a, &pool_capacity_table, j, ret, NULL, e);
    arena_done(&a);
    return r;
}

static void load_row(struct lifecycle *lc, const struct row *r)
{
    cleanup_(problem_done) struct problem p = {0};
    struct err e = {0};
    struct pool_capacity cap;
    cleanup_(json_free) struct json *spec = json_parse(str_from(r->spec), &e);
    struct pool *pool = NULL;
    if (spec && decode_capacity(json_get(spec, "capacitySpec"), &cap, &e) == 0) {
        pool = pool_make(lc, r->owner, r->name, json_get(spec, "template"), &cap, &p);
    }
    if (!pool) { /* the configuration has changed under it; its row waits for better times */
        log_error("a pool cannot be kept any more", LOG_S("pool", r->name),
                  LOG_S("error", p.status ? p.message : e.msg));
        return;
    }
    pool->created_us = r->created_us;
    const char *origin = json_cstr(json_get(spec, "origin"));
    pool->from_config = origin && !strcmp(origin, "config");
    pool_add(lc->pools, pool);
}

static int load_store(struct lifecycle *lc, struct err *e)
{
    struct load l = {.lc = lc};
    list_init(&l.rows);
    int r = store_pool_each(lc->store, on_row, &l, e);
    for (struct list *n; (n = list_pop_front(&l.rows));) {
        struct row *row = list_entry(n, struct row, node);
        if (r == 0) {
            load_row(lc, row);
        }
        free(row->owner);
        free(row->name);
        free(row->spec);
        free(row);
    }
    return r;
}

/* ---- [pool.NAME] ---- */
/* Numbers of the table are its capacity, the rest is the template. */
static struct json *split_table(const struct json *table, struct pool_capacity *cap, struct err *e)
{
    static const struct {
        const char *key;
        size_t offset;
    } numbers[] = {{"buffer_min", offsetof(struct pool_capacity, buffer_min)},
                   {"buffer_max", offsetof(struct pool_capacity, buffer_max)},
                   {"pool_min", offsetof(struct pool_capacity, pool_min)},
                   {"pool_max", offsetof(struct pool_capacity, pool_max)}};
    struct json *tmpl = json_clone(table);
    *cap = (struct pool_capacity){{true, -1}, {true, 1}, {true, 100}, {true, 0}};
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        const struct json *v = json_get(table, numbers[i].key);
        struct opt_int *to = (struct opt_int *)(void *)((char *)cap + numbers[i].offset);
        if (v && (!json_is_int(v) || json_int(v, -1) < 0 || json_int(v, 0) > INT32_MAX)) {
            (void)err_set(e, ERR_INVALID, "%s must be a number that is not negative",
                          numbers[i].key);
            json_free(tmpl);
            return NULL;
        }
        to->v = v ? json_int(v, 0) : to->v;
        json_del(tmpl, numbers[i].key);
    }
    cap->buffer_max.v = cap->buffer_max.v < 0 ? cap->buffer_min.v : cap->buffer_max.v;
    return tmpl;
}

static int declare(struct lifecycle *lc, const char *name, const struct json *table, struct err *e)
{
    cleanup_(problem_done) struct problem p = {0};
    struct pool_capacity cap;
    cleanup_(json_free) struct json *tmpl = split_table(table, &cap, e);
    if (!tmpl) {
        return err_wrap(e, "pool.%s", name);
    }
    struct pool *pool = pool_find(lc->pools, OWNER_DEFAULT, name);
    int r = 0;
    if (pool) {
        r = pool_set_template(lc, pool, tmpl, &p);
        pool->cap = cap;
    } else if ((pool = pool_make(lc, OWNER_DEFAULT, name, tmpl, &cap, &p))) {
        pool_add(lc->pools, pool);
    } else {
        r = -1;
    }
    if (r < 0) {
        return err_set(e, ERR_INVALID, "pool.%s: %s", name, p.message);
    }
    pool->from_config = true;
    return pool_store(lc, pool, e);
}

static int declare_all(struct lifecycle *lc, const struct json *tables, struct err *e)
{
    void *it = NULL;
    const char *name;
    struct json *table;
    while (json_next(tables, &it, &name, &table)) {
        if (declare(lc, name, table, e) < 0) {
            return -1;
        }
    }
    /* Declared once and not any more. */
    list_each (node, &lc->pools->all) {
        struct pool *p = list_entry(node, struct pool, node);
        if (p->from_config && !json_get(tables, p->name)) {
            log_info("a pool is not declared any more", LOG_S("pool", p->name));
            if (store_pool_delete(lc->store, p->owner, p->name, e) < 0) {
                return -1;
            }
            list_del(&p->node);
            lc->pools->n--;
            pool_unref(p);
        }
    }
    return 0;
}

/* ---- members ---- */
static void adopt(struct lifecycle *lc, struct sandbox *sb)
{
    struct pool *p = pool_find_member(lc->pools, sb);
    registry_read(&lc->reg);
    bool alive = sb->state == SB_RUNNING && !sb->removing;
    registry_unlock(&lc->reg);
    if (p && alive && sb->idem_hash && !strcmp(sb->idem_hash, p->hash)) {
        pool_push(p, sandbox_ref(sb));
    } else if (remove_decide(lc, sb, false)) {
        (void)expiry_set(&lc->expiry, sb, 1); /* removed by the first tick */
    }
}

int pools_recover(struct lifecycle *lc, struct err *e)
{
    struct config *cfg = lifecycle_config(lc);
    cleanup_(json_free) struct json *tables = json_parse(str_from(cfg->pools), e);
    config_unref(cfg);
    if (tables && json_len(tables) && !lc->rt->ops->activate) {
        log_warn("[pool] has no effect here: this runtime has no pools");
    }
    if (lc->rt->ops->activate &&
        (!tables || load_store(lc, e) < 0 || declare_all(lc, tables, e) < 0)) {
        return -1;
    }
    size_t n;
    struct sandbox **all = registry_all(&lc->reg, &n);
    for (size_t i = 0; i < n; i++) {
        if (all[i]->is_member) {
            adopt(lc, all[i]);
        }
        sandbox_unref(all[i]);
    }
    free(all);
    list_each (it, &lc->pools->all) {
        struct pool *p = list_entry(it, struct pool, node);
        p->n_taken = pool_count_taken(lc, p->owner, p->name);
        pool_trim(lc, p);
        log_info("pool", LOG_S("name", p->name), LOG_I("ready", p->n_ready),
                 LOG_I("taken", p->n_taken));
    }
    return 0;
}
