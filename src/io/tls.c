/* TLS on a stream: the stream object stays, its transport changes.
 *
 * Theory of operation: OpenSSL reads from the descriptor itself and writes to it by way of
 * tls_wire.c, which lets several records leave at once. A read may need the socket writable
 * and a write may need it readable (handshake messages after the handshake); the stream has a field
 * for each that says what the kernel is to be asked for, and only this file changes them. As much
 * as IO_TLS_READ is read at once and a record is decrypted as a whole, so records and plaintext may
 * be left that no kernel event announces: pending() tells the stream, which then delivers READABLE
 * by itself. Part of a record is left too, and says nothing until the kernel has more: `starved`.
 * Buffers are released while a connection is idle.
 *
 * Known limit of OpenSSL 3.0: when the peer asks for new keys more than once while a record of ours
 * is sealed and does not fit into the socket, the connection fails with -EPROTO. */

#include "io/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/must.h"
#include "io/internal.h"
#include "io/limits.h"
#include "io/tls_wire.h"

struct io_tls_ctx {
    SSL_CTX *ssl;
    atomic_uint refs;
    bool verify;
    unsigned char
        alpn[IO_TLS_ALPN_MAX]; /* length byte and name, as on the wire; [0] is 0 for none */
};

struct tls {
    SSL *ssl;
    struct tls_wire wire;
    bool broken;  /* after a fatal error OpenSSL must not be asked to say goodbye */
    bool starved; /* no whole record is left, and the socket was empty */
    bool deaf;    /* nor to read on: the records themselves cannot be trusted any more */
};

/* ---- transport ---- */

static void set_needs(struct io_stream *s, uint8_t *which, uint8_t to)
{
    if (*which != to) {
        *which = to;
        stream_rearm(s);
    }
}

/* What a failed call means: -EAGAIN with the right interest, 0 for an orderly end, or the error. */
static ssize_t failure(struct io_stream *s, int ret, uint8_t *which)
{
    struct tls *t = s->transport;
    int saved = errno;

    switch (SSL_get_error(t->ssl, ret)) {
    case SSL_ERROR_WANT_READ:
        set_needs(s, which, UV_READABLE);
        return -EAGAIN;
    case SSL_ERROR_WANT_WRITE:
        set_needs(s, which, UV_WRITABLE);
        return -EAGAIN;
    case SSL_ERROR_ZERO_RETURN:
        return 0;
    case SSL_ERROR_SYSCALL:
        t->broken = true;
        return saved ? -saved : -ECONNRESET;
    default:
        t->broken = t->deaf = true;
        /* The connection ended without a word: cut off, or somebody wants it to look complete. */
        return ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING ? -ECONNRESET
                                                                                      : -EPROTO;
    }
}

static ssize_t tls_read(struct io_stream *s, void *p, size_t n)
{
    struct tls *t = s->transport;
    size_t got;

    /* Not `broken`: a server may answer, close and reset while we still write to it. What it said
     * before that is in the socket, and whole records of it are as good as ever. */
    if (t->deaf) {
        return -EPROTO;
    }
    ERR_clear_error();
    errno = 0;
    int r = SSL_read_ex(t->ssl, p, n, &got);
    if (r <= 0) {
        ssize_t e = failure(s, r, &s->read_needs);
        t->deaf |= t->broken;
        t->starved = true;
        return e;
    }
    t->starved = false;
    s->read_needs = UV_READABLE;
    stream_rearm(s); /* for what is left of the record */
    return (ssize_t)got;
}

