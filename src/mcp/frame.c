#include "mcp/frame.h"

void frame_init(struct frame_reader *r, size_t max)
{
    *r = (struct frame_reader){.max = max, .b = BUF_INIT(max + 1)};
}

void frame_done(struct frame_reader *r)
{
    buf_done(&r->b);
}

static void emit(struct str line, frame_cb *cb, void *arg)
{
    if (line.n > 0 && line.p[line.n - 1] == '\r') {
        line.n--;
    }
    line = str_trim(line);
    if (line.n > 0) {
        cb(line, false, arg);
    }
}

static void keep(struct frame_reader *r, struct str piece, frame_cb *cb, void *arg)
{
    if (r->skipping) {
        return;
    }
    if (r->b.len + piece.n > r->max) {
        r->skipping = true;
        buf_done(&r->b);
        r->b = BUF_INIT(r->max + 1);
        cb(STR_NULL, true, arg);
        return;
    }
    (void)buf_add_str(&r->b, piece);
}

void frame_feed(struct frame_reader *r, struct str data, frame_cb *cb, void *arg)
{
    ptrdiff_t end;
    while ((end = str_find(data, '\n')) >= 0) {
        struct str piece = str_sub(data, 0, (size_t)end);
        data = str_sub(data, (size_t)end + 1, data.n);
        if (r->b.len == 0 && !r->skipping && piece.n <= r->max) {
            emit(piece, cb, arg); /* the usual case: no copy */
            continue;
        }
        keep(r, piece, cb, arg);
        if (!r->skipping) {
            emit(buf_str(&r->b), cb, arg);
        }
        buf_clear(&r->b);
        r->skipping = false;
    }
    if (data.n > 0) {
        keep(r, data, cb, arg);
    }
}

void frame_end(struct frame_reader *r, frame_cb *cb, void *arg)
{
    if (!r->skipping) {
        emit(buf_str(&r->b), cb, arg);
    }
    buf_clear(&r->b);
    r->skipping = false;
}
