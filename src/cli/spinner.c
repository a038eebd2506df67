#include "cli/spinner.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/must.h"

#define FIRST_MS 150
#define EVERY_MS 100

struct spinner {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stop;
    char *text;
};

/* With the lock held; true when it is time to stop. */
static bool pause_for(struct spinner *s, long ms)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += ms * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    int r = 0;
    while (!s->stop && r == 0) {
        r = pthread_cond_timedwait(&s->wake, &s->lock, &until);
    }
    return s->stop;
}

static void *spin(void *arg)
{
    static const char *const frames[] = {"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"};
    struct spinner *s = arg;
    struct buf b = BUF_INIT(1024);
    (void)pthread_mutex_lock(&s->lock);
    bool stop = pause_for(s, FIRST_MS), shown = false;
    for (size_t i = 0; !stop; i++) {
        buf_clear(&b);
        (void)buf_printf(&b, "\r\033[36m%s\033[0m %.200s\033[K", frames[i % ARRAY_LEN(frames)],
                         s->text);
        (void)fd_write_full(STDERR_FILENO, b.p, b.len);
        shown = true;
        stop = pause_for(s, EVERY_MS);
    }
    if (shown) {
        (void)fd_write_full(STDERR_FILENO, "\r\033[K", 4);
    }
    (void)pthread_mutex_unlock(&s->lock);
    buf_done(&b);
    return NULL;
}

struct spinner *spinner_start(const struct out *o, const char *text)
{
    pthread_condattr_t attr;
    sigset_t all, before;
    if (!o->color_err || o->format != OUT_TABLE) {
        return NULL;
    }
    struct spinner *s = NEW(struct spinner);
    s->text = xstrdup(text);
    (void)pthread_mutex_init(&s->lock, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&s->wake, &attr);
    (void)pthread_condattr_destroy(&attr);
    (void)sigfillset(&all); /* signals are for the thread that works */
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    must(pthread_create(&s->thread, NULL, spin, s) == 0);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return s;
}

void spinner_text(struct spinner *s, const char *text)
{
    if (s) {
        (void)pthread_mutex_lock(&s->lock);
        free(s->text);
        s->text = xstrdup(text);
        (void)pthread_mutex_unlock(&s->lock);
    }
}

void spinner_stop(struct spinner *s)
{
    if (!s) {
        return;
    }
    (void)pthread_mutex_lock(&s->lock);
    s->stop = true;
    (void)pthread_cond_signal(&s->wake);
    (void)pthread_mutex_unlock(&s->lock);
    (void)pthread_join(s->thread, NULL);
    (void)pthread_cond_destroy(&s->wake);
    (void)pthread_mutex_destroy(&s->lock);
    free(s->text);
    free(s);
}
