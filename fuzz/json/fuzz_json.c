/* JSON text: parse, write, parse again; and decode by a table with every kind of field, whose
 * encoding must decode to the same. The arena is small, so that its limit is met too. */

#include <stddef.h>
#include <stdint.h>

#include "base/must.h"
#include "json/field.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const modes[] = {"ro", "rw", NULL};

struct node {
    const char *name, *mode;
    struct opt_int n, at;
    struct opt_num x;
    struct opt_bool b;
    struct str_list l;
    struct str_map m;
    struct node *sub;
    struct obj_list list;
    struct json *any;
};
extern const struct json_table node_table;
static const struct json_field node_fields[] = {
    JSON_FIELD(struct node, name, "name", JSON_F_STR, .required = true, .max_len = 8,
               .pattern = "^[a-z]([-a-z0-9]*[a-z0-9])?$"),
    JSON_FIELD(struct node, mode, "mode", JSON_F_STR, .choices = modes, .alias = "m_ode"),
    JSON_FIELD(struct node, n, "n", JSON_F_INT, .min = -5, .max = 5),
    JSON_FIELD(struct node, at, "at", JSON_F_TIME, .lenient = true),
    JSON_FIELD(struct node, x, "x", JSON_F_NUM, .ignore_case = true),
    JSON_FIELD(struct node, b, "b", JSON_F_BOOL, .not_null = true, .lenient = true),
    JSON_FIELD(struct node, l, "l", JSON_F_STR_LIST),
    JSON_FIELD(struct node, m, "m", JSON_F_STR_MAP, .max_len = 4),
    JSON_FIELD(struct node, sub, "sub", JSON_F_OBJ, .sub = &node_table),
    JSON_FIELD(struct node, list, "list", JSON_F_OBJ_LIST, .sub = &node_table),
    JSON_FIELD(struct node, any, "any", JSON_F_ANY),
    {0},
};
const struct json_table node_table = {"Node", sizeof(struct node), node_fields, JSON_UNKNOWN_ERROR};

static void encode(struct buf *b, const struct node *n)
{
    struct json_out o;
    json_out_init(&o, b);
    json_encode(&o, &node_table, n);
    must(!buf_failed(b));
}

static void decode(const struct json *j)
{
    struct arena a = {.max = 8192};
    struct node n;
    struct json_issues issues;
    struct err e = {0};
    if (json_decode(&a, &node_table, j, &n, &issues, &e) < 0) {
        must(issues.n > 0 && e.msg[0] && (e.code == ERR_INVALID || e.code == ERR_LIMIT));
    } else {
        struct buf first = BUF_INIT(1u << 20), second = BUF_INIT(1u << 20);
        struct arena again = {0};
        struct node m;
        encode(&first, &n);
        struct json *back = json_parse(buf_str(&first), &e);
        must(back);
        must(json_decode(&again, &node_table, back, &m, NULL, NULL) == 0);
        encode(&second, &m);
        must(str_eq(buf_str(&first), buf_str(&second)));
        json_free(back);
        arena_done(&again);
        buf_done(&first);
        buf_done(&second);
    }
    arena_done(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = str_n((const char *)data, size);
    struct err e = {0};
    json_free(json_parse_first(text, NULL));
    struct json *j = json_parse(text, &e);
    if (!j) {
        must(e.code == ERR_INVALID && e.msg[0]);
        return 0;
    }
    for (int indent = 0; indent <= 2; indent += 2) {
        struct buf b = BUF_INIT(64u << 20);
        must(json_dump(j, &b, indent) == 0);
        struct json *back = json_parse(buf_str(&b), &e);
        must(back && json_eq(j, back));
        json_free(back);
        buf_done(&b);
    }
    decode(j);
    json_free(j);
    return 0;
}
