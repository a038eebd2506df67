#pragma once
/* The files of one upload, as its parts arrive: the i-th metadata belongs to the i-th file,
 * whichever comes first. Blocking, no HTTP: runs in a worker, one call at a time.
 *
 * A file whose metadata is known goes straight to a temporary file beside its target. Otherwise it
 * is kept in a temporary file until it is known. Targets change only when everything has arrived,
 * in order; in an upload of very many files the oldest ones do earlier. */

#include "base/arena.h"
#include "base/str.h"
#include "model/file.h"

struct upload_error {
    int status; /* 0: none */
    const char *code;
    char msg[1024];
};

struct upload_set;

struct upload_set *upload_set_new(void);
/* Throws away what has not been put into place. */
void upload_set_free(struct upload_set *s);

void upload_set_meta(struct upload_set *s, struct str json);
void upload_set_file_begin(struct upload_set *s);
void upload_set_file_data(struct upload_set *s, struct str data);
void upload_set_file_end(struct upload_set *s);
/* Everything has arrived: puts the files into place in order, up to the first that failed. */
void upload_set_finish(struct upload_set *s);
/* What went wrong, once it is certain that nothing which still arrives can change it. NULL: nothing
 * so far. */
const struct upload_error *upload_set_error(const struct upload_set *s);

/* One metadata part (pure). 0, or -1 with *ret_error set. */
int upload_meta_parse(struct arena *a, struct str json, struct file_upload *ret,
                      struct upload_error *ret_error);
