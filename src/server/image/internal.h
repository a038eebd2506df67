#pragma once
/* Shared by the files of the image store only. */

#include <pthread.h>

#include "base/list.h"
#include "server/image/store.h"
#include "json/json.h"

struct image_store {
    char *dir, *docker_config;
    int dir_fd, refs_fd, layers_fd, tmp_fd, parts_fd;
    struct image_registry_conf *registries;
    size_t n_registries;
    uint64_t max_bytes;
    bool (*in_use)(const char *layer_id, void *arg);
    void *in_use_arg;
    pthread_mutex_t lock;
    pthread_cond_t settled; /* a flight ended */
    struct list flights;    /* names and layers being fetched: one at a time each */
};

/* Something that only one thread may fetch at a time. Returns true when the caller is that thread;
 * false after waiting for another one to finish, so that the caller looks again. */
bool flight_begin(struct image_store *s, const char *key);
void flight_end(struct image_store *s, const char *key);

/* The record of an image as JSON, both ways. */
struct json *image_to_json(const struct image *img);
struct image *image_from_json(const struct json *j, struct err *e);
/* Fills os, arch, env, user, working_dir, labels and the layer ids from an image config. */
int image_apply_config(struct image *img, const struct json *config, struct err *e);

/* Credentials for a registry from a Docker config file. 0 when found, -ENOENT otherwise. Heap. */
int docker_config_auth(const char *path, const char *registry, char **ret_user,
                       char **ret_password);

struct registry;
/* A registry with what the configuration and the Docker config file know about it; `user` wins. */
struct registry *store_open_registry(const struct image_store *s, const struct image_ref *ref,
                                     const char *user, const char *password);
