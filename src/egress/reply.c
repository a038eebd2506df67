/* Answers of the API. */

#include "egress/reply.h"

#include "base/cleanup.h"

void reply_json(struct http_req *req, int status, struct str json)
{
    cleanup_(buf_done) struct buf body = BUF_INIT(json.n + 1);
    (void)buf_add_str(&body, json);
    (void)buf_add_char(&body, '\n');
    http_resp_send(req, status, "application/json", buf_str(&body));
}

void reply_text(struct http_req *req, int status, const char *text)
{
    cleanup_(buf_done) struct buf body = BUF_INIT(ERR_MSG_MAX + 256);
    (void)buf_printf(&body, "%s\n", text);
    http_resp_header(req, STR("X-Content-Type-Options"), STR("nosniff"));
    http_resp_send(req, status, "text/plain; charset=utf-8", buf_str(&body));
}

static int status_of(enum err_code code)
{
    switch (code) {
    case ERR_INVALID:
        return 400;
    case ERR_UNAUTHORIZED:
        return 401;
    case ERR_DENIED:
        return 403;
    case ERR_NOT_FOUND:
        return 404;
    case ERR_CONFLICT:
        return 409;
    case ERR_LIMIT:
        return 413;
    case ERR_UNSUPPORTED:
        return 501;
    case ERR_UNAVAILABLE:
        return 503;
    case ERR_TIMEOUT:
        return 504;
    case ERR_NONE:
    case ERR_IO:
    case ERR_INTERNAL:
    case ERR__COUNT:
        break;
    }
    return 500;
}

void reply_err(struct http_req *req, const struct err *e)
{
    reply_text(req, status_of(e->code), e->msg);
}
