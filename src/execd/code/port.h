#pragma once
/* The port of the code interpreter inside the sandbox: 127.0.0.1:JUPYTER_PORT (44771).
 *
 * Published clients take it for the sign that code can be run: they connect to it from inside
 * before they hand out an interpreter. Where execd starts the kernels there is no Jupyter server at
 * it, so execd listens itself, if there are kernels at all, and tells who asks more where to go. */

#include "execd/execd.h"

struct code_port;

/* As the environment says now; called again when that has changed. A port that is taken is
 * somebody's Jupyter, and is left to it. */
void code_port_update(struct execd *x);
void code_port_free(struct code_port *p);