/* One record out of the vector, from `skip` on; small pieces are collected. Bytes, or the error. */
static ssize_t seal_record(struct io_stream *s, const struct iovec *iov, int n_iov, size_t skip)
{
    struct tls *t = s->transport;
    char record[IO_TLS_RECORD];
    const char *p = record;
    size_t n = 0, put;

    for (int i = 0; i < n_iov && n < sizeof(record); i++) {
        if (skip >= iov[i].iov_len) {
            skip -= iov[i].iov_len;
            continue;
        }
        const char *from = (const char *)iov[i].iov_base + skip;
        size_t part = MIN(iov[i].iov_len - skip, sizeof(record) - n);
        skip = 0;
        if (n == 0 && (part == sizeof(record) || i == n_iov - 1)) {
            p = from; /* no need to collect */
            n = part;
            break;
        }
        memcpy(record + n, from, part);
        n += part;
    }
    if (n == 0) {
        return 0;
    }
    ERR_clear_error();
    errno = 0;
    int r = SSL_write_ex(t->ssl, p, n, &put);
    if (r <= 0) {
        ssize_t e = failure(s, r, &s->write_needs);
        return e ? e : -EPIPE; /* we have said goodbye already */
    }
    wire_record(&t->wire, put);
    return (ssize_t)put;
}

/* Seals as many records as leave at once, behind the `skip` bytes that are sealed already. */
static ssize_t seal_and_send(struct io_stream *s, const struct iovec *iov, int n_iov, size_t skip)
{
    struct tls *t = s->transport;
    ssize_t r = 1;

    wire_begin(&t->wire);
    while (r > 0 && t->wire.n_records < IO_TLS_BATCH) {
        r = seal_record(s, iov, n_iov, skip);
        skip += r > 0 ? (size_t)r : 0;
    }
    int e = wire_end(&t->wire);
    return e ? e : MIN(r, 0);
}

/* After -EAGAIN, or a write that took less than it was given, records are sealed that did not fit
 * into the socket: they leave first, and as much of the vector is passed over. */
static ssize_t tls_writev(struct io_stream *s, const struct iovec *iov, int n_iov)
{
    struct tls *t = s->transport;
    size_t total = 0;

    if (t->broken) {
        return -EPROTO;
    }
    for (int i = 0; i < n_iov; i++) {
        total += iov[i].iov_len;
    }
    set_needs(s, &s->write_needs, UV_WRITABLE);
    ssize_t e = wire_flush(&t->wire);
    size_t sealed = wire_sealed(&t->wire);
    if (e == 0 && total > sealed) {
        e = seal_and_send(s, iov, n_iov, sealed);
    }
    t->broken |= e < 0 && e != -EAGAIN;
    size_t put = wire_report(&t->wire, total);
    return put > 0 ? (ssize_t)put : e;
}

static int tls_shutdown(struct io_stream *s)
{
    struct tls *t = s->transport;

    if (t->broken) {
        return -EPIPE;
    }
    if (SSL_get_shutdown(t->ssl) & SSL_SENT_SHUTDOWN) {
        return 0; /* a second call would wait for the peer's goodbye */
    }
    int left = wire_flush(&t->wire);
    if (left < 0) {
        t->broken |= left != -EAGAIN;
        return left;
    }
    ERR_clear_error();
    errno = 0;
    int r = SSL_shutdown(t->ssl);
    return r >= 0 ? 0 : (int)failure(s, r, &s->write_needs);
}

static bool tls_pending(struct io_stream *s)
{
    struct tls *t = s->transport;

    return !t->deaf && !t->starved && SSL_has_pending(t->ssl);
}

bool io_stream_is_holding(const struct io_stream *s)
{
    const struct tls *t = s->transport;

    return t && (t->wire.out || SSL_has_pending(t->ssl));
}

static void tls_close(struct io_stream *s, bool abort)
{
    struct tls *t = s->transport;

    if (!abort && !t->broken && SSL_is_init_finished(t->ssl) &&
        !(SSL_get_shutdown(t->ssl) & SSL_SENT_SHUTDOWN)) {
        ERR_clear_error();
        (void)SSL_shutdown(t->ssl); /* one try; nobody waits for a full socket here */
    }
    SSL_free(t->ssl);
    wire_done(&t->wire);
    free(t);
    s->transport = NULL;
}

static const struct io_stream_ops tls_ops = {
    .read = tls_read,
    .writev = tls_writev,
    .sendfile = stream_copy_file,
    .shutdown = tls_shutdown,
    .pending = tls_pending,
    .close = tls_close,
};

