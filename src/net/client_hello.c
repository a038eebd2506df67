/* TLS ClientHello (RFC 8446 4.1.2, RFC 6066 3, RFC 7301 3.1): bounds first, then bytes. */

#include "net/client_hello.h"

#include <stdint.h>
#include <string.h>

enum {
    RECORD_HEADER = 5,
    RECORD_HANDSHAKE = 22,
    RECORD_MAX = (16 << 10) + 256, /* what old clients may send at most */
    MESSAGE_HEADER = 4,
    MESSAGE_CLIENT_HELLO = 1,
    EXT_SERVER_NAME = 0,
    EXT_ALPN = 16,
    EXT_ECH = 0xfe0d,
    NAME_TYPE_HOST = 0,
};

/* A cursor that never leaves its bytes; after the first overrun everything it gives is empty. */
struct cursor {
    const uint8_t *p, *end;
    bool bad;
};

static uint32_t take_uint(struct cursor *c, size_t n_bytes)
{
    if (c->bad || (size_t)(c->end - c->p) < n_bytes) {
        c->bad = true;
        return 0;
    }
    uint32_t v = 0;
    for (size_t i = 0; i < n_bytes; i++) {
        v = v << 8 | *c->p++;
    }
    return v;
}

static struct cursor take_bytes(struct cursor *c, size_t n)
{
    if (c->bad || (size_t)(c->end - c->p) < n) {
        c->bad = true;
        return (struct cursor){.bad = true};
    }
    struct cursor part = {c->p, c->p + n, false};
    c->p += n;
    return part;
}

/* A vector: its length in n_bytes, then so many bytes. */
static struct cursor take_vector(struct cursor *c, size_t n_bytes)
{
    return take_bytes(c, take_uint(c, n_bytes));
}

static bool more(const struct cursor *c)
{
    return !c->bad && c->p < c->end;
}

static void read_server_name(struct cursor ext, struct client_hello *ret)
{
    struct cursor list = take_vector(&ext, 2);
    while (more(&list)) {
        uint32_t type = take_uint(&list, 1);
        struct cursor name = take_vector(&list, 2);
        if (type != NAME_TYPE_HOST || name.bad) {
            continue;
        }
        struct str s = str_n((const char *)name.p, (size_t)(name.end - name.p));
        if (domain_normalize(s, ret->server_name) < 0) {
            ret->server_name[0] = 0;
        }
        return; /* there is one name of a type at most */
    }
}

static void read_alpn(struct cursor ext, struct client_hello *ret)
{
    struct cursor list = take_vector(&ext, 2);
    ret->has_http1 = false;
    while (more(&list)) {
        struct cursor name = take_vector(&list, 1);
        struct str s = str_n((const char *)name.p, name.bad ? 0 : (size_t)(name.end - name.p));
        ret->has_h2 |= str_eq(s, STR("h2"));
        ret->has_http1 |= str_eq(s, STR("http/1.1"));
    }
}

static enum hello_result read_hello(struct cursor c, struct client_hello *ret)
{
    *ret = (struct client_hello){.has_http1 = true};
    (void)take_bytes(&c, 2 + 32); /* version and random */
    (void)take_vector(&c, 1);     /* session id */
    (void)take_vector(&c, 2);     /* cipher suites */
    (void)take_vector(&c, 1);     /* compression methods */
    if (c.bad) {
        return HELLO_NOT_TLS;
    }
    if (c.p == c.end) {
        return HELLO_DONE; /* extensions may be left out */
    }
    bool has_name = false;
    struct cursor extensions = take_vector(&c, 2);
    while (more(&extensions)) {
        uint32_t type = take_uint(&extensions, 2);
        struct cursor ext = take_vector(&extensions, 2);
        if (ext.bad) {
            break;
        }
        if (type == EXT_SERVER_NAME) {
            if (has_name) {
                return HELLO_NOT_TLS; /* two names: whom would the server believe */
            }
            has_name = true;
            read_server_name(ext, ret);
        } else if (type == EXT_ALPN) {
            read_alpn(ext, ret);
        } else if (type == EXT_ECH) {
            ret->has_ech = true;
        }
    }
    return c.bad || c.p != c.end || extensions.bad ? HELLO_NOT_TLS : HELLO_DONE;
}

/* Takes the message out of its records. `out` has room for CLIENT_HELLO_MAX bytes. */
static enum hello_result join_records(struct str in, uint8_t *out, size_t *ret_len)
{
    struct cursor c = {(const uint8_t *)in.p, (const uint8_t *)in.p + in.n, false};
    size_t n = 0, want = MESSAGE_HEADER;

    while (n < want) {
        if (c.p < c.end && c.p[0] != RECORD_HANDSHAKE) {
            return HELLO_NOT_TLS;
        }
        if (c.end - c.p >= 2 && c.p[1] != 3) {
            return HELLO_NOT_TLS;
        }
        if (c.end - c.p < RECORD_HEADER) {
            return HELLO_NEED_MORE;
        }
        size_t len = (size_t)c.p[3] << 8 | c.p[4];
        if (len == 0 || len > RECORD_MAX) {
            return HELLO_NOT_TLS;
        }
        c.p += RECORD_HEADER;
        size_t have = (size_t)(c.end - c.p), part = len < have ? len : have;
        if (n + part > CLIENT_HELLO_MAX) {
            return HELLO_NOT_TLS;
        }
        memcpy(out + n, c.p, part);
        n += part;
        c.p += part;
        if (n > 0 && out[0] != MESSAGE_CLIENT_HELLO) {
            return HELLO_NOT_TLS;
        }
        if (n >= MESSAGE_HEADER) {
            want = MESSAGE_HEADER + ((size_t)out[1] << 16 | (size_t)out[2] << 8 | out[3]);
            if (want > CLIENT_HELLO_MAX) {
                return HELLO_NOT_TLS;
            }
        }
        if (n < want && part < len) {
            return HELLO_NEED_MORE;
        }
    }
    *ret_len = want;
    return HELLO_DONE;
}

enum hello_result client_hello_parse(struct str in, struct client_hello *ret)
{
    uint8_t message[CLIENT_HELLO_MAX];
    size_t n = 0;

    enum hello_result r = join_records(in, message, &n);
    if (r == HELLO_NEED_MORE && in.n >= CLIENT_HELLO_MAX) {
        return HELLO_NOT_TLS;
    }
    if (r != HELLO_DONE) {
        return r;
    }
    return read_hello((struct cursor){message + MESSAGE_HEADER, message + n, false}, ret);
}
