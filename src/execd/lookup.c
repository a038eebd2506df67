#include "execd/lookup.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/rand.h"
#include "execd/limits.h"

#define FILE_MAX (256u << 10)
#define MAX_SERVERS 3
#define MAX_SEARCH 6

static struct str next_word(struct str *line)
{
    while (line->n > 0 && strchr(" \t\r", line->p[0])) {
        *line = str_sub(*line, 1, line->n);
    }
    size_t n = 0;
    while (n < line->n && !strchr(" \t\r", line->p[n])) {
        n++;
    }
    struct str word = str_sub(*line, 0, n);
    *line = str_sub(*line, n, line->n);
    return word;
}

int hosts_find(struct str text, struct str name, uint16_t port, struct io_addr *ret)
{
    while (text.p) {
        struct str line = str_cut(&text, '\n');
        line = str_cut(&line, '#');
        struct str ip = next_word(&line), word;
        while ((word = next_word(&line)).n > 0) {
            if (str_eq_nocase(word, name) && io_addr_ip(ip, port, ret) == 0) {
                return 0;
            }
        }
    }
    return -ENOENT;
}

/* ---- DNS messages ---- */

int dns_query_format(struct str name, enum dns_type type, uint16_t id, uint8_t out[DNS_QUERY_MAX])
{
    const uint8_t head[12] = {(uint8_t)(id >> 8), (uint8_t)id, 1 /* recursion */, 0, 0, 1};
    memcpy(out, head, sizeof(head));
    size_t n = sizeof(head);
    if (str_ends(name, STR("."))) {
        name.n--;
    }
    if (name.n == 0 || name.n > 253) {
        return -EINVAL;
    }
    while (name.p) {
        struct str label = str_cut(&name, '.');
        if (label.n == 0 || label.n > 63) {
            return -EINVAL;
        }
        out[n++] = (uint8_t)label.n;
        memcpy(out + n, label.p, label.n);
        n += label.n;
    }
    const uint8_t tail[5] = {0, 0, (uint8_t)type, 0, 1 /* IN */};
    memcpy(out + n, tail, sizeof(tail));
    return (int)(n + sizeof(tail));
}

/* Position behind the name at `at`, or 0. */
static size_t skip_name(const uint8_t *p, size_t n, size_t at)
{
    while (at < n) {
        if (p[at] == 0) {
            return at + 1;
        }
        if ((p[at] & 0xc0) == 0xc0) {
            return at + 2 <= n ? at + 2 : 0;
        }
        if (p[at] & 0xc0) {
            return 0;
        }
        at += 1u + p[at];
    }
    return 0;
}

static unsigned get16(const uint8_t *p)
{
    return (unsigned)p[0] << 8 | p[1];
}

static void set_addr(const uint8_t *data, enum dns_type type, uint16_t port, struct io_addr *ret)
{
    *ret = (struct io_addr){0};
    if (type == DNS_A) {
        struct sockaddr_in *in = (struct sockaddr_in *)&ret->ss;
        *in = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
        memcpy(&in->sin_addr, data, 4);
        ret->len = sizeof(*in);
    } else {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&ret->ss;
        *in6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(port)};
        memcpy(&in6->sin6_addr, data, 16);
        ret->len = sizeof(*in6);
    }
}

int dns_answer_parse(const uint8_t *p, size_t n, uint16_t id, enum dns_type type, uint16_t port,
                     struct io_addr *ret)
{
    if (n < 12 || get16(p) != id || !(p[2] & 0x80) || get16(p + 4) != 1) {
        return -EPROTO;
    }
    unsigned rcode = p[3] & 15;
    if (rcode != 0) {
        return rcode == 3 ? -ENOENT : -EAGAIN;
    }
    size_t at = skip_name(p, n, 12);
    if (at == 0 || at + 4 > n) {
        return -EPROTO;
    }
    at += 4;
    for (unsigned i = 0; i < get16(p + 6); i++) {
        at = skip_name(p, n, at);
        if (at == 0 || at + 10 > n || at + 10 + get16(p + at + 8) > n) {
            return -EPROTO;
        }
        unsigned len = get16(p + at + 8);
        if (get16(p + at) == type && get16(p + at + 2) == 1 && len == (type == DNS_A ? 4 : 16)) {
            set_addr(p + at + 10, type, port, ret);
            return 0;
        }
        at += 10 + len; /* an alias: its target's address follows in the same answer */
    }
    return -ENOENT;
}

