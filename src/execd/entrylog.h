#pragma once
/* The output of the entrypoint, kept for people: every line with the time it was read in front, in
 * at most two files of a given size. The files are descriptors that we inherited, so the log lies
 * outside of the sandbox and nothing inside can reach it. When one file is full the other is
 * emptied and takes over; a single file starts again from empty. */

#include <stddef.h>
#include <stdint.h>

#include "io/stream.h"

#define ENTRY_LOG_FILES 2

struct entry_log;

/* The descriptors are borrowed. */
struct entry_log *entry_log_new(const int *fds, size_t n_fds, uint64_t max_bytes);
/* Reads from the pipe until its end. Takes the stream. */
void entry_log_follow(struct entry_log *l, struct io_stream *take_s);
/* Writes what is in the pipes now; for the end of the entrypoint. */
void entry_log_flush(struct entry_log *l);
void entry_log_free(struct entry_log *l); /* NULL is fine */