/* ---- handshake ---- */

struct io_tls_op {
    struct io_owned owned;
    struct io_task first; /* the first step, outside the caller's stack */
    struct io_stream *stream;
    struct io_tls_ctx *ctx; /* OpenSSL asks it for the protocol during the handshake */
    bool client, no_name;
    io_tls_cb *cb;
    void *arg;
};

static void op_free(struct io_tls_op *op)
{
    list_del(&op->owned.node);
    loop_task_del(&op->first);
    io_stream_close(op->stream);
    io_tls_ctx_unref(op->ctx);
    free(op);
}

static void describe(struct io_tls_op *op, int error, struct err *e)
{
    struct tls *t = op->stream->transport;
    long verify = SSL_get_verify_result(t->ssl);
    unsigned long code = ERR_peek_error();
    const char *reason = code ? ERR_reason_error_string(code) : NULL;

    if (op->no_name) {
        (void)err_set(e, ERR_INVALID, "TLS handshake: no server name to verify");
    } else if (op->client && verify != X509_V_OK) {
        (void)err_set(e, ERR_DENIED, "TLS handshake: certificate not accepted: %s",
                      X509_verify_cert_error_string(verify));
    } else if (error == -EPROTO && reason) {
        (void)err_set(e, ERR_UNAVAILABLE, "TLS handshake: %s", reason);
    } else {
        (void)err_sys(e, error, "TLS handshake");
    }
}

static void finish(struct io_tls_op *op, int error)
{
    struct err e = {0};
    io_tls_cb *cb = op->cb;
    void *arg = op->arg;
    struct io_stream *s = NULL;

    if (error) {
        describe(op, error, &e);
    } else {
        s = op->stream;
        op->stream = NULL;
        io_stream_want(s, 0);
        io_stream_set_cb(s, NULL, NULL);
        s->read_needs = UV_READABLE;
        s->write_needs = UV_WRITABLE;
    }
    op_free(op);
    cb(s, error ? &e : NULL, arg);
}

static void step(struct io_tls_op *op)
{
    struct io_stream *s = op->stream;
    struct tls *t = s->transport;

    if (op->no_name) {
        finish(op, -EINVAL);
        return;
    }
    ERR_clear_error();
    errno = 0;
    int r = SSL_do_handshake(t->ssl);
    if (r == 1) {
        finish(op, 0);
        return;
    }
    ssize_t e = failure(s, r, &s->read_needs);
    if (e == -EAGAIN) {
        io_stream_want(s, IO_READABLE); /* read_needs says what that means at the moment */
    } else {
        finish(op, e ? (int)e : -ECONNRESET);
    }
}

static void on_event(struct io_stream *s, unsigned events, void *arg)
{
    step(arg);
}

static void on_first(struct io_task *t)
{
    struct io_tls_op *op = container_of(t, struct io_tls_op, first);

    if (!io_stream_loop(op->stream)->freeing) {
        step(op);
    }
}

static void forget(struct io_owned *o)
{
    op_free(container_of(o, struct io_tls_op, owned));
}

static struct io_tls_op *op_new(struct io_tls_ctx *c, struct io_stream *s, io_tls_cb *cb, void *arg)
{
    struct io_tls_op *op = NEW(struct io_tls_op);
    struct tls *t = NEW(struct tls);

    must(!s->transport);
    t->ssl = SSL_new(c->ssl);
    must(t->ssl); /* fails only without memory */
    wire_init(&t->wire, s->fd, s->kind == STREAM_SOCKET);
    BIO *bio = wire_bio(&t->wire);
    SSL_set_bio(t->ssl, bio, bio);
    s->transport = t;
    s->ops = &tls_ops;
    op->stream = s;
    op->ctx = c;
    atomic_fetch_add(&c->refs, 1);
    op->cb = cb;
    op->arg = arg;
    io_stream_set_cb(s, on_event, op);
    io_loop_own(io_stream_loop(s), &op->owned, forget);
    loop_task_init(&op->first, on_first);
    loop_task_add(io_stream_loop(s), &op->first);
    return op;
}

