/* Encoding a struct by its field table. */

#include "base/clock.h"
#include "json/field.h"

/* Microseconds are written only when there are any, as the reference does. */
static void put_time(struct json_out *o, int64_t us)
{
    char text[RFC3339_MAX];
    rfc3339_format(us, us % 1000000 ? 6 : 0, text);
    json_put_cstr(o, text);
}

static void put_str_list(struct json_out *o, const struct str_list *l)
{
    json_arr_begin(o);
    for (size_t i = 0; i < l->n; i++) {
        json_put_cstr(o, l->v[i]);
    }
    json_arr_end(o);
}

static void put_str_map(struct json_out *o, const struct str_map *m)
{
    json_obj_begin(o);
    for (size_t i = 0; i < m->n; i++) {
        json_key(o, m->v[i].key);
        json_put_cstr(o, m->v[i].value);
    }
    json_obj_end(o);
}

static void put_obj_list(struct json_out *o, const struct json_table *t, const struct obj_list *l)
{
    json_arr_begin(o);
    for (size_t i = 0; i < l->n; i++) {
        json_encode(o, t, (const char *)l->v + i * t->size);
    }
    json_arr_end(o);
}

enum presence { ABSENT, EMPTY, PRESENT };

static enum presence presence_of(bool has, bool full)
{
    return full ? PRESENT : has ? EMPTY : ABSENT;
}

static enum presence field_presence(const struct json_field *f, const void *p)
{
    switch (f->kind) {
    case JSON_F_STR: {
        const char *s = *(const char *const *)p;
        return presence_of(s != NULL, s && *s);
    }
    case JSON_F_INT: {
        const struct opt_int *v = p;
        return presence_of(v->has, v->has && v->v != 0);
    }
    case JSON_F_TIME:
        return ((const struct opt_int *)p)->has ? PRESENT : ABSENT;
    case JSON_F_NUM: {
        const struct opt_num *v = p;
        return presence_of(v->has, v->has && v->v != 0);
    }
    case JSON_F_BOOL:
        return ((const struct opt_bool *)p)->has ? PRESENT : ABSENT;
    case JSON_F_STR_LIST: {
        const struct str_list *l = p;
        return presence_of(l->v != NULL, l->n > 0);
    }
    case JSON_F_STR_MAP: {
        const struct str_map *m = p;
        return presence_of(m->has, m->n > 0);
    }
    case JSON_F_OBJ_LIST: {
        const struct obj_list *l = p;
        return presence_of(l->has, l->n > 0);
    }
    case JSON_F_OBJ:
    case JSON_F_ANY:
        return *(const void *const *)p ? PRESENT : ABSENT;
    case JSON_F_END:
        break;
    }
    return ABSENT;
}

static void put_value(struct json_out *o, const struct json_field *f, const void *p)
{
    switch (f->kind) {
    case JSON_F_STR:
        json_put_cstr(o, *(const char *const *)p);
        break;
    case JSON_F_INT:
        json_put_int(o, ((const struct opt_int *)p)->v);
        break;
    case JSON_F_TIME:
        put_time(o, ((const struct opt_int *)p)->v);
        break;
    case JSON_F_NUM:
        json_put_num(o, ((const struct opt_num *)p)->v);
        break;
    case JSON_F_BOOL:
        json_put_bool(o, ((const struct opt_bool *)p)->v);
        break;
    case JSON_F_STR_LIST:
        put_str_list(o, p);
        break;
    case JSON_F_STR_MAP:
        put_str_map(o, p);
        break;
    case JSON_F_OBJ_LIST:
        put_obj_list(o, f->sub, p);
        break;
    case JSON_F_OBJ:
        json_encode(o, f->sub, *(const void *const *)p);
        break;
    case JSON_F_ANY:
        json_put_tree(o, *(const struct json *const *)p);
        break;
    case JSON_F_END:
        break;
    }
}

void json_encode(struct json_out *o, const struct json_table *t, const void *in)
{
    json_obj_begin(o);
    for (const struct json_field *f = t->fields; f->kind != JSON_F_END; f++) {
        const void *p = (const char *)in + f->offset;
        enum presence is = field_presence(f, p);
        if (is == PRESENT || (is == EMPTY && !f->omit_empty)) {
            json_key(o, f->name);
            put_value(o, f, p);
        } else if (is == ABSENT && f->encode_null) {
            json_key(o, f->name);
            json_put_null(o);
        }
    }
    json_obj_end(o);
}
