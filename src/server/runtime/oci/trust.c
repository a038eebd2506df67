/* Trust in the interceptor.
 *
 * Programs look for authorities in many places: the file or the directory of the system's store
 * (OpenSSL, GnuTLS, Go), anchors that a tool of the distribution makes the store from, a bundle of
 * their own (Node, Python requests), Java's store, policies of browsers. Every place that the image
 * has gets the authority beside what is there; a bundle and a Java store of ours, and variables
 * that name them, serve the rest. What an earlier sandbox left in a snapshot is taken out again. */

#include "server/runtime/oci/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/must.h"
#include "server/runtime/oci/browser.h"
#include "server/runtime/oci/keystore.h"
#include "server/runtime/oci/merged.h"

#define CA_FILE "etc/opensandbox-egress-ca.pem"
#define BUNDLE_FILE "etc/opensandbox-egress-bundle.pem"
#define JAVA_FILE "etc/opensandbox-egress-java.jks"
#define BEGIN_MARK "# opensandbox-egress: the authority of this sandbox's interceptor\n"
#define END_MARK "# opensandbox-egress: end\n"

const struct trust_var trust_vars[] = {
    {"NODE_EXTRA_CA_CERTS", "/" CA_FILE},
    {"SSL_CERT_FILE", "/" BUNDLE_FILE},
    {"REQUESTS_CA_BUNDLE", "/" BUNDLE_FILE},
    {"CURL_CA_BUNDLE", "/" BUNDLE_FILE},
    {"GIT_SSL_CAINFO", "/" BUNDLE_FILE},
    {"JAVA_TOOL_OPTIONS", "-Djavax.net.ssl.trustStore=/" JAVA_FILE},
    {NULL, NULL},
};

/* Debian, Alpine and Arch; Red Hat (twice); Alpine; SUSE. The first one there is what the image
 * trusts. */
static const char *const bundles[] = {"etc/ssl/certs/ca-certificates.crt",
                                      "etc/pki/tls/certs/ca-bundle.crt",
                                      "etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
                                      "etc/ssl/cert.pem", "etc/ssl/ca-bundle.pem"};
/* Directories that update-ca-certificates and update-ca-trust make the stores from, so that using
 * these inside does not lose the authority: Debian and Alpine, Red Hat, Arch, SUSE. */
static const char *const anchors[] = {
    "usr/local/share/ca-certificates", "etc/pki/ca-trust/source/anchors",
    "etc/ca-certificates/trust-source/anchors", "usr/share/pki/trust/anchors"};
/* Debian and Alpine; Red Hat; SUSE; Eclipse Temurin. */
static const char *const java_stores[] = {
    "etc/ssl/certs/java/cacerts", "etc/pki/ca-trust/extracted/java/cacerts",
    "var/lib/ca-certificates/java-cacerts", "opt/java/openjdk/lib/security/cacerts"};

/* Firefox; Debian's has its own name. */
static const char *const firefox_policies[] = {"etc/firefox/policies/policies.json",
                                               "etc/firefox-esr/policies/policies.json"};
/* Chromium; Chrome, and the one for tests; Edge; Brave. All files of the directory count. */
static const char *const chromium_policies[] = {
    "etc/chromium/policies/managed", "etc/opt/chrome/policies/managed",
    "etc/opt/chrome_for_testing/policies/managed", "etc/opt/edge/policies/managed",
    "etc/brave/policies/managed"};

struct trust {
    const struct rootfs *image;
    int upper_fd;
    struct buf ca;    /* the certificate, PEM */
    struct buf roots; /* what the image trusts, or else the machine, without us */
    struct buf text;  /* of the file at work */
};

static void trust_done_cleanup(struct trust *t)
{
    if (t->upper_fd >= 0) {
        (void)close(t->upper_fd);
    }
    buf_done(&t->ca);
    buf_done(&t->roots);
    buf_done(&t->text);
}

/* The sidecar wrote it under a user of its own: no link of its is followed, and only so much read.
 */
static int read_ca(int home_fd, struct buf *out)
{
    cleanup_close int fd =
        fd_open_beneath(home_fd, "egress/mitmproxy-ca-cert.pem", O_RDONLY | O_NONBLOCK, 0);
    return fd < 0 ? fd : buf_read_fd(out, fd);
}

/* Takes out what an earlier sandbox put in. */
static void strip_marks(struct buf *b)
{
    for (;;) {
        ptrdiff_t from = str_find_str(buf_str(b), STR(BEGIN_MARK));
        if (from < 0) {
            return;
        }
        struct str rest = str_sub(buf_str(b), (size_t)from, b->len);
        ptrdiff_t n = str_find_str(rest, STR(END_MARK));
        size_t cut = n < 0 ? rest.n : (size_t)n + strlen(END_MARK);
        memmove(b->p + from, b->p + from + cut, b->len - (size_t)from - cut);
        b->len -= cut;
    }
}

