#include "mcp/http_guard.h"

static struct str without_port(struct str host)
{
    if (host.n > 0 && host.p[0] == '[') {
        ptrdiff_t end = str_find(host, ']');
        return end < 0 ? host : str_sub(host, 1, (size_t)end);
    }
    ptrdiff_t colon = str_find(host, ':');
    return colon < 0 ? host : str_sub(host, 0, (size_t)colon);
}

/* Four numbers, the first of which is 127: a name such as 127.example.com is not an address. */
static bool is_loopback4(struct str s)
{
    size_t dots = 0;
    for (size_t i = 0; i < s.n; i++) {
        dots += s.p[i] == '.';
        if (s.p[i] != '.' && (s.p[i] < '0' || s.p[i] > '9')) {
            return false;
        }
    }
    return dots == 3 && str_starts(s, STR("127."));
}

bool guard_is_loopback(struct str host)
{
    struct str name = without_port(host);
    return str_eq_nocase(name, STR("localhost")) || str_eq(name, STR("::1")) || is_loopback4(name);
}

static bool listed(const char *const *list, struct str s)
{
    for (; list && *list; list++) {
        if (str_eq_nocase(str_from(*list), s)) {
            return true;
        }
    }
    return false;
}

bool guard_host(const struct http_opts *o, struct str host)
{
    /* With a token no page can say it, whatever name it uses. */
    return o->token || guard_is_loopback(host) ||
           str_eq_nocase(without_port(host), str_from(o->host)) || listed(o->hosts, host) ||
           listed(o->hosts, without_port(host));
}

bool guard_origin(const struct http_opts *o, struct str origin)
{
    if (!origin.p || listed(o->origins, origin)) {
        return true;
    }
    ptrdiff_t sep = str_find_str(origin, STR("://"));
    struct str scheme = sep < 0 ? STR_NULL : str_sub(origin, 0, (size_t)sep);
    return (str_eq_nocase(scheme, STR("http")) || str_eq_nocase(scheme, STR("https"))) &&
           guard_is_loopback(str_sub(origin, (size_t)sep + 3, origin.n));
}

bool guard_token(const struct http_opts *o, struct str header)
{
    if (!o->token) {
        return true;
    }
    return str_starts_nocase(header, STR("Bearer ")) &&
           str_eq_consttime(str_trim(str_sub(header, 7, header.n)), str_from(o->token));
}

bool guard_accepts(struct str accept, struct str type)
{
    struct str major = str_sub(type, 0, (size_t)(str_find(type, '/') + 1));
    if (!accept.p) {
        return true;
    }
    while (accept.p) {
        struct str one = str_cut(&accept, ',');
        one = str_trim(str_cut(&one, ';'));
        if (str_eq_nocase(one, type) || str_eq(one, STR("*/*")) ||
            (one.n == major.n + 1 && str_ends(one, STR("*")) && str_starts_nocase(one, major))) {
            return true;
        }
    }
    return false;
}
