#include "execd/line_filter.h"

#include <string.h>

void line_filter_init(struct line_filter *f, uint64_t offset, uint64_t limit)
{
    *f = (struct line_filter){.skip = offset - 1, .left = limit};
}

/* A piece of the current line, without its line feed. */
static void pass_on(struct line_filter *f, struct str piece, struct buf *out)
{
    if (!f->in_line) {
        f->in_line = true;
        if (f->any) {
            (void)buf_add_char(out, '\n');
        }
        f->any = true;
    }
    size_t n = piece.n;
    while (n > 0 && piece.p[n - 1] == '\r') {
        n--;
    }
    if (n > 0) {
        for (; f->held_cr > 0; f->held_cr--) {
            (void)buf_add_char(out, '\r');
        }
        (void)buf_add(out, piece.p, n);
    }
    f->held_cr += piece.n - n;
}

bool line_filter_feed(struct line_filter *f, struct str in, struct buf *out)
{
    while (in.n > 0 && f->left > 0) {
        const char *lf = memchr(in.p, '\n', in.n);
        size_t n = lf ? (size_t)(lf - in.p) : in.n;
        if (f->skip == 0) {
            pass_on(f, str_n(in.p, n), out);
        }
        if (lf) {
            if (f->skip > 0) {
                f->skip--;
            } else {
                f->left--;
            }
            f->in_line = false;
            f->held_cr = 0;
            n++;
        }
        in = str_n(in.p + n, in.n - n);
    }
    return f->left == 0;
}
