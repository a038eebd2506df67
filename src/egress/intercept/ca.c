/* Certificates on the spot. */

#include "egress/intercept/ca.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/map.h"
#include "base/must.h"
#include "base/rand.h"
#include "egress/intercept/limits.h"
#include "io/tls.h"

struct leaf {
    struct list node; /* most recently used first */
    char *name;
    struct io_tls_ctx *ctx;
    uint64_t made_ms;
};

struct ca {
    EVP_PKEY *key, *leaf_key; /* one key for all leaves: they differ in their names only */
    X509 *cert;
    struct map leaves;
    struct list order;
};

static int fail(struct err *e, const char *what)
{
    unsigned long code = ERR_peek_error();
    const char *reason = code ? ERR_reason_error_string(code) : NULL;
    return err_set(e, ERR_INTERNAL, "%s: %s", what, reason ? reason : "unknown error");
}

static bool add_ext(X509 *x, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX c;
    X509V3_set_ctx_nodb(&c);
    X509V3_set_ctx(&c, issuer, x, NULL, NULL, 0);
    X509_EXTENSION *ext = X509V3_EXT_conf_nid(NULL, &c, nid, value);
    bool ok = ext && X509_add_ext(x, ext, -1) == 1;
    X509_EXTENSION_free(ext);
    return ok;
}

/* What authority and leaves have in common: version, a random serial, a life that began yesterday
 * for clocks that are behind. */
static X509 *cert_new(EVP_PKEY *key, const char *common_name, long days)
{
    X509 *x = X509_new();
    uint8_t serial[16];
    rand_bytes(serial, sizeof(serial));
    serial[0] = (uint8_t)((serial[0] & 0x7f) | 0x40); /* positive, and never short */
    BIGNUM *bn = BN_bin2bn(serial, sizeof(serial), NULL);
    X509_NAME *name = x ? X509_get_subject_name(x) : NULL;

    bool ok = x && bn && X509_set_version(x, 2) == 1 &&
              BN_to_ASN1_INTEGER(bn, X509_get_serialNumber(x)) &&
              X509_gmtime_adj(X509_getm_notBefore(x), -86400) &&
              X509_gmtime_adj(X509_getm_notAfter(x), days * 86400) &&
              X509_set_pubkey(x, key) == 1 &&
              X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
                                         (const unsigned char *)common_name, -1, -1, 0) == 1;
    BN_free(bn);
    if (!ok) {
        X509_free(x);
        return NULL;
    }
    return x;
}

