/* Questions on their way out. */

#include "egress/dns_upstream.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/must.h"
#include "io/stream.h"
#include "net/dns.h"

struct socket_ {
    struct resolver *resolver;
    struct flight *flight;
    struct io_stream *stream;
    struct buf out, in; /* TCP */
};

static void socket_free(struct socket_ *s)
{
    io_stream_close(s->stream);
    buf_done(&s->out);
    buf_done(&s->in);
    free(s);
}

void upstream_cancel(struct flight *f)
{
    struct socket_ *s = flight_socket(f);
    if (s) {
        flight_set_socket(f, NULL);
        socket_free(s);
    }
}

static void on_udp(struct io_stream *stream, unsigned events, void *arg)
{
    struct socket_ *s = arg;
    static char msg[DNS_MESSAGE_MAX];
    ssize_t n = recv(io_stream_fd(stream), msg, sizeof(msg), MSG_DONTWAIT);
    if (n < 0) {
        if (errno != EAGAIN && errno != EINTR) { /* refused: nobody listens there */
            resolver_on_failure(s->resolver, s->flight);
        }
        return;
    }
    resolver_on_answer(s->resolver, s->flight, str_n(msg, (size_t)n));
}

/* Two bytes of length, then the message. True when it has been handed over. */
static bool tcp_deliver(struct socket_ *s)
{
    struct str in = buf_str(&s->in);
    if (in.n < 2 || in.n < 2u + dns_u16(in, 0)) {
        return false;
    }
    struct buf msg = s->in; /* the socket dies inside */
    s->in = BUF_INIT(0);
    resolver_on_answer(s->resolver, s->flight, str_n(msg.p + 2, dns_u16(in, 0)));
    buf_done(&msg);
    return true;
}

static void on_tcp(struct io_stream *stream, unsigned events, void *arg)
{
    struct socket_ *s = arg;
    if (s->out.len) {
        ssize_t n = io_stream_write(stream, s->out.p, s->out.len);
        if (n > 0) {
            buf_consume(&s->out, (size_t)n);
        } else if (n != -EAGAIN) {
            resolver_on_failure(s->resolver, s->flight);
            return;
        }
        io_stream_want(stream, s->out.len ? IO_WRITABLE : IO_READABLE);
        return;
    }
    for (;;) {
        char piece[4096];
        ssize_t n = io_stream_read(stream, piece, sizeof(piece));
        if (n == -EAGAIN) {
            return;
        }
        if (n <= 0 || buf_add(&s->in, piece, (size_t)n) < 0) {
            resolver_on_failure(s->resolver, s->flight);
            return;
        }
        if (tcp_deliver(s)) {
            return;
        }
    }
}

static int open_socket(const struct io_addr *to, bool tcp, uint32_t mark)
{
    int fd = socket(to->sa.sa_family,
                    (tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -errno;
    }
    if ((mark && setsockopt(fd, SOL_SOCKET, SO_MARK, &mark, sizeof(mark)) < 0) ||
        (connect(fd, &to->sa, to->len) < 0 && errno != EINPROGRESS)) {
        int error = errno;
        (void)close(fd);
        return -error;
    }
    return fd;
}

int upstream_send(struct io_loop *l, struct resolver *r, struct flight *f, const struct io_addr *to,
                  bool tcp, struct str msg, uint32_t mark)
{
    upstream_cancel(f);
    int fd = open_socket(to, tcp, mark);
    if (fd < 0) {
        return fd;
    }
    if (!tcp && send(fd, msg.p, msg.n, MSG_NOSIGNAL) != (ssize_t)msg.n) {
        int error = errno;
        (void)close(fd);
        return -error;
    }
    struct socket_ *s = NEW(struct socket_);
    s->resolver = r;
    s->flight = f;
    buf_init(&s->out, DNS_MESSAGE_MAX + 2);
    buf_init(&s->in, DNS_MESSAGE_MAX + 2 + 4096);
    s->stream = io_stream_from_fd(l, fd, tcp ? on_tcp : on_udp, s);
    if (!s->stream) {
        free(s);
        return -EBADF;
    }
    if (tcp) {
        char len[2];
        dns_put_u16(len, (uint16_t)msg.n);
        (void)buf_add(&s->out, len, sizeof(len));
        (void)buf_add_str(&s->out, msg);
    }
    io_stream_want(s->stream, tcp ? IO_WRITABLE : IO_READABLE);
    flight_set_socket(f, s);
    return 0;
}
