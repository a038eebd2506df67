/* WebSocket frames (RFC 6455 section 5): headers, masking, and the handshake's accept key. */

#include <errno.h>
#include <string.h>

#include "base/codec.h"
#include "base/must.h"
#include "base/sha1.h"
#include "http/ws.h"

#define WS_GUID "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

static bool opcode_known(unsigned op)
{
    return op <= WS_BINARY || (op >= WS_CLOSE && op <= WS_PONG);
}

/* Reads `n` bytes of big-endian length. */
static uint64_t load_len(const uint8_t *p, size_t n)
{
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++) {
        v = v << 8 | p[i];
    }
    return v;
}

/* The first two bytes decide whether the frame is allowed at all, so that a bad one fails before
 * the rest of its header has come. */
static int check_start(const uint8_t *p)
{
    unsigned op = p[0] & 0x0f, len7 = p[1] & 0x7f;
    if ((p[0] & 0x70) || !opcode_known(op)) {
        return -EPROTO; /* no extension is ever negotiated */
    }
    if (op >= WS_CLOSE && (!(p[0] & 0x80) || len7 > 125)) {
        return -EPROTO;
    }
    return 0;
}

int ws_frame_parse(struct str in, struct ws_frame *ret)
{
    const uint8_t *p = (const uint8_t *)in.p;
    if (in.n < 2) {
        /* a lone first byte can already be wrong */
        if (in.n == 1 && ((p[0] & 0x70) || !opcode_known(p[0] & 0x0f))) {
            return -EPROTO;
        }
        return 0;
    }
    if (check_start(p) < 0) {
        return -EPROTO;
    }
    unsigned len7 = p[1] & 0x7f;
    bool masked = p[1] & 0x80;
    size_t n_len = len7 == 126 ? 2 : len7 == 127 ? 8 : 0;
    if (in.n < 2 + n_len) {
        return 0;
    }
    uint64_t len = n_len ? load_len(p + 2, n_len) : len7;
    if ((n_len == 2 && len < 126) || (n_len == 8 && (len <= 0xffff || len >> 63))) {
        return -EPROTO;
    }
    size_t total = 2 + n_len + (masked ? 4 : 0);
    if (in.n < total) {
        return 0;
    }
    *ret = (struct ws_frame){
        .opcode = (enum ws_opcode)(p[0] & 0x0f), .fin = p[0] & 0x80, .masked = masked, .len = len};
    if (masked) {
        memcpy(ret->mask, p + 2 + n_len, 4);
    }
    return (int)total;
}

size_t ws_frame_format(const struct ws_frame *f, char out[WS_FRAME_MAX])
{
    uint8_t *p = (uint8_t *)out;
    size_t n_len = f->len < 126 ? 0 : f->len <= 0xffff ? 2 : 8;
    p[0] = (uint8_t)((f->fin ? 0x80 : 0) | (unsigned)f->opcode);
    p[1] = (uint8_t)((f->masked ? 0x80u : 0u) | (n_len == 0   ? (unsigned)f->len
                                                 : n_len == 2 ? 126u
                                                              : 127u));
    for (size_t i = 0; i < n_len; i++) {
        p[2 + i] = (uint8_t)(f->len >> (8 * (n_len - 1 - i)));
    }
    size_t n = 2 + n_len;
    if (f->masked) {
        memcpy(p + n, f->mask, 4);
        n += 4;
    }
    return n;
}

void ws_mask(char *p, size_t n, const uint8_t mask[4], uint64_t offset)
{
    uint8_t rot[8];
    for (unsigned i = 0; i < 8; i++) {
        rot[i] = mask[(offset + i) & 3];
    }
    uint64_t m8, v;
    memcpy(&m8, rot, 8);
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        memcpy(&v, p + i, 8);
        v ^= m8;
        memcpy(p + i, &v, 8);
    }
    for (; i < n; i++) {
        p[i] = (char)((uint8_t)p[i] ^ rot[i & 7]);
    }
}

void ws_accept_key(struct str key, char out[29])
{
    struct sha1 h;
    uint8_t sum[SHA1_LEN];
    sha1_init(&h);
    sha1_add(&h, key);
    sha1_add(&h, STR(WS_GUID));
    sha1_done(&h, sum);
    struct buf b = BUF_INIT(28);
    must(base64_encode(&b, sum, sizeof(sum)) == 0 && b.len == 28);
    memcpy(out, b.p, 28);
    out[28] = '\0';
    buf_done(&b);
}

bool ws_close_code_valid(unsigned code)
{
    /* 1004 is unused; 1005, 1006 and 1015 are never on the wire; 1012 to 1014 are registered with
     * IANA after the RFC; 3000 to 4999 belong to libraries and applications. */
    return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) ||
           (code >= 3000 && code <= 4999);
}
