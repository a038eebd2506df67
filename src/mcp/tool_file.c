/* Tools about files of a sandbox. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/codec.h"
#include "base/must.h"
#include "base/utf8.h"
#include "mcp/tool.h"

/* ---- text and bytes ---- */

enum encoding { ENC_UTF8, ENC_ASCII, ENC_LATIN1, ENC_BASE64, ENC_UNKNOWN };

static enum encoding encoding_find(const char *name)
{
    static const struct {
        const char *name;
        enum encoding e;
    } names[] = {{"utf-8", ENC_UTF8},        {"utf8", ENC_UTF8},      {"ascii", ENC_ASCII},
                 {"us-ascii", ENC_ASCII},    {"latin-1", ENC_LATIN1}, {"latin1", ENC_LATIN1},
                 {"iso-8859-1", ENC_LATIN1}, {"base64", ENC_BASE64}};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (str_eq_nocase(str_from(name), str_from(names[i].name))) {
            return names[i].e;
        }
    }
    return ENC_UNKNOWN;
}

static bool is_ascii(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        if ((unsigned char)s.p[i] > 127) {
            return false;
        }
    }
    return true;
}

/* Bytes of a file as text. */
static int text_from_bytes(struct str s, enum encoding enc, struct buf *out, struct osb_error *e)
{
    if (enc == ENC_BASE64) {
        return base64_encode(out, s.p, s.n);
    }
    if (enc == ENC_LATIN1) {
        for (size_t i = 0; i < s.n; i++) {
            unsigned char c = (unsigned char)s.p[i];
            if (c < 128) {
                (void)buf_add_char(out, (char)c);
            } else {
                (void)buf_add_char(out, (char)(0xC0 | (c >> 6)));
                (void)buf_add_char(out, (char)(0x80 | (c & 0x3F)));
            }
        }
    } else {
        bool ok = enc == ENC_ASCII ? is_ascii(s) : utf8_valid(s);
        if (!ok) {
            return tool_fail(e, OSB_EINVALID,
                             "the file is not %s text: read it with encoding base64",
                             enc == ENC_ASCII ? "ASCII" : "UTF-8");
        }
        (void)buf_add_str(out, s);
    }
    return memchr(s.p ? s.p : "", 0, s.n)
               ? tool_fail(
                     e, OSB_EINVALID,
                     "the file has NUL bytes, so it is not text: read it with encoding base64")
               : 0;
}

static int bytes_from_text(struct str s, enum encoding enc, struct buf *out, struct osb_error *e)
{
    if (enc == ENC_BASE64) {
        if (buf_reserve(out, s.n + 4) < 0) {
            return tool_fail(e, OSB_ELIMIT, "the content is too large");
        }
        ssize_t n = base64_decode(s, out->p, s.n + 4);
        out->len = n < 0 ? 0 : (size_t)n;
        return n < 0 ? tool_fail(e, OSB_EINVALID, "content: not base64") : 0;
    }
    if (enc == ENC_ASCII && !is_ascii(s)) {
        return tool_fail(e, OSB_EINVALID, "content: not ASCII text");
    }
    if (enc != ENC_LATIN1) {
        return buf_add_str(out, s);
    }
    while (s.n > 0) {
        uint32_t cp = 0;
        int n = utf8_next(s, &cp);
        if (n <= 0 || cp > 255) {
            return tool_fail(e, OSB_EINVALID, "content: has characters that latin-1 has not");
        }
        (void)buf_add_char(out, (char)cp);
        s = str_sub(s, (size_t)n, s.n);
    }
    return 0;
}

static enum encoding arg_encoding(const struct call *c, struct osb_error *e)
{
    enum encoding enc = encoding_find(arg_text(c, "encoding"));
    if (enc == ENC_UNKNOWN) {
        (void)tool_fail(e, OSB_EINVALID, "encoding '%.40s': use utf-8, ascii, latin-1 or base64",
                        arg_text(c, "encoding"));
    }
    return enc;
}

/* ---- read and write ---- */

static int keep(const void *p, size_t n, void *arg)
{
    return buf_add(arg, p, n) < 0 ? -EFBIG : 0;
}

struct json *tool_file_read(struct call *c, struct osb_error *e)
{
    enum encoding enc = arg_encoding(c, e);
    struct osb_sandbox *s = enc == ENC_UNKNOWN ? NULL : call_sandbox(c, e);
    if (!s) {
        return NULL;
    }
    cleanup_(buf_done) struct buf bytes = BUF_INIT(MCP_MAX_FILE);
    cleanup_(buf_done) struct buf text = BUF_INIT(2 * MCP_MAX_FILE);
    struct osb_read_opts o = {.range = arg_text(c, "range_header"), .call = call_bounds(c)};
    int r = osb_download(s, arg_text(c, "path"), keep, &bytes, &o, e);
    call_give(c, s);
    if (buf_failed(&bytes)) {
        (void)tool_fail(e, OSB_ELIMIT,
                        "more than %u MiB: read it in parts with range_header, such as "
                        "bytes=0-1048575",
                        MCP_MAX_FILE >> 20);
        return NULL;
    }
    if (r < 0 || text_from_bytes(buf_str(&bytes), enc, &text, e) < 0) {
        return NULL;
    }
    struct json *j = json_object_new();
    json_set(j, "path", json_string_new(str_from(arg_text(c, "path"))));
    json_set(j, "content", json_string_new(buf_str(&text)));
    return j;
}

