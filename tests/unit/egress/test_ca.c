#include "egress/intercept/ca.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>

#include "../test.h"
#include "egress/intercept/limits.h"
#include "egress/intercept/substitute.h"
#include "io/tls.h"

static void authority(void **state)
{
    struct err e = {0};
    struct buf pem = BUF_INIT(65536), again = BUF_INIT(65536), cert = BUF_INIT(65536);
    struct ca *c = ca_new(&e);
    assert_non_null(c);
    assert_int_equal(ca_format(c, &pem), 0);
    assert_int_equal(ca_format_cert(c, &cert), 0);
    assert_null(strstr(buf_cstr(&cert), "PRIVATE"));
    struct ca *d = ca_parse(buf_str(&pem), &e);
    assert_non_null(d);
    assert_int_equal(ca_format(d, &again), 0);
    assert_string_equal(buf_cstr(&pem), buf_cstr(&again));
    assert_null(ca_parse(buf_str(&cert), &e)); /* no key */
    assert_null(ca_parse(STR("nonsense"), &e));
    BIO *b = BIO_new_mem_buf(cert.p, (int)cert.len);
    X509 *x = PEM_read_bio_X509(b, NULL, NULL, NULL);
    assert_int_equal(X509_check_ca(x), 1);
    assert_int_equal(EVP_PKEY_get_bits(X509_get0_pubkey(x)), 256);
    X509_free(x);
    BIO_free(b);
    ca_free(c);
    ca_free(d);
    ca_free(NULL);
    buf_done(&pem);
    buf_done(&again);
    buf_done(&cert);
}

static void cache_is_bounded(void **state)
{
    struct err e = {0};
    char name[300];
    struct ca *c = ca_new(&e);
    struct io_tls_ctx *first = ca_context(c, "kept.example.com", &e);
    assert_non_null(first);
    for (int i = 0; i < INTERCEPT_MAX_LEAVES * 2; i++) {
        (void)snprintf(name, sizeof(name), "h%d.example.com", i);
        assert_non_null(ca_context(c, name, &e));
        assert_ptr_equal(ca_context(c, "kept.example.com", &e), first); /* in use, so it stays */
    }
    assert_int_equal(ca_n_cached(c), INTERCEPT_MAX_LEAVES);
    memset(name, 'a', 200);
    for (size_t i = 50; i < 200; i += 50) {
        name[i] = '.';
    }
    name[200] = 0;
    assert_non_null(ca_context(c, name, &e));
    ca_free(c);
}

static void placeholders(void **state)
{
    static const struct vault_credential value = {.name = "t", .value = {"a\"/b", 4}};
    struct vault_substitution subs[] = {{"t", "__T__", VAULT_BODY | VAULT_QUERY, &value}};
    const struct vault_binding b = {.substitutions = subs, .n_substitutions = 1};
    struct buf out = BUF_INIT(4096);
    assert_int_equal(subst_text(&b, VAULT_QUERY, SUBST_PERCENT, STR("x=__T__&y=__T_"), &out), 1);
    assert_string_equal(buf_cstr(&out), "x=a%22%2Fb&y=__T_");
    buf_clear(&out);
    assert_int_equal(subst_text(&b, VAULT_PATH, SUBST_PERCENT, STR("/__T__"), &out), 0);
    /* Cut at every byte. */
    struct str in = STR("{\"k\":\"__T__\",\"l\":\"___T___\"}");
    for (size_t cut = 1; cut < in.n; cut++) {
        struct subst_stream s;
        buf_clear(&out);
        subst_stream_init(&s, &b, SUBST_JSON);
        subst_stream_feed(&s, str_sub(in, 0, cut), false, &out);
        subst_stream_feed(&s, str_sub(in, cut, in.n), false, &out);
        subst_stream_feed(&s, STR_NULL, true, &out);
        assert_string_equal(buf_cstr(&out), "{\"k\":\"a\\\"/b\",\"l\":\"_a\\\"/b_\"}");
        subst_stream_done(&s);
    }
    buf_done(&out);
    enum subst_encoding enc;
    assert_true(subst_body_encoding(STR("application/vnd.x+json; charset=utf-8"), STR_NULL, &enc));
    assert_int_equal(enc, SUBST_JSON);
    assert_false(subst_body_encoding(STR("multipart/form-data; boundary=x"), STR_NULL, &enc));
    assert_false(subst_body_encoding(STR("text/plain"), STR("gzip"), &enc));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(authority),
        cmocka_unit_test(cache_is_bounded),
        cmocka_unit_test(placeholders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
