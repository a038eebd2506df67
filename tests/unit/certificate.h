#pragma once
/* A certificate and its key, made on the spot. Include after cmocka.h. */

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>

static inline void add_ext(X509 *x, int nid, const char *value)
{
    X509V3_CTX c;

    X509V3_set_ctx_nodb(&c);
    X509V3_set_ctx(&c, x, x, NULL, NULL, 0);
    X509_EXTENSION *ext = X509V3_EXT_conf_nid(NULL, &c, nid, value);
    assert_non_null(ext);
    assert_int_equal(X509_add_ext(x, ext, -1), 1);
    X509_EXTENSION_free(ext);
}

/* Valid for an hour, its own authority, for box.test and both loopbacks. */
static inline void make_certificate(const char *cert_file, const char *key_file)
{
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    X509 *x = X509_new();
    X509_NAME *name = X509_get_subject_name(x);

    assert_non_null(key);
    assert_int_equal(X509_set_version(x, 2), 1);
    assert_int_equal(ASN1_INTEGER_set(X509_get_serialNumber(x), 1), 1);
    assert_non_null(X509_gmtime_adj(X509_getm_notBefore(x), -3600));
    assert_non_null(X509_gmtime_adj(X509_getm_notAfter(x), 3600));
    assert_int_equal(X509_set_pubkey(x, key), 1);
    assert_int_equal(
        X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"t", -1, -1, 0),
        1);
    assert_int_equal(X509_set_issuer_name(x, name), 1);
    add_ext(x, NID_basic_constraints, "critical,CA:TRUE");
    add_ext(x, NID_subject_alt_name, "DNS:box.test,IP:127.0.0.1,IP:0:0:0:0:0:0:0:1");
    assert_true(X509_sign(x, key, EVP_sha256()) > 0);
    FILE *f = fopen(cert_file, "we");
    assert_int_equal(PEM_write_X509(f, x), 1);
    (void)fclose(f);
    f = fopen(key_file, "we");
    assert_int_equal(PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL), 1);
    (void)fclose(f);
    X509_free(x);
    EVP_PKEY_free(key);
}
