#pragma once
/* Scope-bound ownership. `cleanup_free char *p = ...;` frees at the end of the block,
 * `take_ptr(&p)` moves the value out. Types add their own with DEFINE_CLEANUP(struct foo *,
 * foo_free) and use `cleanup_(foo_free) struct foo *f = NULL;`. */

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define cleanup_(name) __attribute__((cleanup(name##_cleanup)))

/* Defines name_cleanup(type *p) that calls name(*p). */
#define DEFINE_CLEANUP(type, name)                                                                 \
    static inline __attribute__((unused)) void name##_cleanup(type *p)                             \
    {                                                                                              \
        name(*p);                                                                                  \
    }

static inline void free_cleanup(void *p)
{
    free(*(void **)p);
}

static inline void close_cleanup(const int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd); /* nothing sensible to do about a failing close here */
    }
}

static inline void fclose_cleanup(FILE **f)
{
    if (*f) {
        (void)fclose(*f);
    }
}

static inline void closedir_cleanup(DIR **d)
{
    if (*d) {
        (void)closedir(*d);
    }
}

#define cleanup_free cleanup_(free)
#define cleanup_close cleanup_(close)
#define cleanup_fclose cleanup_(fclose)
#define cleanup_closedir cleanup_(closedir)

/* Moves a value out of its variable and leaves the empty value behind. */
#define take_ptr(pp)                                                                               \
    ({                                                                                             \
        __typeof__(*(pp)) taken_ = *(pp);                                                          \
        *(pp) = NULL;                                                                              \
        taken_;                                                                                    \
    })

static inline int take_fd(int *fd)
{
    int taken = *fd;
    *fd = -1;
    return taken;
}
