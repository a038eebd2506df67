/* Host names to addresses, in a worker: getaddrinfo(3) blocks. Not linked by static programs. */

#include "io/resolve.h"

#include <errno.h>
#include <netdb.h>

#include "base/must.h"

struct query {
    struct io_loop *loop;
    io_resolve_cb *cb;
    void *arg;
    int error, n;
    uint16_t port;
    struct io_addr addrs[IO_RESOLVE_MAX];
    char host[];
};

static int to_errno(int eai)
{
    switch (eai) {
    case 0:
        return 0;
    case EAI_NONAME:
    case EAI_NODATA:
    case EAI_ADDRFAMILY:
        return -ENOENT;
    case EAI_AGAIN:
        return -EAGAIN;
    case EAI_MEMORY:
        return -ENOMEM;
    case EAI_SYSTEM:
        return errno ? -errno : -EIO;
    default:
        return -EIO;
    }
}

static void answer(void *arg)
{
    struct query *q = arg;

    q->cb(q->addrs, q->n, q->error, q->arg);
    free(q);
}

static void look_up(void *arg)
{
    struct query *q = arg;
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    char port[8];

    (void)snprintf(port, sizeof(port), "%u", q->port);
    q->error = to_errno(getaddrinfo(q->host, port, &hints, &list));
    for (struct addrinfo *a = list; a && q->n < IO_RESOLVE_MAX; a = a->ai_next) {
        struct io_addr *to = &q->addrs[q->n];
        if (a->ai_addrlen <= sizeof(to->ss)) {
            to->len = a->ai_addrlen;
            memcpy(&to->ss, a->ai_addr, a->ai_addrlen);
            q->n++;
        }
    }
    if (list) {
        freeaddrinfo(list);
    }
    if (!q->error && !q->n) {
        q->error = -ENOENT;
    }
    io_post(q->loop, answer, q);
}

int io_resolve(struct io_loop *l, struct io_pool *p, const char *host, uint16_t port,
               io_resolve_cb *cb, void *arg)
{
    size_t n = strlen(host) + 1;
    struct query *q = xcalloc(1, sizeof(*q) + n);

    q->loop = l;
    q->cb = cb;
    q->arg = arg;
    q->port = port;
    memcpy(q->host, host, n);
    int r = io_pool_submit(p, look_up, q);
    if (r < 0) {
        free(q);
    }
    return r;
}
