#pragma once
/* Volumes of sandboxes: directories of this machine, named volumes, buckets.
 *
 *     <root>/volumes/<claim>/data     what the sandboxes see
 *                           /users/   one empty file for each sandbox that has it
 *                           /delete   it goes with its last user; /pending: so it does unless its
 *                                     first create succeeds
 *     <root>/ossfs/<hash>/users/      a mounted bucket, in the same way
 *                        /mount       where it is mounted
 *
 * state.json of a sandbox names what it may hold before it takes hold of it, so that whoever takes
 * the sandbox down knows where to look, after any crash. */

#include "server/runtime/oci/limits.h"
#include "server/runtime/oci/oci.h"
#include "server/runtime/oci/ossfs.h"

struct volumes {
    struct runtime_mount v[OCI_BINDS_MAX];
    size_t n;
};

/* What state.json is to say: the directories below <root> that these volumes will be held in. */
struct str_list volumes_names(const struct runtime_spec *spec, const char *ossfs_root,
                              struct arena *a);
/* Whether they can be had, as far as that is known without making or mounting anything: before an
 * image is pulled in vain. volumes_take() looks again. */
int volumes_check(const struct oci *o, const struct runtime_spec *spec, struct arena *a,
                  enum runtime_stage *ret_stage, struct err *e);
/* Takes hold of all of them: descriptors of what is to be mounted, the outermost target first. On
 * failure what was taken stays, for volumes_drop(). */
int volumes_take(struct oci *o, const struct runtime_spec *spec, struct arena *a,
                 struct volumes *ret, enum runtime_stage *ret_stage, struct err *e);
/* The sandbox runs: volumes made for it are there to stay. */
void volumes_keep(struct oci *o, const struct runtime_spec *spec);
void volumes_close(struct volumes *v);
/* `names` as in state.json. Deletes and unmounts what nobody has any more. */
void volumes_drop(struct oci *o, const char *id, const struct str_list *names);
/* Lets go of what sandboxes that are gone still seem to have. Returns how many. */
int volumes_sweep(struct oci *o, bool (*is_known)(const char *id, void *arg), void *arg);
