/* The image store within its limit: looked at now and then, on a worker. */

#include "base/log.h"
#include "base/must.h"
#include "server/app.h"
#include "server/app_run.h"
#include "server/image/store.h"

static void prune(void *arg)
{
    struct app *app = arg;
    struct image_store *s = app->rt->ops->images(app->rt);
    struct image_prune what = {.max_bytes = (uint64_t)app->cfg->images.max_bytes,
                               .automatic = true};
    struct image_pruned done;
    struct err e = {0};
    if (image_store_bytes(s) <= what.max_bytes) {
        return;
    }
    if (image_store_prune(s, &what, &done, &e) < 0) {
        log_error("cannot prune the image store", LOG_ERR(&e));
    } else if (done.left > what.max_bytes) {
        log_warn("the image store is larger than [images].max_bytes: what is left is in use or "
                 "cannot be pulled again",
                 LOG_I("bytes", done.left));
    }
}

static void on_tick(struct io_timer *t)
{
    struct app *app = container_of(t, struct app, prune_timer);
    io_timer_start(t, (uint64_t)app->cfg->images.prune_interval_seconds * 1000);
    (void)io_pool_submit(app->pool, prune, app); /* too busy: next time */
}

void app_prune_start(struct app *app)
{
    if (app->cfg->images.max_bytes && app->rt->ops->images) {
        io_timer_init(&app->prune_timer, app->control, on_tick);
        io_timer_start(&app->prune_timer, 1);
    }
}

void app_prune_stop(struct app *app)
{
    io_timer_stop(&app->prune_timer);
}