struct io_tls_op *io_tls_accept(struct io_tls_ctx *c, struct io_stream *take_s, io_tls_cb *cb,
                                void *arg)
{
    struct io_tls_op *op = op_new(c, take_s, cb, arg);

    SSL_set_accept_state(((struct tls *)take_s->transport)->ssl);
    return op;
}

/* The name the certificate must be for; a numeric address is looked up among its addresses. */
static bool expect_name(SSL *ssl, const char *name)
{
    struct io_addr ip;
    char text[IO_ADDR_TEXT_MAX];

    if (io_addr_ip(str_from(name), 0, &ip) == 0) {
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), io_addr_format_ip(&ip, text)) ==
               1;
    }
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    /* SSL_set_tlsext_host_name() without its cast, which drops a const; OpenSSL copies the name. */
    return SSL_set1_host(ssl, name) == 1 &&
           SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                    (void *)(uintptr_t)name) == 1;
}

struct io_tls_op *io_tls_connect(struct io_tls_ctx *c, struct io_stream *take_s,
                                 const char *server_name, io_tls_cb *cb, void *arg)
{
    struct io_tls_op *op = op_new(c, take_s, cb, arg);
    SSL *ssl = ((struct tls *)take_s->transport)->ssl;

    op->client = true;
    SSL_set_connect_state(ssl);
    bool named = server_name && expect_name(ssl, server_name);
    op->no_name = c->verify && !named; /* never verify against nothing */
    return op;
}

void io_tls_cancel(struct io_tls_op *op)
{
    if (op) {
        op_free(op);
    }
}

/* ---- contexts ---- */

static int ssl_err(struct err *e, const char *what, const char *file)
{
    unsigned long code = ERR_peek_error();
    const char *reason = code ? ERR_reason_error_string(code) : NULL;

    return err_set(e, ERR_INVALID, "TLS: %s%s%s: %s", what, file ? " " : "", file ? file : "",
                   reason ? reason : "unknown error");
}

/* Encrypted keys are refused instead of asked for on a terminal. */
static int no_password(char *buf, int size, int rwflag, void *arg)
{
    return -1;
}

static int load_identity(SSL_CTX *ssl, const char *cert_file, const char *key_file, struct err *e)
{
    SSL_CTX_set_default_passwd_cb(ssl, no_password);
    if (SSL_CTX_use_certificate_chain_file(ssl, cert_file) != 1) {
        return ssl_err(e, "certificate", cert_file);
    }
    const char *key = key_file ? key_file : cert_file;
    if (SSL_CTX_use_PrivateKey_file(ssl, key, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(ssl) != 1) {
        return ssl_err(e, "private key", key);
    }
    return 0;
}

static int use_identity(SSL_CTX *ssl, const struct io_tls_server_opts *o, struct err *e)
{
    if (SSL_CTX_use_certificate(ssl, o->cert) != 1 || SSL_CTX_use_PrivateKey(ssl, o->key) != 1 ||
        SSL_CTX_check_private_key(ssl) != 1 ||
        (o->issuer && SSL_CTX_add1_chain_cert(ssl, o->issuer) != 1)) {
        return ssl_err(e, "certificate", NULL);
    }
    return 0;
}

static int set_alpn(struct io_tls_ctx *c, const char *name, struct err *e)
{
    size_t n = name ? strlen(name) : 0;

    if (n >= sizeof(c->alpn)) {
        return err_set(e, ERR_INVALID, "TLS: protocol name is too long");
    }
    c->alpn[0] = (unsigned char)n;
    if (n) {
        memcpy(c->alpn + 1, name, n);
    }
    return 0;
}

/* A client that names protocols and not ours talks to the wrong server: RFC 7301 §3.2. */
static int choose_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                       const unsigned char *in, unsigned in_len, void *arg)
{
    const struct io_tls_ctx *c = arg;
    unsigned char *chosen = NULL;

    if (SSL_select_next_proto(&chosen, out_len, c->alpn, c->alpn[0] + 1u, in, in_len) !=
        OPENSSL_NPN_NEGOTIATED) {
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    }
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

/* OpenSSL begins with AES-256. Where the processor does AES, AES-128-GCM costs a quarter less and
 * is as far from being broken; elsewhere the order is left alone. */
static void prefer_fast_ciphers(SSL_CTX *ssl)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul")) {
        must(SSL_CTX_set_ciphersuites(ssl, "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:"
                                           "TLS_CHACHA20_POLY1305_SHA256") == 1 &&
             SSL_CTX_set_cipher_list(
                 ssl, "ECDHE+AES128+AESGCM:ECDHE+AESGCM:ECDHE+CHACHA20:DEFAULT") == 1);
    }
