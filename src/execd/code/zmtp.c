/* ZMTP 3.0 without I/O. */

#include "execd/code/zmtp.h"

#include <errno.h>
#include <string.h>

#include "base/must.h"

#define FLAG_MORE 1
#define FLAG_LONG 2
#define FLAG_COMMAND 4

#define READ_CHUNK (16u << 10)
#define KEEP_MAX (64u << 10) /* of a buffer that was needed for one large message, at most this */

/* ---- frames ---- */

int zmtp_frame_parse(struct str in, struct zmtp_frame *ret)
{
    if (in.n < 2) {
        return 0;
    }
    uint8_t flags = (uint8_t)in.p[0];
    bool more = flags & FLAG_MORE, command = flags & FLAG_COMMAND;
    if ((flags & ~(FLAG_MORE | FLAG_LONG | FLAG_COMMAND)) || (more && command)) {
        return -EPROTO;
    }
    uint64_t len = 0;
    int head = flags & FLAG_LONG ? 9 : 2;
    if (in.n < (size_t)head) {
        return 0;
    }
    for (int i = 1; i < head; i++) {
        len = len << 8 | (uint8_t)in.p[i];
    }
    if (len > INT64_MAX) {
        return -EPROTO;
    }
    *ret = (struct zmtp_frame){.more = more, .command = command, .len = len};
    return head;
}

static void add_frame(struct buf *out, struct str body, uint8_t flags)
{
    char head[ZMTP_FRAME_MAX];
    size_t n = 2;
    if (body.n > UINT8_MAX) {
        flags |= FLAG_LONG;
        n = 9;
    }
    head[0] = (char)flags;
    for (size_t i = 1; i < n; i++) {
        head[i] = (char)(body.n >> (8 * (n - 1 - i)));
    }
    (void)buf_add(out, head, n);
    (void)buf_add_str(out, body);
}

void zmtp_add_frame(struct buf *out, struct str body, bool more)
{
    add_frame(out, body, more ? FLAG_MORE : 0);
}

/* ---- handshake ---- */

void zmtp_add_hello(struct buf *out, enum zmtp_role role)
{
    char greeting[ZMTP_GREETING_LEN] = {0};
    greeting[0] = (char)0xff;
    greeting[9] = 0x7f;
    greeting[10] = 3;
    memcpy(greeting + 12, "NULL", 4);
    (void)buf_add(out, greeting, sizeof(greeting));
    if (role == ZMTP_DEALER) {
        add_frame(out, STR("\5READY\13Socket-Type\0\0\0\6DEALER\10Identity\0\0\0\0"), FLAG_COMMAND);
    } else {
        add_frame(out, STR("\5READY\13Socket-Type\0\0\0\3SUB"), FLAG_COMMAND);
    }
}

void zmtp_add_subscribe(struct buf *out)
{
    add_frame(out, STR("\1"), 0); /* to the empty prefix */
}

void zmtp_add_pong(struct buf *out, struct str context)
{
    char body[5 + 16] = "\4PONG";
    size_t n = MIN(context.n, (size_t)16);
    if (n) {
        memcpy(body + 5, context.p, n);
    }
    add_frame(out, str_n(body, 5 + n), FLAG_COMMAND);
}

/* ---- reading ---- */

void zmtp_reader_init(struct zmtp_reader *r, size_t max)
{
    *r = (struct zmtp_reader){.max = max};
    /* Behind the message: headers of its parts, and what one read brings of the next. */
    buf_init(&r->in, max + ZMTP_MAX_PARTS * ZMTP_FRAME_MAX + ZMTP_MAX_COMMAND + 2 * READ_CHUNK);
}

void zmtp_reader_done(struct zmtp_reader *r)
{
    buf_done(&r->in);
}

/* Drops what has been told: once a read, however many messages one brings. */
static void compact(struct zmtp_reader *r)
{
    for (size_t i = 0; i < r->n_parts; i++) {
        r->part[i].from -= r->start;
    }
    buf_consume(&r->in, r->start);
    r->at -= r->start;
    r->start = 0;
    if (r->in.cap > KEEP_MAX && r->in.len < KEEP_MAX && r->n_parts == 0) {
        struct buf rest = BUF_INIT(r->in.max);
        (void)buf_add_str(&rest, buf_str(&r->in));
        buf_done(&r->in);
        r->in = rest;
    }
}

char *zmtp_reader_space(struct zmtp_reader *r, size_t *ret_n)
{
    compact(r);
    must(buf_reserve(&r->in, READ_CHUNK) == 0);
    *ret_n = r->in.cap - r->in.len;
    return r->in.p + r->in.len;
}

void zmtp_reader_fill(struct zmtp_reader *r, size_t n)
{
    if (r->skip) {
        size_t skipped = (size_t)MIN(r->skip, (uint64_t)n);
        /* What is skipped came first: move what lies behind it. */
        memmove(r->in.p + r->in.len, r->in.p + r->in.len + skipped, n - skipped);
        r->skip -= skipped;
        n -= skipped;
    }
    r->in.len += n;
}