static int read_roots(struct trust *t)
{
    struct merged m;
    for (size_t i = 0; i < ARRAY_LEN(bundles); i++) {
        if (merged_find(t->image, bundles[i], &m) == 0 && m.st.st_size > 0 &&
            merged_read(t->image, &m, &t->roots) == 0) {
            strip_marks(&t->roots);
            return 0;
        }
        buf_clear(&t->roots);
    }
    /* An image without any: the machine's, so that everything else can be reached as well. */
    for (size_t i = 0; i < ARRAY_LEN(bundles); i++) {
        char path[128];
        (void)snprintf(path, sizeof(path), "/%s", bundles[i]);
        if (file_read(AT_FDCWD, path, &t->roots) == 0 && t->roots.len > 0) {
            return 0;
        }
        buf_clear(&t->roots);
    }
    return 0;
}

/* Makes the directories above `path` in the writable layer, as they are in the image. */
static int make_parents(struct trust *t, const char *path)
{
    char dir[PATH_MAX];
    struct merged m;
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        (void)snprintf(dir, sizeof(dir), "%.*s", (int)(slash - path), path);
        if (mkdirat(t->upper_fd, dir, 0755) < 0) {
            if (errno != EEXIST) {
                return -errno;
            }
            continue;
        }
        if (merged_find(t->image, dir, &m) == 0 &&
            (fchownat(t->upper_fd, dir, m.st.st_uid, m.st.st_gid, AT_SYMLINK_NOFOLLOW) < 0 ||
             fchmodat(t->upper_fd, dir, m.st.st_mode & 07777, 0) < 0)) {
            return -errno;
        }
    }
    return 0;
}

static int write_upper(struct trust *t, const char *path, struct str text)
{
    int r = make_parents(t, path);
    if (r < 0) {
        return r;
    }
    cleanup_close int fd =
        fd_open_beneath(t->upper_fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0644);
    return fd < 0 ? fd : fd_write_full(fd, text.p, text.n);
}

/* `text` becomes what it is, and the authority behind it. */
static int add_block(struct trust *t, struct str text)
{
    buf_clear(&t->text);
    (void)buf_add_str(&t->text, text);
    if (t->text.len && t->text.p[t->text.len - 1] != '\n') {
        (void)buf_add_char(&t->text, '\n');
    }
    (void)buf_add_cstr(&t->text, BEGIN_MARK);
    (void)buf_add_str(&t->text, buf_str(&t->ca));
    (void)buf_add_cstr(&t->text, END_MARK);
    return buf_failed(&t->text) ? -EFBIG : 0;
}

static int write_own(struct trust *t)
{
    int r = write_upper(t, CA_FILE, buf_str(&t->ca));
    r = r < 0 ? r : add_block(t, buf_str(&t->roots));
    r = r < 0 ? r : write_upper(t, BUNDLE_FILE, buf_str(&t->text));
    if (r == 0) {
        cleanup_(buf_done) struct buf store = BUF_INIT(TRUST_ROOTS_MAX);
        r = keystore_from_pem(buf_str(&t->text), &store);
        r = r < 0 ? r : write_upper(t, JAVA_FILE, buf_str(&store));
    }
    return r;
}

/* The files of the image's own store; two names may be one file. */
static int extend_bundles(struct trust *t)
{
    cleanup_(buf_done) struct buf old = BUF_INIT(TRUST_ROOTS_MAX);
    struct merged m;
    int r = 0;
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(bundles); i++) {
        buf_clear(&old);
        if (merged_find(t->image, bundles[i], &m) < 0 || merged_read(t->image, &m, &old) < 0) {
            continue;
        }
        strip_marks(&old);
        r = add_block(t, buf_str(&old));
        r = r < 0 ? r : write_upper(t, m.path, buf_str(&t->text));
    }
    return r;
}

/* OpenSSL finds a certificate in a directory by a hash of its subject. */
static int add_hashed(struct trust *t)
{
    struct merged m;
    if (merged_find(t->image, "etc/ssl/certs", &m) < 0 || !S_ISDIR(m.st.st_mode)) {
        return 0;
    }
    BIO *in = BIO_new_mem_buf(t->ca.p, (int)t->ca.len);
    X509 *cert = in ? PEM_read_bio_X509(in, NULL, NULL, NULL) : NULL;
    char path[PATH_MAX + 32];
    int r = -EINVAL;
    if (cert) {
        (void)snprintf(path, sizeof(path), "%s/%08lx.0", m.path, X509_subject_name_hash(cert));
        r = write_upper(t, path, buf_str(&t->ca));
    }
    X509_free(cert);
    BIO_free(in);
    return r;
}

