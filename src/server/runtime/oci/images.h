#pragma once
/* The image store as the embedded runtime uses it: opened from the configuration, asked for the
 * image of a create, told which layers living sandboxes are made of. */

#include "server/image/store.h"
#include "server/runtime/oci/oci.h"
#include "server/runtime/oci/rootfs.h"

#define HOME_IMAGE "image.json" /* record of the image a sandbox was made from */

int images_open(struct oci *o, struct err *e);
/* Is it a name that could be an image's? */
int images_check(const struct oci *o, const struct runtime_spec *spec, struct err *e);
/* Will images_resolve() ask a registry? */
bool images_must_fetch(struct runtime *rt, const struct runtime_spec *spec);
/* The image of a create, pulled if need be and the policy allows it. Found in the store it belongs
 * to the sandbox from here on (sb->image), its layers are pinned until sandbox_drop(). */
int images_resolve(struct oci *o, const struct runtime_spec *spec, struct sandbox *sb,
                   struct arena *a, struct rootfs *ret, struct err *e);
/* Writes down what the sandbox is made of, for the next start of the server. */
int images_record(const struct sandbox *sb, int dir_fd, struct err *e);
/* Takes the layers of a running sandbox in charge again. */
void images_adopt(struct oci *o, struct sandbox *sb, int dir_fd);
void images_release(struct oci *o, struct sandbox *sb);
/* What an existing sandbox was made from, as the base of a snapshot; for the images that need no
 * store one without layers. The caller frees it. */
struct image *images_of_sandbox(struct oci *o, const char *id, struct err *e);
