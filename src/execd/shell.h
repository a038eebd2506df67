#pragma once
/* Which shell runs a command: bash where there is one, else sh. */

#include <stdbool.h>

#include "base/arena.h"
#include "base/str.h"

struct shell {
    const char *path; /* absolute; a bare "sh" when there is none at all, so that exec says so */
    bool is_bash;
};

/* Looked up on every call, because an image may install one later. */
void shell_find(struct arena *a, struct shell *ret);
/* Absolute path of `name` in PATH (or the usual directories), or NULL. */
const char *shell_lookup(struct arena *a, const char *name);
/* The same in the absolute ones of these directories. */
const char *shell_lookup_in(struct arena *a, struct str dirs, const char *name);
/* Words as one would type them, for people to read. */
const char *shell_join(struct arena *a, const char *const *words, size_t n);
