#pragma once
/* Tells when something changed in a directory, which may not be there yet: then its nearest
 * ancestor is watched until it comes. A hint, not a promise (file systems of other machines tell
 * nothing): whoever needs to be sure looks now and then as well. */

#include "base/str.h"
#include "io/loop.h"

struct watch;

/* fn gets the name of the entry (empty: the directory itself came or went). NULL: no inotify. */
struct watch *watch_new(struct io_loop *l, const char *dir, void (*fn)(struct str name, void *arg),
                        void *arg);
void watch_free(struct watch *w);
