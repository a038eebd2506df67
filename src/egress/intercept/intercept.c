/* Start and end of the interceptor: the authority, the way into the sandbox for its certificate,
 * the listeners, the redirect. */

#include "egress/intercept/intercept.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/must.h"
#include "egress/intercept/ca.h"
#include "egress/intercept/limits.h"
#include "egress/memory.h"
#include "egress/vault/api.h"
#include "egress/vault/secret.h"
#include "io/tls.h"

#define CA_CERT_FILE "mitmproxy-ca-cert.pem" /* the name that sandboxes wait for */
#define CA_PEM_MAX (64u << 10)               /* limit: bytes of an authority in PEM */
/* Where operators of the reference put an authority of their own: key and certificate. */
#define CA_PINNED_FILE "/var/lib/mitmproxy/.mitmproxy/mitmproxy-ca.pem"

static struct intercept self;

/* The authority of the incarnation before, that of the operator, or a new one. */
static struct ca *find_ca(struct err *e)
{
    struct buf pem = BUF_INIT(CA_PEM_MAX);
    struct ca *ca = NULL;

    if (vault_kept_extra().n) {
        return ca_parse(vault_kept_extra(), e);
    }
    int r = file_read(AT_FDCWD, CA_PINNED_FILE, &pem);
    if (r == 0) {
        ca = ca_parse(buf_str(&pem), e);
    } else if (r == -ENOENT || r == -EACCES || r == -ENOTDIR) {
        ca = ca_new(e);
    } else {
        (void)err_sys(e, r, "%s", CA_PINNED_FILE);
    }
    secret_wipe(buf_str(&pem));
    buf_clear(&pem);
    (void)buf_reserve(&pem, CA_PEM_MAX / 2); /* growing would leave copies behind */
    if (ca && ca_format(ca, &pem) == 0) {
        vault_keep_extra(buf_str(&pem));
    }
    secret_wipe(buf_str(&pem));
    buf_done(&pem);
    return ca;
}

/* Only the certificate. The sandbox reads the file; a half-written one must never be there. */
static int hand_over(const struct ca *ca, const char *dir, struct err *e)
{
    cleanup_(buf_done) struct buf pem = BUF_INIT(CA_PEM_MAX);
    if (ca_format_cert(ca, &pem) < 0) {
        return err_set(e, ERR_INTERNAL, "cannot format the certificate");
    }
    int r = dir_make(AT_FDCWD, dir, 0755);
    cleanup_close int fd = r < 0 ? -1 : open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (r == 0 && fd < 0) {
        r = -errno;
    }
    if (r == 0) {
        r = file_write_atomic(fd, CA_CERT_FILE, buf_str(&pem), 0644);
    }
    return r < 0 ? err_sys(e, r, "%s/%s", dir, CA_CERT_FILE) : 0;
}

static void on_accept(struct io_stream *take_s, void *arg)
{
    conn_start(arg, take_s);
}

static void on_wake(struct io_timer *t)
{
    conn_wake(container_of(t, struct intercept, wake));
}

/* In the gateway the redirect goes to the address of the inner interface, in a shared namespace to
 * loopback; packets that were not redirected are refused by their destination (conn.c). */
static int listen_on(struct intercept *i, struct err *e)
{
    bool inside = i->g->cfg.inside != NULL;
    struct str ips[] = {inside ? STR("0.0.0.0") : STR("127.0.0.1"),
                        inside ? STR("::") : STR("::1")};
    struct io_addr a;

    must(io_addr_ip(ips[0], i->g->cfg.intercept_port, &a) == 0);
    i->listeners[0] = io_listen(i->g->loop, &a, NULL, on_accept, i, e);
    if (!i->listeners[0] || io_listener_addr(i->listeners[0], &a) < 0) {
        return -1;
    }
    i->port = io_addr_port(&a);
    must(io_addr_ip(ips[1], i->port, &a) == 0);
    struct err v6 = {0};
    const int fd = socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
    if (fd < 0) {
        return 0; /* no IPv6 here, so nobody will come that way */
    }
    if (setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
        bind(fd, &a.sa, a.len) < 0 || listen(fd, 1024) < 0) {
        log_info("no interception over IPv6", LOG_S("reason", strerror(errno)));
        (void)close(fd);
        return 0;
    }
    i->listeners[1] =
        io_listen(i->g->loop, &a, &(struct io_listen_opts){.fd = fd}, on_accept, i, &v6);
    return 0;
}

static int start(struct egress *g, struct err *e)
{
    static const uint16_t ports[] = {80, 443};
    struct intercept *i = &self;

    i->g = g;
    list_init(&i->conns);
    list_init(&i->waiting);
    io_timer_init(&i->wake, g->loop, on_wake);
    if (!g->cfg.intercept) {
        return 0;
    }
    i->ca = find_ca(e);
    if (!i->ca) {
        return -1;
    }
    i->upstream =
        io_tls_client_new(&(struct io_tls_client_opts){.ca_dir = g->cfg.upstream_ca_dir,
                                                       .insecure = g->cfg.upstream_insecure,
                                                       .alpn = "http/1.1"},
                          e);
    if (!i->upstream || listen_on(i, e) < 0 || hand_over(i->ca, g->cfg.ca_dir, e) < 0 ||
        egress_redirect(g, ports, ARRAY_LEN(ports), i->port, e) < 0) {
        return -1;
    }
    budget_init(&i->budget, g->cfg.memory ? g->cfg.memory : memory_limit());
    i->is_ready = true;
    log_info("interception is ready", LOG_I("port", i->port),
             LOG_I("open_max", i->budget.bytes / INTERCEPT_OPEN_BYTES),
             LOG_I("busy_max", i->budget.n_turns));
    return 0;
}

static void stop(struct egress *g)
{
    struct intercept *i = &self;
    if (!i->g) {
        return;
    }
    conn_close_all(i);
    io_timer_stop(&i->wake);
    for (size_t k = 0; k < ARRAY_LEN(i->listeners); k++) {
        io_listener_close(i->listeners[k]);
    }
    io_tls_ctx_unref(i->upstream);
    ca_free(i->ca);
    memset(i, 0, sizeof(*i));
}

static void on_policy(struct egress *g, const struct policy *effective)
{
    if (self.is_ready) {
        conn_check_policy(&self);
    }
}

static bool is_ready(struct egress *g, const char **ret_why)
{
    if (g->cfg.intercept && !self.is_ready) {
        *ret_why = "mitmproxy not ready";
        return false;
    }
    return true;
}

struct egress_part intercept_part = {
    .name = "interceptor",
    .start = start,
    .stop = stop,
    .is_ready = is_ready,
    .on_policy = on_policy,
};
