/* Long calls on images, told line by line. */

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "server/api/image.h"
#include "server/limits.h"

struct image_task {
    const struct image_task_ops *ops;
    void *arg;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* under the lock */
    bool is_over, give_up, has_news;
    char layer[80];
    const char *what;
    uint64_t done, total;
    struct image *img;
    struct err e;
};

static void *task_main(void *arg)
{
    struct image_task *t = arg;
    struct err e = {0};
    struct image *img = t->ops->run(t, t->arg, &e);
    (void)pthread_mutex_lock(&t->lock);
    t->img = img;
    t->e = e;
    t->is_over = true;
    (void)pthread_cond_signal(&t->changed);
    (void)pthread_mutex_unlock(&t->lock);
    return NULL;
}

bool image_task_report(struct image_task *t, const char *layer, const char *what, uint64_t done,
                       uint64_t total)
{
    (void)pthread_mutex_lock(&t->lock);
    bool turn = !t->what || strcmp(t->what, what) != 0;
    t->what = what;
    t->done = done;
    t->total = total;
    (void)snprintf(t->layer, sizeof(t->layer), "%s", layer);
    t->has_news = true;
    bool go_on = !t->give_up;
    if (turn) {
        (void)pthread_cond_signal(&t->changed);
    }
    (void)pthread_mutex_unlock(&t->lock);
    return go_on;
}

/* Until something else is going on, it is over, or some time has passed. */
static void wait_for_news(struct image_task *t)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)IMAGE_NEWS_MS * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    if (!t->is_over) {
        (void)pthread_cond_timedwait(&t->changed, &t->lock, &until);
    }
}

static int write_line(struct http_reply *r, struct buf *line)
{
    (void)buf_add_char(line, '\n');
    return http_reply_write(r, buf_str(line));
}

/* The news, copied out of the task. */
static int write_progress(struct http_reply *r, const char *what, const char *layer, uint64_t done,
                          uint64_t total)
{
    cleanup_(buf_done) struct buf line = BUF_INIT(4096);
    struct json_out o;
    json_out_init(&o, &line);
    json_obj_begin(&o);
    json_key(&o, "status");
    json_put_cstr(&o, what);
    if (*layer) {
        json_key(&o, "layer");
        json_put_cstr(&o, layer);
    }
    if (total) {
        json_key(&o, "done");
        json_put_int(&o, (int64_t)done);
        json_key(&o, "total");
        json_put_int(&o, (int64_t)total);
    }
    json_obj_end(&o);
    return write_line(r, &line);
}

/* The progress until the end. Returns whether the answer has begun. */
static bool follow(struct image_task *t, struct http_req *req, struct http_reply *r)
{
    bool started = false;
    (void)pthread_mutex_lock(&t->lock);
    while (!t->is_over) {
        wait_for_news(t);
        bool is_gone = http_req_client_gone(req);
        /* Up to here a failure can still be told by a status. */
        bool is_early = !t->what || !strcmp(t->what, "resolving") || !strcmp(t->what, "waiting");
        if (t->is_over || is_gone || !t->has_news || (is_early && !started)) {
            t->give_up |= is_gone;
            continue;
        }
        char layer[sizeof(t->layer)];
        const char *what = t->what;
        uint64_t done = t->done, total = t->total;
        memcpy(layer, t->layer, sizeof(layer));
        t->has_news = false;
        (void)pthread_mutex_unlock(&t->lock);
        if (!started) {
            (void)http_reply_stream(r, 200, "application/x-ndjson");
            started = true;
        }
        int w = write_progress(r, what, layer, done, total);
        (void)pthread_mutex_lock(&t->lock);
        t->give_up |= w < 0;
    }
    (void)pthread_mutex_unlock(&t->lock);
    return started;
}

static void write_end(struct image_task *t, struct http_reply *r, struct image_store *s)
{
    cleanup_(problem_done) struct problem p = {0};
    cleanup_(buf_done) struct buf line = BUF_INIT(4u << 20);
    struct json_out o;
    json_out_init(&o, &line);
    json_obj_begin(&o);
    json_key(&o, "status");
    json_put_cstr(&o, t->img ? "ready" : "failed");
    if (t->img) {
        json_key(&o, "image");
        image_encode(&o, s, t->img);
    } else {
        cleanup_(buf_done) struct buf error = BUF_INIT(8192);
        (void)image_problem(&p, t->ops->failed_code, &t->e);
        problem_write(&error, &p);
        json_key(&o, "error");
        json_put_raw(&o, buf_str(&error));
    }
    json_obj_end(&o);
    (void)write_line(r, &line); /* a client that left needs no end */
}

void image_task_stream(struct http_req *req, struct http_reply *r, struct image_store *s,
                       const struct image_task_ops *ops, void *arg)
{
    struct image_task t = {.ops = ops, .arg = arg};
    cleanup_(problem_done) struct problem p = {0};
    pthread_t thread;
    bool started = false;
    (void)pthread_mutex_init(&t.lock, NULL);
    (void)pthread_cond_init(&t.changed, NULL);
    if (pthread_create(&thread, NULL, task_main, &t) == 0) {
        started = follow(&t, req, r);
        (void)pthread_join(thread, NULL);
    } else {
        (void)task_main(&t); /* without progress */
    }
    if (!started && !t.img) {
        (void)image_problem(&p, ops->failed_code, &t.e);
        reply_problem(r, &p);
    } else {
        if (!started) {
            (void)http_reply_stream(r, 200, "application/x-ndjson");
        }
        write_end(&t, r, s);
    }
    image_free(t.img);
    (void)pthread_cond_destroy(&t.changed);
    (void)pthread_mutex_destroy(&t.lock);
}