/* The message that was delivered is not needed any more. */
static void forget_message(struct zmtp_reader *r)
{
    r->start = r->at;
    r->n_parts = 0;
    r->truncated = false;
    if (r->start == r->in.len) {
        compact(r); /* nothing to move, and an idle connection keeps no memory */
    }
}

static enum zmtp_result read_greeting(struct zmtp_reader *r)
{
    const char *p = r->in.p;
    size_t n = r->in.len;
    if ((n > 0 && (uint8_t)p[0] != 0xff) || (n > 9 && !(p[9] & 1)) ||
        (n > 10 && (uint8_t)p[10] < 3)) {
        return ZMTP_BAD;
    }
    if (n < ZMTP_GREETING_LEN) {
        return ZMTP_MORE;
    }
    static const char null_mechanism[20] = "NULL";
    if (memcmp(p + 12, null_mechanism, sizeof(null_mechanism)) != 0) {
        return ZMTP_BAD;
    }
    r->greeted = true;
    r->at = ZMTP_GREETING_LEN;
    return ZMTP_READY; /* goes on below */
}

/* A command that is there as a whole. ZMTP_MORE: nothing to tell. */
static enum zmtp_result take_command(struct zmtp_reader *r, struct str body,
                                     struct zmtp_message *ret)
{
    if (str_starts(body, STR("\5READY")) && !r->ready) {
        r->ready = true;
        return ZMTP_READY;
    }
    if (!r->ready || str_starts(body, STR("\5ERROR"))) {
        return ZMTP_BAD;
    }
    if (str_starts(body, STR("\4PING")) && body.n >= 7) {
        ret->parts[0] = str_sub(body, 7, body.n); /* behind its time to live */
        ret->n = 1;
        return ZMTP_PING;
    }
    return ZMTP_MORE;
}

static void deliver(const struct zmtp_reader *r, struct zmtp_message *ret)
{
    for (size_t i = 0; i < r->n_parts; i++) {
        ret->parts[i] = str_n(r->in.p + r->part[i].from, r->part[i].n);
    }
    ret->n = r->n_parts;
    ret->truncated = r->truncated;
}

/* A part of a message. ZMTP_MORE: it is not there as a whole; ZMTP_READY: go on with the next. */
static enum zmtp_result take_part(struct zmtp_reader *r, const struct zmtp_frame *f, size_t head)
{
    if (!r->ready || r->n_parts == ZMTP_MAX_PARTS) {
        return ZMTP_BAD;
    }
    size_t have = r->in.len - r->at - head;
    bool fits = f->len <= r->max && r->at - r->start + head + f->len <= r->max;
    if (fits && have < f->len) {
        return ZMTP_MORE;
    }
    r->part[r->n_parts].from = r->at + head;
    r->part[r->n_parts++].n = fits ? (size_t)f->len : 0;
    r->at += head;
    if (fits) {
        r->at += (size_t)f->len;
    } else {
        size_t drop = (size_t)MIN(f->len, (uint64_t)have);
        memmove(r->in.p + r->at, r->in.p + r->at + drop, have - drop);
        r->in.len -= drop;
        r->skip = f->len - drop;
        r->truncated = true;
    }
    return f->more ? ZMTP_READY : ZMTP_MESSAGE;
}

/* The next frame, told or counted. ZMTP_MORE with *ret_again: there may be another one. */
static enum zmtp_result take_frame(struct zmtp_reader *r, struct zmtp_message *ret, bool *ret_again)
{
    struct zmtp_frame f = {0};
    int head = zmtp_frame_parse(str_n(r->in.p + r->at, r->in.len - r->at), &f);
    *ret_again = false;
    if (head < 0 || (f.command && (f.len > ZMTP_MAX_COMMAND || r->n_parts))) {
        return ZMTP_BAD;
    }
    if (head == 0) {
        return ZMTP_MORE;
    }
    if (!f.command) {
        enum zmtp_result got = take_part(r, &f, (size_t)head);
        *ret_again = got == ZMTP_READY;
        return got == ZMTP_READY ? ZMTP_MORE : got;
    }
    if (r->in.len - r->at - (size_t)head < f.len) {
        return ZMTP_MORE;
    }
    enum zmtp_result got = take_command(r, str_n(r->in.p + r->at + head, (size_t)f.len), ret);
    r->at += (size_t)head + (size_t)f.len;
    *ret_again = got == ZMTP_MORE;
    return got;
}

enum zmtp_result zmtp_reader_next(struct zmtp_reader *r, struct zmtp_message *ret)
{
    if (!r->greeted) {
        enum zmtp_result g = read_greeting(r);
        if (g != ZMTP_READY) {
            return g;
        }
    }
    bool again = true;
    enum zmtp_result got = ZMTP_MORE;
    while (again) {
        if (r->n_parts == 0 || r->delivered) {
            forget_message(r);
            r->delivered = false;
        }
        if (r->skip) {
            return ZMTP_MORE;
        }
        got = take_frame(r, ret, &again);
    }
    if (got == ZMTP_MESSAGE) {
        deliver(r, ret);
        r->delivered = true;
    }
    return got;
}
