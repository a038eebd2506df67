#pragma once
/* Which kernels are installed here, and how each is started: <data>/kernels/<name>/kernel.json in
 * the directories where Jupyter looks for them. Looked up anew each time, because an image may
 * install one later. Everything lives in the arena. */

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/buf.h"
#include "json/field.h"

#define KERNELSPEC_MAX_NAMES 1024 /* limit: names in a directory of kernels that are looked at */
#define KERNELSPEC_MAX 64         /* limit: installed kernels that are looked at */
#define KERNELSPEC_MAX_FILE (64u << 10) /* limit: bytes of one kernel.json */

struct kernelspec {
    const char *name;     /* of its directory: "python3" */
    const char *language; /* lower case */
    const char *dir;      /* resource_dir */
    struct str_list argv;
    struct str_map env;
    bool interrupt_by_message;
};

struct kernelspecs {
    size_t n;
    struct kernelspec v[KERNELSPEC_MAX];
};

void kernelspecs_find(struct arena *a, struct kernelspecs *ret);
/* Fills *ret from a kernel.json; -1 when it is none. `name` and `dir` are kept. */
int kernelspec_parse(struct arena *a, struct str text, const char *name, const char *dir,
                     struct kernelspec *ret);
/* Which of several names for one language is taken: the one named like it, then any, and "python3"
 * last, because in code-interpreter images it is Jupyter's own and not the user's. */
int kernelspec_rank(const char *name, const char *language);
const struct kernelspec *kernelspec_choose(const struct kernelspecs *s, const char *language);
