/* Writing trust stores for Java. All numbers are big endian; strings have two bytes of length. */

#include "server/runtime/oci/keystore.h"

#include <errno.h>
#include <stdio.h>

#include "base/codec.h"
#include "base/sha1.h"

#define MAGIC 0xfeedfeedu
#define VERSION 2u
#define TRUSTED 2u /* an entry that is a certificate alone */
#define HEAD_LEN 12

static void put_u16(struct buf *out, uint32_t v)
{
    (void)buf_add_char(out, (char)(v >> 8));
    (void)buf_add_char(out, (char)v);
}

static void put_u32(struct buf *out, uint32_t v)
{
    put_u16(out, v >> 16);
    put_u16(out, v & 0xffff);
}

static uint32_t get_u32(struct str s, size_t at)
{
    const unsigned char *p = (const unsigned char *)s.p + at;
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void put_text(struct buf *out, struct str s)
{
    put_u16(out, (uint32_t)s.n);
    (void)buf_add_str(out, s);
}

/* The next certificate of the text as DER. 1, 0 at the end; what is malformed is passed over. */
static int next_der(struct str *rest, struct buf *der)
{
    const struct str begin = STR("-----BEGIN CERTIFICATE-----"),
                     end = STR("-----END CERTIFICATE-----");
    char plain[KEYSTORE_CERT_MAX];
    for (;;) {
        ptrdiff_t from = str_find_str(*rest, begin);
        if (from < 0) {
            return 0;
        }
        struct str body = str_sub(*rest, (size_t)from + begin.n, rest->n);
        ptrdiff_t len = str_find_str(body, end);
        if (len < 0) {
            return 0;
        }
        *rest = str_sub(body, (size_t)len + end.n, body.n);
        size_t n = 0;
        for (ptrdiff_t i = 0; i < len && n < sizeof(plain); i++) {
            if ((unsigned char)body.p[i] > ' ') {
                plain[n++] = body.p[i];
            }
        }
        buf_clear(der);
        if (n == sizeof(plain) || buf_reserve(der, n) < 0) {
            continue;
        }
        ssize_t got = base64_decode(str_n(plain, n), der->p, n);
        if (got > 0) {
            der->len = (size_t)got;
            return 1;
        }
    }
}

/* Returns how many were added. */
static uint32_t put_entries(struct str pem, const char *alias, struct buf *out)
{
    struct buf der = BUF_INIT(KEYSTORE_CERT_MAX);
    uint32_t n = 0;
    for (char name[48]; next_der(&pem, &der); n++) {
        (void)snprintf(name, sizeof(name), "%s-%u", alias, n);
        put_u32(out, TRUSTED);
        put_text(out, str_from(name));
        put_u32(out, 0); /* when it was added: never mind */
        put_u32(out, 0);
        put_text(out, STR("X.509"));
        put_u32(out, (uint32_t)der.len);
        (void)buf_add_str(out, buf_str(&der));
    }
    buf_done(&der);
    return n;
}

/* The usual password of trust stores, and what Java puts between it and the data. */
static int seal(struct buf *out, uint32_t count)
{
    static const char salt[] = "\0c\0h\0a\0n\0g\0e\0i\0tMighty Aphrodite";
    struct sha1 s;
    uint8_t sum[SHA1_LEN];
    if (buf_failed(out)) {
        return -ENOSPC;
    }
    for (int i = 0; i < 4; i++) {
        out->p[8 + i] = (char)(count >> (24 - 8 * i));
    }
    sha1_init(&s);
    sha1_add(&s, str_n(salt, sizeof(salt) - 1));
    sha1_add(&s, buf_str(out));
    sha1_done(&s, sum);
    return buf_add(out, sum, sizeof(sum));
}

int keystore_from_pem(struct str pem, struct buf *out)
{
    buf_clear(out);
    put_u32(out, MAGIC);
    put_u32(out, VERSION);
    put_u32(out, 0);
    return seal(out, put_entries(pem, "root", out));
}

int keystore_extend(struct str old, struct str pem, struct buf *out)
{
    if (old.n < HEAD_LEN + SHA1_LEN || get_u32(old, 0) != MAGIC || get_u32(old, 4) != VERSION) {
        return -EINVAL;
    }
    buf_clear(out);
    (void)buf_add_str(out, str_sub(old, 0, old.n - SHA1_LEN));
    return seal(out, get_u32(old, 8) + put_entries(pem, "opensandbox-egress", out));
}
