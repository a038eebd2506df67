/* YAML into the tree, from libyaml's events. The stack of open lists and maps is an array of
 * JSON_MAX_DEPTH, so hostile nesting costs nothing. An alias is a copy of what its anchor named;
 * all nodes are counted, copies too, which is what stops "billion laughs". */

#include "json/yaml.h"

#include <string.h>
#include <yaml.h>

#include "base/map.h"
#include "base/must.h"
#include "json/yaml_scalar.h"

#define TAG_PREFIX "tag:yaml.org,2002:"

struct anchor {
    const struct json *node;
    size_t n_nodes;
    unsigned depth; /* levels inside it */
};

/* A list or map that is still open. */
struct frame {
    struct json *node;
    char *key;    /* of the value to come; NULL in lists, or before a key */
    char *anchor; /* name that the node gets when it is complete, or NULL */
    size_t first_node;
    unsigned deepest; /* levels inside it so far */
};

struct reader {
    yaml_parser_t parser;
    struct err *e;
    struct json *docs; /* array */
    struct map anchors;
    struct frame stack[JSON_MAX_DEPTH];
    unsigned depth;
    size_t n_nodes;
};

static int fail(struct reader *r, const yaml_mark_t *at, const char *msg)
{
    return err_set(r->e, ERR_INVALID, "line %zu column %zu: %s", at->line + 1, at->column + 1, msg);
}

static int count_nodes(struct reader *r, const yaml_mark_t *at, size_t n)
{
    if (n > YAML_MAX_NODES - r->n_nodes) {
        (void)fail(r, at, "too many nodes");
        if (r->e) {
            r->e->code = ERR_LIMIT;
        }
        return -1;
    }
    r->n_nodes += n;
    return 0;
}

static void anchors_clear(struct reader *r)
{
    size_t it = 0;
    void *v;
    while (map_next(&r->anchors, &it, NULL, &v)) {
        free(v);
    }
    map_done(&r->anchors);
}

static void anchor_set(struct reader *r, const char *name, struct anchor a)
{
    struct anchor *copy = NEW(struct anchor);
    *copy = a;
    free(map_put(&r->anchors, str_from(name), copy)); /* a later anchor takes the name over */
}

/* Puts a complete value into what is open around it. */
static int place(struct reader *r, const yaml_mark_t *at, struct json *take_value)
{
    if (r->depth == 0) {
        json_push(r->docs, take_value);
        return 0;
    }
    struct frame *f = &r->stack[r->depth - 1];
    if (json_is_array(f->node)) {
        json_push(f->node, take_value);
        return 0;
    }
    if (f->key) {
        json_set(f->node, f->key, take_value);
        free(f->key);
        f->key = NULL;
        return 0;
    }
    json_free(take_value);
    return fail(r, at, "a list or map cannot be a key");
}

static bool key_expected(const struct reader *r)
{
    const struct frame *f = r->depth ? &r->stack[r->depth - 1] : NULL;
    return f && json_is_object(f->node) && !f->key;
}

static int set_key(struct reader *r, const yaml_event_t *ev)
{
    struct frame *f = &r->stack[r->depth - 1];
    struct str text = str_n((const char *)ev->data.scalar.value, ev->data.scalar.length);
    if (str_find(text, 0) >= 0) {
        return fail(r, &ev->start_mark, "NUL characters are not supported");
    }
    if (ev->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && str_eq(text, STR("<<"))) {
        return fail(r, &ev->start_mark, "merge keys are not supported");
    }
    char *key = str_dup(text);
    if (json_get(f->node, key)) {
        free(key);
        return fail(r, &ev->start_mark, "the key is there twice");
    }
    f->key = key;
    return 0;
}

/* Scalars: NULL with the reason when the tag is not ours or the value does not fit it. */
static struct json *scalar_value(const yaml_event_t *ev, const char **why)
{
    struct str text = str_n((const char *)ev->data.scalar.value, ev->data.scalar.length);
    struct str tag = str_from((const char *)ev->data.scalar.tag);
    bool plain = ev->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (str_find(text, 0) >= 0) {
        *why = "NUL characters are not supported";
        return NULL;
    }
    if (!tag.n) {
        *why = "integer out of range";
        return plain ? yaml_plain(text) : json_string_new(text);
    }
    if (str_eq(tag, STR("!")) || str_eq(tag, STR(TAG_PREFIX "str"))) {
        return json_string_new(text);
    }
    struct json *j = yaml_plain(text);
    *why = "the value does not fit its tag";
    if ((str_eq(tag, STR(TAG_PREFIX "int")) && json_is_int(j)) ||
        (str_eq(tag, STR(TAG_PREFIX "bool")) && json_is_bool(j)) ||
        (str_eq(tag, STR(TAG_PREFIX "null")) && json_is_null(j))) {
        return j;
    }
    if (str_eq(tag, STR(TAG_PREFIX "float")) && json_is_number(j)) {
        struct json *real = json_num_new(json_num(j, 0));
        json_free(j);
        return real;
    }
    static const char *const known[] = {TAG_PREFIX "int", TAG_PREFIX "bool", TAG_PREFIX "null",
                                        TAG_PREFIX "float"};
    bool is_known = false;
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        is_known = is_known || str_eq(tag, str_from(known[i]));
    }
    if (!is_known) {
        *why = "custom tags are not supported";
    }
    json_free(j);
    return NULL;
}

