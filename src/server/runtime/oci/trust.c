/* Trust in the interceptor. The variables cover OpenSSL, Go, curl, git, Python and Node; the bundle
 * begins with the machine's own roots, because an image may have none or not say where. */

#include "server/runtime/oci/trust.h"

#include <errno.h>
#include <fcntl.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/must.h"

#define CA_FILE "opensandbox-egress-ca.pem"
#define BUNDLE_FILE "opensandbox-egress-bundle.pem"

const struct trust_var trust_vars[] = {
    {"NODE_EXTRA_CA_CERTS", "/etc/" CA_FILE},    {"SSL_CERT_FILE", "/etc/" BUNDLE_FILE},
    {"REQUESTS_CA_BUNDLE", "/etc/" BUNDLE_FILE}, {"CURL_CA_BUNDLE", "/etc/" BUNDLE_FILE},
    {"GIT_SSL_CAINFO", "/etc/" BUNDLE_FILE},     {NULL, NULL},
};

/* The sidecar wrote it under a user of its own: no link of its is followed, and only so much read.
 */
static int read_ca(int home_fd, struct buf *out)
{
    cleanup_close int fd =
        fd_open_beneath(home_fd, "egress/mitmproxy-ca-cert.pem", O_RDONLY | O_NONBLOCK, 0);
    return fd < 0 ? fd : buf_read_fd(out, fd);
}

static int write_etc(int rw_fd, const char *path, struct str text)
{
    cleanup_close int fd =
        openat(rw_fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    return fd < 0 ? -errno : fd_write_full(fd, text.p, text.n);
}

int trust_write(int home_fd, int rw_fd, struct err *e)
{
    static const char *const roots[] = {"/etc/ssl/certs/ca-certificates.crt",
                                        "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"};
    cleanup_(buf_done) struct buf ca = BUF_INIT(TRUST_CA_MAX), all = BUF_INIT(TRUST_ROOTS_MAX);

    int r = read_ca(home_fd, &ca);
    if (r < 0) {
        return err_sys(e, r, "the certificate of the egress sidecar");
    }
    for (size_t i = 0; i < ARRAY_LEN(roots) && all.len == 0; i++) {
        if (file_read(AT_FDCWD, roots[i], &all) < 0) {
            buf_clear(&all); /* not there: the next place, and in the end our authority alone */
        }
    }
    (void)buf_add_char(&all, '\n');
    (void)buf_add_str(&all, buf_str(&ca));
    r = buf_failed(&all) ? -EFBIG : write_etc(rw_fd, "upper/etc/" CA_FILE, buf_str(&ca));
    r = r < 0 ? r : write_etc(rw_fd, "upper/etc/" BUNDLE_FILE, buf_str(&all));
    return r < 0 ? err_sys(e, r, "write the trusted certificates of the sandbox") : 0;
}