static bool sign_authority(struct ca *c)
{
    char name[64];
    /* The name is unique, so that no store confuses the authorities of two sandboxes. */
    (void)snprintf(name, sizeof(name), "OpenSandbox egress %016llx",
                   (unsigned long long)rand_u64());
    c->cert = cert_new(c->key, name, INTERCEPT_CA_DAYS);
    return c->cert && X509_set_issuer_name(c->cert, X509_get_subject_name(c->cert)) == 1 &&
           add_ext(c->cert, c->cert, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
           add_ext(c->cert, c->cert, NID_key_usage, "critical,keyCertSign,cRLSign") &&
           add_ext(c->cert, c->cert, NID_subject_key_identifier, "hash") &&
           X509_sign(c->cert, c->key, EVP_sha256()) > 0;
}

static struct ca *ca_empty(void)
{
    struct ca *c = NEW(struct ca);
    list_init(&c->order);
    ERR_clear_error();
    return c;
}

struct ca *ca_new(struct err *e)
{
    struct ca *c = ca_empty();
    c->key = EVP_EC_gen("P-256");
    c->leaf_key = EVP_EC_gen("P-256");
    if (!c->key || !c->leaf_key || !sign_authority(c)) {
        (void)fail(e, "certificate authority");
        ca_free(c);
        return NULL;
    }
    return c;
}

struct ca *ca_parse(struct str pem, struct err *e)
{
    struct ca *c = ca_empty();
    BIO *key = BIO_new_mem_buf(pem.p, (int)pem.n), *cert = BIO_new_mem_buf(pem.p, (int)pem.n);

    c->key = PEM_read_bio_PrivateKey(key, NULL, NULL, NULL);
    c->cert = PEM_read_bio_X509(cert, NULL, NULL, NULL);
    c->leaf_key = EVP_EC_gen("P-256");
    BIO_free(key);
    BIO_free(cert);
    if (!c->key || !c->cert || !c->leaf_key || X509_check_private_key(c->cert, c->key) != 1 ||
        X509_check_ca(c->cert) != 1) {
        (void)fail(e, "certificate authority");
        ca_free(c);
        return NULL;
    }
    return c;
}

static void leaf_free(struct ca *c, struct leaf *l)
{
    (void)map_del(&c->leaves, str_from(l->name));
    list_del(&l->node);
    io_tls_ctx_unref(l->ctx);
    free(l->name);
    free(l);
}

void ca_free(struct ca *c)
{
    if (!c) {
        return;
    }
    struct list *n;
    while ((n = list_first(&c->order))) {
        leaf_free(c, list_entry(n, struct leaf, node));
    }
    map_done(&c->leaves);
    X509_free(c->cert);
    EVP_PKEY_free(c->key);
    EVP_PKEY_free(c->leaf_key);
    free(c);
}

static int take_bio(BIO *b, bool ok, struct buf *out)
{
    char *p;
    long n = BIO_get_mem_data(b, &p);
    int r = ok && n > 0 ? buf_add(out, p, (size_t)n) : -EIO;
    if (n > 0) {
        explicit_bzero(p, (size_t)n);
    }
    BIO_free(b);
    return r;
}

int ca_format(const struct ca *c, struct buf *out)
{
    BIO *b = BIO_new(BIO_s_secmem());
    return take_bio(b,
                    PEM_write_bio_PrivateKey(b, c->key, NULL, NULL, 0, NULL, NULL) == 1 &&
                        PEM_write_bio_X509(b, c->cert) == 1,
                    out);
}

int ca_format_cert(const struct ca *c, struct buf *out)
{
    BIO *b = BIO_new(BIO_s_mem());
    return take_bio(b, PEM_write_bio_X509(b, c->cert) == 1, out);
}

static struct io_tls_ctx *make_context(struct ca *c, const char *name, struct err *e)
{
    cleanup_free char *san = xasprintf("DNS:%s", name);
    /* Names longer than 64 bytes do not fit into a common name; nobody looks at it any more. */
    X509 *x = cert_new(c->leaf_key, strlen(name) <= 64 ? name : "OpenSandbox egress",
                       INTERCEPT_LEAF_DAYS);
    struct io_tls_ctx *ctx = NULL;

    if (x && X509_set_issuer_name(x, X509_get_subject_name(c->cert)) == 1 &&
        add_ext(x, c->cert, NID_basic_constraints, "critical,CA:FALSE") &&
        add_ext(x, c->cert, NID_key_usage, "critical,digitalSignature") &&
        add_ext(x, c->cert, NID_ext_key_usage, "serverAuth") &&
        add_ext(x, c->cert, NID_subject_alt_name, san) &&
        add_ext(x, c->cert, NID_subject_key_identifier, "hash") &&
        add_ext(x, c->cert, NID_authority_key_identifier, "keyid:always") &&
        X509_sign(x, c->key, EVP_sha256()) > 0) {
        ctx = io_tls_server_new(
            &(struct io_tls_server_opts){
                .cert = x, .issuer = c->cert, .key = c->leaf_key, .alpn = "http/1.1"},
            e);
    } else {
        (void)fail(e, "certificate");
    }
    X509_free(x);
    return ctx;
}

struct io_tls_ctx *ca_context(struct ca *c, const char *name, struct err *e)
{
    struct leaf *l = map_get(&c->leaves, str_from(name));
    uint64_t now = clock_mono_ms();

    if (l && now - l->made_ms > INTERCEPT_LEAF_FRESH_MS) {
        leaf_free(c, l);
        l = NULL;
    }
    if (!l) {
        ERR_clear_error();
        struct io_tls_ctx *ctx = make_context(c, name, e);
        if (!ctx) {
            return NULL;
        }
        if (map_len(&c->leaves) >= INTERCEPT_MAX_LEAVES) {
            leaf_free(c, list_entry(c->order.prev, struct leaf, node));
        }
        l = NEW(struct leaf);
        *l = (struct leaf){.name = xstrdup(name), .ctx = ctx, .made_ms = now};
        list_init(&l->node);
        (void)map_put(&c->leaves, str_from(name), l);
    } else {
        list_del(&l->node);
    }
    list_push_front(&c->order, &l->node);
    return l->ctx;
}

size_t ca_n_cached(const struct ca *c)
{
    return map_len(&c->leaves);
}
