/* URLs: the parts, put together again, parse to the same parts; no part holds what could split it.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/must.h"
#include "net/url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void add_authority(struct buf *b, struct str host, uint16_t port)
{
    bool v6 = str_find(host, ':') >= 0;
    (void)buf_printf(b, v6 ? "[%.*s]" : "%.*s", STR_FMT(host));
    if (port) {
        (void)buf_printf(b, ":%u", (unsigned)port);
    }
}

static void rebuild(const struct url *u, size_t size)
{
    struct buf b = BUF_INIT(size + 64);
    (void)buf_printf(&b, "%.*s://", STR_FMT(u->scheme));
    if (u->user.p) {
        (void)buf_add_str(&b, u->user);
        if (u->password.p) {
            (void)buf_printf(&b, ":%.*s", STR_FMT(u->password));
        }
        (void)buf_add_char(&b, '@');
    }
    add_authority(&b, u->host, u->port);
    (void)buf_add_str(&b, u->path);
    if (u->query.p) {
        (void)buf_printf(&b, "?%.*s", STR_FMT(u->query));
    }
    must(!buf_failed(&b));
    struct url v;
    must(url_parse(buf_str(&b), &v) == 0);
    must(str_eq(u->host, v.host) && u->port == v.port && str_eq(u->path, v.path) &&
         str_eq(u->query, v.query) && str_eq(u->user, v.user) && str_eq(u->password, v.password));
    buf_done(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str s = str_n((const char *)data, size);
    struct url u;
    if (url_parse(s, &u) == 0) {
        must(u.path.n == 0 || u.path.p[0] == '/');
        for (size_t i = 0; i < u.host.n; i++) {
            must(!strchr("/?#@[]\\% \r\n\t", u.host.p[i]));
        }
        rebuild(&u, size);
    }
    struct str host;
    uint16_t port;
    if (authority_parse(s, &host, &port) == 0) {
        struct buf b = BUF_INIT(size + 8);
        add_authority(&b, host, port);
        must(str_eq(buf_str(&b), s));
        buf_done(&b);
    }
    return 0;
}
