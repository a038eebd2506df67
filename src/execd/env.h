#pragma once
/* Environments for children: ours, then the EXECD_ENVS file, then what the request adds; and the
 * expansion of $NAME and ~ in paths against one. Everything lives in the arena it was built in. */

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "json/field.h"

struct env {
    struct arena *arena;
    const char **v; /* "NAME=value", NULL-terminated */
    size_t n, cap;
};

/* A copy of this process's environment. */
void env_init(struct env *env, struct arena *a);
void env_init_empty(struct env *env, struct arena *a);
const char *env_get(const struct env *env, struct str name); /* NULL when not set */
void env_set(struct env *env, struct str name, struct str value);
/* An entry as it is, later ones win. */
void env_put(struct env *env, const char *entry);
void env_add_map(struct env *env, const struct str_map *m);
/* KEY=VALUE lines, '#' comments; values have $NAME expanded against this process's environment. One
 * in single quotes is taken as it is; one in double quotes knows \n, \r, \t, \" and \\. Both may go
 * over lines. Malformed lines are skipped, a missing file is an empty one. */
void env_add_file(struct env *env, const char *path);
void env_add_lines(struct env *env, struct str text);

/* Leading "~" or "~/" and $NAME, ${NAME}. NULL with ERR_INVALID naming what is not defined. */
const char *env_expand_path(const struct env *env, const char *path, struct err *e);
