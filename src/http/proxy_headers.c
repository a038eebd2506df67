/* What a proxy changes in the headers of a message, and nothing else: hop-by-hop fields go, fields
 * of this hop come, the rest stays as it is and where it is. Pure; no I/O. */

#include <errno.h>
#include <string.h>

#include "base/must.h"
#include "http/proxy.h"

/* Always removed. "Proxy-" by prefix below. Content-Length and Transfer-Encoding are here because
 * framing is made anew from what was parsed; Expect because this server answers it. */
static const struct str hop_names[] = {
    {"connection", 10},     {"keep-alive", 10},        {"te", 2},      {"trailer", 7},
    {"trailers", 8},        {"transfer-encoding", 17}, {"upgrade", 7}, {"expect", 6},
    {"content-length", 14}, {"http2-settings", 14},
};

/* Lengths of the names above, one bit each, and of the shortest "Proxy-": most names are passed on
 * after one look at this. */
#define LEN_BIT(n) (1u << (n))
#define HOP_LENS                                                                                   \
    (LEN_BIT(2) | LEN_BIT(6) | LEN_BIT(7) | LEN_BIT(8) | LEN_BIT(10) | LEN_BIT(14) | LEN_BIT(17))

static bool is_hop_name(struct str name)
{
    if (name.n < 32 && (HOP_LENS & LEN_BIT(name.n))) {
        for (size_t i = 0; i < ARRAY_LEN(hop_names); i++) {
            if (str_eq_nocase(name, hop_names[i])) {
                return true;
            }
        }
    }
    return name.n >= 6 && (name.p[0] | 0x20) == 'p' && str_starts_nocase(name, STR("proxy-"));
}

static bool is_upgrade_name(struct str name)
{
    return name.n == 7 && str_eq_nocase(name, STR("upgrade"));
}

static bool is_connection_name(struct str name)
{
    return name.n == 10 && str_eq_nocase(name, STR("connection"));
}

static bool named_in(struct str name, const struct h1_header *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (str_eq_nocase(name, list[i].name)) {
            return true;
        }
    }
    return false;
}

/* Is `name` listed in one of the Connection fields? RFC 9110 7.6.1: those are hop-by-hop too. */
static bool named_in_connection(struct str name, const struct h1_header *in, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (is_connection_name(in[i].name)) {
            struct str rest = in[i].value;
            while (rest.p) {
                if (str_eq_nocase(str_trim(str_cut(&rest, ',')), name)) {
                    return true;
                }
            }
        }
    }
    return false;
}

/* Connection options that name no header: everybody sends them, and they need no search. */
static bool connection_names_headers(const struct h1_header *in, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (is_connection_name(in[i].name) && !str_eq_nocase(in[i].value, STR("keep-alive")) &&
            !str_eq_nocase(in[i].value, STR("close")) &&
            !str_eq_nocase(in[i].value, STR("upgrade"))) {
            return true;
        }
    }
    return false;
}

/* Appends what the proxy's user wants to add. The input came out of the parser; this did not. */
static ssize_t append_added(const struct h1_header *add, size_t n_add, struct h1_header *out,
                            size_t n, size_t max)
{
    if (n_add > max - n) {
        return -EINVAL;
    }
    for (size_t i = 0; i < n_add; i++) {
        if (!h1_is_token(add[i].name) || !h1_is_field_value(add[i].value) ||
            is_hop_name(add[i].name) || str_eq_nocase(add[i].name, STR("host"))) {
            return -EINVAL;
        }
        out[n++] = add[i];
    }
    return (ssize_t)n;
}

static bool keeps(struct str name, const struct h1_header *in, size_t n, bool names_headers,
                  bool upgrade)
{
    if (upgrade && is_upgrade_name(name)) {
        return true;
    }
    return !is_hop_name(name) && !(names_headers && named_in_connection(name, in, n));
}

static bool dropped(struct str name, const struct http_proxy_opts *o)
{
    for (size_t i = 0; i < o->n_drop; i++) {
        if (str_eq_nocase(name, o->drop[i])) {
            return true;
        }
    }
    return false;
}

ssize_t http_proxy_request_headers(const struct h1_header *in, size_t n,
                                   const struct http_proxy_opts *o, bool upgrade,
                                   struct h1_header *out, size_t max)
{
    size_t n_out = 0;
    bool names_headers = connection_names_headers(in, n);
    struct str host = o->host.p ? o->host : h1_header_get(in, n, STR("host"));
    if (max == 0 || (o->host.p && !h1_is_field_value(o->host))) {
        return -EINVAL;
    }
    out[n_out++] = (struct h1_header){STR("Host"), host};
    for (size_t i = 0; i < n; i++) {
        struct str name = in[i].name;
        if (name.n == 4 && str_eq_nocase(name, STR("host"))) {
            continue;
        }
        if (!keeps(name, in, n, names_headers, upgrade) || dropped(name, o) ||
            named_in(name, o->add, o->n_add)) {
            continue;
        }
        if (n_out == max) {
            return -EINVAL;
        }
        out[n_out++] = in[i];
    }
    return append_added(o->add, o->n_add, out, n_out, max);
}

ssize_t http_proxy_response_headers(const struct h1_header *in, size_t n,
                                    const struct http_proxy_opts *o, bool upgrade,
                                    struct h1_header *out, size_t max)
{
    size_t n_out = 0;
    bool names_headers = connection_names_headers(in, n);
    for (size_t i = 0; i < n; i++) {
        if (!keeps(in[i].name, in, n, names_headers, upgrade) ||
            named_in(in[i].name, o->add_resp, o->n_add_resp)) {
            continue;
        }
        if (n_out == max) {
            return -EINVAL;
        }
        out[n_out++] = in[i];
    }
    return append_added(o->add_resp, o->n_add_resp, out, n_out, max);
}
