/* The batch of a thread, and what is left of one on a connection. */

#include "io/tls_wire.h"

#include <errno.h>
#include <openssl/bio.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/must.h"

/* A record with its header and tag, and a message about keys that may go before it. */
#define SEALED_MAX (IO_TLS_BATCH * (IO_TLS_RECORD + 512u))

/* Nothing survives in it from one wire_end() to the next wire_begin(). */
static _Thread_local char batch[SEALED_MAX];
static _Thread_local uint32_t batch_len;

void wire_init(struct tls_wire *w, int fd, bool is_socket)
{
    *w = (struct tls_wire){.fd = fd, .is_socket = is_socket};
}

static void forget(struct tls_wire *w)
{
    free(w->out);
    w->out = NULL;
    w->out_len = w->out_at = 0;
}

void wire_done(struct tls_wire *w)
{
    forget(w);
}

static ssize_t put(struct tls_wire *w, const void *p, size_t n)
{
    ssize_t r;
    do {
        r = w->is_socket ? send(w->fd, p, n, MSG_NOSIGNAL) : write(w->fd, p, n);
    } while (r < 0 && errno == EINTR);
    return r < 0 ? -errno : r;
}

/* All records up to `at` have left; their ends are counted from there. */
static void records_left(struct tls_wire *w, uint32_t at)
{
    for (uint32_t i = 0; i < w->n_records; i++) {
        w->records[i].end = w->records[i].end > at ? w->records[i].end - at : 0;
    }
}

int wire_flush(struct tls_wire *w)
{
    while (w->out_at < w->out_len) {
        ssize_t r = put(w, w->out + w->out_at, w->out_len - w->out_at);
        if (r < 0) {
            return (int)r;
        }
        w->out_at += (uint32_t)r;
        records_left(w, (uint32_t)r);
    }
    forget(w);
    return 0;
}

void wire_begin(struct tls_wire *w)
{
    must(!w->out && !w->gathering);
    w->gathering = true;
    batch_len = 0;
}

void wire_record(struct tls_wire *w, size_t plain)
{
    must(w->gathering && w->n_records < IO_TLS_BATCH);
    w->records[w->n_records].plain = (uint32_t)plain;
    w->records[w->n_records++].end = batch_len;
}

int wire_end(struct tls_wire *w)
{
    uint32_t at = 0;
    int e = 0;
    must(w->gathering);
    w->gathering = false;
    while (at < batch_len && e == 0) {
        ssize_t r = put(w, batch + at, batch_len - at);
        at += r > 0 ? (uint32_t)r : 0;
        e = r < 0 ? (int)r : 0;
    }
    records_left(w, at);
    if (at < batch_len) {
        w->out_len = batch_len - at;
        w->out = xmalloc(w->out_len);
        memcpy(w->out, batch + at, w->out_len);
    }
    return e;
}

size_t wire_sealed(const struct tls_wire *w)
{
    size_t n = 0;
    for (uint32_t i = 0; i < w->n_records; i++) {
        n += w->records[i].plain;
    }
    return n;
}

size_t wire_report(struct tls_wire *w, size_t max)
{
    size_t n = 0;
    uint32_t gone = 0;
    while (gone < w->n_records && w->records[gone].end == 0 && n < max) {
        size_t part = MIN(w->records[gone].plain, max - n);
        n += part;
        w->records[gone].plain -= (uint32_t)part;
        gone += w->records[gone].plain == 0;
    }
    w->n_records -= gone;
    memmove(w->records, w->records + gone, w->n_records * sizeof(w->records[0]));
    return n;
}

/* ---- as OpenSSL sees it ---- */

static int on_write(BIO *b, const char *p, int n)
{
    struct tls_wire *w = BIO_get_data(b);
    BIO_clear_retry_flags(b);
    if (w->gathering) {
        must((size_t)n <= sizeof(batch) - batch_len);
        memcpy(batch + batch_len, p, (size_t)n);
        batch_len += (uint32_t)n;
        return n;
    }
    ssize_t r = wire_flush(w); /* the order of records is their numbering */
    r = r < 0 ? r : put(w, p, (size_t)n);
    if (r == -EAGAIN) {
        BIO_set_retry_write(b);
    }
    errno = r < 0 ? (int)-r : 0;
    return r < 0 ? -1 : (int)r;
}

static int on_read(BIO *b, char *p, int n)
{
    struct tls_wire *w = BIO_get_data(b);
    ssize_t r;
    BIO_clear_retry_flags(b);
    do {
        r = read(w->fd, p, (size_t)n);
    } while (r < 0 && errno == EINTR);
    if (r < 0 && errno == EAGAIN) {
        BIO_set_retry_read(b);
    }
    w->eof |= r == 0;
    return (int)r;
}

static long on_ctrl(BIO *b, int what, long num, void *ptr)
{
    const struct tls_wire *w = BIO_get_data(b);
    switch (what) {
    case BIO_CTRL_FLUSH:
        return 1; /* nothing waits for it here */
    case BIO_CTRL_EOF:
        return w->eof;
    default:
        return 0;
    }
}

static BIO_METHOD *method;

static void make_method(void)
{
    method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "stream");
    must(method && BIO_meth_set_write(method, on_write) == 1 &&
         BIO_meth_set_read(method, on_read) == 1 && BIO_meth_set_ctrl(method, on_ctrl) == 1);
}

struct bio_st *wire_bio(struct tls_wire *w)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, make_method);
    BIO *b = BIO_new(method);
    must(b);
    BIO_set_data(b, w);
    BIO_set_init(b, 1);
    return b;
}