/* ---- asking ---- */

struct resolv {
    struct io_addr servers[MAX_SERVERS];
    size_t n_servers;
    struct str search[MAX_SEARCH];
    size_t n_search;
};

static void resolv_parse(struct str text, struct resolv *r)
{
    while (text.p) {
        struct str line = str_cut(&text, '\n');
        struct str key = next_word(&line), word;
        if (str_eq(key, STR("nameserver")) && r->n_servers < MAX_SERVERS) {
            r->n_servers += io_addr_ip(next_word(&line), 53, &r->servers[r->n_servers]) == 0;
        } else if (str_eq(key, STR("search")) || str_eq(key, STR("domain"))) {
            r->n_search = 0;
            while ((word = next_word(&line)).n > 0 && r->n_search < MAX_SEARCH) {
                r->search[r->n_search++] = word;
            }
        }
    }
}

static int receive_answer(int fd, uint16_t id, enum dns_type type, uint16_t port,
                          struct io_addr *ret)
{
    uint64_t deadline = clock_mono_ms() + LOOKUP_TIMEOUT_MS;
    for (;;) {
        uint64_t now = clock_mono_ms();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (now >= deadline || poll(&p, 1, (int)(deadline - now)) == 0) {
            return -ETIMEDOUT;
        }
        uint8_t answer[4096];
        ssize_t n = recv(fd, answer, sizeof(answer), 0);
        if (n < 0 && errno != EINTR && errno != EAGAIN) {
            return -errno;
        }
        int r = n < 0 ? -EPROTO : dns_answer_parse(answer, (size_t)n, id, type, port, ret);
        if (r != -EPROTO) { /* what is no answer to this question is not the end of waiting */
            return r;
        }
    }
}

static int ask(const struct io_addr *server, struct str name, enum dns_type type, uint16_t port,
               struct io_addr *ret)
{
    uint8_t query[DNS_QUERY_MAX];
    uint16_t id = (uint16_t)rand_u64();
    int len = dns_query_format(name, type, id, query);
    if (len < 0) {
        return -ENOENT;
    }
    cleanup_close int fd = socket(server->sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, &server->sa, server->len) < 0 ||
        send(fd, query, (size_t)len, 0) != len) {
        return -errno;
    }
    return receive_answer(fd, id, type, port, ret);
}

static int ask_all(const struct resolv *r, struct str name, uint16_t port, struct io_addr *ret)
{
    int x = -ENOENT;
    for (size_t i = 0; i < r->n_servers; i++) {
        x = ask(&r->servers[i], name, DNS_A, port, ret);
        if (x == -ENOENT) {
            x = ask(&r->servers[i], name, DNS_AAAA, port, ret);
        }
        if (x == 0 || x == -ENOENT) {
            return x;
        }
    }
    return x;
}

int lookup_host(struct str host, uint16_t port, struct io_addr *ret)
{
    if (io_addr_ip(host, port, ret) == 0) {
        return 0;
    }
    cleanup_(buf_done) struct buf text = BUF_INIT(FILE_MAX);
    (void)file_read_regular(AT_FDCWD, "/etc/hosts", &text);
    if (hosts_find(buf_str(&text), host, port, ret) == 0) {
        return 0;
    }
    if (str_eq_nocase(host, STR("localhost"))) {
        return io_addr_ip(STR("127.0.0.1"), port, ret);
    }
    buf_clear(&text);
    struct resolv r = {0};
    (void)file_read_regular(AT_FDCWD, "/etc/resolv.conf", &text);
    resolv_parse(buf_str(&text), &r);
    int x = -ENOENT;
    bool bare = str_find(host, '.') < 0;
    for (size_t pass = 0; pass < 2 && x == -ENOENT; pass++) {
        if ((pass == 0) == bare) { /* a name with a dot is tried as it stands first */
            for (size_t i = 0; i < r.n_search && x == -ENOENT; i++) {
                char full[256];
                int n =
                    snprintf(full, sizeof(full), "%.*s.%.*s", STR_FMT(host), STR_FMT(r.search[i]));
                x = n > 0 && (size_t)n < sizeof(full) ? ask_all(&r, str_from(full), port, ret)
                                                      : -ENOENT;
            }
        } else {
            x = ask_all(&r, host, port, ret);
        }
    }
    return x;
}
