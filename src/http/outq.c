/* The output queue: a list of nodes, each a block of bytes or a stretch of a file. */

#include "http/outq.h"

#include <errno.h>

#include "base/must.h"

#define BLOCK_SMALL (2u << 10) /* the first block: most queues hold one head or a few events */
#define BLOCK_LARGE (16u << 10)
#define IOV_MAX_FLUSH 16
#define FLUSH_MAX (1u << 20) /* bytes per call, so that one fast reader does not hold the loop */

struct outq_node {
    struct outq_node *next;
    const char *p;    /* first byte to send; NULL: a file */
    size_t len, room; /* bytes to send; bytes that still fit behind them */
    int fd;
    off_t offset;
    uint64_t file_left;
    char data[];
};

static struct outq_node *node_new(struct outq *q, size_t cap)
{
    struct outq_node *n = xmalloc(sizeof(*n) + cap);
    *n = (struct outq_node){.fd = -1, .p = n->data, .room = cap};
    if (q->tail) {
        q->tail->next = n;
    } else {
        q->head = n;
    }
    q->tail = n;
    return n;
}

static void node_drop(struct outq *q)
{
    struct outq_node *n = q->head;
    q->head = n->next;
    if (!q->head) {
        q->tail = NULL;
    }
    if (n->fd >= 0) {
        (void)close(n->fd); /* opened for reading */
    }
    q->queued -= n->len;
    free(n);
}

void outq_add(struct outq *q, struct str data)
{
    struct outq_node *n = q->tail;
    if (data.n == 0) {
        return;
    }
    if (n && n->room > 0) {
        size_t k = MIN(n->room, data.n);
        memcpy(n->data + (n->p - n->data) + n->len, data.p, k);
        n->len += k;
        n->room -= k;
        q->queued += k;
        data = str_sub(data, k, data.n);
    }
    if (data.n == 0) {
        return;
    }
    size_t cap = MAX(data.n, q->head ? BLOCK_LARGE : BLOCK_SMALL);
    n = node_new(q, cap);
    memcpy(n->data, data.p, data.n);
    n->len = data.n;
    n->room = cap - data.n;
    q->queued += data.n;
}

void outq_add_ref(struct outq *q, struct str data)
{
    if (data.n == 0) {
        return;
    }
    struct outq_node *n = node_new(q, 0);
    n->p = data.p;
    n->len = data.n;
    q->queued += data.n;
}

void outq_add_file(struct outq *q, int take_fd, off_t offset, uint64_t n)
{
    if (n == 0) {
        (void)close(take_fd); /* opened for reading */
        return;
    }
    struct outq_node *node = node_new(q, 0);
    node->p = NULL;
    node->fd = take_fd;
    node->offset = offset;
    node->file_left = n;
}

/* n bytes of the blocks at the front have been sent. */
static void advance(struct outq *q, size_t n)
{
    q->sent += n;
    while (n > 0) {
        struct outq_node *h = q->head;
        size_t k = MIN(h->len, n);
        h->p += k;
        h->len -= k;
        q->queued -= k;
        n -= k;
        if (h->len == 0) {
            node_drop(q);
        }
    }
}

/* Blocks at the front, up to the first file. */
static int gather(const struct outq *q, struct iovec *iov, int max)
{
    int n = 0;
    for (struct outq_node *it = q->head; it && it->p && n < max; it = it->next) {
        iov[n++] = (struct iovec){(void *)(uintptr_t)it->p, it->len};
    }
    return n;
}

static ssize_t send_file(struct outq *q, struct io_stream *s)
{
    struct outq_node *h = q->head;
    ssize_t r = io_stream_sendfile(s, h->fd, &h->offset, (size_t)MIN(h->file_left, FLUSH_MAX));
    if (r <= 0) {
        return r == 0 ? -EIO : r; /* the file became shorter while it was sent */
    }
    q->sent += (uint64_t)r;
    h->file_left -= (uint64_t)r;
    if (h->file_left == 0) {
        node_drop(q);
    }
    return r;
}

int outq_flush(struct outq *q, struct io_stream *s)
{
    size_t total = 0;
    while (q->head) {
        ssize_t r;
        if (q->head->p) {
            struct iovec iov[IOV_MAX_FLUSH];
            r = io_stream_writev(s, iov, gather(q, iov, IOV_MAX_FLUSH));
            if (r > 0) {
                advance(q, (size_t)r);
            }
        } else {
            r = send_file(q, s);
        }
        if (r < 0) {
            return (int)r;
        }
        total += (size_t)r;
        if (total >= FLUSH_MAX && q->head) {
            return -EAGAIN;
        }
    }
    return 0;
}

int outq_writev(struct outq *q, struct io_stream *s, const struct iovec *iov, int n_iov)
{
    struct iovec all[IOV_MAX_FLUSH + OUTQ_IOV_MAX];
    must(n_iov <= OUTQ_IOV_MAX);
    int n = gather(q, all, IOV_MAX_FLUSH);
    size_t before = q->queued, done = 0;
    if (n == 0 ? outq_empty(q) : (n < IOV_MAX_FLUSH && q->tail->p)) {
        /* Nothing else is between the queue and the new bytes. */
        memcpy(all + n, iov, (size_t)n_iov * sizeof(*iov));
        ssize_t r = io_stream_writev(s, all, n + n_iov);
        if (r < 0 && r != -EAGAIN) {
            return (int)r;
        }
        if (r > 0) {
            size_t of_queue = MIN((size_t)r, before);
            advance(q, of_queue);
            done = (size_t)r - of_queue;
            q->sent += done;
        }
    }
    for (int i = 0; i < n_iov; i++) {
        size_t skip = MIN(done, iov[i].iov_len);
        done -= skip;
        outq_add(q, str_n((const char *)iov[i].iov_base + skip, iov[i].iov_len - skip));
    }
    return 0;
}

void outq_done(struct outq *q)
{
    while (q->head) {
        node_drop(q);
    }
}
