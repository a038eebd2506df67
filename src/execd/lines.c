/* Line splitting. */

#include "execd/lines.h"

#include "base/must.h"
#include "base/utf8.h"
#include "execd/event.h"
#include "execd/limits.h"

void lines_init(struct lines *l, struct str type, bool lf_only)
{
    *l = (struct lines){.type = type, .lf_only = lf_only};
    /* Room for a whole piece and one read more: what is over the limit is cut off at once. */
    buf_init(&l->held, EXECD_EVENT_TEXT_MAX + EXECD_READ_CHUNK);
}

void lines_done(struct lines *l)
{
    buf_done(&l->held);
}

static void emit(struct lines *l, struct str text, struct buf *out, int64_t now_ms)
{
    if (l->lf_only && text.n && text.p[text.n - 1] == '\r') {
        text.n--;
    }
    event_add_text(out, l->type, text.n ? text : STR("\n"), now_ms);
}

/* Holds the beginning of a line back; pieces that are long enough go out now. */
static void hold(struct lines *l, struct str part, struct buf *out, int64_t now_ms)
{
    while (part.n) {
        size_t n = MIN(part.n, (size_t)EXECD_READ_CHUNK);
        (void)buf_add(&l->held, part.p, n); /* fits: held is below the limit between calls */
        part = str_sub(part, n, part.n);
        while (l->held.len > EXECD_EVENT_TEXT_MAX) {
            struct str text = buf_str(&l->held);
            size_t cut = utf8_floor(text, EXECD_EVENT_TEXT_MAX);
            event_add_text(out, l->type, str_sub(text, 0, cut), now_ms);
            buf_consume(&l->held, cut);
        }
    }
}

static void finish_line(struct lines *l, struct str line, struct buf *out, int64_t now_ms)
{
    if (l->held.len == 0 && line.n <= EXECD_EVENT_TEXT_MAX) {
        emit(l, line, out, now_ms);
        return;
    }
    hold(l, line, out, now_ms);
    emit(l, buf_str(&l->held), out, now_ms);
    buf_clear(&l->held);
    if (l->held.cap > EXECD_READ_CHUNK) {
        buf_done(&l->held); /* one long line does not keep its memory for the rest of the run */
    }
}

void lines_feed(struct lines *l, struct str *in, struct buf *out, int64_t now_ms)
{
    const char *p = in->p, *end = in->p + in->n;
    const char *lf = NULL; /* the next LF at or after p; end when there is none */
    while (p < end && out->len < EXECD_EVENT_BATCH) {
        if (l->skip_lf) {
            l->skip_lf = false;
            if (*p == '\n') {
                p++;
                continue;
            }
        }
        if (!lf || lf < p) {
            lf = memchr(p, '\n', (size_t)(end - p));
            lf = lf ? lf : end;
        }
        const char *cr = l->lf_only ? NULL : memchr(p, '\r', (size_t)(lf - p));
        const char *stop = cr ? cr : lf;
        if (stop == end) {
            hold(l, str_n(p, (size_t)(end - p)), out, now_ms);
            p = end;
            break;
        }
        finish_line(l, str_n(p, (size_t)(stop - p)), out, now_ms);
        l->skip_lf = *stop == '\r';
        p = stop + 1;
    }
    *in = str_n(p, (size_t)(end - p));
}

void lines_end(struct lines *l, struct buf *out, int64_t now_ms)
{
    if (l->held.len) {
        event_add_text(out, l->type, buf_str(&l->held), now_ms);
        buf_clear(&l->held);
    }
}
