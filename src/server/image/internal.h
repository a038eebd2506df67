#pragma once
/* Shared by the files of the image store only. */

#include <pthread.h>

#include "base/list.h"
#include "base/map.h"
#include "server/image/store.h"
#include "json/json.h"

struct image_store {
    char *dir, *docker_config, *layer_program;
    int dir_fd, refs_fd, layers_fd, tmp_fd, parts_fd;
    struct image_registry_conf *registries;
    size_t n_registries;
    pthread_mutex_t lock;
    pthread_cond_t settled; /* a flight ended */
    struct list flights;    /* names and layers being fetched: one at a time each */
    struct map pins;        /* layer id -> struct pin */
    unsigned n_adding;      /* imports and pulls at work: their layers have no record yet */
};

/* ---- flight.c ---- */

/* Something that only one thread may fetch at a time. */
struct flight;
enum flight_end {
    FLIGHT_MINE,   /* the caller is that thread: flight_end() */
    FLIGHT_DONE,   /* another one did it: look again */
    FLIGHT_FAILED, /* another one failed, in `e`, in a way that would happen again */
    FLIGHT_LEFT,   /* `watch` said so */
};
/* Waits for another one; meanwhile `watch` (may be NULL) hears about it and may say false. */
struct flight_watch {
    bool (*fn)(const char *what, uint64_t done, uint64_t total, void *arg);
    void *arg;
};
enum flight_end flight_begin(struct image_store *s, const char *key, const struct flight_watch *w,
                             struct err *e);
/* For those who wait. */
void flight_report(struct image_store *s, const char *key, const char *what, uint64_t done,
                   uint64_t total);
/* `e` NULL: it succeeded. A failure is shared with those who wait if `share`. */
void flight_end(struct image_store *s, const char *key, const struct err *e, bool share);
/* Between the first layer put into place and the record of its image. */
void store_adding(struct image_store *s, int change);

/* ---- store.c ---- */

#define IMAGE_RECORD_FILE_MAX (IMAGE_DIGEST_MAX + 8)
/* refs/ file of a name on a platform. */
void image_record_file(const char *name, const char *arch, char out[IMAGE_RECORD_FILE_MAX]);

struct image_list {
    struct image **v; /* the last used first */
    size_t n;
};
int image_list_read(struct image_store *s, struct image_list *ret, struct err *e);
void image_list_done(struct image_list *l);

/* Label of an exported image whose lowest part is not in it: see `base` of struct image. */
#define IMAGE_BASE_LABEL "io.opensandbox.base"

/* The record of an image as JSON, both ways. */
struct json *image_to_json(const struct image *img);
struct image *image_from_json(const struct json *j, struct err *e);
/* Fills os, arch, env, user, working_dir, labels and the layer ids from an image config. */
int image_apply_config(struct image *img, const struct json *config, struct err *e);

/* Credentials for a registry from a Docker config file. 0 when found, -ENOENT otherwise. Heap. */
int docker_config_auth(const char *path, const char *registry, char **ret_user,
                       char **ret_password);

struct registry;
/* Its mirror, or NULL. */
const char *store_mirror_of(const struct image_store *s, const char *registry);
/* A registry with what the configuration and the Docker config file know about it; `user` wins.
 * `mirror`: its mirror is asked, where it has one. */
struct registry *store_open_registry(const struct image_store *s, const struct image_ref *ref,
                                     const char *user, const char *password, bool mirror);