struct json *tool_file_write(struct call *c, struct osb_error *e)
{
    cleanup_(buf_done) struct buf bytes = BUF_INIT(MCP_MAX_MESSAGE);
    enum encoding enc = arg_encoding(c, e);
    if (enc == ENC_UNKNOWN ||
        bytes_from_text(json_str(json_get(c->args, "content")), enc, &bytes, e) < 0) {
        return NULL;
    }
    struct osb_sandbox *s = call_sandbox(c, e);
    if (!s) {
        return NULL;
    }
    struct osb_write_opts o = {.mode = (int)arg_int(c, "mode"),
                               .owner = arg_text(c, "owner"),
                               .group = arg_text(c, "group"),
                               .call = call_bounds(c)};
    int r = osb_write_file(s, arg_text(c, "path"), bytes.p ? bytes.p : "", bytes.len, &o, e);
    call_give(c, s);
    return r < 0 ? NULL : status_result("written");
}

/* ---- the others ---- */

static struct json *delete_paths(struct call *c,
                                 int (*fn)(struct osb_sandbox *, const char *const *,
                                           struct osb_error *),
                                 struct osb_error *e)
{
    struct osb_sandbox *s = call_sandbox(c, e);
    if (!s) {
        return NULL;
    }
    cleanup_free const char **paths = arg_strings(json_get(c->args, "paths"));
    int r = fn(s, paths, e);
    call_give(c, s);
    return r < 0 ? NULL : status_result("deleted");
}

struct json *tool_file_delete(struct call *c, struct osb_error *e)
{
    return delete_paths(c, osb_delete_files, e);
}

struct json *tool_file_delete_directories(struct call *c, struct osb_error *e)
{
    return delete_paths(c, osb_delete_dirs, e);
}

static struct json *entry_result(const struct osb_file_info *f)
{
    struct json *j = json_object_new();
    json_set(j, "path", json_string_new(str_from(f->path)));
    json_set(j, "type", text_or_null(f->type));
    json_set(j, "mode", json_int_new(f->mode));
    json_set(j, "owner", json_string_new(str_from(f->owner)));
    json_set(j, "group", json_string_new(str_from(f->group)));
    json_set(j, "size", json_int_new(f->size));
    json_set(j, "modified_at", json_string_new(str_from(f->modified_at)));
    json_set(j, "created_at", json_string_new(str_from(f->created_at)));
    return j;
}

struct json *tool_file_search(struct call *c, struct osb_error *e)
{
    struct osb_file_list l = {0};
    struct osb_sandbox *s = call_sandbox(c, e);
    if (!s) {
        return NULL;
    }
    int r = osb_search(s, arg_text(c, "path"), arg_text(c, "pattern"), &l, e);
    call_give(c, s);
    if (r < 0) {
        return NULL;
    }
    struct json *j = json_object_new(), *list = json_array_new();
    for (size_t i = 0; i < l.n; i++) {
        json_push(list, entry_result(&l.v[i]));
    }
    json_set(j, "result", list);
    osb_file_list_done(&l);
    return j;
}

struct json *tool_file_create_directories(struct call *c, struct osb_error *e)
{
    const struct json *entries = json_get(c->args, "entries");
    struct osb_sandbox *s = call_sandbox(c, e);
    int r = 0;
    if (!s) {
        return NULL;
    }
    /* One request for each: they may differ in mode and owner. */
    for (size_t i = 0; r == 0 && i < json_len(entries); i++) {
        const struct json *d = json_item(entries, i);
        const char *paths[] = {json_cstr(json_get(d, "path")), NULL};
        struct osb_write_opts o = {.mode = (int)json_int(json_get(d, "mode"), 755),
                                   .owner = json_cstr(json_get(d, "owner")),
                                   .group = json_cstr(json_get(d, "group"))};
        r = atomic_load(&c->canceled) ? tool_fail(e, OSB_ECANCELED, "canceled")
                                      : osb_make_dirs(s, paths, &o, e);
    }
    call_give(c, s);
    return r < 0 ? NULL : status_result("created");
}

struct json *tool_file_move(struct call *c, struct osb_error *e)
{
    const struct json *entries = json_get(c->args, "entries");
    size_t n = json_len(entries);
    struct osb_sandbox *s = call_sandbox(c, e);
    if (!s) {
        return NULL;
    }
    cleanup_free struct osb_pair *moves = xcalloc(n + 1, sizeof(*moves));
    for (size_t i = 0; i < n; i++) {
        const struct json *m = json_item(entries, i);
        moves[i] = (struct osb_pair){json_cstr(json_get(m, "source")),
                                     json_cstr(json_get(m, "destination"))};
    }
    int r = osb_move(s, moves, e);
    call_give(c, s);
    return r < 0 ? NULL : status_result("moved");
}

struct json *tool_file_replace_contents(struct call *c, struct osb_error *e)
{
    const struct json *entries = json_get(c->args, "entries");
    struct osb_sandbox *s = call_sandbox(c, e);
    int r = 0;
    if (!s) {
        return NULL;
    }
    struct json *j = json_object_new(), *list = json_array_new();
    json_set(j, "result", list);
    for (size_t i = 0; r == 0 && i < json_len(entries); i++) {
        const struct json *x = json_item(entries, i);
        const char *path = json_cstr(json_get(x, "path"));
        int64_t count = 0;
        r = osb_replace(s, path, json_cstr(json_get(x, "old_content")),
                        json_cstr(json_get(x, "new_content")), &count, e);
        if (r == 0) {
            struct json *one = json_object_new();
            json_set(one, "path", json_string_new(str_from(path)));
            json_set(one, "replaced_count", json_int_new(count));
            json_push(list, one);
        }
    }
    call_give(c, s);
    if (r < 0) {
        json_free(j);
        return NULL;
    }
    return j;
}
