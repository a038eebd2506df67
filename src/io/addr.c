/* Socket addresses to and from text. */

#include "io/addr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>

#include "base/must.h"

static struct sockaddr_in *v4(const struct io_addr *a)
{
    return (struct sockaddr_in *)(uintptr_t)&a->ss;
}

static struct sockaddr_in6 *v6(const struct io_addr *a)
{
    return (struct sockaddr_in6 *)(uintptr_t)&a->ss;
}

int io_addr_ip(struct str ip, uint16_t port, struct io_addr *ret)
{
    char text[INET6_ADDRSTRLEN + 1];
    struct io_addr a = {0};

    if (ip.n >= 2 && ip.p[0] == '[' && ip.p[ip.n - 1] == ']') {
        ip = str_sub(ip, 1, ip.n - 1);
        if (str_find(ip, ':') < 0) {
            return -EINVAL;
        }
    }
    if (str_to_cstr(ip, text, sizeof(text)) < 0) {
        return -EINVAL;
    }
    if (inet_pton(AF_INET, text, &v4(&a)->sin_addr) == 1) {
        v4(&a)->sin_family = AF_INET;
        v4(&a)->sin_port = htons(port);
        a.len = sizeof(struct sockaddr_in);
    } else if (inet_pton(AF_INET6, text, &v6(&a)->sin6_addr) == 1) {
        v6(&a)->sin6_family = AF_INET6;
        v6(&a)->sin6_port = htons(port);
        a.len = sizeof(struct sockaddr_in6);
    } else {
        return -EINVAL;
    }
    *ret = a;
    return 0;
}

int io_addr_unix(struct str path, struct io_addr *ret)
{
    struct io_addr a = {0};
    bool abstract = path.n > 0 && path.p[0] == '@';

    if (path.n == 0 || (!abstract && memchr(path.p, 0, path.n))) {
        return -EINVAL;
    }
    if (path.n >= sizeof(a.un.sun_path)) {
        return -ENAMETOOLONG;
    }
    a.un.sun_family = AF_UNIX;
    memcpy(a.un.sun_path, path.p, path.n);
    if (abstract) {
        a.un.sun_path[0] = 0; /* the length, not a NUL, ends an abstract name */
    }
    a.len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + path.n + (abstract ? 0 : 1));
    *ret = a;
    return 0;
}

uint16_t io_addr_port(const struct io_addr *a)
{
    switch (a->sa.sa_family) {
    case AF_INET:
        return ntohs(v4(a)->sin_port);
    case AF_INET6:
        return ntohs(v6(a)->sin6_port);
    default:
        return 0;
    }
}

bool io_addr_is_loopback(const struct io_addr *a)
{
    switch (a->sa.sa_family) {
    case AF_INET:
        return ntohl(v4(a)->sin_addr.s_addr) >> 24 == 127;
    case AF_INET6: {
        const struct in6_addr *ip = &v6(a)->sin6_addr;
        return IN6_IS_ADDR_LOOPBACK(ip) || (IN6_IS_ADDR_V4MAPPED(ip) && ip->s6_addr[12] == 127);
    }
    case AF_UNIX:
        return true;
    default:
        return false;
    }
}

/* The part of sun_path that counts: without the NUL behind a path, with the one before a name. */
static struct str unix_name(const struct io_addr *a)
{
    size_t head = offsetof(struct sockaddr_un, sun_path);

    if (a->len <= head) {
        return STR_NULL;
    }
    size_t n = MIN(a->len - head, sizeof(a->un.sun_path));
    if (a->un.sun_path[0]) {
        n = strnlen(a->un.sun_path, n);
    }
    return str_n(a->un.sun_path, n);
}

bool io_addr_eq(const struct io_addr *a, const struct io_addr *b)
{
    if (a->sa.sa_family != b->sa.sa_family || io_addr_port(a) != io_addr_port(b)) {
        return false;
    }
    switch (a->sa.sa_family) {
    case AF_INET:
        return v4(a)->sin_addr.s_addr == v4(b)->sin_addr.s_addr;
    case AF_INET6:
        return IN6_ARE_ADDR_EQUAL(&v6(a)->sin6_addr, &v6(b)->sin6_addr) &&
               v6(a)->sin6_scope_id == v6(b)->sin6_scope_id;
    case AF_UNIX:
        return str_eq(unix_name(a), unix_name(b));
    default:
        return false;
    }
}

const char *io_addr_format_ip(const struct io_addr *a, char out[IO_ADDR_TEXT_MAX])
{
    out[0] = 0;
    if (a->sa.sa_family == AF_INET) {
        (void)inet_ntop(AF_INET, &v4(a)->sin_addr, out, IO_ADDR_TEXT_MAX);
    } else if (a->sa.sa_family == AF_INET6) {
        (void)inet_ntop(AF_INET6, &v6(a)->sin6_addr, out, IO_ADDR_TEXT_MAX);
    } else if (a->sa.sa_family == AF_UNIX) {
        struct str name = unix_name(a);
        bool abstract = name.n > 0 && !name.p[0];
        (void)snprintf(out, IO_ADDR_TEXT_MAX, "unix:%s%.*s", abstract ? "@" : "",
                       STR_FMT(str_sub(name, abstract ? 1 : 0, name.n)));
    }
    return out;
}

const char *io_addr_format(const struct io_addr *a, char out[IO_ADDR_TEXT_MAX])
{
    char ip[IO_ADDR_TEXT_MAX];

    switch (a->sa.sa_family) {
    case AF_INET:
        (void)snprintf(out, IO_ADDR_TEXT_MAX, "%.64s:%u", io_addr_format_ip(a, ip),
                       io_addr_port(a));
        return out;
    case AF_INET6:
        (void)snprintf(out, IO_ADDR_TEXT_MAX, "[%.64s]:%u", io_addr_format_ip(a, ip),
                       io_addr_port(a));
        return out;
    default:
        return io_addr_format_ip(a, out);
    }
}
