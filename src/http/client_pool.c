/* Kept-alive connections of the client, by key. */

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/must.h"
#include "http/client_internal.h"

struct client_pool *client_pool_ref(struct http_client *c, struct str key)
{
    struct client_pool *p = map_get(&c->pools, key);
    if (!p) {
        p = xcalloc(1, sizeof(*p) + key.n);
        p->client = c;
        list_init(&p->idle);
        p->key_len = key.n;
        if (key.n > 0) {
            memcpy(p->key, key.p, key.n);
        }
        (void)map_put(&c->pools, key, p); /* there was none */
    }
    p->n_refs++;
    return p;
}

void client_pool_unref(struct client_pool *p)
{
    must(p->n_refs > 0);
    if (--p->n_refs > 0) {
        return;
    }
    if (!p->forgotten) {
        (void)map_del(&p->client->pools, str_n(p->key, p->key_len)); /* is p */
    }
    free(p);
}

/* Has the peer closed it (or sent something nobody asked for) and the loop not told us yet? */
static bool looks_alive(struct client_conn *conn)
{
    char byte;
    int fd = io_stream_fd(conn->stream);
    if (fd < 0) {
        return true; /* TLS: whatever is there may be a ticket */
    }
    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

struct client_conn *client_pool_take(struct client_pool *p, bool check)
{
    struct list *n;
    while ((n = list_pop_front(&p->idle))) {
        struct client_conn *conn = list_entry(n, struct client_conn, link);
        p->n_idle--;
        conn->idle = false;
        if (!check || looks_alive(conn)) {
            return conn;
        }
        client_conn_close(conn);
    }
    return NULL;
}

void client_pool_put(struct client_conn *conn)
{
    struct client_pool *p = conn->pool;
    const struct http_client_opts *o = &p->client->opts;
    if (p->forgotten || p->n_idle >= o->max_idle_per_target) {
        client_conn_close(conn);
        return;
    }
    buf_done(&conn->in);
    conn->idle = true;
    p->n_idle++;
    list_push_front(&p->idle, &conn->link);
    io_timer_start(&conn->timer, o->idle_pool_ms);
    io_stream_want(conn->stream, IO_READABLE); /* to hear that the peer has closed it */
}

void client_pool_close_idle(struct client_pool *p)
{
    struct list *n;
    p->n_refs++; /* the last connection must not take the pool away under us */
    while ((n = list_first(&p->idle))) {
        client_conn_close(list_entry(n, struct client_conn, link));
    }
    client_pool_unref(p);
}

void http_client_forget(struct http_client *c, struct str key_prefix)
{
    size_t it = 0;
    struct str key;
    void *value;
    while (map_next(&c->pools, &it, &key, &value)) {
        struct client_pool *p = value;
        if (str_starts(str_n(p->key, p->key_len), key_prefix)) {
            p->forgotten = true;
            (void)map_del(&c->pools, str_n(p->key, p->key_len)); /* is p */
            client_pool_close_idle(p);
        }
    }
}
