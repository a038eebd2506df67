/* Responses: the head, the three ways to send a body (whole, streamed, from a file), errors. */

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/must.h"
#include "http/internal.h"

#define DIRECT_MIN (8u << 10) /* smaller pieces are put together until the end of the turn */

/* ---- status ---- */

static const struct {
    int status;
    const char *reason;
} reasons[] = {
    {100, "Continue"},
    {101, "Switching Protocols"},
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {206, "Partial Content"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {303, "See Other"},
    {304, "Not Modified"},
    {307, "Temporary Redirect"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {411, "Length Required"},
    {412, "Precondition Failed"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {416, "Range Not Satisfiable"},
    {417, "Expectation Failed"},
    {422, "Unprocessable Content"},
    {424, "Failed Dependency"},
    {426, "Upgrade Required"},
    {428, "Precondition Required"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
    {507, "Insufficient Storage"},
};

const char *http_status_reason(int status)
{
    for (size_t i = 0; i < ARRAY_LEN(reasons); i++) {
        if (reasons[i].status == status) {
            return reasons[i].reason;
        }
    }
    return "Unknown";
}

/* ---- head ---- */

void http_resp_header(struct http_req *req, struct str name, struct str value)
{
    if (req->started) {
        return;
    }
    if (bug_if(!h1_is_token(name) || !h1_is_field_value(value))) {
        return;
    }
    /* Framing and the connection are the server's; http_resp_close_after() closes. */
    if (bug_if(str_eq_nocase(name, STR("Content-Length")) ||
               str_eq_nocase(name, STR("Transfer-Encoding")) ||
               str_eq_nocase(name, STR("Connection")))) {
        return;
    }
    req->has_date |= str_eq_nocase(name, STR("Date"));
    req->has_server |= str_eq_nocase(name, STR("Server"));
    (void)buf_add_str(&req->headers, name); /* a full buffer is noticed when the head is built */
    (void)buf_add(&req->headers, ": ", 2);
    (void)buf_add_str(&req->headers, value);
    (void)buf_add(&req->headers, "\r\n", 2);
}

static void add_date(struct http_server *s, struct buf *b)
{
    uint64_t now = io_now_ms(s->loop);
    if (now >= s->date_until_ms) {
        char text[HTTP_DATE_LEN + 1];
        int64_t wall = clock_wall_ms();
        http_date_format(wall / 1000, text);
        s->date_len = (size_t)snprintf(s->date, sizeof(s->date), "Date: %s\r\n", text);
        s->date_until_ms = now + 1000 - (uint64_t)(wall % 1000);
    }
    (void)buf_add(b, s->date, s->date_len);
}

static void add_line(struct buf *b, struct str name, const char *value)
{
    (void)buf_add_str(b, name);
    (void)buf_add_cstr(b, value);
    (void)buf_add(b, "\r\n", 2);
}

static void add_framing(struct http_req *req, struct buf *b, int status, int64_t length)
{
    if (status < 200 || status == 204 || status == 304) {
        return;
    }
    if (length >= 0) {
        (void)buf_add(b, "Content-Length: ", 16);
        (void)buf_add_u64(b, (uint64_t)length);
        (void)buf_add(b, "\r\n", 2);
    } else if (req->head.minor >= 1) {
        (void)buf_add(b, "Transfer-Encoding: chunked\r\n", 28);
        req->out_chunked = true;
    } else {
        req->close_after = true; /* HTTP/1.0: the end of the connection is the end of the body */
    }
}

static void add_connection(struct http_req *req, struct buf *b)
{
    if (!req->head.keep_alive || req->server->draining ||
        (!req->body_end && !req->on_body && !body_can_drain(req))) {
        req->close_after = true;
    }
    if (req->close_after) {
        (void)buf_add(b, "Connection: close\r\n", 19);
    } else if (req->head.minor == 0) {
        (void)buf_add(b, "Connection: keep-alive\r\n", 24);
    }
}

/* Puts the head together and settles how the body is framed. Length -1: unknown. */
static struct str build_head(struct http_req *req, int status, const char *ctype, int64_t length)
{
    struct http_server *s = req->server;
    struct buf *b = &s->head;
    if (buf_failed(&req->headers)) {
        buf_clear(&req->headers);
        status = 500;
    }
    req->started = true;
    req->status = status;
    buf_clear(b);
    (void)buf_add(b, "HTTP/1.1 ", 9);
    (void)buf_add_u64(b, (uint64_t)status);
    (void)buf_add(b, " ", 1);
    (void)buf_add_cstr(b, http_status_reason(status));
    (void)buf_add(b, "\r\n", 2);
    if (s->opts.server_header && !req->has_server) {
        add_line(b, STR("Server: "), s->opts.server_header);
    }
    if (!req->has_date) {
        add_date(s, b);
    }
    if (ctype) {
        add_line(b, STR("Content-Type: "), ctype);
    }
    add_framing(req, b, status, length);
    add_connection(req, b);
    (void)buf_add_str(b, buf_str(&req->headers));
    (void)buf_add(b, "\r\n", 2);
    req->no_body =
        str_eq(req->head.method, STR("HEAD")) || status < 200 || status == 204 || status == 304;
    return buf_str(b);
}

static struct iovec piece(struct str s)
{
    return (struct iovec){(void *)(uintptr_t)s.p, s.n};
}

/* Sends now if the socket takes it, and queues the rest. */
static void send_now(struct http_conn *c, const struct iovec *iov, int n)
{
    if (c->blocked) {
        for (int i = 0; i < n; i++) {
            outq_add(&c->out, str_n(iov[i].iov_base, iov[i].iov_len));
        }
        return;
    }
    if (outq_writev(&c->out, c->stream, iov, n) < 0) {
        c->broken = true;
    }
}

/* The connection to answer on, or NULL when the answer has nowhere to go. */
static struct http_conn *open_conn(const struct http_req *req)
{
    struct http_conn *c = req->conn;
    return c && c->stream && !c->broken && !req->ended ? c : NULL;
}

/* ---- whole responses ---- */

static void mark_ended(struct http_req *req, struct http_conn *c)
{
    req->ended = true;
    conn_schedule(c);
}

void http_resp_send(struct http_req *req, int status, const char *ctype, struct str body)
{
    struct http_conn *c = open_conn(req);
    if (!c || bug_if(req->started)) {
        return;
    }
    struct iovec iov[2] = {piece(build_head(req, status, ctype, (int64_t)body.n)), piece(body)};
    send_now(c, iov, req->no_body || body.n == 0 ? 1 : 2);
    mark_ended(req, c);
}

void resp_send_ref(struct http_req *req, int status, const char *ctype, struct str body)
{
    struct http_conn *c = open_conn(req);
    if (!c || req->started) {
        return;
    }
    if (body.n < HTTP_OUT_LOW) {
        http_resp_send(req, status, ctype, body);
        return;
    }
    outq_add(&c->out, build_head(req, status, ctype, (int64_t)body.n));
    if (!req->no_body) {
        outq_add_ref(&c->out, body);
    }
    mark_ended(req, c);
}

void resp_default_error(int status, const char *reason, struct buf *out)
{
    char code[64];
    size_t n = 0;
    for (const char *p = http_status_reason(status); *p && n < sizeof(code) - 1; p++) {
        code[n++] = *p == ' ' ? '_' : (char)(*p | 0x20);
    }
    code[n] = 0;
    (void)buf_printf(out, "{\"code\":\"%s\",\"message\":\"%s\"}", code, reason);
}

void resp_error(struct http_req *req, int status, const char *reason)
{
    struct http_conn *c = open_conn(req);
    req->begun = true;
    req->failed = true;
    if (!c) {
        return;
    }
    if (req->started) {
        http_resp_abort(req);
        return;
    }
    struct buf body = BUF_INIT(16u << 10);
    const char *ctype = "application/json";
    if (req->server->opts.error_body) {
        req->server->opts.error_body(status, reason, &body, &ctype);
    } else {
        resp_default_error(status, reason, &body);
    }
    buf_clear(&req->headers);
    req->has_date = req->has_server = false;
    if (status == 503) {
        http_resp_header(req, STR("Retry-After"), STR("1"));
    }
    req->close_after = true;
    http_resp_send(req, status, ctype, buf_str(&body));
    buf_done(&body);
}

/* ---- streamed responses ---- */

void http_resp_start(struct http_req *req, int status, const char *ctype, int64_t length)
{
    struct http_conn *c = open_conn(req);
    if (!c || bug_if(req->started)) {
        return;
    }
    outq_add(&c->out, build_head(req, status, ctype, length));
    req->length_left = req->no_body ? -1 : length;
    conn_schedule(c);
}

bool http_resp_started(const struct http_req *req)
{
    return req->started;
}

/* More than was promised would be read as the next response: cut it. */
static struct str within_length(struct http_req *req, struct str data)
{
    if (req->length_left < 0) {
        return data;
    }
    if (bug_if(data.n > (uint64_t)req->length_left)) {
        data = str_sub(data, 0, (size_t)req->length_left);
    }
    req->length_left -= (int64_t)data.n;
    return data;
}

bool http_resp_write(struct http_req *req, struct str data)
{
    struct http_conn *c = open_conn(req);
    if (!c || bug_if(!req->started)) {
        return false;
    }
    if (bug_if(c->out.queued >= HTTP_OUT_MAX)) {
        http_resp_abort(req); /* the producer does not look at what it is told */
        return false;
    }
    data = within_length(req, data);
    if (data.n == 0 || req->no_body) {
        return true;
    }
    char size[24];
    struct iovec iov[3];
    int n = 0;
    if (req->out_chunked) {
        iov[n++] = (struct iovec){size, (size_t)snprintf(size, sizeof(size), "%zx\r\n", data.n)};
    }
    iov[n++] = piece(data);
    if (req->out_chunked) {
        iov[n++] = piece(STR("\r\n"));
    }
    if (data.n >= DIRECT_MIN) {
        send_now(c, iov, n);
    } else {
        for (int i = 0; i < n; i++) {
            outq_add(&c->out, str_n(iov[i].iov_base, iov[i].iov_len));
        }
    }
    conn_schedule(c);
    req->want_writable = c->out.queued >= HTTP_OUT_HIGH;
    return !req->want_writable && !c->broken;
}

void http_resp_on_writable(struct http_req *req, void (*cb)(struct http_req *req, void *arg),
                           void *arg)
{
    req->on_writable = cb;
    req->writable_arg = arg;
}

size_t http_resp_queued(const struct http_req *req)
{
    return req->conn ? req->conn->out.queued : 0;
}

void http_resp_sendfile(struct http_req *req, int take_fd, off_t offset, uint64_t n)
{
    struct http_conn *c = open_conn(req);
    if (!c || req->no_body || bug_if(!req->started || req->out_chunked) ||
        bug_if(req->length_left < 0 || n > (uint64_t)req->length_left)) {
        (void)close(take_fd); /* opened for reading */
        return;
    }
    req->length_left -= (int64_t)n;
    outq_add_file(&c->out, take_fd, offset, n);
    conn_schedule(c);
}

void http_resp_end(struct http_req *req)
{
    struct http_conn *c = open_conn(req);
    if (!c || bug_if(!req->started)) {
        return;
    }
    if (req->length_left > 0) {
        http_resp_abort(req); /* shorter than promised: the client must notice */
        return;
    }
    if (req->out_chunked && !req->no_body) {
        outq_add(&c->out, STR("0\r\n\r\n"));
    }
    mark_ended(req, c);
}

void http_resp_close_after(struct http_req *req)
{
    req->close_after = true;
}

void http_resp_abort(struct http_req *req)
{
    struct http_conn *c = req->conn;
    if (!c || !c->stream || c->broken) {
        return;
    }
    if (req->started && !c->blocked) {
        (void)outq_flush(&c->out, c->stream); /* what was produced may still arrive */
    }
    /* Where the end of the connection is the end of the body only a reset looks like a failure. */
    c->reset = req->started && !req->out_chunked && req->length_left < 0;
    c->broken = true;
    conn_schedule(c);
}

void http_resp_continue(struct http_req *req)
{
    struct http_conn *c = open_conn(req);
    if (!c || req->started || req->continue_sent || req->head.minor == 0) {
        return;
    }
    req->continue_sent = true;
    struct iovec iov = piece(STR("HTTP/1.1 100 Continue\r\n\r\n"));
    send_now(c, &iov, 1);
    conn_schedule(c);
}

/* ---- leaving HTTP ---- */

struct io_stream *http_req_take_stream(struct http_req *req, struct buf *early)
{
    struct http_conn *c = req->conn;
    if (!c || !c->stream || c->broken || bug_if(req->started || !outq_empty(&c->out))) {
        return NULL;
    }
    struct io_stream *s = take_ptr(&c->stream);
    (void)buf_add_str(early, req->pending);
    req->pending = STR_NULL;
    req->taken = req->started = req->ended = true;
    req->status = 101;
    io_timer_stop(&c->timer);
    io_stream_set_cb(s, NULL, NULL);
    io_stream_want(s, 0);
    io_stream_watch_hup(s, false);
    conn_schedule(c);
    return s;
}
