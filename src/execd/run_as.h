#pragma once
/* The user an image wants its programs to run as. execd itself stays root of the sandbox, so that
 * nothing it starts can touch it; but what it starts without another order, and every file it
 * touches for a client, is that user's. */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"
#include "io/child.h"

#define RUN_AS_GROUPS 64

struct passwd_db;

struct run_as {
    bool is_set;
    uid_t uid;
    gid_t gid;
    gid_t groups[RUN_AS_GROUPS];
    size_t n_groups;
    char home[256];
};

/* "user|uid[:group|gid]", names out of the sandbox's own files. */
int run_as_parse(struct run_as *r, const struct passwd_db *db, const char *text, struct err *e);
/* From here on files are opened and made as that user, on this thread and those it starts. HOME is
 * set if it is not. */
void run_as_begin(const struct run_as *r);
/* Fills in the identity of a child that has been given none. */
void run_as_apply(const struct run_as *r, struct io_child_opts *o);
