/* The shape of errors. Every one has "code" and "message"; requests that do not fit their schema
 * also have the "detail" list, and routes that do not exist a "detail" text, as clients know them.
 */

#include "base/must.h"
#include "server/api/api.h"

void problem_write(struct buf *out, const struct problem *p)
{
    struct json_out o;
    json_out_init(&o, out);
    json_obj_begin(&o);
    if (p->detail) {
        json_key(&o, "detail");
        json_put_raw(&o, str_from(p->detail));
    }
    json_key(&o, "code");
    json_put_cstr(&o, p->code && *p->code ? p->code : CODE_GENERAL);
    json_key(&o, "message");
    json_put_cstr(&o, *p->message ? p->message : "the request failed");
    json_obj_end(&o);
}

void api_error_body(int status, const char *reason, struct buf *out, const char **ret_ctype)
{
    struct problem p = {0};
    (void)problem_set(&p, status, CODE_GENERAL, "%s", reason);
    problem_write(out, &p);
    *ret_ctype = "application/json";
}

static const char *retry_text(const struct problem *p, char out[16])
{
    (void)snprintf(out, 16, "%d", p->retry_after_s);
    return out;
}

void reply_problem(struct http_reply *r, const struct problem *p)
{
    char retry[16];
    r->status = p->status;
    if (p->retry_after_s) {
        http_reply_header(r, STR("Retry-After"), str_from(retry_text(p, retry)));
    }
    problem_write(&r->body, p);
}

void resp_problem(struct http_req *req, const struct problem *p)
{
    char retry[16];
    struct buf b = BUF_INIT(1u << 20);
    if (p->retry_after_s) {
        http_resp_header(req, STR("Retry-After"), str_from(retry_text(p, retry)));
    }
    problem_write(&b, p);
    http_resp_send(req, p->status, "application/json", buf_str(&b));
    buf_done(&b);
}

void reply_view(struct http_reply *r, int status, const struct json_table *t, const void *view)
{
    struct json_out o;
    r->status = status;
    json_out_init(&o, &r->body);
    json_encode(&o, t, view);
}

void resp_view(struct http_req *req, int status, const struct json_table *t, const void *view)
{
    struct buf b = BUF_INIT(16u << 20);
    struct json_out o;
    json_out_init(&o, &b);
    json_encode(&o, t, view);
    http_resp_send(req, status, "application/json", buf_str(&b));
    buf_done(&b);
}
