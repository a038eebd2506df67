/* Message assembly of the WebSocket reader. A data frame that arrives whole in one piece of input
 * is handed out where it lies; everything else goes through r->msg. */

#include "http/ws_reader.h"

#include <string.h>

#include "base/must.h"

enum { WS_VIOLATION = -1002, WS_BAD_TEXT = -1007, WS_TOO_BIG = -1009 };

void ws_reader_init(struct ws_reader *r, bool is_server, size_t max_message)
{
    memset(r, 0, sizeof(*r));
    r->is_server = is_server;
    r->max_message = max_message;
    buf_init(&r->msg, max_message);
}

void ws_reader_done(struct ws_reader *r)
{
    buf_done(&r->msg);
}

static bool is_control(enum ws_opcode op)
{
    return op >= WS_CLOSE;
}

/* What a frame header means in the current state of the message. 0 or a close code. */
static int begin_frame(struct ws_reader *r)
{
    const struct ws_frame *f = &r->frame;
    if (f->masked != r->is_server) {
        return WS_VIOLATION;
    }
    if (is_control(f->opcode)) {
        return 0;
    }
    if ((f->opcode == WS_CONT) != r->in_message) {
        return WS_VIOLATION;
    }
    if (f->len > r->max_message - r->msg.len) {
        return WS_TOO_BIG;
    }
    if (f->opcode != WS_CONT) {
        r->opcode = f->opcode;
        r->utf8 = (struct utf8_check){0};
        r->in_message = true;
    }
    return 0;
}

/* Completes the header from the input: 0, with r->in_frame set once it is whole, or a close code.
 */
static int read_head(struct ws_reader *r, char **p, size_t *n)
{
    size_t old = r->head_len;
    size_t take = MIN(sizeof(r->head) - old, *n);
    memcpy(r->head + old, *p, take);
    int len = ws_frame_parse(str_n(r->head, old + take), &r->frame);
    if (len < 0) {
        return WS_VIOLATION;
    }
    if (len == 0) {
        r->head_len = old + take;
        *p += take;
        *n -= take;
        return 0;
    }
    *p += (size_t)len - old;
    *n -= (size_t)len - old;
    r->head_len = 0;
    r->in_frame = true;
    r->frame_got = 0;
    return begin_frame(r);
}

static int parse_close(struct str data, struct ws_event *ret)
{
    *ret = (struct ws_event){.opcode = WS_CLOSE, .code = 1005};
    if (data.n == 0) {
        return 1;
    }
    if (data.n == 1) {
        return WS_VIOLATION;
    }
    ret->code = (unsigned)(uint8_t)data.p[0] << 8 | (uint8_t)data.p[1];
    ret->data = str_sub(data, 2, data.n);
    if (!ws_close_code_valid(ret->code)) {
        return WS_VIOLATION;
    }
    return utf8_valid(ret->data) ? 1 : WS_BAD_TEXT;
}

static int end_control(struct ws_reader *r, struct ws_event *ret)
{
    struct str data = {r->control, (size_t)r->frame.len};
    r->in_frame = false;
    if (r->frame.opcode == WS_CLOSE) {
        return parse_close(data, ret);
    }
    *ret = (struct ws_event){.opcode = r->frame.opcode, .data = data};
    return 1;
}

/* The frame's payload is complete; `piece` is it when it lay in one piece and nothing came before.
 */
static int end_data(struct ws_reader *r, struct str piece, struct ws_event *ret)
{
    r->in_frame = false;
    if (!r->frame.fin) {
        return 0;
    }
    r->in_message = false;
    if (r->opcode == WS_TEXT && !utf8_check_done(&r->utf8)) {
        return WS_BAD_TEXT;
    }
    *ret = (struct ws_event){.opcode = r->opcode, .data = piece.p ? piece : buf_str(&r->msg)};
    return 1;
}

/* Takes payload of the current frame. 1: an event, 0: go on with what is left, or a close code. */
static int read_payload(struct ws_reader *r, char **p, size_t *n, struct ws_event *ret)
{
    struct ws_frame *f = &r->frame;
    uint64_t left = f->len - r->frame_got;
    size_t take = left < *n ? (size_t)left : *n;
    char *at = *p;
    if (f->masked) {
        ws_mask(at, take, f->mask, r->frame_got);
    }
    *p += take;
    *n -= take;
    if (is_control(f->opcode)) {
        memcpy(r->control + r->frame_got, at, take);
        r->frame_got += take;
        return r->frame_got == f->len ? end_control(r, ret) : 0;
    }
    if (r->opcode == WS_TEXT && !utf8_check_feed(&r->utf8, str_n(at, take))) {
        return WS_BAD_TEXT;
    }
    bool in_place = take == f->len && f->fin && r->msg.len == 0;
    r->frame_got += take;
    if (!in_place && buf_add(&r->msg, at, take) < 0) {
        return WS_TOO_BIG;
    }
    if (r->frame_got < f->len) {
        return 0;
    }
    return end_data(r, in_place ? str_n(at, take) : STR_NULL, ret);
}

int ws_reader_next(struct ws_reader *r, char **p, size_t *n, struct ws_event *ret)
{
    if (bug_if(r->failed)) {
        return WS_VIOLATION;
    }
    if (!r->in_message && r->msg.p) {
        buf_done(&r->msg); /* handed out last time; an idle connection keeps no memory */
    }
    while (r->in_frame || *n > 0) {
        int rc = 0;
        if (!r->in_frame) {
            rc = read_head(r, p, n);
        } else if (*n > 0 || r->frame_got == r->frame.len) {
            rc = read_payload(r, p, n, ret); /* an empty frame needs no further input */
        } else {
            return 0;
        }
        if (rc != 0) {
            r->failed = rc < 0;
            return rc;
        }
    }
    return 0;
}