#endif
}

static struct io_tls_ctx *ctx_new(const SSL_METHOD *method)
{
    struct io_tls_ctx *c = NEW(struct io_tls_ctx);

    ERR_clear_error();
    c->ssl = SSL_CTX_new(method);
    must(c->ssl);
    atomic_init(&c->refs, 1);
    must(SSL_CTX_set_min_proto_version(c->ssl, TLS1_2_VERSION) == 1);
    SSL_CTX_set_options(c->ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                    SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_mode(c->ssl, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                 SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_read_ahead(c->ssl, 1);
    SSL_CTX_set_default_read_buffer_len(c->ssl, IO_TLS_READ);
    prefer_fast_ciphers(c->ssl);
    /* Sessions are resumed with tickets that the client keeps; we keep none. */
    SSL_CTX_set_session_cache_mode(c->ssl, SSL_SESS_CACHE_OFF);
    return c;
}

struct io_tls_ctx *io_tls_server_new(const struct io_tls_server_opts *o, struct err *e)
{
    struct io_tls_ctx *c = ctx_new(TLS_server_method());

    int r =
        o->cert ? use_identity(c->ssl, o, e) : load_identity(c->ssl, o->cert_file, o->key_file, e);
    if (r < 0 || set_alpn(c, o->alpn, e) < 0) {
        io_tls_ctx_unref(c);
        return NULL;
    }
    if (c->alpn[0]) {
        SSL_CTX_set_alpn_select_cb(c->ssl, choose_alpn, c);
    }
    return c;
}

static int trust(struct io_tls_ctx *c, const struct io_tls_client_opts *o, struct err *e)
{
    if (o->insecure) {
        SSL_CTX_set_verify(c->ssl, SSL_VERIFY_NONE, NULL);
        return 0;
    }
    c->verify = true;
    SSL_CTX_set_verify(c->ssl, SSL_VERIFY_PEER, NULL);
    if (!o->ca_file && !o->ca_dir && SSL_CTX_set_default_verify_paths(c->ssl) != 1) {
        return ssl_err(e, "trusted certificates", NULL);
    }
    if (o->ca_file && SSL_CTX_load_verify_file(c->ssl, o->ca_file) != 1) {
        return ssl_err(e, "trusted certificates", o->ca_file);
    }
    if (o->ca_dir && SSL_CTX_load_verify_dir(c->ssl, o->ca_dir) != 1) {
        return ssl_err(e, "trusted certificates", o->ca_dir);
    }
    return 0;
}

struct io_tls_ctx *io_tls_client_new(const struct io_tls_client_opts *o, struct err *e)
{
    struct io_tls_ctx *c = ctx_new(TLS_client_method());

    if (trust(c, o, e) < 0 || set_alpn(c, o->alpn, e) < 0 ||
        (o->cert_file && load_identity(c->ssl, o->cert_file, o->key_file, e) < 0)) {
        io_tls_ctx_unref(c);
        return NULL;
    }
    if (c->alpn[0]) {
        must(SSL_CTX_set_alpn_protos(c->ssl, c->alpn, c->alpn[0] + 1u) == 0); /* 0 is success */
    }
    return c;
}

void io_tls_ctx_unref(struct io_tls_ctx *c)
{
    if (c && atomic_fetch_sub(&c->refs, 1) == 1) {
        SSL_CTX_free(c->ssl);
        free(c);
    }
}
