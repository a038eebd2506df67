/* Server-sent events, receiving: line by line, fields gathered until the empty line.
 *
 * The OpenSandbox protocol sends frames without field names: a line that begins with '{' or '[' is
 * taken as data as it is. */

#include <errno.h>

#include "base/buf.h"
#include "base/must.h"
#include "http/sse.h"

struct sse_parser {
    sse_event_cb *cb;
    void *arg;
    struct buf line, event, id, data;
    size_t max;
    bool has_data, after_cr, failed;
};

struct sse_parser *sse_parser_new(size_t max_event, sse_event_cb *cb, void *arg)
{
    struct sse_parser *p = NEW(struct sse_parser);
    p->cb = cb;
    p->arg = arg;
    p->max = max_event;
    buf_init(&p->line, max_event);
    buf_init(&p->event, max_event);
    buf_init(&p->id, max_event);
    buf_init(&p->data, max_event);
    return p;
}

void sse_parser_free(struct sse_parser *p)
{
    if (!p) {
        return;
    }
    buf_done(&p->line);
    buf_done(&p->event);
    buf_done(&p->id);
    buf_done(&p->data);
    free(p);
}

static void add_data(struct sse_parser *p, struct str value)
{
    if (p->has_data) {
        (void)buf_add_char(&p->data, '\n');
    }
    (void)buf_add_str(&p->data, value);
    p->has_data = true;
}

static void dispatch(struct sse_parser *p)
{
    if (p->has_data) {
        struct sse_event ev = {
            .event = p->event.len ? buf_str(&p->event) : STR_NULL,
            .id = p->id.len ? buf_str(&p->id) : STR_NULL,
            .data = p->data.len ? buf_str(&p->data) : STR(""),
        };
        p->cb(&ev, p->arg);
    }
    buf_clear(&p->event);
    buf_clear(&p->data);
    p->has_data = false;
}

static void on_line(struct sse_parser *p)
{
    struct str line = buf_str(&p->line);
    if (line.n == 0) {
        dispatch(p);
        return;
    }
    if (line.p[0] == '{' || line.p[0] == '[') {
        add_data(p, line);
    } else if (line.p[0] != ':') { /* else a comment */
        struct str name = str_cut(&line, ':');
        struct str value = line.p ? line : STR("");
        if (value.n > 0 && value.p[0] == ' ') {
            value = str_sub(value, 1, value.n);
        }
        if (str_eq(name, STR("data"))) {
            add_data(p, value);
        } else if (str_eq(name, STR("event"))) {
            buf_clear(&p->event);
            (void)buf_add_str(&p->event, value);
        } else if (str_eq(name, STR("id")) && str_find(value, 0) < 0) {
            buf_clear(&p->id);
            (void)buf_add_str(&p->id, value);
        }
    }
    buf_clear(&p->line);
}

static bool too_large(const struct sse_parser *p)
{
    return buf_failed(&p->line) || buf_failed(&p->data) || buf_failed(&p->event) ||
           buf_failed(&p->id);
}

int sse_parser_feed(struct sse_parser *p, struct str data)
{
    while (data.n > 0 && !p->failed) {
        if (p->after_cr && data.p[0] == '\n') { /* the second half of CR LF */
            p->after_cr = false;
            data = str_sub(data, 1, data.n);
            continue;
        }
        p->after_cr = false;
        size_t n = 0;
        while (n < data.n && data.p[n] != '\n' && data.p[n] != '\r') {
            n++;
        }
        (void)buf_add(&p->line, data.p, n);
        if (n < data.n) {
            p->after_cr = data.p[n] == '\r';
            n++;
            if (!buf_failed(&p->line)) {
                on_line(p);
            }
        }
        data = str_sub(data, n, data.n);
        p->failed = too_large(p);
    }
    return p->failed ? -EMSGSIZE : 0;
}

int sse_parser_end(struct sse_parser *p)
{
    if (p->failed) {
        return -EMSGSIZE;
    }
    if (p->line.len > 0) {
        on_line(p);
    }
    dispatch(p);
    return too_large(p) ? -EMSGSIZE : 0;
}
