#include "net/client_hello.h"

#include <openssl/ssl.h>

#include "../test.h"

/* What OpenSSL's client really sends. */
static size_t make_hello(const char *name, const unsigned char *alpn, unsigned alpn_len, char *out,
                         size_t out_len)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    SSL *ssl = SSL_new(ctx);
    BIO *in = BIO_new(BIO_s_mem()), *sent = BIO_new(BIO_s_mem());
    SSL_set_bio(ssl, in, sent);
    SSL_set_connect_state(ssl);
    if (name) {
        (void)SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                       (void *)(uintptr_t)name);
    }
    if (alpn) {
        assert_int_equal(SSL_set_alpn_protos(ssl, alpn, alpn_len), 0);
    }
    (void)SSL_do_handshake(ssl);
    int n = BIO_read(sent, out, (int)out_len);
    assert_true(n > 50);
    SSL_free(ssl);
    SSL_CTX_free(ctx);
    return (size_t)n;
}

static void names_and_protocols(void **state)
{
    static const unsigned char both[] = "\x02h2\x08http/1.1", h2[] = "\x02h2";
    char raw[8192];
    struct client_hello h;
    size_t n = make_hello("API.Example.com", both, sizeof(both) - 1, raw, sizeof(raw));
    assert_int_equal(client_hello_parse(str_n(raw, n), &h), HELLO_DONE);
    assert_string_equal(h.server_name, "api.example.com");
    assert_true(h.has_h2 && h.has_http1 && !h.has_ech);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(client_hello_parse(str_n(raw, i), &h), HELLO_NEED_MORE);
    }
    n = make_hello("x.test", h2, sizeof(h2) - 1, raw, sizeof(raw));
    assert_int_equal(client_hello_parse(str_n(raw, n), &h), HELLO_DONE);
    assert_true(h.has_h2 && !h.has_http1);
    n = make_hello(NULL, NULL, 0, raw, sizeof(raw));
    assert_int_equal(client_hello_parse(str_n(raw, n), &h), HELLO_DONE);
    assert_string_equal(h.server_name, "");
    assert_true(!h.has_h2 && h.has_http1);
}

/* The same message in records of one byte each: some clients split it to pass filters. */
static void spread_over_records(void **state)
{
    char raw[8192], split[8192 * 6];
    struct client_hello h;
    size_t n = make_hello("split.example.com", NULL, 0, raw, sizeof(raw)), m = 0;
    for (size_t i = 5; i < n; i++) {
        memcpy(split + m, "\x16\x03\x01\x00\x01", 5);
        split[m + 5] = raw[i];
        m += 6;
    }
    assert_int_equal(client_hello_parse(str_n(split, m), &h), HELLO_DONE);
    assert_string_equal(h.server_name, "split.example.com");
    assert_int_equal(client_hello_parse(str_n(split, m - 1), &h), HELLO_NEED_MORE);
}

static void something_else(void **state)
{
    static const char *const other[] = {"GET / HTTP/1.1\r\n",           "SSH-2.0-x\r\n",
                                        "\x15\x03\x01\x00\x02\x01\x00", "\x16\x02\x00",
                                        "\x16\x03\x01\xff\xff",         "\x16\x03\x01\x00\x04\x02"};
    struct client_hello h;
    for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++) {
        struct str s = str_n(other[i], i == 2 ? 7 : i == 5 ? 6 : i == 4 ? 5 : strlen(other[i]));
        assert_int_equal(client_hello_parse(s, &h), HELLO_NOT_TLS);
    }
    /* A record that says 0 bytes, and one message that claims to be huge. */
    assert_int_equal(client_hello_parse(str_n("\x16\x03\x01\x00\x00", 5), &h), HELLO_NOT_TLS);
    assert_int_equal(client_hello_parse(str_n("\x16\x03\x01\x40\x00\x01\xff\xff\xff", 9), &h),
                     HELLO_NOT_TLS);
    assert_int_equal(client_hello_parse(str_n("", 0), &h), HELLO_NEED_MORE);
}

static void two_names(void **state)
{
    char raw[8192];
    struct client_hello h;
    size_t n = make_hello("aaaa.test", NULL, 0, raw, sizeof(raw));
    char *at = memmem(raw, n, "aaaa.test", 9);
    assert_non_null(at);
    /* Not a name: refused as such, the hello itself is fine. */
    at[4] = '/';
    assert_int_equal(client_hello_parse(str_n(raw, n), &h), HELLO_DONE);
    assert_string_equal(h.server_name, "");
    /* The length of the list says more than there is. */
    at[4] = '.';
    at[-1] = 60;
    assert_int_equal(client_hello_parse(str_n(raw, n), &h), HELLO_DONE);
    assert_string_equal(h.server_name, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_protocols),
        cmocka_unit_test(spread_over_records),
        cmocka_unit_test(something_else),
        cmocka_unit_test(two_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
