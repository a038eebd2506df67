#pragma once
/* The life of the server itself, for main.c. */

#include "server/app.h"

/* Everything up to listening and recovered; connections queue until app_run(). */
struct app *app_new(struct config *cfg, struct err *e);
void app_run(struct app *app); /* until SIGTERM or SIGINT */
/* ---- app_prune.c ---- */
void app_prune_start(struct app *app);
void app_prune_stop(struct app *app);
void app_free(struct app *app);