static int add_anchors(struct trust *t)
{
    struct merged m;
    char path[PATH_MAX + 32];
    int r = 0;
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(anchors); i++) {
        if (merged_find(t->image, anchors[i], &m) == 0 && S_ISDIR(m.st.st_mode)) {
            (void)snprintf(path, sizeof(path), "%s/opensandbox-egress.crt", m.path);
            r = write_upper(t, path, buf_str(&t->ca));
        }
    }
    return r;
}

static int extend_java(struct trust *t)
{
    cleanup_(buf_done) struct buf old = BUF_INIT(TRUST_ROOTS_MAX),
                                  store = BUF_INIT(TRUST_ROOTS_MAX);
    struct merged m;
    int r = 0;
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(java_stores); i++) {
        buf_clear(&old);
        /* One in the newer format is left to the variable, which goes before it. */
        if (merged_find(t->image, java_stores[i], &m) < 0 || merged_read(t->image, &m, &old) < 0 ||
            keystore_extend(buf_str(&old), buf_str(&t->ca), &store) < 0) {
            continue;
        }
        r = write_upper(t, m.path, buf_str(&store));
    }
    return r;
}

/* May what is not there be made, without hiding a link or a file of the image's above it? */
static bool can_be_made(struct trust *t, const char *path)
{
    char dir[PATH_MAX];
    struct merged m;
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        (void)snprintf(dir, sizeof(dir), "%.*s", (int)(slash - path), path);
        int found = merged_find(t->image, dir, &m);
        if (found < 0) {
            return found == -ENOENT;
        }
        if (!S_ISDIR(m.st.st_mode) || strcmp(m.path, dir) != 0) {
            return false;
        }
    }
    return true;
}

/* Browsers may be installed later, so whether they are there is not asked. */
static int tell_browsers(struct trust *t)
{
    cleanup_(buf_done) struct buf old = BUF_INIT(BROWSER_POLICY_MAX),
                                  new = BUF_INIT(BROWSER_POLICY_MAX);
    char path[PATH_MAX + 32];
    struct merged m;
    int r = 0;
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(firefox_policies); i++) {
        const char *file = firefox_policies[i];
        buf_clear(&old);
        buf_clear(&new);
        bool has = merged_find(t->image, file, &m) == 0;
        /* What the image has there, and cannot be understood, is not for us to replace. */
        if ((has ? merged_read(t->image, &m, &old) == 0 : can_be_made(t, file)) &&
            browser_firefox(buf_str(&old), "/" CA_FILE, &new) == 0) {
            r = write_upper(t, has ? m.path : file, buf_str(&new));
        }
    }
    buf_clear(&new);
    r = r < 0 ? r : browser_chromium(buf_str(&t->ca), &new);
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(chromium_policies); i++) {
        (void)snprintf(path, sizeof(path), "%s/opensandbox-egress.json", chromium_policies[i]);
        if (merged_find(t->image, chromium_policies[i], &m) == 0 && S_ISDIR(m.st.st_mode)) {
            (void)snprintf(path, sizeof(path), "%s/opensandbox-egress.json", m.path);
        } else if (!can_be_made(t, path)) {
            continue;
        }
        r = write_upper(t, path, buf_str(&new));
    }
    return r;
}

int trust_write(const struct rootfs *image, int home_fd, int rw_fd, struct err *e)
{
    cleanup_(trust_done) struct trust t = {
        .image = image,
        .upper_fd = openat(rw_fd, "upper", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
        .ca = BUF_INIT(TRUST_CA_MAX),
        .roots = BUF_INIT(TRUST_ROOTS_MAX),
        .text = BUF_INIT(TRUST_ROOTS_MAX),
    };
    if (t.upper_fd < 0) {
        return err_sys(e, errno, "the writable layer of the sandbox");
    }
    int r = read_ca(home_fd, &t.ca);
    if (r < 0) {
        return err_sys(e, r, "the certificate of the egress sidecar");
    }
    r = read_roots(&t);
    r = r < 0 ? r : write_own(&t);
    r = r < 0 ? r : extend_bundles(&t);
    r = r < 0 ? r : add_hashed(&t);
    r = r < 0 ? r : add_anchors(&t);
    r = r < 0 ? r : extend_java(&t);
    r = r < 0 ? r : tell_browsers(&t);
    return r < 0 ? err_sys(e, r, "write the trusted certificates of the sandbox") : 0;
}
