/* Bodies on their way through: by length, chunked (decoded and framed anew), or to the end of the
 * connection. */

#include <errno.h>

#include "base/must.h"
#include "egress/intercept/exchange.h"
#include "egress/intercept/limits.h"
#include "egress/vault/secret.h"

/* Framing between two pieces of data: chunk lines and, at the end, trailers. */
#define BODY_FRAMING_MAX (HTTP_MAX_TRAILER + HTTP_MAX_CHUNK_EXT + 1024u)

void body_init(struct body *b, const struct h1_head *h, bool is_request)
{
    *b = (struct body){.is_request = is_request, .framing = BUF_INIT(BODY_FRAMING_MAX * 2)};
    if (h->chunked) {
        b->kind = BODY_CHUNKED;
        b->out_chunked = true;
    } else if (h->content_length > 0) {
        b->kind = BODY_LENGTH;
        b->left = (uint64_t)h->content_length;
    } else if (!is_request && h->content_length < 0) {
        b->kind = BODY_TO_END;
    }
}

void body_done(struct body *b)
{
    buf_done(&b->framing);
}

static void put_chunk(struct str data, struct buf *out)
{
    if (data.n) {
        (void)buf_printf(out, "%zx\r\n", data.n);
        (void)buf_add_str(out, data);
        (void)buf_add_cstr(out, "\r\n");
    }
}

static void put_data(struct body *b, struct str data, bool is_last, struct buf *out)
{
    if (!b->subst) {
        if (b->out_chunked) {
            put_chunk(data, out);
        } else {
            (void)buf_add_str(out, data);
        }
        return;
    }
    struct buf changed = BUF_INIT(out->max);
    subst_stream_feed(b->subst, data, is_last, &changed);
    out->failed |= buf_failed(&changed);
    put_chunk(buf_str(&changed), out);
    secret_wipe(buf_str(&changed));
    buf_done(&changed);
}

/* Trailers that say something about framing, routing or who is asking are not passed on. */
static bool trailer_is_safe(struct str name, bool is_request)
{
    return !header_is_hop(name) && !str_eq_nocase(name, STR("host")) &&
           !str_eq_nocase(name, STR("content-length")) &&
           !str_eq_nocase(name, STR("transfer-encoding")) &&
           !(is_request &&
             (str_eq_nocase(name, STR("authorization")) || str_eq_nocase(name, STR("cookie"))));
}

/* `framing` is: the CR LF behind the last piece of data if there was one, the line of the last
 * chunk, trailer lines, an empty line. The decoder has accepted all of it. */
static void put_end(struct body *b, struct buf *out, const struct vault_state *redact)
{
    struct str rest = buf_str(&b->framing);
    if (str_starts(rest, STR("\r\n"))) {
        rest = str_sub(rest, 2, rest.n);
    }
    (void)str_cut(&rest, '\n');
    (void)buf_add_cstr(out, "0\r\n");
    while (rest.n) {
        struct str line = str_cut(&rest, '\n');
        if (line.n < 2) {
            break;
        }
        line.n--; /* CR */
        struct str value = line, name = str_cut(&value, ':');
        if (!trailer_is_safe(name, b->is_request) || (redact && vault_shows(redact, name))) {
            continue;
        }
        if (redact) {
            (void)buf_add_str(out, name);
            (void)buf_add_char(out, ':');
            vault_redact(redact, value, out);
        } else {
            (void)buf_add_str(out, line);
        }
        (void)buf_add_cstr(out, "\r\n");
    }
    (void)buf_add_cstr(out, "\r\n");
}

static int relay_chunked(struct body *b, struct buf *in, struct buf *out, size_t out_at,
                         const struct vault_state *redact)
{
    struct str rest = buf_str(in), data;
    int r = 0;
    while (out->len - out_at < INTERCEPT_BUFFER) {
        const char *from = rest.p;
        r = h1_chunked_next(&b->chunks, &rest, &data);
        if (r < 0) {
            return r;
        }
        const char *until = r == 1 ? data.p : rest.p;
        if (until > from && buf_add(&b->framing, from, (size_t)(until - from)) < 0) {
            return -EPROTO;
        }
        if (r != 1) {
            break;
        }
        buf_clear(&b->framing);
        put_data(b, data, false, out);
    }
    buf_consume(in, in->len - rest.n);
    if (r != 2) {
        return 0;
    }
    if (b->subst) {
        put_data(b, STR_NULL, true, out);
    }
    put_end(b, out, redact);
    return 1;
}

/* All that came is body, and nothing waits before it: the buffers change places. */
static bool can_swap(const struct body *b, const struct buf *in, const struct buf *out, size_t n)
{
    return n == in->len && out->len == 0 && !b->subst && !b->out_chunked && !out->failed &&
           !in->failed && out->cap <= in->max && in->cap <= out->max;
}

static void swap(struct buf *a, struct buf *b)
{
    struct buf t = *a;
    a->p = b->p;
    a->len = b->len;
    a->cap = b->cap;
    b->p = t.p;
    b->len = t.len;
    b->cap = t.cap;
}

static int relay_length(struct body *b, struct buf *in, struct buf *out, size_t out_at)
{
    size_t queued = out->len - out_at;
    size_t room = queued < INTERCEPT_BUFFER ? INTERCEPT_BUFFER - queued : 0;
    size_t n = (size_t)MIN(b->left, (uint64_t)MIN(in->len, room));

    if (n && can_swap(b, in, out, n)) {
        swap(in, out);
        b->left -= n;
    } else if (n) {
        put_data(b, str_n(in->p, n), n == b->left, out);
        buf_consume(in, n);
        b->left -= n;
    }
    if (b->left) {
        return 0;
    }
    if (b->out_chunked) {
        (void)buf_add_cstr(out, "0\r\n\r\n");
    }
    return 1;
}

int body_relay(struct body *b, struct buf *in, struct buf *out, size_t out_at,
               const struct vault_state *redact)
{
    int r = 1;
    switch (b->kind) {
    case BODY_LENGTH:
        r = relay_length(b, in, out, out_at);
        break;
    case BODY_CHUNKED:
        r = relay_chunked(b, in, out, out_at, redact);
        break;
    case BODY_TO_END:
        b->left = UINT64_MAX;
        r = relay_length(b, in, out, out_at);
        break;
    case BODY_NONE:
    default:
        break;
    }
    return buf_failed(out) ? -EPROTO : r;
}
