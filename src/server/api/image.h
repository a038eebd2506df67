#pragma once
/* Shared by the routes of images. */

#include "server/api/api.h"
#include "server/image/store.h"
#include "json/json.h"

/* The runtime's store, or NULL with 501. */
struct image_store *images_of(struct app *app, struct problem *p);
/* Status and code for what the store says. `code` is for what went wrong underway. */
int image_problem(struct problem *p, const char *code, const struct err *e);
void image_encode(struct json_out *o, struct image_store *s, const struct image *img);

/* Calls that take long (pull, push, import, export) are few at a time, so that they leave workers
 * for everybody else. False: 503. */
bool image_call_begin(struct app *app, struct problem *p);
void image_call_end(struct app *app);

/* ---- image_stream.c ---- */
/* Something long with progress, run in a thread of its own while the worker writes one JSON object
 * per line about it, the last one {"status":"ready",...} or {"status":"failed","error":...}. What
 * fails before there is any progress is answered with a status of its own. */
struct image_task;
struct image_task_ops {
    /* Returns an image to show, which it is given to free, or NULL with `e`. */
    struct image *(*run)(struct image_task *t, void *arg, struct err *e);
    const char *failed_code; /* of errors */
};
/* From `run`, any thread; false: give up. `what` is a literal. */
bool image_task_report(struct image_task *t, const char *layer, const char *what, uint64_t done,
                       uint64_t total);
void image_task_stream(struct http_req *req, struct http_reply *r, struct image_store *s,
                       const struct image_task_ops *ops, void *arg);
