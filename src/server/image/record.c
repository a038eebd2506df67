/* What the store writes down about an image, and what it takes from an image's own config. */

#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "server/image/internal.h"
#include "server/image/limits.h"

#define MAX_ENV 1024

void image_free(struct image *img)
{
    if (!img) {
        return;
    }
    free(img->name);
    for (char **p = img->env; p && *p; p++) {
        free(*p);
    }
    free(img->env);
    free(img->base);
    free(img->user);
    free(img->working_dir);
    json_free(img->labels);
    free(img);
}

static struct json *string_or_null(const char *s)
{
    return s ? json_string_new(str_from(s)) : json_null_new();
}

struct json *image_to_json(const struct image *img)
{
    struct json *j = json_object_new(), *layers = json_array_new(), *env = json_array_new();
    for (size_t i = 0; i < img->n_layers; i++) {
        struct json *l = json_object_new();
        json_set(l, "id", json_string_new(str_from(img->layers[i].id)));
        json_set(l, "size", json_int_new((int64_t)img->layers[i].size));
        json_push(layers, l);
    }
    for (char **p = img->env; p && *p; p++) {
        json_push(env, json_string_new(str_from(*p)));
    }
    json_set(j, "name", json_string_new(str_from(img->name)));
    json_set(j, "digest", json_string_new(str_from(img->digest)));
    json_set(j, "os", json_string_new(str_from(img->os)));
    json_set(j, "arch", json_string_new(str_from(img->arch)));
    json_set(j, "base", string_or_null(img->base));
    json_set(j, "pulled", json_bool_new(img->pulled));
    json_set(j, "layers", layers);
    json_set(j, "env", env);
    json_set(j, "user", string_or_null(img->user));
    json_set(j, "workingDir", string_or_null(img->working_dir));
    json_set(j, "labels", img->labels ? json_clone(img->labels) : json_object_new());
    json_set(j, "createdUs", json_int_new(img->created_us));
    return j;
}

static char *dup_string(const struct json *j)
{
    const char *s = json_cstr(j);
    return s && s[0] ? xstrdup(s) : NULL;
}

static char **dup_env(const struct json *env)
{
    size_t n = MIN(json_len(env), (size_t)MAX_ENV), k = 0;
    char **out = xcalloc(n + 1, sizeof(*out));
    for (size_t i = 0; i < n; i++) {
        const char *s = json_cstr(json_item(env, i));
        if (s && strchr(s, '=') && s[0] != '=') {
            out[k++] = xstrdup(s);
        }
    }
    return out;
}

static void copy_word(char *out, size_t n, const struct json *j)
{
    struct str s = json_str(j);
    if (str_to_cstr(s, out, n) < 0) {
        out[0] = '\0';
    }
}

struct image *image_from_json(const struct json *j, struct err *e)
{
    const char *name = json_cstr(json_get(j, "name"));
    struct json *layers = json_get(j, "layers");
    if (!name || json_len(layers) > IMAGE_MAX_LAYERS) {
        (void)err_set(e, ERR_INTERNAL, "damaged image record");
        return NULL;
    }
    struct image *img = NEW(struct image);
    img->name = xstrdup(name);
    copy_word(img->digest, sizeof(img->digest), json_get(j, "digest"));
    copy_word(img->os, sizeof(img->os), json_get(j, "os"));
    copy_word(img->arch, sizeof(img->arch), json_get(j, "arch"));
    for (size_t i = 0; i < json_len(layers); i++) {
        struct image_layer *l = &img->layers[img->n_layers++];
        copy_word(l->id, sizeof(l->id), json_get(json_item(layers, i), "id"));
        l->size = (uint64_t)json_int(json_get(json_item(layers, i), "size"), 0);
        img->size += l->size;
    }
    img->base = dup_string(json_get(j, "base"));
    img->pulled = json_bool(json_get(j, "pulled"), false);
    img->env = dup_env(json_get(j, "env"));
    img->user = dup_string(json_get(j, "user"));
    img->working_dir = dup_string(json_get(j, "workingDir"));
    img->labels = json_is_object(json_get(j, "labels")) ? json_clone(json_get(j, "labels")) : NULL;
    img->created_us = json_int(json_get(j, "createdUs"), 0);
    return img;
}

int image_apply_config(struct image *img, const struct json *config, struct err *e)
{
    struct json *ids = json_at(config, "rootfs.diff_ids"), *c = json_get(config, "config");
    size_t n = json_len(ids);
    if (n > IMAGE_MAX_LAYERS) {
        return err_set(e, ERR_LIMIT, "image has %zu layers, at most %d are possible", n,
                       IMAGE_MAX_LAYERS);
    }
    img->n_layers = 0;
    for (size_t i = 0; i < n; i++) {
        struct str id = json_str(json_item(ids, i));
        if (!image_digest_valid(id)) {
            return err_set(e, ERR_INVALID,
                           "image config: rootfs.diff_ids[%zu] is not a sha256 digest", i);
        }
        (void)str_to_cstr(str_sub(id, 7, id.n), img->layers[img->n_layers++].id, LAYER_ID_MAX);
    }
    copy_word(img->os, sizeof(img->os), json_get(config, "os"));
    copy_word(img->arch, sizeof(img->arch), json_get(config, "architecture"));
    img->env = dup_env(json_get(c, "Env"));
    img->user = dup_string(json_get(c, "User"));
    img->working_dir = dup_string(json_get(c, "WorkingDir"));
    struct json *labels = json_get(c, "Labels");
    img->labels = json_is_object(labels) ? json_clone(labels) : NULL;
    if (json_get(img->labels, IMAGE_BASE_LABEL)) {
        img->base = dup_string(json_get(img->labels, IMAGE_BASE_LABEL));
        json_del(img->labels, IMAGE_BASE_LABEL);
    }
    return 0;
}
