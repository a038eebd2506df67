/* Server-sent events, sending. */

#include "http/sse.h"

#include "base/buf.h"
#include "base/must.h"

void sse_start(struct http_req *req, int status)
{
    http_resp_header(req, STR("Cache-Control"), STR("no-cache"));
    http_resp_header(req, STR("X-Accel-Buffering"), STR("no"));
    http_resp_start(req, status, "text/event-stream", -1);
}

bool sse_send_bare(struct http_req *req, struct str json)
{
    char small[2048];
    if (json.n + 2 <= sizeof(small)) { /* one chunk, not two */
        memcpy(small, json.p, json.n);
        small[json.n] = small[json.n + 1] = '\n';
        return http_resp_write(req, str_n(small, json.n + 2));
    }
    (void)http_resp_write(req, json); /* the answer that counts is the last one */
    return http_resp_write(req, STR("\n\n"));
}

/* A line break inside event or id would begin another field: such a field is left out. */
static void add_field(struct buf *b, struct str name, struct str value)
{
    if (value.p && !bug_if(str_find(value, '\n') >= 0 || str_find(value, '\r') >= 0)) {
        (void)buf_add_str(b, name);
        (void)buf_add_str(b, value);
        (void)buf_add_char(b, '\n');
    }
}

/* Each of LF, CR and CR LF ends a line for the receiver. */
static void add_data(struct buf *b, struct str data)
{
    do {
        size_t n = 0;
        while (n < data.n && data.p[n] != '\n' && data.p[n] != '\r') {
            n++;
        }
        (void)buf_add(b, "data: ", 6);
        (void)buf_add(b, data.p, n);
        (void)buf_add_char(b, '\n');
        bool crlf = n + 1 < data.n && data.p[n] == '\r' && data.p[n + 1] == '\n';
        bool at_end = n >= data.n;
        data = str_sub(data, n + (crlf ? 2 : 1), data.n);
        if (at_end) {
            break;
        }
    } while (true);
}

bool sse_send(struct http_req *req, struct str event, struct str id, struct str data)
{
    struct buf b = BUF_INIT(HTTP_MAX_SSE_FRAME);
    add_field(&b, STR("event: "), event);
    add_field(&b, STR("id: "), id);
    add_data(&b, data);
    (void)buf_add_char(&b, '\n');
    bool ok = !bug_if(buf_failed(&b)) && http_resp_write(req, buf_str(&b));
    buf_done(&b);
    return ok;
}