static int on_scalar(struct reader *r, const yaml_event_t *ev)
{
    if (count_nodes(r, &ev->start_mark, 1) < 0) {
        return -1;
    }
    if (key_expected(r)) {
        return ev->data.scalar.anchor ? fail(r, &ev->start_mark, "a key cannot have an anchor")
                                      : set_key(r, ev);
    }
    const char *why = NULL;
    struct json *j = scalar_value(ev, &why);
    if (!j) {
        return fail(r, &ev->start_mark, why);
    }
    if (ev->data.scalar.anchor) {
        anchor_set(r, (const char *)ev->data.scalar.anchor, (struct anchor){j, 1, 0});
    }
    return place(r, &ev->start_mark, j);
}

static int on_alias(struct reader *r, const yaml_event_t *ev)
{
    if (key_expected(r)) {
        return fail(r, &ev->start_mark, "an alias cannot be a key");
    }
    const struct anchor *a = map_get(&r->anchors, str_from((const char *)ev->data.alias.anchor));
    if (!a) {
        return fail(r, &ev->start_mark, "unknown alias");
    }
    if (r->depth + a->depth > JSON_MAX_DEPTH) {
        return fail(r, &ev->start_mark, "nested too deeply");
    }
    if (count_nodes(r, &ev->start_mark, a->n_nodes) < 0) {
        return -1;
    }
    if (r->depth) {
        struct frame *f = &r->stack[r->depth - 1];
        f->deepest = MAX(f->deepest, a->depth);
    }
    return place(r, &ev->start_mark, json_clone(a->node));
}

static int open_frame(struct reader *r, const yaml_event_t *ev, struct json *take_node,
                      const yaml_char_t *anchor, const yaml_char_t *tag, const char *own_tag)
{
    const char *why = NULL;
    if (r->depth == JSON_MAX_DEPTH) {
        why = "nested too deeply";
    } else if (key_expected(r)) {
        why = "a list or map cannot be a key";
    } else if (tag && strcmp((const char *)tag, own_tag) != 0 &&
               strcmp((const char *)tag, "!") != 0) {
        why = "custom tags are not supported";
    }
    if (why) {
        json_free(take_node);
        return fail(r, &ev->start_mark, why);
    }
    r->stack[r->depth++] = (struct frame){
        .node = take_node,
        .anchor = anchor ? xstrdup((const char *)anchor) : NULL,
        .first_node = r->n_nodes,
    };
    return count_nodes(r, &ev->start_mark, 1);
}

static int close_frame(struct reader *r, const yaml_event_t *ev)
{
    struct frame f = r->stack[--r->depth];
    unsigned levels = f.deepest + 1;
    if (r->depth) {
        struct frame *up = &r->stack[r->depth - 1];
        up->deepest = MAX(up->deepest, levels);
    }
    if (f.anchor) {
        anchor_set(r, f.anchor, (struct anchor){f.node, r->n_nodes - f.first_node, levels});
        free(f.anchor);
    }
    return place(r, &ev->start_mark, f.node);
}

/* 1: more to come, 0: end of the stream, -1: failed. */
static int on_event(struct reader *r, const yaml_event_t *ev)
{
    switch (ev->type) {
    case YAML_STREAM_END_EVENT:
        return 0;
    case YAML_DOCUMENT_START_EVENT:
        anchors_clear(r);
        return 1;
    case YAML_SCALAR_EVENT:
        return on_scalar(r, ev) < 0 ? -1 : 1;
    case YAML_ALIAS_EVENT:
        return on_alias(r, ev) < 0 ? -1 : 1;
    case YAML_SEQUENCE_START_EVENT:
        return open_frame(r, ev, json_array_new(), ev->data.sequence_start.anchor,
                          ev->data.sequence_start.tag, TAG_PREFIX "seq") < 0
                   ? -1
                   : 1;
    case YAML_MAPPING_START_EVENT:
        return open_frame(r, ev, json_object_new(), ev->data.mapping_start.anchor,
                          ev->data.mapping_start.tag, TAG_PREFIX "map") < 0
                   ? -1
                   : 1;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        return close_frame(r, ev) < 0 ? -1 : 1;
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_DOCUMENT_END_EVENT:
        break;
    }
    return 1;
}

static int read_all(struct reader *r)
{
    for (;;) {
        yaml_event_t ev;
        if (!yaml_parser_parse(&r->parser, &ev)) {
            yaml_mark_t at = r->parser.problem_mark;
            return fail(r, &at, r->parser.problem ? r->parser.problem : "malformed");
        }
        int more = on_event(r, &ev);
        yaml_event_delete(&ev);
        if (more <= 0) {
            return more;
        }
    }
}

static void reader_done(struct reader *r)
{
    while (r->depth) {
        struct frame *f = &r->stack[--r->depth];
        json_free(f->node);
        free(f->key);
        free(f->anchor);
    }
    anchors_clear(r);
    yaml_parser_delete(&r->parser);
}

struct json *yaml_parse_all(struct str text, struct err *e)
{
    if (text.n > YAML_MAX_TEXT) {
        err_set(e, ERR_LIMIT, "more than %u bytes", YAML_MAX_TEXT);
        return NULL;
    }
    struct reader r = {.e = e};
    must(yaml_parser_initialize(&r.parser));
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)(text.n ? text.p : ""), text.n);
    r.docs = json_array_new();
    if (read_all(&r) < 0) {
        json_free(r.docs);
        r.docs = NULL;
    }
    reader_done(&r);
    return r.docs;
}

struct json *yaml_parse(struct str text, struct err *e)
{
    struct json *docs = yaml_parse_all(text, e);
    if (!docs) {
        return NULL;
    }
    struct json *only = NULL;
    if (json_len(docs) > 1) {
        err_set(e, ERR_INVALID, "more than one document");
    } else {
        only = json_len(docs) ? json_ref(json_item(docs, 0)) : json_null_new();
    }
    json_free(docs);
    return only;
}
