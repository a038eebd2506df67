#pragma once
/* A log that nobody else rotates stays within a size: what is oldest goes, and a line says so. */

#include <sys/types.h>

#include "io/loop.h"

struct logfile;

/* Looks at the file behind the descriptor now and then. NULL where it is none (a pipe, a terminal):
 * then whoever reads it sees to it. */
struct logfile *logfile_new(struct io_loop *l, int fd);
void logfile_free(struct logfile *f);
/* Leaves the last lines of a file of more than max bytes, at most keep bytes (not more than half of
 * max) of them; none where the descriptor cannot be read. 1: done; 0: not needed; or -errno. */
int logfile_cut(int fd, off_t max, off_t keep);
