/* multipart/form-data: the same parts, data and verdict however the body is split. The first line
 * of the input is the Content-Type. */

#include <stdint.h>

#include "base/must.h"
#include "http/multipart.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int on_part(const struct multipart_part *part, void *arg)
{
    must(part->name.p);
    (void)buf_printf(arg, "[%zu,%zu,%zu:", part->name.n, part->filename.n, part->content_type.n);
    (void)buf_add_str(arg, part->name);
    (void)buf_add_str(arg, part->filename);
    return buf_add_str(arg, part->content_type);
}

static int on_data(struct str data, void *arg)
{
    return buf_add_str(arg, data);
}

static int on_part_end(void *arg)
{
    return buf_add_char(arg, ']');
}

static const struct multipart_ops ops = {on_part, on_data, on_part_end};

static void run(struct str boundary, struct str in, size_t piece, struct buf *log)
{
    struct multipart *m = multipart_new(boundary, &ops, log);
    int rc = 0;
    for (size_t at = 0; at < in.n && rc == 0; at += piece) {
        rc = multipart_feed(m, str_n(in.p + at, MIN(piece, in.n - at)));
    }
    (void)buf_printf(log, "%d %d", rc, multipart_done(m));
    multipart_free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str rest = {(const char *)data, size}, boundary;
    struct str type = str_cut(&rest, '\n');
    if (multipart_boundary(type, &boundary) < 0) {
        return 0;
    }
    must(boundary.n >= 1 && boundary.n <= 70);
    struct buf want = BUF_INIT(64u << 20);
    run(boundary, rest, rest.n + 1, &want);
    for (size_t piece = 1; piece < 12; piece += 2) {
        struct buf got = BUF_INIT(64u << 20);
        run(boundary, rest, piece, &got);
        must(str_eq(buf_str(&want), buf_str(&got)));
        buf_done(&got);
    }
    buf_done(&want);
    return 0;
}
