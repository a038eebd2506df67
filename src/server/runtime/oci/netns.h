#pragma once
/* One network namespace for one sandbox, owned by the host's user namespace: root inside can change
 * neither addresses nor routes. It lives as long as somebody holds a descriptor of it or a process
 * is in it, so nothing has to be removed by name, and a crash leaves nothing. */

#include "base/err.h"

/* A descriptor of a new namespace with loopback up and its kernel settings made, or -1. */
int netns_make(struct err *e);
/* A descriptor of the namespace that the process is in, or -1. */
int netns_of_pid(int pid, struct err *e);
/* Runs fn in the namespace, on this thread, which is back in its own afterwards. */
int netns_run(int ns_fd, int (*fn)(void *arg), void *arg);
