/* Answers in execd's shapes, and the lenient decoding of requests. */

#include "execd/reply.h"

#include <stdarg.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "json/json.h"

#define MESSAGE_MAX (16u << 10)

void reply_empty(struct http_req *req)
{
    http_resp_send(req, 200, NULL, STR(""));
}

void reply_json(struct http_req *req, int status, struct str body)
{
    http_resp_send(req, status, JSON_CTYPE, body);
}

void reply_error_body(struct buf *out, const char *code, struct str message)
{
    struct json_out o;
    json_out_init(&o, out);
    json_obj_begin(&o);
    if (code && *code) {
        json_key(&o, "code");
        json_put_cstr(&o, code);
    }
    if (message.n) {
        json_key(&o, "message");
        json_put_str(&o, message);
    }
    json_obj_end(&o);
}

/* An over-long message is cut, never dropped. */
static void format_error(struct buf *out, const char *code, const char *fmt, va_list ap)
    __attribute__((format(printf, 3, 0)));
static void format_error(struct buf *out, const char *code, const char *fmt, va_list ap)
{
    cleanup_free char *text = NULL;
    int n = vasprintf(&text, fmt, ap);
    struct str message = n < 0 ? STR("out of memory") : str_n(text, MIN((size_t)n, MESSAGE_MAX));
    reply_error_body(out, code, message);
}

void reply_error(struct http_req *req, int status, const char *code, const char *fmt, ...)
{
    cleanup_(buf_done) struct buf body = BUF_INIT(8 * MESSAGE_MAX);
    va_list ap;
    va_start(ap, fmt);
    format_error(&body, code, fmt, ap);
    va_end(ap);
    http_resp_send(req, status, JSON_CTYPE, buf_str(&body));
}

void reply_missing_query(struct http_req *req, const char *name)
{
    reply_error(req, 400, CODE_MISSING_QUERY, "missing query parameter '%s'", name);
}

void reply_work_empty(struct http_reply *r)
{
    r->status = 200;
    buf_clear(&r->body);
}

void reply_work_error(struct http_reply *r, int status, const char *code, const char *fmt, ...)
{
    r->status = status;
    r->ctype = JSON_CTYPE;
    buf_clear(&r->body);
    va_list ap;
    va_start(ap, fmt);
    format_error(&r->body, code, fmt, ap);
    va_end(ap);
}

int request_decode(struct arena *a, struct str body, bool empty_ok, const struct json_table *t,
                   void *out, bool *ret_parse_failed, struct err *e)
{
    *ret_parse_failed = true;
    bool blank = true;
    for (size_t i = 0; i < body.n && blank; i++) {
        blank = strchr(" \t\r\n", body.p[i]) && body.p[i];
    }
    if (blank && !empty_ok) {
        return err_set(e, ERR_INVALID, "EOF");
    }
    cleanup_(json_free) struct json *tree = json_parse_first(blank ? STR("{}") : body, e);
    if (!tree) {
        return -1;
    }
    if (json_is_null(tree)) {
        json_free(tree);
        tree = json_object_new();
    }
    struct json_issues issues;
    if (json_decode(a, t, tree, out, &issues, e) < 0) {
        *ret_parse_failed = issues.n && issues.v[0].kind == JSON_BAD_TYPE;
        return -1;
    }
    return 0;
}
