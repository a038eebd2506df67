#pragma once
/* Init mode: execd as the first process of a sandbox. It runs the user's entrypoint beside serving,
 * passes signals on to it, tells the starter about it, and ends with it unless told to stay.
 * Orphans are reaped in every mode (serve.c). */

#include "base/err.h"
#include "execd/execd.h"

struct init;

/* Before the loop runs and after the listener is open: everything that must be in the environment
 * of what we start. */
void init_prepare_environment(void);
/* Starts the entrypoint, if there is one. Never fails: what goes wrong is told and, unless we stay
 * without it, ends the program with a status as a shell would have (126, 127). */
struct init *init_start(struct execd *x);
/* Starts the entrypoint of the configuration, told after the start (control.h). Once. */
void init_run(struct init *in);
void init_free(struct init *in);
/* The status to exit with. */
int init_status(const struct init *in);
