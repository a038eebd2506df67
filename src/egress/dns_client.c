/* DNS over TCP. */

#include "egress/dns_client.h"

#include <errno.h>

#include "base/buf.h"
#include "base/must.h"
#include "egress/limits.h"
#include "io/timer.h"
#include "net/dns.h"

struct client {
    struct list node;
    struct dns_clients *clients;
    struct io_stream *stream;
    struct asker asker;
    struct io_timer idle;
    struct buf in, out;
    unsigned n_queries;
};

void dns_clients_init(struct dns_clients *c, struct resolver *r)
{
    *c = (struct dns_clients){.resolver = r};
    list_init(&c->all);
}

static void client_free(struct client *c)
{
    resolver_forget(c->clients->resolver, &c->asker);
    io_timer_stop(&c->idle);
    io_stream_close(c->stream);
    list_del(&c->node);
    c->clients->n--;
    buf_done(&c->in);
    buf_done(&c->out);
    free(c);
}

void dns_clients_done(struct dns_clients *c)
{
    while (!list_empty(&c->all)) {
        client_free(list_entry(list_first(&c->all), struct client, node));
    }
}

static void on_idle(struct io_timer *t)
{
    client_free(container_of(t, struct client, idle));
}

static void put_answer(struct client *c, struct str answer)
{
    char len[2];
    dns_put_u16(len, (uint16_t)answer.n);
    (void)buf_add(&c->out, len, sizeof(len));
    (void)buf_add_str(&c->out, answer);
    io_stream_want(c->stream, IO_WRITABLE);
}

static void on_done(struct asker *a, struct str answer)
{
    put_answer(container_of(a, struct client, asker), answer);
}

/* Takes one question out of the input, if there is a whole one. False: the client is gone. */
static bool client_ask(struct client *c)
{
    struct str in = buf_str(&c->in);
    size_t n = in.n < 2 ? 0 : dns_u16(in, 0);
    if (in.n < 2 || in.n < 2 + n) {
        io_stream_want(c->stream, IO_READABLE);
        return true;
    }
    struct buf answer = BUF_INIT(2u * DNS_MESSAGE_MAX);
    struct str query = str_sub(in, 2, 2 + n);
    io_timer_start(&c->idle, DNS_CLIENT_IDLE_MS * 4); /* as long as upstream may take */
    io_stream_want(c->stream, 0);
    int r = ++c->n_queries > DNS_CLIENT_QUERIES
                ? 0
                : resolver_try(c->clients->resolver, query, false, &answer);
    if (r == 0) {
        buf_done(&answer);
        client_free(c);
        return false;
    }
    if (r > 0) {
        put_answer(c, buf_str(&answer));
    } else {
        resolver_ask(c->clients->resolver, query, &c->asker);
    }
    buf_done(&answer);
    buf_consume(&c->in, 2 + n);
    return true;
}

static void client_write(struct client *c)
{
    ssize_t n = io_stream_write(c->stream, c->out.p, c->out.len);
    if (n < 0 && n != -EAGAIN) {
        client_free(c);
        return;
    }
    buf_consume(&c->out, n > 0 ? (size_t)n : 0);
    if (!c->out.len) {
        io_timer_start(&c->idle, DNS_CLIENT_IDLE_MS);
        (void)client_ask(c);
    }
}

static void on_event(struct io_stream *s, unsigned events, void *arg)
{
    struct client *c = arg;
    char piece[4096];
    if (c->out.len) {
        client_write(c);
        return;
    }
    ssize_t n = io_stream_read(s, piece, sizeof(piece));
    if (n == -EAGAIN) {
        return;
    }
    if (n <= 0 || buf_add(&c->in, piece, (size_t)n) < 0) {
        client_free(c);
        return;
    }
    (void)client_ask(c);
}

void dns_clients_add(struct dns_clients *clients, struct io_stream *take_s)
{
    if (clients->n >= DNS_MAX_CLIENTS) {
        io_stream_abort(take_s);
        return;
    }
    struct client *c = NEW(struct client);
    c->clients = clients;
    c->stream = take_s;
    c->asker.done = on_done;
    list_init(&c->node);
    list_push_back(&clients->all, &c->node);
    clients->n++;
    buf_init(&c->in, DNS_MESSAGE_MAX + 2 + 4096);
    buf_init(&c->out, DNS_MESSAGE_MAX + 2);
    io_timer_init(&c->idle, io_stream_loop(take_s), on_idle);
    io_timer_start(&c->idle, DNS_CLIENT_IDLE_MS);
    io_stream_set_cb(take_s, on_event, c);
    io_stream_want(take_s, IO_READABLE);
}
