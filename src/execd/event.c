/* Event encoding and the response that carries it. */

#include "execd/event.h"

#include "base/clock.h"
#include "base/must.h"
#include "execd/limits.h"
#include "http/sse.h"
#include "json/json.h"

/* ---- encoding ---- */

static void add_end(struct buf *out, int64_t now_ms)
{
    (void)buf_add_str(out, STR(",\"timestamp\":"));
    (void)buf_add_u64(out, (uint64_t)now_ms);
    (void)buf_add_str(out, STR("}\n\n"));
}

/* Bytes that stand for themselves in a JSON string, eight at a time: printable ASCII but '"' and
 * '\'. Anything else, also every multi-byte character, is left to json_escape(). */
static size_t plain_prefix(struct str s)
{
    const uint64_t ones = 0x0101010101010101u, high = 0x8080808080808080u;
    size_t i = 0;
    for (; i + 8 <= s.n; i += 8) {
        uint64_t v;
        memcpy(&v, s.p + i, 8);
        uint64_t quote = v ^ (ones * '"'), slash = v ^ (ones * '\\');
        uint64_t special = (v - ones * 0x20) | (quote - ones) | (slash - ones) | v;
        if (special & high) {
            break;
        }
    }
    for (; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (c < 0x20 || c >= 0x80 || c == '"' || c == '\\') {
            break;
        }
    }
    return i;
}

static void add_escaped(struct buf *out, struct str text)
{
    while (text.n) {
        size_t n = plain_prefix(text);
        (void)buf_add(out, text.p, n);
        text = str_sub(text, n, text.n);
        /* The next run of bytes that need a look, up to the next long plain stretch. */
        size_t odd = 0;
        while (odd < text.n) {
            unsigned char c = (unsigned char)text.p[odd];
            if (c >= 0x20 && c < 0x80 && c != '"' && c != '\\') {
                break;
            }
            odd++;
        }
        if (odd) {
            (void)json_escape(out, str_sub(text, 0, odd));
            text = str_sub(text, odd, text.n);
        }
    }
}

void event_add_init(struct buf *out, struct str id, int64_t now_ms)
{
    (void)buf_add_str(out, STR("{\"type\":\"init\",\"text\":\""));
    add_escaped(out, id);
    (void)buf_add_char(out, '"');
    add_end(out, now_ms);
}

void event_add_ping(struct buf *out, int64_t now_ms)
{
    (void)buf_add_str(out, STR("{\"type\":\"ping\",\"text\":\"pong\""));
    add_end(out, now_ms);
}

void event_add_text(struct buf *out, struct str type, struct str text, int64_t now_ms)
{
    (void)buf_add_str(out, STR("{\"type\":\""));
    (void)buf_add_str(out, type);
    (void)buf_add_str(out, STR("\",\"text\":\""));
    add_escaped(out, text);
    (void)buf_add_char(out, '"');
    add_end(out, now_ms);
}

void event_add_error(struct buf *out, struct str ename, struct str evalue,
                     const char *const *traceback, size_t n, int64_t now_ms)
{
    struct json_out o;
    json_out_init(&o, out);
    json_obj_begin(&o);
    json_key(&o, "type");
    json_put_cstr(&o, "error");
    json_key(&o, "timestamp");
    json_put_int(&o, now_ms);
    json_key(&o, "error");
    json_obj_begin(&o);
    json_key(&o, "ename");
    json_put_str(&o, ename);
    json_key(&o, "evalue");
    json_put_str(&o, evalue);
    json_key(&o, "traceback");
    json_arr_begin(&o);
    for (size_t i = 0; i < n; i++) {
        if (traceback[i]) {
            json_put_cstr(&o, traceback[i]);
        }
    }
    json_arr_end(&o);
    json_obj_end(&o);
    json_obj_end(&o);
    (void)buf_add_str(out, STR("\n\n"));
}

void event_add_complete(struct buf *out, int64_t execution_ms, int64_t now_ms)
{
    (void)buf_add_str(out, STR("{\"type\":\"execution_complete\""));
    if (execution_ms > 0) {
        (void)buf_add_str(out, STR(",\"execution_time\":"));
        (void)buf_add_u64(out, (uint64_t)execution_ms);
    }
    add_end(out, now_ms);
}

/* ---- the stream ---- */

static void on_ping_due(struct io_timer *t)
{
    struct event_stream *es = container_of(t, struct event_stream, ping);
    io_timer_start(&es->ping, EXECD_PING_MS);
    if (es->blocked) {
        return; /* a client that does not read needs no proof of life */
    }
    struct buf *out = execd_scratch(es->x);
    event_add_ping(out, clock_wall_ms());
    (void)event_stream_write(es, buf_str(out));
}

static void on_end(struct http_req *req, bool completed, void *arg)
{
    struct event_stream *es = arg;
    io_timer_stop(&es->ping);
    es->req = NULL;
    es->blocked = false;
    if (!completed) {
        es->on_gone(es);
    }
}

static void on_end_ignored(struct http_req *req, bool completed, void *arg)
{
}

static void on_writable(struct http_req *req, void *arg)
{
    struct event_stream *es = arg;
    es->blocked = false;
    es->on_writable(es);
}

void event_stream_start(struct event_stream *es, struct execd *x, struct http_req *req,
                        struct str id)
{
    es->x = x;
    es->req = req;
    io_timer_init(&es->ping, x->loop, on_ping_due);
    io_timer_start(&es->ping, EXECD_PING_MS);
    http_req_on_end(req, on_end, es);
    http_resp_on_writable(req, on_writable, es);
    sse_start(req, 200);
    struct buf *out = execd_scratch(x);
    int64_t now_ms = clock_wall_ms();
    event_add_init(out, id, now_ms);
    event_add_ping(out, now_ms);
    (void)event_stream_write(es, buf_str(out));
}

bool event_stream_write(struct event_stream *es, struct str events)
{
    if (!es->req || events.n == 0) {
        return !es->blocked;
    }
    bool more = http_resp_write(es->req, events);
    es->blocked = es->req && !more; /* a failed write may have ended the request */
    return !es->blocked;
}

void event_stream_end(struct event_stream *es)
{
    struct http_req *req = es->req;
    if (!req) {
        return;
    }
    io_timer_stop(&es->ping);
    es->req = NULL;
    http_req_on_end(req, on_end_ignored, NULL);
    http_resp_on_writable(req, NULL, NULL);
    http_resp_end(req);
}
