#pragma once
/* The image store: a content-addressed directory of unpacked layers, and the images made of them.
 *
 *   refs/<sha256 of the name>.json   one image: name, digest, config, layers from the bottom up
 *   layers/<id>/                     one unpacked layer; complete if it exists (renamed into place)
 *   parts/<digest>                   a download in progress, kept to be resumed
 *   tmp/                             everything else unfinished; emptied at start
 *
 * What is on disk is the truth: there is no other index. All calls block, from any thread. */

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "server/image/ref.h"

struct image_store;

#define LAYER_ID_MAX 72 /* 64 hex digits of the diff id, or "snap-<id>" */

struct image_layer {
    char id[LAYER_ID_MAX];
    uint64_t size; /* unpacked bytes */
};

struct image {
    char *name;                    /* canonical: "docker.io/library/python:3.11" */
    char digest[IMAGE_DIGEST_MAX]; /* of its manifest; "" for imports without one */
    char os[16], arch[16];
    char *base;  /* what lies below its layers and is not in the store: "host", a name of
                    [oci.rootfs]; NULL: nothing */
    bool pulled; /* its registry has it too */
    struct image_layer layers[IMAGE_MAX_LAYERS]; /* bottom first */
    size_t n_layers;
    char **env; /* "KEY=value", NULL-terminated */
    char *user, *working_dir;
    struct json *labels; /* object or NULL */
    uint64_t size;       /* sum of its layers */
    int64_t created_us, used_us;
};

void image_free(struct image *img);
static inline void image_free_cleanup(struct image **img)
{
    image_free(*img);
}

struct image_registry_conf { /* per registry host, from the configuration */
    const char *host, *ca_file, *mirror;
    bool insecure;    /* http instead of https */
    bool skip_verify; /* https, whoever answers */
};

struct image_store_opts {
    const char *dir;
    const char *docker_config; /* path of a config.json with credentials, or NULL */
    const char *layer_program; /* path of opensandbox-layer; NULL: the one that came along */
    const struct image_registry_conf *registries;
    size_t n_registries;
};

struct image_store *image_store_open(const struct image_store_opts *o, struct err *e);
void image_store_close(struct image_store *s);
int image_store_layers_fd(const struct image_store *s); /* of layers/, borrowed */
const char *image_store_dir(const struct image_store *s);

/* The image under that name for the platform (NULL: this machine's), or ERR_NOT_FOUND. Marks it
 * used. */
struct image *image_store_get(struct image_store *s, const char *name, const char *arch,
                              struct err *e);
/* The same without counting as a use. */
struct image *image_store_peek(struct image_store *s, const char *name, const char *arch,
                               struct err *e);
/* Is there a record of that name? Quick; the layers are not looked at. */
bool image_store_has(struct image_store *s, const char *name);

/* ---- layers in use ----
 * A pinned layer, and an image with one, stays. Pins are counted and live in memory: whoever needs
 * a layer beyond the life of the process pins it again after a start, before anything can prune. */
void image_store_pin(struct image_store *s, const char *layer_id);
void image_store_unpin(struct image_store *s, const char *layer_id);
/* All layers of an image; false, and nothing pinned, when one of them is gone meanwhile. */
bool image_store_pin_image(struct image_store *s, const struct image *img);
void image_store_unpin_image(struct image_store *s, const struct image *img);
bool image_store_is_pinned(struct image_store *s, const struct image *img);

struct image_pull {
    const char *name, *arch; /* arch NULL: this machine's */
    const char *user, *password;
    bool always; /* ask the registry even if the name is here */
    /* Called from several threads; false cancels. `layer` is the digest, or "" for the whole. */
    bool (*progress)(const char *layer, const char *what, uint64_t done, uint64_t total, void *arg);
    void *arg;
};
/* From the store, or from its registry. However many ask for a name, it is pulled once; whoever
 * waits for another's pull is told its progress, may give up, and shares its failure. The layers of
 * what is returned are pinned: image_store_unpin_image() when they need not stay. */
struct image *image_store_pull(struct image_store *s, const struct image_pull *p, struct err *e);

/* All images, newest first, calling fn for each. */
int image_store_list(struct image_store *s, void (*fn)(const struct image *img, void *arg),
                     void *arg, struct err *e);
/* Removes the name, and the layers nobody needs any more. ERR_CONFLICT while a sandbox uses it. */
int image_store_remove(struct image_store *s, const char *name, struct err *e);
/* The same although its layers are in use: those stay until image_store_collect() finds that they
 * are not any more. A name that is not there is success. */
int image_store_forget(struct image_store *s, const char *name, struct err *e);
/* Removes those of the layers that no image and no pin holds. */
void image_store_collect(struct image_store *s, const char *const *layer_ids, size_t n);
/* Removes least recently used images until at most max_bytes are left, and what broken pulls left
 * behind. Never an image in use, never a snapshot. */
struct image_prune {
    uint64_t max_bytes; /* 0: all that may go */
    bool automatic;     /* only what can be pulled again */
};
struct image_pruned {
    unsigned images;
    uint64_t bytes, left;
};
int image_store_prune(struct image_store *s, const struct image_prune *p, struct image_pruned *ret,
                      struct err *e);
/* Bytes of all layers that images are made of. */
uint64_t image_store_bytes(struct image_store *s);

/* For importers and snapshots: adopts an unpacked directory (a name below tmp/) as a layer, and
 * records an image. */
int image_store_temp(struct image_store *s, char ret_name[64], int *ret_fd, struct err *e);
void image_store_temp_remove(struct image_store *s, const char *name);
int image_store_adopt(struct image_store *s, const char *temp_name, const char *layer_id,
                      uint64_t size, struct err *e);
bool image_store_has_layer(struct image_store *s, const char *layer_id);
/* Unpacked bytes of a layer, kept with it; 0 when unknown. */
uint64_t image_store_layer_size(struct image_store *s, const char *layer_id);
int image_store_record(struct image_store *s, const struct image *img, struct err *e);
/* This machine's architecture in image terms: amd64, arm64, ... */
const char *image_host_arch(void);
